//! Records of a backup put back into a ring. The copies that replicas had are merged; what is left is written as any other
//! write is, under a new dot and stamp, so that no replica takes it for something that was deleted long ago. The parts of a
//! mergeable value keep their sums and dots under names that no node has: a node of this ring may count under the name of one
//! of the old ring, and would be taken to have done what that one did.

use crate::actor::{Actor, Dot, RegionId};
use crate::collection::{BoundedCounter, CollectionOp};
use crate::context::Context;
use crate::key::Key;
use crate::merge::merge;
use crate::op::{Attributes, Op};
use crate::record::{Body, Header, RareFields, Record};
use crate::request::Write;
use crate::rows::{self, RowKind, row_kind};
use crate::set::OrSet;
use crate::siblings::Siblings;
use base::checksum::hash64;
use base::codec::put_varint;
use base::{Code, NodeId};
use bytes::Bytes;

mod elements;

pub use elements::{element_of_row, restoring_elements, rows_of_elements};

/// One restore: what it writes is never taken for what another has written.
#[derive(Clone, Copy, Debug)]
pub struct RestoreRun {
    pub id: u64,
    /// The region that it is restored into.
    pub here: RegionId,
}

impl RestoreRun {
    /// The name of an actor of the old ring: a node of this region that is gone.
    fn actor(&self, old: Actor) -> Actor {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, self.id);
        old.encode(&mut bytes);
        Actor { region: self.here, node: NodeId(hash64(&bytes, 0)), incarnation: old.incarnation }
    }

    fn dot(&self, old: Dot) -> Dot {
        Dot { actor: self.actor(old.actor), counter: old.counter }
    }
}

/// The key whose record a row of a backup holds; none for a row that holds none.
pub fn key_of_row(row: &[u8]) -> Option<Key> {
    match row_kind(row)? {
        RowKind::Record => rows::record_key(row),
        RowKind::Hint => rows::hint_key(row),
        _ => None,
    }
}

/// What all copies together come to; none if that is deleted or expired, or a copy is no record.
pub fn joined(copies: &[Bytes], wall_ms: u64) -> Result<Option<Record>, Code> {
    let records: Option<Vec<Record>> = copies.iter().map(|bytes| Record::decode(bytes.clone())).collect();
    let joined =
        records.ok_or(Code::BadRequest)?.into_iter().reduce(|left, right| merge(&left, &right).record);
    Ok(joined.filter(|record| record.is_live(wall_ms)))
}

/// A write of some operations on a collection of a backup, with what its record says beside the elements.
pub fn write_of_elements(key: Key, record: &Record, ops: Vec<CollectionOp>) -> Write {
    let RareFields { metadata, schema, .. } = *record.header.rare.clone().unwrap_or_default();
    let attributes = Attributes { metadata, schema, ..Attributes::default() };
    let op = Op::Elements(ops);
    Write { key, kind: record.kind, op, attributes, expect: None, w: None, sloppy: false }
}

/// The write that puts a record under a key. The locks that fenced the old one are not asked.
pub fn write_of(key: Key, record: &Record, run: RestoreRun) -> Write {
    let rare = record.header.rare.clone().unwrap_or_default();
    let attributes = Attributes {
        expires_ms: record.header.expires_ms,
        metadata: rare.metadata,
        schema: rare.schema,
        handler: rare.handler,
        ..Attributes::default()
    };
    let op = Op::Restore(renamed(record, run).encode());
    Write { key, kind: record.kind, op, attributes, expect: None, w: None, sloppy: false }
}

fn renamed(record: &Record, run: RestoreRun) -> Record {
    let body = match &record.body {
        Body::Register(value) => Body::Register(value.clone()),
        Body::Counter(counter) => Body::Counter(counter.renamed(|actor| run.actor(actor))),
        Body::Set(set) => Body::Set(set.renamed(|dot| run.dot(dot))),
        Body::Siblings(siblings) => Body::Siblings(siblings.renamed(|dot| run.dot(dot))),
        // Its rights go to the node that restores it.
        Body::Bounded(counter) => Body::Bounded(counter.clone()),
        Body::Collection(body) => Body::Collection(body.clone()),
    };
    let header = Header {
        dot: run.dot(record.header.dot),
        stamp: record.header.stamp,
        tombstone: false,
        expires_ms: None,
        rare: None,
    };
    let context = record.context.renamed(|actor| run.actor(actor));
    Record { header, body, context, recent: Vec::new(), era: 0, ..record.clone() }
}

/// Puts what was saved into a record. A register replaces what is there; a mergeable value would be mixed with it, and is refused.
pub(crate) fn put(
    full: &mut Record,
    saved: &Bytes,
    (is_live, actor): (bool, Actor),
    seen: &mut Context,
) -> Result<Body, Code> {
    let saved =
        Record::decode(saved.clone()).filter(|saved| saved.kind == full.kind).ok_or(Code::BadRequest)?;
    if is_live && !full.kind.is_last_write_wins() {
        return Err(Code::ConflictDetected);
    }
    full.created_ms = saved.created_ms;
    let mine = full.context.clone();
    match (&mut full.body, &saved.body) {
        (Body::Register(value), Body::Register(saved)) => {
            *value = saved.clone();
            return Ok(full.body.clone());
        }
        (Body::Bounded(counter), Body::Bounded(saved)) => {
            **counter = BoundedCounter::new(saved.bound());
            return Ok(Body::Bounded(Box::new(counter.add(actor, saved.above())?)));
        }
        (Body::Counter(counter), Body::Counter(saved)) => counter.join(saved),
        (Body::Set(set), Body::Set(other)) => *set = OrSet::join((set, &mine), (other, &saved.context)),
        (Body::Siblings(siblings), Body::Siblings(other)) => {
            *siblings = Siblings::join((siblings, &mine), (other, &saved.context));
        }
        _ => return Err(Code::BadRequest),
    }
    seen.join(&saved.context);
    Ok(saved.body)
}

#[cfg(test)]
mod tests;
