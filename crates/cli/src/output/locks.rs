//! Locks as they are printed for people and programs: their holders, tokens, and waiters.
//! etcdctl has no such command, so all four formats are ours.

use super::json::Object;
use super::quote::quote;
use super::table::{draw, readable};
use super::{Printer, fields, json};
use crate::client::{Format, duration};
use proto::lock::{InspectResponse, ListResponse, Lock, Waiter};
use std::time::Duration;

const LOCK_HEADS: [&str; 6] = ["NAME", "HOLDER", "TOKEN", "LEASE", "TTL", "WAITING"];
const PLACE_HEADS: [&str; 6] = ["PLACE", "CLIENT", "KEY", "LEASE", "WAITS", "METADATA"];

/// In place of a number in the queue.
const NO_ENTRY: &str = "no entry";

impl Printer {
    pub fn locks(&self, response: &ListResponse) -> Vec<u8> {
        let text = match self.format {
            Format::Simple => response.locks.iter().map(line).collect(),
            Format::Json => {
                let locks = json::list(response.locks.iter().map(object));
                json::line(&Object::default().header(response.header).raw("locks", &locks).end())
            }
            Format::Fields => response.locks.iter().map(lock_fields).collect(),
            Format::Table => draw(&LOCK_HEADS, response.locks.iter().map(columns).collect()),
        };
        text.into_bytes()
    }

    /// A lock without a holder is printed as such, and is no error.
    pub fn lock(&self, name: &str, response: &InspectResponse) -> Vec<u8> {
        let text = match (self.format, &response.lock) {
            (Format::Simple, None) => format!("lock {name:?} is free\n"),
            (Format::Simple, Some(lock)) => paragraph(lock),
            (Format::Json, lock) => {
                let lock = lock.as_ref().map_or("null".to_owned(), object);
                json::line(&Object::default().header(response.header).raw("lock", &lock).end())
            }
            (Format::Fields, lock) => {
                fields::header(response.header) + &lock.iter().map(lock_fields).collect::<String>()
            }
            (Format::Table, lock) => draw(&PLACE_HEADS, lock.iter().flat_map(places).collect()),
        };
        text.into_bytes()
    }
}

fn line(lock: &Lock) -> String {
    let (name, waiting) = (readable(lock.name.as_bytes()), lock.queue.len());
    if lock.is_foreign {
        let key = readable(lock.key.as_bytes());
        return format!("{name}: blocked by {key}, which is no entry of it, {waiting} waiting\n");
    }
    let (holder, token) = (&lock.holder_id, lock.fencing_token);
    format!("{name}: held by {holder} with token {token}, {waiting} waiting\n")
}

fn paragraph(lock: &Lock) -> String {
    let mut text = if lock.is_foreign { obstacle(lock) } else { holder(lock) };
    if lock.queue.is_empty() {
        text.push_str("no waiters\n");
    }
    for (nth, waiter) in lock.queue.iter().enumerate() {
        let place = nth + 1;
        let what = if waiter.is_foreign { stray(waiter) } else { wait(waiter) };
        text.push_str(&format!("{place}. {what}\n"));
    }
    text
}

fn wait(waiter: &Waiter) -> String {
    format!("{} waits for {}", readable(waiter.client_id.as_bytes()), millis(waiter.waiting_ms))
}

fn stray(waiter: &Waiter) -> String {
    let key = readable(waiter.waiter_key.as_bytes());
    format!("the key {key}, which is no entry of the lock, keeps those behind it waiting: delete that key")
}

fn holder(lock: &Lock) -> String {
    let mut text = format!(
        "lock {:?} is held by {}\n  key {}\n  token {}\n  lease {:016x}, {} left\n",
        lock.name,
        readable(lock.holder_id.as_bytes()),
        readable(lock.key.as_bytes()),
        lock.fencing_token,
        lock.lease_id,
        millis(lock.remaining_ttl_ms),
    );
    if !lock.metadata.is_empty() {
        text.push_str(&format!("  metadata {}\n", readable(&lock.metadata)));
    }
    text
}

fn obstacle(lock: &Lock) -> String {
    let key = readable(lock.key.as_bytes());
    format!(
        "lock {:?} has no holder, and is blocked by the key {key}, which is no entry of it: delete that key\n",
        lock.name
    )
}

fn columns(lock: &Lock) -> Vec<String> {
    vec![
        readable(lock.name.as_bytes()),
        readable(lock.holder_id.as_bytes()),
        lock.fencing_token.to_string(),
        format!("{:016x}", lock.lease_id),
        millis(lock.remaining_ttl_ms),
        lock.queue.len().to_string(),
    ]
}

/// The holder, and the waiters behind it; a key that is no entry has no place.
fn places(lock: &Lock) -> Vec<Vec<String>> {
    let place = |nth: String, client: &str, key: &str, lease: i64, waits: String, metadata: &[u8]| {
        let (client, key) = (readable(client.as_bytes()), readable(key.as_bytes()));
        vec![nth, client, key, format!("{lease:016x}"), waits, readable(metadata)]
    };
    let Lock { holder_id, key, lease_id, metadata, .. } = lock;
    let first = if lock.is_foreign { NO_ENTRY } else { "holder" };
    let mut rows = vec![place(first.to_owned(), holder_id, key, *lease_id, String::new(), metadata)];
    for (nth, waiter) in lock.queue.iter().enumerate() {
        let Waiter { client_id, waiter_key, lease_id, metadata, waiting_ms, is_foreign, .. } = waiter;
        let waits = if *is_foreign { String::new() } else { millis(*waiting_ms) };
        let nth = if *is_foreign { NO_ENTRY.to_owned() } else { (nth + 1).to_string() };
        rows.push(place(nth, client_id, waiter_key, *lease_id, waits, metadata));
    }
    rows
}

fn object(lock: &Lock) -> String {
    Object::default()
        .text("name", &lock.name)
        .text("key", &lock.key)
        .text("holder_id", &lock.holder_id)
        .number("lease_id", lock.lease_id)
        .number("fencing_token", lock.fencing_token)
        .number("create_revision", lock.create_revision)
        .number("mod_revision", lock.mod_revision)
        .number("version", lock.version)
        .bytes("metadata", &lock.metadata)
        .number("remaining_ttl_ms", lock.remaining_ttl_ms)
        .number("since_unix_ms", lock.since_unix_ms)
        .raw("queue", &json::list(lock.queue.iter().map(waiter_object)))
        .flag("is_foreign", lock.is_foreign)
        .end()
}

fn waiter_object(waiter: &Waiter) -> String {
    Object::default()
        .text("waiter_key", &waiter.waiter_key)
        .text("client_id", &waiter.client_id)
        .number("lease_id", waiter.lease_id)
        .number("create_revision", waiter.create_revision)
        .text("predecessor_key", &waiter.predecessor_key)
        .number("since_unix_ms", waiter.since_unix_ms)
        .number("waiting_ms", waiter.waiting_ms)
        .bytes("metadata", &waiter.metadata)
        .flag("is_foreign", waiter.is_foreign)
        .end()
}

fn lock_fields(lock: &Lock) -> String {
    let waiter = |waiter: &Waiter| {
        [
            fields::field("WaiterKey", quote(waiter.waiter_key.as_bytes())),
            fields::field("ClientID", quote(waiter.client_id.as_bytes())),
            fields::field("WaiterLease", waiter.lease_id),
            fields::field("WaitingMs", waiter.waiting_ms),
        ]
        .concat()
    };
    let holder = [
        fields::field("Name", quote(lock.name.as_bytes())),
        fields::field("Key", quote(lock.key.as_bytes())),
        fields::field("HolderID", quote(lock.holder_id.as_bytes())),
        fields::field("FencingToken", lock.fencing_token),
        fields::field("Lease", lock.lease_id),
        fields::field("RemainingTTLMs", lock.remaining_ttl_ms),
        fields::field("Metadata", quote(&lock.metadata)),
    ];
    let queue: String = lock.queue.iter().map(waiter).collect();
    holder.concat() + &queue + "\n"
}

fn millis(count: i64) -> String {
    duration::render(Duration::from_millis(count.max(0).unsigned_abs()))
}
