//! Clients, watches, leases and pins of compaction as they are printed. etcdctl has no such commands, so the formats are
//! ours: a line each, a table, or JSON with keys in base64 and times in milliseconds since 1970, as the wire has them.

use super::table::{draw, readable};
use crate::client::{Format, duration};
use crate::output::time::utc;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::inspect::watch::State;
use proto::inspect::{
    Client, ClientsResponse, CompactionResponse, Lease, LeasesResponse, Watch, WatchesResponse,
};
use serde_json::{Value, json};
use std::time::Duration;

const CLIENT_HEADS: [&str; 9] =
    ["ENDPOINT", "ID", "ADDRESS", "USER", "SINCE", "STREAMS", "WATCHES", "REQUESTS", "AGENT"];
const WATCH_HEADS: [&str; 9] =
    ["ENDPOINT", "CLIENT", "STREAM", "ID", "USER", "KEYS", "NEXT REVISION", "LAG", "STATE"];
const LEASE_HEADS: [&str; 7] = ["LEASE", "TTL", "GRANTED", "EXPIRES", "LEFT", "CLIENT", "KEYS"];

pub fn clients(format: Format, all: &[(String, ClientsResponse)]) -> String {
    let each = all.iter().flat_map(|(at, answer)| answer.clients.iter().map(move |client| (at, client)));
    let more = all.iter().any(|(_, answer)| answer.more);
    let rest = rest_of(more);
    match format {
        Format::Json => {
            let clients: Vec<Value> = each.map(|(at, client)| client_json(at, client)).collect();
            format!("{}\n", json!({ "clients": clients, "more": more }))
        }
        Format::Table => {
            draw(&CLIENT_HEADS, each.map(|(at, client)| client_row(at, client)).collect()) + rest
        }
        Format::Simple | Format::Fields => {
            lines(&CLIENT_HEADS, each.map(|(at, client)| client_row(at, client)).collect()) + rest
        }
    }
}

fn client_row(endpoint: &str, client: &Client) -> Vec<String> {
    vec![
        endpoint.to_owned(),
        client.id.to_string(),
        client.address.clone(),
        readable(client.user.as_bytes()),
        utc(client.connected_ms),
        client.streams.to_string(),
        client.watches.to_string(),
        client.requests.to_string(),
        readable(client.agent.as_bytes()),
    ]
}

fn client_json(endpoint: &str, client: &Client) -> Value {
    let leases: Vec<String> = client.leases.iter().map(|id| format!("{id:016x}")).collect();
    json!({
        "endpoint": endpoint, "id": client.id, "user": client.user, "address": client.address,
        "connected_ms": client.connected_ms, "streams": client.streams, "watches": client.watches,
        "requests": client.requests, "agent": client.agent, "leases": leases,
    })
}

pub fn watches(format: Format, all: &[(String, WatchesResponse)]) -> String {
    let each = all.iter().flat_map(|(at, answer)| answer.watches.iter().map(move |watch| (at, watch)));
    let more = all.iter().any(|(_, answer)| answer.more);
    let rest = rest_of(more);
    match format {
        Format::Json => {
            let watches: Vec<Value> = each.map(|(at, watch)| watch_json(at, watch)).collect();
            format!("{}\n", json!({ "watches": watches, "more": more }))
        }
        Format::Table => draw(&WATCH_HEADS, each.map(|(at, watch)| watch_row(at, watch)).collect()) + rest,
        Format::Simple | Format::Fields => {
            lines(&WATCH_HEADS, each.map(|(at, watch)| watch_row(at, watch)).collect()) + rest
        }
    }
}

fn watch_row(endpoint: &str, watch: &Watch) -> Vec<String> {
    vec![
        endpoint.to_owned(),
        watch.client.to_string(),
        watch.stream.to_string(),
        watch.id.to_string(),
        readable(watch.user.as_bytes()),
        keys_of(watch),
        watch.next_revision.to_string(),
        watch.lag.to_string(),
        state_of(watch).to_owned(),
    ]
}

/// A key, or a range without its end.
fn keys_of(watch: &Watch) -> String {
    let key = readable(&watch.key);
    match watch.range_end.as_ref() {
        b"" => key,
        b"\0" => format!("[{key}, ..)"),
        end => format!("[{key}, {})", readable(end)),
    }
}

fn state_of(watch: &Watch) -> &'static str {
    match watch.state() {
        State::Live => "live",
        State::Behind => "behind",
        State::Paused => "paused",
        State::Future => "future",
    }
}

fn watch_json(endpoint: &str, watch: &Watch) -> Value {
    json!({
        "endpoint": endpoint, "client": watch.client, "stream": watch.stream, "id": watch.id, "user": watch.user,
        "key": STANDARD.encode(&watch.key), "range_end": STANDARD.encode(&watch.range_end),
        "start_revision": watch.start_revision, "next_revision": watch.next_revision, "lag": watch.lag,
        "state": state_of(watch), "no_put": watch.no_put, "no_delete": watch.no_delete, "prev_kv": watch.prev_kv,
    })
}

pub fn leases(format: Format, answer: &LeasesResponse) -> String {
    let text = match format {
        Format::Json => {
            let leases: Vec<Value> = answer.leases.iter().map(lease_json).collect();
            return format!("{}\n", json!({ "leases": leases, "more": answer.more }));
        }
        Format::Table => draw(&LEASE_HEADS, answer.leases.iter().map(lease_row).collect()),
        Format::Simple | Format::Fields => lines(&LEASE_HEADS, answer.leases.iter().map(lease_row).collect()),
    };
    text + rest_of(answer.more)
}

/// What follows a list that is cut.
fn rest_of(more: bool) -> &'static str {
    if more { "there are more: --limit\n" } else { "" }
}

fn lease_row(lease: &Lease) -> Vec<String> {
    let left = Duration::from_millis(u64::try_from(lease.left_ms).unwrap_or(0));
    let shown: Vec<String> = lease.keys.iter().take(5).map(|key| readable(key)).collect();
    let others = lease.key_count - shown.len() as i64;
    let keys = if others > 0 { format!("{} and {others} more", shown.join(" ")) } else { shown.join(" ") };
    vec![
        format!("{:016x}", lease.id),
        format!("{}s", lease.granted_ttl),
        utc(lease.granted_ms),
        utc(lease.expires_ms),
        duration::render(left),
        if lease.client == 0 { String::new() } else { lease.client.to_string() },
        keys,
    ]
}

fn lease_json(lease: &Lease) -> Value {
    let keys: Vec<String> = lease.keys.iter().map(|key| STANDARD.encode(key)).collect();
    json!({
        "id": format!("{:016x}", lease.id), "granted_ttl": lease.granted_ttl, "granted_ms": lease.granted_ms,
        "left_ms": lease.left_ms, "expires_ms": lease.expires_ms, "keys": keys, "key_count": lease.key_count,
        "client": lease.client, "user": lease.user,
    })
}

/// How far the past is compacted, and what delays more.
pub fn compaction(answer: &CompactionResponse) -> String {
    let revision = answer.header.as_ref().map_or(0, |header| header.revision);
    let mut text = format!(
        "compacted to revision {} of {revision}\nthe retention allows {}\nneeded here from revision {} on\n",
        answer.compact_revision, answer.retention_revision, answer.needed_revision
    );
    for pin in &answer.pins {
        let client = if pin.client == 0 { String::new() } else { format!(", client {}", pin.client) };
        text.push_str(&format!("revision {}: {}{client}\n", pin.revision, pin.reason));
    }
    if let Some(round) = &answer.last_round {
        text.push_str(&format!(
            "last round of this leader: {} at {}\n",
            round.outcome, round.agreed_revision
        ));
        for need in &round.needs {
            text.push_str(&format!("member {:x} needs revision {}\n", need.member, need.revision));
        }
    }
    text
}

/// `name=value` for each column that has something to say.
fn lines(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let name = |head: &str| head.to_lowercase().replace(' ', "_");
    let row = |row: Vec<String>| {
        let shown = heads.iter().zip(row).filter(|(_, value)| !value.is_empty());
        let words: Vec<String> = shown.map(|(head, value)| format!("{}={value}", name(head))).collect();
        format!("{}\n", words.join(" "))
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_cut_says_so() {
        for more in [false, true] {
            let all = [("a".to_owned(), ClientsResponse { more, ..Default::default() })];
            let watched = [("a".to_owned(), WatchesResponse { more, ..Default::default() })];
            for format in [Format::Simple, Format::Table] {
                assert_eq!(clients(format, &all).ends_with("there are more: --limit\n"), more);
                assert_eq!(watches(format, &watched).ends_with("there are more: --limit\n"), more);
            }
            for told in [clients(Format::Json, &all), watches(Format::Json, &watched)] {
                assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["more"], more);
            }
        }
    }
}
