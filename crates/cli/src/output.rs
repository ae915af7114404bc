//! Prints answers as etcdctl prints them: simple, as JSON, field by field, or as a table.
//! An answer goes in, its text comes out, ending in a newline if it is not empty. Where etcdctl has the format,
//! the text is the same to the byte; tables of keys, which it does not have, are ours.

mod auth;
mod fields;
pub mod inspect;
mod json;
mod locks;
pub mod quote;
mod simple;
mod table;
pub mod time;
pub mod top;

pub use table::draw;

use crate::client::{Format, Options};
use proto::etcdserverpb::{
    AlarmResponse, DeleteRangeResponse, DowngradeResponse, HashKvResponse, LeaseGrantResponse,
    LeaseKeepAliveResponse, LeaseLeasesResponse, LeaseRevokeResponse, LeaseTimeToLiveResponse, Member,
    MemberAddResponse, MemberListResponse, PutResponse, RangeResponse, ResponseHeader, StatusResponse,
    TxnResponse, WatchResponse,
};
use server::offline::Summary;
use simple::Simple;
use std::time::Duration;

pub struct Printer {
    format: Format,
    hex: bool,
    /// What of a key is printed in the simple format.
    pub shown: SimpleParts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimpleParts {
    KeyAndValue,
    Value,
    Count,
}

/// The answer of one endpoint about itself.
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

pub struct EndpointHash {
    pub endpoint: String,
    pub hash: HashKvResponse,
}

/// The content of a backup, as etcd's tools name it.
pub struct BackupStatus {
    pub hash: u32,
    pub revision: i64,
    /// Versions, the past included.
    pub total_key: u64,
    pub total_size: u64,
}

impl BackupStatus {
    pub fn of(summary: &Summary) -> BackupStatus {
        let meta = summary.meta;
        let hash = summary.digest.map_or([0; 4], |digest| [digest[0], digest[1], digest[2], digest[3]]);
        BackupStatus {
            hash: u32::from_be_bytes(hash),
            revision: meta.map_or(1, |meta| meta.revision.0),
            total_key: summary.versions,
            total_size: summary.total_bytes,
        }
    }
}

/// As a variable of the environment for the new node.
pub fn token_line(token: &str) -> String {
    format!("ALTHING_JOIN_TOKEN=\"{token}\"\n")
}

impl Printer {
    pub fn new(options: &Options) -> Printer {
        Printer { format: options.write_out, hex: options.hex, shown: SimpleParts::KeyAndValue }
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

    pub fn watch(&self, response: &WatchResponse) -> Vec<u8> {
        match self.format {
            Format::Simple => self.simple().watch(response),
            Format::Json => json::line(&json::watch(response)).into_bytes(),
            Format::Fields => fields::watch(response).into_bytes(),
            Format::Table => table::events(response).into_bytes(),
        }
    }

    pub fn granted(&self, response: &LeaseGrantResponse) -> Vec<u8> {
        let text = match self.format {
            Format::Simple => {
                format!("lease {:016x} granted with TTL({}s)\n", response.id, response.ttl)
            }
            Format::Json => json::line(&json::granted(response)),
            Format::Fields => fields::lease(response.header, response.id, response.ttl),
            Format::Table => table::lease(response.id, response.ttl),
        };
        text.into_bytes()
    }

    pub fn revoked(&self, id: i64, response: &LeaseRevokeResponse) -> Vec<u8> {
        let text = match self.format {
            Format::Simple | Format::Table => format!("lease {id:016x} revoked\n"),
            Format::Json => json::line(&json::header_alone(response.header)),
            Format::Fields => fields::header(response.header),
        };
        text.into_bytes()
    }

    pub fn kept(&self, response: &LeaseKeepAliveResponse) -> Vec<u8> {
        let text = match self.format {
            Format::Simple => format!("lease {:016x} keepalived with TTL({})\n", response.id, response.ttl),
            Format::Json => json::line(&json::kept(response)),
            Format::Fields => fields::lease(response.header, response.id, response.ttl),
            Format::Table => table::lease(response.id, response.ttl),
        };
        text.into_bytes()
    }

    pub fn time_to_live(&self, response: &LeaseTimeToLiveResponse, keys: bool) -> Vec<u8> {
        match self.format {
            Format::Simple => simple::time_to_live(response, keys),
            Format::Json => json::line(&json::time_to_live(response)).into_bytes(),
            Format::Fields => fields::time_to_live(response).into_bytes(),
            Format::Table => table::time_to_live(response).into_bytes(),
        }
    }

    pub fn leases(&self, response: &LeaseLeasesResponse) -> Vec<u8> {
        let text = match self.format {
            Format::Simple => simple::leases(response),
            Format::Json => json::line(&json::leases(response)),
            Format::Fields => fields::leases(response),
            Format::Table => table::leases(response),
        };
        text.into_bytes()
    }

    pub fn members(&self, response: &MemberListResponse) -> Vec<u8> {
        let text = match self.format {
            Format::Simple => simple::members(&response.members),
            Format::Json => json::line(&json::members(response.header, &response.members)),
            Format::Fields => fields::members(response.header, &response.members),
            Format::Table => table::members(&response.members),
        };
        text.into_bytes()
    }

    /// With the flags that the new member needs, in the simple format.
    /// With the token that the new member is started with, if there is one.
    pub fn member_added(&self, name: &str, response: &MemberAddResponse, token: Option<&str>) -> Vec<u8> {
        let text = match self.format {
            Format::Simple => {
                simple::member_added(name, response) + &token.map(token_line).unwrap_or_default()
            }
            Format::Json => json::line(&json::member_added(response, token)),
            Format::Fields => fields::members(response.header, response.member.as_slice()),
            Format::Table => table::members(&response.members),
        };
        text.into_bytes()
    }

    pub fn member_changed(
        &self,
        id: u64,
        change: &str,
        header: Option<ResponseHeader>,
        members: &[Member],
    ) -> Vec<u8> {
        let text = match self.format {
            Format::Simple => {
                let cluster = header.map_or(0, |header| header.cluster_id);
                format!("Member {id:16x} {change} cluster {cluster:16x}\n")
            }
            Format::Json => json::line(&json::members(header, members)),
            Format::Fields => fields::members(header, members),
            Format::Table => table::members(members),
        };
        text.into_bytes()
    }

    pub fn alarms(&self, response: &AlarmResponse) -> Vec<u8> {
        let text = match self.format {
            Format::Simple => simple::alarms(&response.alarms),
            Format::Json => json::line(&json::alarms(response)),
            Format::Fields => fields::alarms(response),
            Format::Table => table::alarms(&response.alarms),
        };
        text.into_bytes()
    }

    pub fn backup(&self, status: &BackupStatus) -> Vec<u8> {
        let BackupStatus { hash, revision, total_key, total_size } = status;
        let size = readable_bytes(*total_size);
        let text = match self.format {
            Format::Simple => format!("{hash:x}, {revision}, {total_key}, {size}\n"),
            Format::Json => json::line(&json::backup(status)),
            Format::Fields => format!(
                "\"Hash\" : {hash}\n\"Revision\" : {revision}\n\"Keys\" : {total_key}\n\"Size\" : {total_size}\n"
            ),
            Format::Table => table::backup(status, size),
        };
        text.into_bytes()
    }

    /// `done` is what was asked for, as in `downgrade validate`.
    pub fn downgrade(&self, done: &str, answer: &DowngradeResponse) -> Vec<u8> {
        match self.format {
            Format::Json => json::line(&json::downgrade(answer)),
            _ => format!("Downgrade {done} success, cluster version {}\n", answer.version),
        }
        .into_bytes()
    }

    pub fn hashes(&self, all: &[EndpointHash]) -> Vec<u8> {
        let text = match self.format {
            Format::Simple => simple::hashes(all),
            Format::Json => json::line(&json::list(all.iter().map(json::hash))),
            Format::Fields => fields::hashes(all),
            Format::Table => table::hashes(all),
        };
        text.into_bytes()
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

/// The columns of an endpoint's status, in etcdctl's order.
fn status_columns(one: &EndpointStatus) -> Vec<String> {
    let status = &one.status;
    let id = status.header.map_or(0, |header| header.member_id);
    let downgrade = status.downgrade_info.clone().unwrap_or_default();
    vec![
        one.endpoint.clone(),
        format!("{id:x}"),
        status.version.clone(),
        status.storage_version.clone(),
        readable_bytes(status.db_size.unsigned_abs()),
        readable_bytes(status.db_size_in_use.unsigned_abs()),
        format!("{}%", percentage_not_in_use(status)),
        readable_bytes(status.db_size_quota.unsigned_abs()),
        (status.leader == id).to_string(),
        status.is_learner.to_string(),
        status.raft_term.to_string(),
        status.raft_index.to_string(),
        status.raft_applied_index.to_string(),
        status.errors.join(", "),
        downgrade.target_version,
        downgrade.enabled.to_string(),
    ]
}

/// Of a file that is not there yet, nothing is in use.
fn percentage_not_in_use(status: &StatusResponse) -> i64 {
    100 - (status.db_size_in_use * 100).checked_div(status.db_size).unwrap_or(100)
}

/// The columns of a member, in etcdctl's order.
fn member_columns(member: &Member) -> Vec<String> {
    let status = if member.name.is_empty() { "unstarted" } else { "started" };
    vec![
        format!("{:x}", member.id),
        status.to_owned(),
        member.name.clone(),
        member.peer_ur_ls.join(","),
        member.client_ur_ls.join(","),
        member.is_learner.to_string(),
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
    fn what_a_file_has_to_spare_is_told_in_percent() {
        let status =
            |db_size, db_size_in_use| StatusResponse { db_size, db_size_in_use, ..Default::default() };
        assert_eq!(percentage_not_in_use(&status(0, 0)), 0);
        assert_eq!(percentage_not_in_use(&status(32_768, 24_576)), 25);
        assert_eq!(percentage_not_in_use(&status(139_264, 4_096)), 98);
    }

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
