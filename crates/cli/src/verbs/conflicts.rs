//! `althing conflicts`: writes that lost against one that had not seen them, and how to restore one.

use super::data::plain;
use super::{Error, print};
use crate::output::draw;
use crate::rest::{Format, RestCall, RestOptions};
use clap::Subcommand;
use serde_json::Value;
use std::io::Write as _;

const LS_EXAMPLE: &str = "\
Example:
  althing conflicts ls -w table                  those that the nodes of the region have resolved";
const ID_EXAMPLE: &str = "\
Example:
  althing conflicts ls                           tells the ids
  althing conflicts restore 63016f…              writes the loser again, over the winner";

#[derive(Subcommand)]
pub enum Conflicts {
    /// Lists them, the oldest first
    #[command(after_help = LS_EXAMPLE)]
    Ls {
        /// Only those of this key
        key: Option<String>,
        /// So many at most
        #[arg(long, default_value_t = 100)]
        limit: u64,
        /// The newest first
        #[arg(long)]
        newest: bool,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Shows both sides of one
    #[command(after_help = ID_EXAMPLE)]
    Show {
        id: String,
        #[command(flatten)]
        options: RestOptions,
    },
    /// Writes the loser again, over the winner
    #[command(after_help = ID_EXAMPLE)]
    Restore {
        id: String,
        #[command(flatten)]
        options: RestOptions,
    },
}

const HEADS: [&str; 5] = ["ID", "KEY", "WON", "LOST", "RESOLVED AT"];
const FIELDS: [&str; 5] = ["conflict_id", "key", "winning_value", "losing_value", "resolved_at"];

impl Conflicts {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Conflicts::Ls { key, limit, newest, options } => {
                let call = RestCall::new("GET", "/v1/conflicts")
                    .query("limit", Some(limit))
                    .query("order", newest.then_some("newest"))
                    .query("key", key.as_ref());
                let answer = options.ask_json(call).await?;
                let found = answer["conflicts"].as_array().cloned().unwrap_or_default();
                let row = |one: &Value| FIELDS.map(|field| plain(&one[field])).to_vec();
                let text = match options.write_out {
                    Format::Json => format!("{answer}\n"),
                    Format::Table => draw(&HEADS, found.iter().map(row).collect()),
                    Format::Simple => found.iter().map(|one| row(one).join(", ") + "\n").collect(),
                };
                print(text.as_bytes())?;
                complain_of_missing(&answer);
                Ok(())
            }
            Conflicts::Show { id, options } => {
                let answer = options.ask_json(RestCall::of_key("GET", "/v1/conflicts/", id)).await?;
                show(options, &answer)
            }
            Conflicts::Restore { id, options } => {
                let mut call = RestCall::of_key("POST", "/v1/conflicts/", id);
                call.path.push_str("/restore");
                show(options, &options.ask_json(call).await?)
            }
        }
    }
}

/// Their conflicts are missing from the list.
fn complain_of_missing(answer: &Value) {
    let missing = answer["nodes_missing"].as_array().cloned().unwrap_or_default();
    if !missing.is_empty() {
        let names: Vec<String> = missing.iter().map(plain).collect();
        // The list is printed all the same.
        let _ = writeln!(std::io::stderr(), "nodes that did not answer: {}", names.join(", "));
    }
}

/// Field by field.
fn show(options: &RestOptions, answer: &Value) -> Result<(), Error> {
    let fields = answer.as_object().cloned().unwrap_or_default();
    let rows = fields.iter().map(|(name, value)| vec![name.clone(), plain(value)]);
    let text = match options.write_out {
        Format::Json => format!("{answer}\n"),
        Format::Table => draw(&["FIELD", "VALUE"], rows.collect()),
        Format::Simple => rows.map(|row| row.join(": ") + "\n").collect(),
    };
    print(text.as_bytes())
}
