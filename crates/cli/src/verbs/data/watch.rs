//! `althing data watch`: prints the changes of keys as they happen. When the connection breaks, it goes on at the next
//! endpoint from the last cursor that it was told, so that nothing is missed and something may come twice.

use super::{Error, plain, print};
use crate::rest::{Format, RestCall, RestOptions, RestStream};
use clap::Args;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

pub const EXAMPLE: &str = "\
Example:
  althing data watch                             all keys of the namespace: as they are, and then every change
  althing data watch --prefix user_ -w json      lines of JSON, as `GET /v1/feed?format=jsonl` sends them
  althing data watch --since AQHv…               what has changed since a cursor, which `-w json` prints as `id`";

/// A node that says nothing for so long is gone: it sends a heartbeat every few seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const AGAIN_AFTER: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct Watch {
    /// Only keys that begin so
    #[arg(long)]
    prefix: Option<String>,
    /// Only values of this type, as orset
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Begin behind this cursor instead of with the state
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
    #[command(flatten)]
    options: RestOptions,
}

impl Watch {
    /// Until it is stopped. What was wrong at the first attempt is an error; later it is waited for.
    pub async fn run(&self) -> Result<(), Error> {
        let mut since = self.since.clone();
        let mut nth = 0;
        let mut stream = self.options.open(self.call(since.as_deref()), nth).await?;
        loop {
            self.follow(&mut stream, &mut since).await?;
            loop {
                nth += 1;
                tokio::time::sleep(AGAIN_AFTER).await;
                match self.options.open(self.call(since.as_deref()), nth).await {
                    Ok(next) => {
                        stream = next;
                        break;
                    }
                    Err(Error::RestUnavailable(trouble)) => print_note(&format!("{trouble}; trying again")),
                    Err(error) => return Err(error),
                }
            }
        }
    }

    fn call(&self, since: Option<&str>) -> RestCall {
        RestCall::new("GET", "/v1/feed")
            .query("prefix", self.prefix.as_ref())
            .query("type", self.kind.as_ref())
            .query("format", Some("jsonl"))
            .query("since", Some(since.unwrap_or("0")))
    }

    /// Until the connection breaks.
    async fn follow(&self, stream: &mut RestStream, since: &mut Option<String>) -> Result<(), Error> {
        let mut bytes = Vec::new();
        while let Ok(Some(more)) = stream.more(SILENCE_MAX).await {
            bytes.extend(more);
            while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = bytes.drain(..=end).collect();
                self.take(&line, since)?;
            }
        }
        Ok(())
    }

    fn take(&self, line: &[u8], since: &mut Option<String>) -> Result<(), Error> {
        let message: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
        let event = message["event"].as_str().unwrap_or_default();
        if let Some(id) = message["id"].as_str() {
            *since = Some(id.to_owned());
        }
        if event == "gap" {
            *since = None;
        }
        match (self.options.write_out, event) {
            (_, "alive") => Ok(()),
            (Format::Json, _) => print(line),
            (_, "state" | "change") => print(shown(&message["data"]).as_bytes()),
            (_, "conflict") => print(format!("conflict {}\n", named(&message["data"])).as_bytes()),
            (_, "gap") => {
                print_note(&format!(
                    "changes were missed ({}); the state follows",
                    plain(&message["data"]["reason"])
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn named(data: &Value) -> String {
    if data["key"].is_null() { plain(&data["key_base64"]) } else { plain(&data["key"]) }
}

fn shown(data: &Value) -> String {
    match data["op"].as_str() {
        Some("put") => format!("put {} {}\n", named(data), plain(&data["value"])),
        op => format!("{} {}\n", op.unwrap_or("change"), named(data)),
    }
}

fn print_note(text: &str) {
    // When standard error is closed, the changes go on.
    let _ = writeln!(std::io::stderr(), "{text}");
}
