//! `althing handlers`: how custom values merge, by name: those that are built in, and scripts.

use super::data::plain;
use super::{Error, print};
use crate::output::draw;
use crate::rest::{Format, RestCall, RestOptions};
use clap::Subcommand;
use serde_json::{Value, json};
use std::path::PathBuf;

const EXAMPLE: &str = "\
Example:
  echo 'if left.len > right.len { left } else if left.len < right.len { right } else { larger(left, right) }' > wide.rhai
  althing handlers put wide wide.rhai            tried on generated values, refused if the order of merging shows
  althing data put title '\"a title\"' --type custom --handler wide";

#[derive(Subcommand)]
pub enum Handlers {
    /// Lists them
    Ls {
        #[command(flatten)]
        options: RestOptions,
    },
    /// Registers a script under a name, or replaces it
    #[command(after_help = EXAMPLE)]
    Put {
        name: String,
        file: PathBuf,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Deletes one; values that it merged show their last write until there is another
    Del {
        name: String,
        #[command(flatten)]
        options: RestOptions,
    },
}

impl Handlers {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Handlers::Ls { options } => list(options).await,
            Handlers::Put { name, file, options } => {
                let script = std::fs::read_to_string(file)
                    .map_err(|error| Error::Usage(format!("cannot read {}: {error}", file.display())))?;
                let call = RestCall::of_key("PUT", "/v1/handlers/", name).json(&json!({ "script": script }));
                print_answer(
                    options,
                    &options.ask_json(call).await?,
                    &format!("handler {name} is registered\n"),
                )
            }
            Handlers::Del { name, options } => {
                let call = RestCall::of_key("DELETE", "/v1/handlers/", name);
                print_answer(options, &options.ask_json(call).await?, &format!("handler {name} is gone\n"))
            }
        }
    }
}

async fn list(options: &RestOptions) -> Result<(), Error> {
    let answer = options.ask_json(RestCall::new("GET", "/v1/handlers")).await?;
    let all = answer["handlers"].as_array().cloned().unwrap_or_default();
    let kind =
        |one: &Value| if one["built_in"] == true { "built in".to_owned() } else { plain(&one["script"]) };
    let row = |one: &Value| vec![plain(&one["handler"]), kind(one)];
    let text = match options.write_out {
        Format::Json => format!("{answer}\n"),
        Format::Table => draw(&["HANDLER", "SCRIPT"], all.iter().map(row).collect()),
        Format::Simple => all.iter().map(|one| row(one).join(": ") + "\n").collect(),
    };
    print(text.as_bytes())
}

fn print_answer(options: &RestOptions, answer: &Value, text: &str) -> Result<(), Error> {
    match options.write_out {
        Format::Json => print(format!("{answer}\n").as_bytes()),
        Format::Simple | Format::Table => print(text.as_bytes()),
    }
}
