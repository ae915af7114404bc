//! `althing history`: when a key changed, also when its old values are compacted.

use super::{Error, Options, bytes_of, print};
use crate::client::Format;
use clap::Args;
use proto::althing::store::v1::change::Kind;
use proto::althing::store::v1::{Change, HistoryRequest, HistoryResponse};
use std::ffi::OsString;
use std::fmt::Write;

const EXAMPLE: &str = "\
Example:
  althing history config               every change that is known, the oldest first
  althing history config --limit 10    the last ten";

const MILLIS_PER_DAY: i64 = 86_400_000;

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
        let gone = change.revision < answer.compact_revision;
        let value = match change.kind() {
            Kind::Delete => "-".to_owned(),
            Kind::Put if gone => format!("{} bytes, may be compacted", change.value_bytes),
            Kind::Put => format!("{} bytes", change.value_bytes),
        };
        let (kind, when) = (name(change), time_of(change.time_ms));
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
                "{{\"kind\":\"{}\",\"revision\":{},\"time_ms\":{},\"create_revision\":{},\"version\":{},\"value_bytes\":{}}}",
                name(change),
                change.revision,
                change.time_ms,
                change.create_revision,
                change.version,
                change.value_bytes
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

/// In UTC, to the second: the store does not know better.
fn time_of(millis: i64) -> String {
    if millis == 0 {
        return "time unknown".to_owned();
    }
    let (day, in_day) = (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY) / 1_000);
    let (year, month, date) = civil(day);
    let (hour, minute, second) = (in_day / 3_600, in_day / 60 % 60, in_day % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date of a day that is counted from 1970, by Hinnant's algorithm: years begin in March, so that the leap day is
/// the last.
fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * of_year + 2) / 153;
    let date = of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc() {
        assert_eq!(time_of(0), "time unknown");
        assert_eq!(time_of(1), "1970-01-01T00:00:00Z");
        assert_eq!(time_of(951_827_696_000), "2000-02-29T12:34:56Z");
        assert_eq!(time_of(4_102_444_799_000), "2099-12-31T23:59:59Z");
    }
}
