//! Prints answers as etcdctl prints them: simple, as JSON, field by field, or as a table.
//! An answer goes in, its text comes out, ending in a newline if it is not empty. Where etcdctl has the format,
//! the text is the same to the byte; tables of keys, which it does not have, are ours.

mod fields;
mod json;
pub mod quote;
mod simple;
mod table;

use crate::client::{Format, Options};
use proto::etcdserverpb::{DeleteRangeResponse, PutResponse, RangeResponse, StatusResponse, TxnResponse};
use simple::Simple;
use std::time::Duration;

pub struct Printer {
    format: Format,
    hex: bool,
    /// What of a key is printed in the simple format.
    pub shown: Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    KeyAndValue,
    Value,
    Count,
}

/// What one endpoint said of itself.
pub struct EndpointStatus {
    pub endpoint: String,
    pub status: StatusResponse,
}

pub struct EndpointHealth {
    pub endpoint: String,
    pub took: Duration,
    /// Empty when it is healthy.
    pub error: String,
}

impl Printer {
    pub fn new(options: &Options) -> Printer {
        Printer { format: options.write_out, hex: options.hex, shown: Shown::KeyAndValue }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    fn simple(&self) -> Simple {
        Simple { hex: self.hex, shown: self.shown }
    }

    pub fn range(&self, response: &RangeResponse) -> Vec<u8> {
        match self.format {
            Format::Simple => self.simple().range(response),
            Format::Json => json::line(&json::range(response)).into_bytes(),
            Format::Fields => fields::range(response).into_bytes(),
            Format::Table => table::keys(&response.kvs).into_bytes(),
        }
    }

    pub fn put(&self, response: &PutResponse) -> Vec<u8> {
        match self.format {
            Format::Simple => self.simple().put(response),
            Format::Json => json::line(&json::put(response)).into_bytes(),
            Format::Fields => fields::put(response).into_bytes(),
            Format::Table => table::keys(response.prev_kv.as_slice()).into_bytes(),
        }
    }

    pub fn delete(&self, response: &DeleteRangeResponse) -> Vec<u8> {
        match self.format {
            Format::Simple => self.simple().delete(response),
            Format::Json => json::line(&json::delete(response)).into_bytes(),
            Format::Fields => fields::delete(response).into_bytes(),
            Format::Table => table::deleted(response).into_bytes(),
        }
    }

    pub fn txn(&self, response: &TxnResponse) -> Vec<u8> {
        match self.format {
            Format::Simple => self.simple().txn(response),
            Format::Json => json::line(&json::txn(response)).into_bytes(),
            Format::Fields => fields::txn(response).into_bytes(),
            Format::Table => table::txn(response).into_bytes(),
        }
    }

    pub fn statuses(&self, all: &[EndpointStatus]) -> Vec<u8> {
        match self.format {
            Format::Simple => simple::statuses(all).into_bytes(),
            Format::Json => json::line(&json::list(all.iter().map(json::status))).into_bytes(),
            Format::Fields => fields::statuses(all).into_bytes(),
            Format::Table => table::statuses(all).into_bytes(),
        }
    }

    pub fn healths(&self, all: &[EndpointHealth]) -> Vec<u8> {
        match self.format {
            Format::Simple => simple::healths(all).into_bytes(),
            Format::Json => json::line(&json::list(all.iter().map(json::health))).into_bytes(),
            Format::Fields => fields::healths(all).into_bytes(),
            Format::Table => table::healths(all).into_bytes(),
        }
    }
}

/// The columns of an endpoint's status, in the order in which etcdctl tells them.
fn status_columns(one: &EndpointStatus) -> Vec<String> {
    let status = &one.status;
    let id = status.header.map_or(0, |header| header.member_id);
    vec![
        one.endpoint.clone(),
        format!("{id:x}"),
        status.version.clone(),
        readable_bytes(status.db_size.unsigned_abs()),
        (status.leader == id).to_string(),
        status.is_learner.to_string(),
        status.raft_term.to_string(),
        status.raft_index.to_string(),
        status.raft_applied_index.to_string(),
        status.errors.join(", "),
    ]
}

/// In steps of a thousand, with one decimal while it is short.
fn readable_bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 10 {
        return format!("{bytes} B");
    }
    let mut power = 0;
    while bytes / 1_000_u64.pow(power) >= 1_000 {
        power += 1;
    }
    let count = (bytes as f64 / 1_000_f64.powi(power as i32) * 10.0 + 0.5).floor() / 10.0;
    let decimals = usize::from(count < 10.0);
    format!("{count:.decimals$} {}", UNITS[power as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_as_etcdctl_tells_them() {
        let table = [(0, "0 B"), (9, "9 B"), (82, "82 B"), (1_000, "1.0 kB"), (20_480, "20 kB")];
        for (bytes, text) in table {
            assert_eq!(readable_bytes(bytes), text);
        }
        assert_eq!(readable_bytes(82_854_982), "83 MB");
        assert_eq!(readable_bytes(u64::MAX), "18 EB");
    }
}
