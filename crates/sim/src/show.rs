//! Operations in a form that a person can follow when a history is unlawful: one line each, etcd's words.

use crate::history::{ModelRequest, Operation, Outcome};
use base::{KeyRange, RangeEnd, Revision};
use coord::reply::{Body, KeyValue, Reply};
use coord::request::{Compare, Relation, Request, Target, Txn};
use std::fmt;

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} [{}, ", self.client, self.invoked)?;
        match self.returned {
            Some(returned) => write!(f, "{returned}]")?,
            None => f.write_str("?)")?,
        }
        match &self.request {
            ModelRequest::Kv(asked) => write!(f, " {} => ", request(asked))?,
            ModelRequest::EndLease(id) => write!(f, " end of lease {id} => ")?,
        }
        match &self.outcome {
            Outcome::Done(answer) => f.write_str(&reply(answer)),
            Outcome::Refused(code) => write!(f, "refused: {code}"),
            Outcome::Unknown => f.write_str("unknown"),
        }
    }
}

pub fn request(asked: &Request) -> String {
    match asked {
        Request::Range(range) => {
            let mut text = format!("range {}", keys(&range.keys));
            for (set, word) in [
                (range.serializable, " serializable"),
                (range.keys_only, " keys-only"),
                (range.count_only, " count-only"),
                (range.sort.is_some(), " sorted"),
            ] {
                text.push_str(if set { word } else { "" });
            }
            if range.revision > Revision::ZERO {
                text.push_str(&format!(" at {}", range.revision));
            }
            if range.limit > 0 {
                text.push_str(&format!(" limit {}", range.limit));
            }
            text
        }
        Request::Put(put) => {
            let value = put.value.as_deref().map_or("(same value)".into(), bytes);
            let lease = put
                .lease
                .filter(|lease| lease.0 != 0)
                .map_or(String::new(), |lease| format!(" lease {lease}"));
            format!("put {}={value}{}{lease}", bytes(&put.key), if put.prev_kv { " prev" } else { "" })
        }
        Request::Delete(delete) => {
            format!("delete {}{}", keys(&delete.keys), if delete.prev_kv { " prev" } else { "" })
        }
        Request::Txn(asked) => txn(asked),
    }
}

fn txn(asked: &Txn) -> String {
    let list = |requests: &[Request]| requests.iter().map(request).collect::<Vec<_>>().join("; ");
    let compares = asked.compares.iter().map(compare).collect::<Vec<_>>().join(" and ");
    format!("txn if {compares} then {{{}}} else {{{}}}", list(&asked.success), list(&asked.failure))
}

fn compare(asked: &Compare) -> String {
    let relation = match asked.relation {
        Relation::Equal => "=",
        Relation::Greater => ">",
        Relation::Less => "<",
        Relation::NotEqual => "!=",
    };
    let (field, value) = match &asked.target {
        Target::Version(version) => ("version", version.to_string()),
        Target::Create(revision) => ("create", revision.to_string()),
        Target::Mod(revision) => ("mod", revision.to_string()),
        Target::Value(value) => ("value", bytes(value)),
        Target::Lease(lease) => ("lease", lease.to_string()),
    };
    format!("{field}({}){relation}{value}", keys(&asked.keys))
}

pub fn reply(answer: &Reply) -> String {
    format!("{} at revision {}", body(&answer.body), answer.revision)
}

fn body(answer: &Body) -> String {
    match answer {
        Body::Range(range) => {
            let more = if range.more { " and more" } else { "" };
            format!("[{}]{more} count {}", kvs(&range.kvs), range.count)
        }
        Body::Put(put) => match &put.prev_kv {
            Some(prev) => format!("put, was {}", kv(prev)),
            None => "put".to_owned(),
        },
        Body::Delete(delete) if delete.prev_kvs.is_empty() => format!("deleted {}", delete.deleted),
        Body::Delete(delete) => format!("deleted {}, was [{}]", delete.deleted, kvs(&delete.prev_kvs)),
        Body::Txn(txn) => {
            let bodies = txn.bodies.iter().map(body).collect::<Vec<_>>().join("; ");
            format!("{} {{{bodies}}}", if txn.succeeded { "then" } else { "else" })
        }
        other => format!("{other:?}"),
    }
}

fn kvs(list: &[KeyValue]) -> String {
    list.iter().map(kv).collect::<Vec<_>>().join(", ")
}

/// `key=value` with the revisions of its creation and last change, and its version.
fn kv(kv: &KeyValue) -> String {
    let (key, value) = (bytes(&kv.key), bytes(&kv.value));
    format!("{key}={value} (create {} mod {} version {})", kv.create_revision, kv.mod_revision, kv.version)
}

fn keys(range: &KeyRange) -> String {
    match &range.end {
        RangeEnd::Single => bytes(&range.start),
        RangeEnd::Before(end) => format!("{}..{}", bytes(&range.start), bytes(end)),
        RangeEnd::Open => format!("{}..", bytes(&range.start)),
    }
}

fn bytes(raw: &[u8]) -> String {
    raw.escape_ascii().to_string()
}
