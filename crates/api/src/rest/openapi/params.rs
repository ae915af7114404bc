//! Parameters of requests, each described once: in the path, the query or the head.
//! A name goes in: in braces it is part of the path, with a capital letter a header, else part of the query.

use crate::rest::request_head::{TIMEOUT_MS_MAX, TTL_SECONDS_MAX};
use base::limits::MESH_NAME_BYTES_MAX;
use mesh::{COPIES_MAX, ELEMENTS_MAX};
use serde_json::{Value, json as object};

/// What `mesh::namespaces::is_name` takes.
const NAMESPACE_PATTERN: &str = "^[a-z0-9._-]{1,64}$";

/// How many replicas a key can have. A namespace may have fewer.
const COPIES: u64 = COPIES_MAX as u64;
/// Whole numbers that every client can write.
const WHOLE_MAX: u64 = i64::MAX as u64;

/// Name, schema, meaning. What stands behind `@` tells parameters of the same name apart.
const PARAMS: [(&str, Kind, &str); 60] = [
    ("{key}", Kind::Key, "The key, percent-encoded; slashes may stand as they are"),
    ("{ns}", Kind::Namespace, "The namespace"),
    ("{region}", Kind::Text, "The name of another region"),
    ("{handler}", Kind::Text, "The name of a merge handler"),
    ("{id}", Kind::Text, "The id of a conflict"),
    ("{node}", Kind::Text, "A node of the ring: its number in hexadecimal, or its name"),
    (
        "{type}",
        Kind::Choice(&[
            "counter",
            "gcounter",
            "bounded_counter",
            "set",
            "register",
            "delta_numeric",
            "siblings",
            "bigset",
            "map",
            "sorted_set",
            "list",
            "flag",
            "hyperloglog",
        ]),
        "How the value merges",
    ),
    (
        "{operation}",
        Kind::Choice(&[
            "increment",
            "decrement",
            "reserve",
            "add",
            "remove",
            "contains",
            "get",
            "set",
            "subtract",
            "push",
            "insert",
            "pop",
            "enable",
            "disable",
            "observe",
            "delete",
        ]),
        "Counters: increment, decrement; with a bound also reserve. Sets: add, remove, contains. Registers: set. Numerics: add, subtract, set. Maps and sorted sets: set, increment, remove, contains, get. Lists: push, insert, set, remove, pop, get. Flags: enable, disable. HyperLogLogs: observe",
    ),
    (
        "type",
        Kind::Text,
        "Only values of this type, as `orset`; of an operation, the type of the whole path as key",
    ),
    ("home_region", Kind::Text, "Only values whose home is this region"),
    (
        "since",
        Kind::Text,
        "Only what was written at this moment or later, in milliseconds or as last_modified shows it; the answer is then in the order of time. Of a stream, the id of the last message that was taken, or 0 for the state first",
    ),
    (
        "format",
        Kind::Choice(&["sse", "jsonl"]),
        "Server-sent events, or lines of JSON with `event`, `id` and `data`; a WebSocket carries the lines",
    ),
    ("Last-Event-ID", Kind::Text, "As since, and before it: a browser sends it when it connects again"),
    (
        "until",
        Kind::Text,
        "Only what was written no later than this moment, given as for since; the answer is then in the order of time",
    ),
    ("keys_only", Kind::Flag, "Entries have their keys alone"),
    ("reverse", Kind::Flag, "From the last key down"),
    ("count", Kind::Flag, "Answer how many keys there are, and none of them"),
    ("ns", Kind::Namespace, "The namespace; `default` if not given"),
    ("key", Kind::Key, "The key"),
    ("r", Kind::Number(1, COPIES), "How many replicas a read counts; a majority if not given"),
    ("w", Kind::Number(1, COPIES), "How many replicas must have a write durably; a majority if not given"),
    (
        "sloppy",
        Kind::Flag,
        "Other nodes may stand in for replicas that are down; reads may miss the write until they are back",
    ),
    ("timeout_ms", Kind::Number(1, TIMEOUT_MS_MAX), "How long to wait for replicas"),
    ("explain", Kind::Flag, "Tell where the key lies, who was counted and how long it took"),
    (
        "raw",
        Kind::Flag,
        "Answer with the bytes alone, as an attachment; under their content type if no browser runs it",
    ),
    ("ttl", Kind::Number(1, TTL_SECONDS_MAX), "Seconds to live, for a value that is sent as bytes"),
    ("start", Kind::Text, "The first key, included"),
    ("end", Kind::Text, "The key behind the last one, not included"),
    ("prefix", Kind::Text, "All keys that begin so, instead of start and end"),
    ("delimiter", Kind::Text, "What folders end with, as `/`; without one, keys are listed as they are"),
    ("key_base64", Kind::Text, "The key in base64, if it is no text"),
    ("revision", Kind::Number(1, WHOLE_MAX), "The revision to read at; now if not given"),
    (
        "mod_revision",
        Kind::Number(0, WHOLE_MAX),
        "Only if the key is at this revision; 0 for a key that is not there",
    ),
    ("name", Kind::Text, "The name of the lock"),
    ("token", Kind::Number(1, WHOLE_MAX), "The fencing token of the place"),
    ("node", Kind::Text, "A node: its number in hexadecimal, or its name; the one that answers if not given"),
    ("topics", Kind::Text, "cluster, events, ring, regions, locks, conflicts, separated by commas"),
    ("limit", Kind::Number(1, 1_000), "The most entries of a page"),
    ("limit@rows", Kind::Number(1, 200), "The most entries of a page"),
    (
        "limit@elements",
        Kind::Number(0, ELEMENTS_MAX as u64),
        "The most elements of a page; 0 for the size alone",
    ),
    ("client", Kind::Number(1, WHOLE_MAX), "Only watches of this client, by the id that /v1/clients shows"),
    ("after", Kind::Text, "Only leases with larger ids than this one, in hexadecimal"),
    ("page", Kind::Text, "next_page of the page before"),
    (
        "sample",
        Kind::Number(1, 100),
        "Say of each folder about how many bytes it takes, from so many of its first keys, up to 100",
    ),
    (
        "order",
        Kind::Text,
        "oldest (the default) or newest first; while an upgrade from 0.1.0 is not finalized, oldest",
    ),
    (
        "filter",
        Kind::Text,
        "Only what has this text in its name: in the key or the user of a watch; in the user, address or agent of a client; in the name of a lock; in the namespace or key of a conflict",
    ),
    ("contains", Kind::Text, "Ask whether this element is in the set, map or sorted set"),
    ("element", Kind::Text, "Read this field, member or position alone"),
    (
        "rank",
        Kind::Number(0, WHOLE_MAX),
        "A page of the elements that have so many before them, and of those behind",
    ),
    ("min_score", Kind::Text, "The least score of a page of a sorted set"),
    ("max_score", Kind::Text, "The greatest score of a page of a sorted set"),
    (
        "X-Request-Id",
        Kind::Text,
        "A write that is repeated with the same id and body within 10 minutes is done once; with another body it is refused \
         by 422. Use a UUID of version 7 or a ULID: one that is older than that is refused by 422. Any other id says nothing of \
         its age, and a repetition that comes later is done again",
    ),
    (
        "X-Fence",
        Kind::Text,
        "lock=NAME,token=N: refused once a holder with a later token has written the key",
    ),
    (
        "X-Consistency-Level",
        Kind::Choice(&[
            "ONE",
            "LOCAL_ONE",
            "LOCAL_QUORUM",
            "ALL",
            "GLOBAL_QUORUM",
            "EACH_QUORUM",
            "LINEARIZABLE",
        ]),
        "How sure the answer must be; writes take all but LOCAL_ONE; ONE and ALL count one replica and every replica of this region; GLOBAL_QUORUM is over a majority of regions, EACH_QUORUM over all; LINEARIZABLE, for single keys, is decided once by a majority of the key's replicas in its home region",
    ),
    (
        "X-Session-Token",
        Kind::Text,
        "What the client has seen, from an earlier answer: nothing less is shown in any region. Any word begins a session",
    ),
    ("X-Min-Vector-Clock", Kind::Text, "The answer has seen this version: X-Vector-Clock of an earlier one"),
    (
        "X-If-Vector-Clock",
        Kind::Text,
        "Write only if nothing is there that this version has not seen, else 409; decided once, as at LINEARIZABLE: of several writers who have seen the same one wins",
    ),
    ("X-Vector-Clock", Kind::Text, "What the writer has seen: siblings in it are replaced"),
    (
        "X-Conflict-Resolution",
        Kind::Choice(&["LWW", "CRDT", "FAIL"]),
        "What happens to a write that has not seen what it overwrites; FAIL refuses it, decided as at LINEARIZABLE",
    ),
    ("Accept", Kind::Text, "application/octet-stream, or the stored content type, for the bytes alone"),
];

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Key,
    Namespace,
    /// The least and the greatest.
    Number(u64, u64),
    Flag,
    Choice(&'static [&'static str]),
}

#[cfg(test)]
pub fn parameter_names() -> impl Iterator<Item = &'static str> {
    PARAMS.iter().map(|(name, ..)| bare(name))
}

fn bare(name: &'static str) -> &'static str {
    name.split('@').next().unwrap_or(name)
}

pub fn describe(name: &'static str) -> Value {
    let (_, kind, about) =
        PARAMS.iter().find(|(known, ..)| *known == name).expect("every parameter is described");
    let schema = match kind {
        Kind::Text => object!({ "type": "string" }),
        Kind::Key => object!({ "type": "string", "minLength": 1, "maxLength": MESH_NAME_BYTES_MAX }),
        Kind::Namespace => object!({ "type": "string", "pattern": NAMESPACE_PATTERN }),
        Kind::Number(min, max) => object!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Flag => object!({ "type": "boolean" }),
        Kind::Choice(words) => object!({ "type": "string", "enum": words }),
    };
    let place = match name.chars().next() {
        Some('{') => "path",
        Some('A'..='Z') => "header",
        _ => "query",
    };
    object!({
        "name": bare(name).trim_start_matches('{').trim_end_matches('}'), "in": place, "required": place == "path", "description": about, "schema": schema,
    })
}
