//! Events: changes as watches get them, in batches that many responses share. A change or a line of the log goes in
//! with the records it refers to; an event comes out. A batch never changes once it is made, so its encoding, which
//! the crate `api` makes, is made once.

use crate::change::{Change, ChangeKind, Record, Records};
use crate::mutant::Mutant;
use crate::reply::KeyValue;
use crate::rows::LoggedChange;
use base::mutant::planted;
use base::{LeaseId, Revision};
use bytes::Bytes;
use std::sync::OnceLock;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub deleted: bool,
    /// The key's new state; for a delete, the key and the revision alone.
    pub kv: KeyValue,
    pub prev: Option<KeyValue>,
}

/// A line of the log in either of its forms, with what an event needs of it.
pub(super) struct EventSource<'a> {
    pub key: &'a Bytes,
    pub revision: Revision,
    prev: Revision,
    /// `None` for a delete.
    record: Option<Record>,
}

impl<'a> EventSource<'a> {
    pub fn of_change(change: &'a Change) -> EventSource<'a> {
        let record = match &change.kind {
            ChangeKind::Put(record) => Some(record.clone()),
            ChangeKind::Delete => None,
        };
        EventSource { key: &change.key, revision: change.revision, prev: change.prev, record }
    }

    pub fn of_logged(logged: &'a LoggedChange, revision: Revision, records: &dyn Records) -> EventSource<'a> {
        let found = |_| {
            let record = records.record(&logged.key, revision);
            record.expect("a version at or above the compacted revision is kept")
        };
        EventSource { key: &logged.key, revision, prev: logged.prev, record: logged.put.map(found) }
    }
}

/// Where previous versions come from: none are shown of revisions below the compacted one.
pub(super) struct PreviousVersions<'a> {
    pub records: &'a dyn Records,
    pub compacted: Revision,
}

impl Event {
    pub(super) fn new(line: EventSource<'_>, previous: Option<PreviousVersions<'_>>) -> Event {
        let prev = previous.and_then(|previous| previous.of(&line));
        let EventSource { key, revision, record, .. } = line;
        let kv = match &record {
            Some(record) => key_value(key, revision, record),
            None => tombstone(key, revision),
        };
        Event { deleted: record.is_none(), kv, prev }
    }

    /// About what its encoding takes.
    fn bytes(&self) -> usize {
        let of = |kv: &KeyValue| EVENT_OVERHEAD_BYTES + kv.key.len() + kv.value.len();
        of(&self.kv) + self.prev.as_ref().map_or(0, of)
    }
}

const EVENT_OVERHEAD_BYTES: usize = 24;

impl PreviousVersions<'_> {
    fn of(&self, line: &EventSource<'_>) -> Option<KeyValue> {
        if line.prev == Revision::ZERO || line.revision <= self.compacted {
            return None;
        }
        let wrong = planted(Mutant::WatchPrevWrong) && line.record.is_some();
        let revision = if wrong { line.revision } else { line.prev };
        let own = line.record.clone().filter(|_| wrong);
        let record = own.or_else(|| self.records.record(line.key, revision))?;
        Some(key_value(line.key, revision, &record))
    }
}

fn key_value(key: &Bytes, revision: Revision, record: &Record) -> KeyValue {
    KeyValue {
        key: key.clone(),
        create_revision: record.create,
        mod_revision: revision,
        version: record.version,
        lease: record.lease,
        value: record.value.clone(),
    }
}

fn tombstone(key: &Bytes, revision: Revision) -> KeyValue {
    KeyValue {
        key: key.clone(),
        create_revision: Revision::ZERO,
        mod_revision: revision,
        version: 0,
        lease: LeaseId::NONE,
        value: Bytes::new(),
    }
}

/// Events that were gathered for one shape of watches. Never empty.
#[derive(Debug)]
pub struct Batch {
    events: Vec<Event>,
    bytes: usize,
    encoded: OnceLock<Bytes>,
}

impl Batch {
    pub(super) fn new(events: Vec<Event>) -> Batch {
        assert!(!events.is_empty(), "a response without events is not sent");
        let bytes = events.iter().map(Event::bytes).sum();
        Batch { events, bytes, encoded: OnceLock::new() }
    }

    pub fn events(&self) -> &[Event] {
        &self.events
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn last_revision(&self) -> Revision {
        self.events.last().expect("a batch is not empty").kv.mod_revision
    }

    /// The events as they travel: encoded by the first who asks, shared by all others.
    pub fn encoded(&self, encode: impl FnOnce(&[Event]) -> Bytes) -> &Bytes {
        self.encoded.get_or_init(|| encode(&self.events))
    }

    /// The same events in batches below a size, or of one event.
    pub(super) fn split(self, bytes_max: usize) -> Vec<Batch> {
        let mut parts = Vec::new();
        let mut part = Vec::new();
        let mut part_bytes = 0;
        for event in self.events {
            if !part.is_empty() && part_bytes + event.bytes() >= bytes_max {
                parts.push(Batch::new(std::mem::take(&mut part)));
                part_bytes = 0;
            }
            part_bytes += event.bytes();
            part.push(event);
        }
        parts.push(Batch::new(part));
        parts
    }
}

/// Gathers events and keeps count of their size.
#[derive(Debug, Default)]
pub(super) struct BatchBuilder {
    events: Vec<Event>,
    bytes: usize,
}

impl BatchBuilder {
    pub fn add(&mut self, event: Event) -> usize {
        let bytes = event.bytes();
        self.bytes += bytes;
        self.events.push(event);
        bytes
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn take(&mut self) -> Batch {
        self.bytes = 0;
        Batch::new(std::mem::take(&mut self.events))
    }
}
