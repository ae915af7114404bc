//! `althing history`: when a key changed, also when its old values are compacted.

use super::{Error, Options, bytes_of, print};
use crate::client::Format;
use crate::output::time::utc;
use clap::Args;
use proto::althing::store::v1::change::Kind;
use proto::althing::store::v1::{Change, HistoryRequest, HistoryResponse};
use std::ffi::OsString;
use std::fmt::Write;

const EXAMPLE: &str = "\
Example:
  althing history config               every change that is known, the oldest first
  althing history config --limit 10    the last ten";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct History {
    key: OsString,
    /// The last so many changes; at most 10,000
    #[arg(long, default_value = "0", hide_default_value = true)]
    limit: i64,
}

impl History {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let request = HistoryRequest { key: bytes_of(&self.key).into(), limit: self.limit };
        let answer = options.client()?.history(request).await?;
        let text = match options.write_out {
            Format::Json => json(&answer),
            _ => lines(&answer),
        };
        print(text.as_bytes())
    }
}

fn lines(answer: &HistoryResponse) -> String {
    let mut text = String::new();
    for change in &answer.changes {
        let value = match change.kind() {
            Kind::Delete => "-".to_owned(),
            Kind::Put => format!("{} bytes", change.value_bytes),
        };
        let value = match change.compacted_at_ms {
            0 => value,
            at => format!("{value}, compacted {}", utc(at)),
        };
        let (kind, when) = (name(change), utc(change.time_ms));
        writeln!(text, "{}\t{when}\t{kind}\tversion {}\t{value}", change.revision, change.version)
            .expect("text takes everything");
    }
    if answer.more {
        text.push_str("there were changes before these\n");
    }
    text
}

fn json(answer: &HistoryResponse) -> String {
    let changes: Vec<String> = answer
        .changes
        .iter()
        .map(|change| {
            format!(
                "{{\"kind\":\"{}\",\"revision\":{},\"time_ms\":{},\"create_revision\":{},\"version\":{},\"value_bytes\":{},\"compacted_at_ms\":{}}}",
                name(change),
                change.revision,
                change.time_ms,
                change.create_revision,
                change.version,
                change.value_bytes,
                change.compacted_at_ms
            )
        })
        .collect();
    let (compacted, more) = (answer.compact_revision, answer.more);
    format!("{{\"compact_revision\":{compacted},\"more\":{more},\"changes\":[{}]}}\n", changes.join(","))
}

fn name(change: &Change) -> &'static str {
    match change.kind() {
        Kind::Put => "PUT",
        Kind::Delete => "DELETE",
    }
}
