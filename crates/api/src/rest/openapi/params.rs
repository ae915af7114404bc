//! Parameters of requests, each described once: in the path, the query or the head.
//! A name goes in: in braces it is part of the path, with a capital letter a header, else part of the query.

use serde_json::{Value, json as object};

/// Name, schema, meaning.
const PARAMS: [(&str, Kind, &str); 45] = [
    ("{key}", Kind::Text, "The key, percent-encoded; slashes may stand as they are"),
    ("{ns}", Kind::Text, "The namespace"),
    ("{region}", Kind::Text, "The name of another region"),
    ("{handler}", Kind::Text, "The name of a merge handler"),
    ("{id}", Kind::Text, "The id of a conflict"),
    ("{node}", Kind::Text, "A node of the ring: its number in hexadecimal, or its name"),
    (
        "{type}",
        Kind::Choice(&["counter", "gcounter", "set", "register", "delta_numeric", "siblings"]),
        "How the value merges",
    ),
    (
        "{operation}",
        Kind::Choice(&["increment", "decrement", "add", "remove", "contains", "set", "subtract", "delete"]),
        "Counters: increment, decrement. Sets: add, remove, contains. Registers: set. Numerics: add, subtract, set",
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
        "Only what was written at this moment or later, in milliseconds or as last_modified shows it; the answer is then in the order of time",
    ),
    ("ns", Kind::Text, "The namespace; `default` if not given"),
    ("key", Kind::Text, "The key"),
    ("r", Kind::Number, "How many replicas a read counts; a majority if not given"),
    ("w", Kind::Number, "How many replicas must have a write durably; a majority if not given"),
    (
        "sloppy",
        Kind::Flag,
        "Other nodes may stand in for replicas that are down; reads may miss the write until they are back",
    ),
    ("timeout_ms", Kind::Number, "How long to wait for replicas"),
    ("explain", Kind::Flag, "Tell where the key lies, who was counted and how long it took"),
    (
        "raw",
        Kind::Flag,
        "Answer with the bytes alone, as an attachment; under their content type if no browser runs it",
    ),
    ("ttl", Kind::Number, "Seconds to live, for a value that is sent as bytes"),
    ("start", Kind::Text, "The first key, included"),
    ("end", Kind::Text, "The key behind the last one, not included"),
    ("prefix", Kind::Text, "All keys that begin so, instead of start and end"),
    ("delimiter", Kind::Text, "What folders end with, as `/`; without one, keys are listed as they are"),
    ("key_base64", Kind::Text, "The key in base64, if it is no text"),
    ("revision", Kind::Number, "The revision to read at; now if not given"),
    ("mod_revision", Kind::Number, "Only if the key is at this revision; 0 for a key that is not there"),
    ("name", Kind::Text, "The name of the lock"),
    ("token", Kind::Number, "The fencing token of the place"),
    ("node", Kind::Text, "A node: its number in hexadecimal, or its name; the one that answers if not given"),
    ("topics", Kind::Text, "cluster, events, ring, regions, locks, conflicts, separated by commas"),
    ("limit", Kind::Number, "The most entries of a page, up to 1000"),
    ("client", Kind::Number, "Only watches of this client, by the id that /v1/clients shows"),
    ("after", Kind::Text, "Only leases with larger ids than this one, in hexadecimal"),
    ("page", Kind::Text, "next_page of the page before"),
    ("contains", Kind::Text, "Ask whether this element is in the set"),
    (
        "X-Request-Id",
        Kind::Text,
        "A write that is repeated with the same id and body within 10 minutes is done once; with another body it is refused \
         by 422, and so is a UUID of version 7 or a ULID that is older than that",
    ),
    (
        "X-Fence",
        Kind::Text,
        "lock=NAME,token=N: refused once a holder with a later token has written the key",
    ),
    (
        "X-Consistency-Level",
        Kind::Choice(&["LOCAL_ONE", "LOCAL_QUORUM", "GLOBAL_QUORUM", "EACH_QUORUM", "LINEARIZABLE"]),
        "How sure the answer must be; writes take all but the first; GLOBAL_QUORUM is over a majority of regions, EACH_QUORUM over all; LINEARIZABLE, for single keys, is decided once by a majority of the key's replicas in its home region",
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
    Number,
    Flag,
    Choice(&'static [&'static str]),
}

pub fn describe(name: &str) -> Value {
    let (_, kind, about) =
        PARAMS.iter().find(|(known, ..)| *known == name).expect("every parameter is described");
    let schema = match kind {
        Kind::Text => object!({ "type": "string" }),
        Kind::Number => object!({ "type": "integer", "minimum": 1 }),
        Kind::Flag => object!({ "type": "boolean" }),
        Kind::Choice(words) => object!({ "type": "string", "enum": words }),
    };
    let bare = name.trim_start_matches('{').trim_end_matches('}');
    let place = match name.chars().next() {
        Some('{') => "path",
        Some('A'..='Z') => "header",
        _ => "query",
    };
    object!({
        "name": bare, "in": place, "required": place == "path", "description": about, "schema": schema,
    })
}
