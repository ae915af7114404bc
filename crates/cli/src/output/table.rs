//! Tables drawn with plus, minus and bar, heads centred and cells to the right, as etcdctl draws them.

use super::quote::quote;
use super::{BackupStatus, EndpointHash, EndpointHealth, EndpointStatus, member_columns, status_columns};
use crate::client::duration;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    AlarmMember, DeleteRangeResponse, LeaseLeasesResponse, LeaseTimeToLiveResponse, Member, TxnResponse,
    WatchResponse,
};
use proto::mvccpb::KeyValue;

const KEY_HEADS: [&str; 6] = ["KEY", "VALUE", "VERSION", "CREATE REVISION", "MOD REVISION", "LEASE"];
const STATUS_HEADS: [&str; 16] = [
    "ENDPOINT",
    "ID",
    "VERSION",
    "STORAGE VERSION",
    "DB SIZE",
    "IN USE",
    "PERCENTAGE NOT IN USE",
    "QUOTA",
    "IS LEADER",
    "IS LEARNER",
    "RAFT TERM",
    "RAFT INDEX",
    "RAFT APPLIED INDEX",
    "ERRORS",
    "DOWNGRADE TARGET VERSION",
    "DOWNGRADE ENABLED",
];

const MEMBER_HEADS: [&str; 6] = ["ID", "STATUS", "NAME", "PEER ADDRS", "CLIENT ADDRS", "IS LEARNER"];

pub fn keys(kvs: &[KeyValue]) -> String {
    draw(&KEY_HEADS, kvs.iter().map(key_columns).collect())
}

fn key_columns(kv: &KeyValue) -> Vec<String> {
    vec![
        readable(&kv.key),
        readable(&kv.value),
        kv.version.to_string(),
        kv.create_revision.to_string(),
        kv.mod_revision.to_string(),
        format!("{:x}", kv.lease),
    ]
}

pub fn backup(status: &BackupStatus, size: String) -> String {
    let BackupStatus { hash, revision, total_key, .. } = status;
    let row = vec![format!("{hash:x}"), revision.to_string(), total_key.to_string(), size];
    draw(&["HASH", "REVISION", "TOTAL KEYS", "TOTAL SIZE"], vec![row])
}

/// A row for every event, and one before it for what was there, if that was asked for.
pub fn events(response: &WatchResponse) -> String {
    let mut rows = vec![];
    for event in &response.events {
        let what = event.r#type().as_str_name();
        for (what, kv) in [("before", &event.prev_kv), (what, &event.kv)] {
            rows.extend(kv.iter().map(|kv| [vec![what.to_owned()], key_columns(kv)].concat()));
        }
    }
    draw(&[&["EVENT"], &KEY_HEADS[..]].concat(), rows)
}

pub fn lease(id: i64, ttl: i64) -> String {
    draw(&["ID", "TTL"], vec![vec![format!("{id:016x}"), ttl.to_string()]])
}

pub fn time_to_live(response: &LeaseTimeToLiveResponse) -> String {
    let keys: Vec<String> = response.keys.iter().map(|key| readable(key)).collect();
    let (granted, left) = (response.granted_ttl.to_string(), response.ttl.to_string());
    let row = vec![format!("{:016x}", response.id), granted, left, keys.join(", ")];
    draw(&["ID", "GRANTED TTL", "TTL", "KEYS"], vec![row])
}

pub fn leases(response: &LeaseLeasesResponse) -> String {
    draw(&["ID"], response.leases.iter().map(|lease| vec![format!("{:016x}", lease.id)]).collect())
}

pub fn members(members: &[Member]) -> String {
    draw(&MEMBER_HEADS, members.iter().map(member_columns).collect())
}

pub fn alarms(alarms: &[AlarmMember]) -> String {
    let row = |one: &AlarmMember| vec![format!("{:x}", one.member_id), one.alarm().as_str_name().to_owned()];
    draw(&["MEMBER", "ALARM"], alarms.iter().map(row).collect())
}

pub fn hashes(all: &[EndpointHash]) -> String {
    let row = |one: &EndpointHash| {
        vec![one.endpoint.clone(), one.hash.hash.to_string(), one.hash.hash_revision.to_string()]
    };
    draw(&["ENDPOINT", "HASH", "HASH REVISION"], all.iter().map(row).collect())
}

pub fn deleted(response: &DeleteRangeResponse) -> String {
    let count = draw(&["DELETED"], vec![vec![response.deleted.to_string()]]);
    if response.prev_kvs.is_empty() { count } else { count + &keys(&response.prev_kvs) }
}

pub fn txn(response: &TxnResponse) -> String {
    let mut text = draw(&["SUCCEEDED"], vec![vec![response.succeeded.to_string()]]);
    for op in &response.responses {
        text.push_str(&match &op.response {
            Some(Response::ResponseRange(answer)) => keys(&answer.kvs),
            Some(Response::ResponsePut(answer)) => keys(answer.prev_kv.as_slice()),
            Some(Response::ResponseDeleteRange(answer)) => deleted(answer),
            Some(Response::ResponseTxn(answer)) => txn(answer),
            None => String::new(),
        });
    }
    text
}

pub fn statuses(all: &[EndpointStatus]) -> String {
    draw(&STATUS_HEADS, all.iter().map(status_columns).collect())
}

pub fn healths(all: &[EndpointHealth]) -> String {
    let row = |one: &EndpointHealth| {
        let healthy = one.error.is_empty().to_string();
        vec![one.endpoint.clone(), healthy, duration::render(one.took), one.error.clone()]
    };
    draw(&["ENDPOINT", "HEALTH", "TOOK", "ERROR"], all.iter().map(row).collect())
}

/// Text as it is; what would break the frame is quoted.
pub(super) fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => quote(bytes),
    }
}

pub fn draw(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let length = |text: &str| text.chars().count();
    let width = |i: usize| rows.iter().map(|row| length(&row[i])).chain([length(heads[i])]).max();
    let widths: Vec<usize> = (0..heads.len()).map(|i| width(i).unwrap_or(0)).collect();
    let frame: String = widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect();
    let frame = frame + "+\n";
    let mut text = frame.clone();
    for (head, width) in heads.iter().zip(&widths) {
        text.push_str(&format!("| {head:^width$} "));
    }
    text.push_str("|\n");
    text.push_str(&frame);
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("| {cell:>width$} "));
        }
        text.push_str("|\n");
    }
    if rows.is_empty() { text } else { text + &frame }
}

/// Lines without frames: the first column to the left, the others to the right, two blanks between them.
pub fn columns(heads: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    let width = |i: usize| rows.iter().map(|row| length(&row[i])).chain([length(heads[i])]).max();
    let widths: Vec<usize> = (0..heads.len()).map(|i| width(i).unwrap_or(0)).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.zip(&widths).enumerate().map(|(i, (cell, width))| match i {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(&mut heads.iter().copied());
    std::iter::once(head).chain(rows.iter().map(|row| line(&mut row.iter().map(String::as_str)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_centred_and_cells_stand_to_the_right() {
        let rows = vec![vec!["127.0.0.1:47379".to_owned(), "491752975".to_owned()]];
        let expected = "\
+-----------------+-----------+
|    ENDPOINT     |   HASH    |
+-----------------+-----------+
| 127.0.0.1:47379 | 491752975 |
+-----------------+-----------+
";
        assert_eq!(draw(&["ENDPOINT", "HASH"], rows), expected);
    }
}
