//! `althing upgrade`: which release every node runs, and the end of the way back to the release before.

use super::data::plain;
use super::{Error, print};
use crate::output::draw;
use crate::rest::{Format, RestCall, RestOptions};
use clap::{Args, Subcommand};
use serde_json::Value;

const STATUS_EXAMPLE: &str = "\
Example:
  althing upgrade status                 which release every node runs, and what is left to do
  althing upgrade status -w json";
const FINALIZE_EXAMPLE: &str = "\
Example:
  althing upgrade finalize               when all nodes run the new release and have proven themselves";

#[derive(Subcommand)]
pub enum Upgrade {
    /// Prints the release of every node, and in which formats the cluster writes
    #[command(after_help = STATUS_EXAMPLE)]
    Status(WithOptions),
    /// Closes the way back to the release before, and permits what needs the new formats
    #[command(after_help = FINALIZE_EXAMPLE)]
    Finalize(WithOptions),
}

#[derive(Args)]
pub struct WithOptions {
    #[command(flatten)]
    options: RestOptions,
}

impl Upgrade {
    pub async fn run(&self) -> Result<(), Error> {
        let (options, call) = match self {
            Upgrade::Status(with) => (&with.options, RestCall::new("GET", "/v1/upgrade")),
            Upgrade::Finalize(with) => (&with.options, RestCall::new("POST", "/v1/upgrade/finalize")),
        };
        let status = options.ask_json(call).await?;
        print(show(&status, options.write_out).as_bytes())
    }
}

fn show(status: &Value, format: Format) -> String {
    if format == Format::Json {
        return format!("{status}\n");
    }
    let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows = nodes.iter().map(|node| {
        let is_old = node["has_old_logs"] == true;
        let state = match node["trouble"].as_str() {
            Some(trouble) => trouble.to_owned(),
            None if node["ready"] == true => "ready".to_owned(),
            None => "older release".to_owned(),
        };
        vec![
            plain(&node["name"]),
            plain(&node["id"]),
            plain(&node["version"]),
            state,
            if is_old { "as 0.1.0 reads them" } else { "new" }.to_owned(),
        ]
    });
    let table = draw(&["NAME", "ID", "VERSION", "STATE", "LOGS"], rows.collect());
    let level = format!("format level {} of {}", plain(&status["level"]), plain(&status["newest_level"]));
    format!("{}\n{level}\n{table}", plain(&status["summary"]))
}
