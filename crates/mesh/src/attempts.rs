//! What is remembered of a request id, or of the name that a coordinator gives a write without one: a record of its own beside the key, a set with one element per attempt that was
//! applied. The element holds a hash of the request and the dot of the write. The record is stored, compared, moved and
//! purged like any other. Two attempts that did not know of each other are both applied; where they meet, all but one are
//! undone by a rule that gives the same result on every replica. See docs/adr/0044.

use crate::actor::{Actor, Dot, RegionId};
use crate::counter::{CounterState, CounterSums};
use crate::record::{Body, Record};
use crate::request::Write;
use base::NodeId;
use base::checksum::hash64;
use base::codec::Reader;
use base::limits::{MESH_OPERATION_KEEP_MILLIS, MESH_REQUEST_KEEP_MILLIS};
use bytes::{BufMut, Bytes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// A hash of what was asked for.
    pub body: u64,
    pub dot: Dot,
    /// What the actor of the dot had counted, and what it counted for this attempt.
    pub before: CounterSums,
    pub change: CounterSums,
    pub fate: Fate,
}

/// What is known of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was carried out if the record has seen its dot.
    InRecord,
    /// It is part of what was decided by ballots.
    Decided,
    /// A ballot has decided that it is never carried out.
    Refused,
}

impl Fate {
    fn from_number(number: u8) -> Option<Fate> {
        [Fate::InRecord, Fate::Decided, Fate::Refused].into_iter().find(|fate| *fate as u8 == number)
    }
}

impl Attempt {
    pub fn encode(&self) -> Bytes {
        let mut out = self.body.to_le_bytes().to_vec();
        for sum in [self.before.added, self.before.subtracted, self.change.added, self.change.subtracted] {
            out.put_u128_le(sum);
        }
        self.dot.encode(&mut out);
        out.push(self.fate as u8);
        out.into()
    }

    fn decode(bytes: Bytes) -> Option<Attempt> {
        let mut reader = Reader::new(bytes);
        let body = reader.u64()?;
        let mut sum = || Some(u128::from_le_bytes(reader.take(16)?.as_ref().try_into().ok()?));
        let before = CounterSums { added: sum()?, subtracted: sum()? };
        let change = CounterSums { added: sum()?, subtracted: sum()? };
        let dot = Dot::decode(&mut reader)?;
        let fate = Fate::from_number(reader.u8()?)?;
        reader.is_empty().then_some(Attempt { body, dot, before, change, fate })
    }
}

/// The attempts that a record remembers, by dot.
pub fn attempts_of(record: &Record) -> Vec<Attempt> {
    let Body::Set(set) = &record.body else { return Vec::new() };
    let mut attempts: Vec<Attempt> = set.elements().cloned().filter_map(Attempt::decode).collect();
    attempts.sort_unstable_by_key(|attempt| attempt.dot);
    attempts
}

/// Of an operation that its coordinator has named: a name is given to one write and never again.
const BODY_OF_OPERATION: u64 = 0;

/// How long an attempt is remembered: operations, which only their coordinators pass on, for less long than requests, which
/// clients repeat.
pub fn keep_ms(body: u64) -> u64 {
    if body == BODY_OF_OPERATION { MESH_OPERATION_KEEP_MILLIS } else { MESH_REQUEST_KEEP_MILLIS }
}

/// Whether the id of a write was used for something else.
pub fn is_other(body: u64, write: &Write) -> bool {
    body != BODY_OF_OPERATION && body != body_hash(write)
}

/// What a client asks for, as far as it is the same when it asks again: not when it ends, nor what its session has seen.
pub fn body_hash(write: &Write) -> u64 {
    if write.attributes.request.is_none() {
        return BODY_OF_OPERATION;
    }
    let mut out = vec![write.kind as u8];
    write.encode_body(&mut out);
    hash64(&out, 0)
}

/// The record of the key in which a request that was carried out more than once has been carried out once. None if
/// nothing changes.
pub fn without_repeats(record: &Record, request: u64, attempts: &[Attempt]) -> Option<Record> {
    let is_here = |attempt: &Attempt| attempt.fate != Fate::Refused && record.context.covers(attempt.dot);
    let here: Vec<Attempt> = attempts.iter().copied().filter(is_here).collect();
    let [_, repeats @ ..] = here.as_slice() else { return None };
    if record.ballot().is_some() {
        // Only ballots change it.
        return None;
    }
    let mut settled = record.clone();
    match &mut settled.body {
        // The order of last writes is in their stamps, and an element is there once however often it was put there. What was added
        // to a bounded counter may be spent already, and cannot be taken back.
        Body::Register(_) | Body::Set(_) | Body::Bounded(_) | Body::Collection(_) => return None,
        Body::Counter(counter) => take_back(counter, request, repeats),
        Body::Siblings(siblings) => {
            siblings.drop_dots(&repeats.iter().map(|attempt| attempt.dot).collect::<Vec<_>>());
        }
    }
    (settled != *record).then_some(settled)
}

/// Counts against the repeats, on behalf of an actor that is the same everywhere. What a delete has seen of them counts no more,
/// and nor does what is counted against it.
fn take_back(counter: &mut CounterState, request: u64, repeats: &[Attempt]) {
    let (mut sums, mut cleared) = (CounterSums::default(), CounterSums::default());
    for Attempt { dot, before, change, .. } in repeats {
        let gone = counter.cleared_of(dot.actor);
        let against = |to: &mut CounterSums| {
            to.added = to.added.saturating_add(change.subtracted);
            to.subtracted = to.subtracted.saturating_add(change.added);
        };
        against(&mut sums);
        let is_gone = gone.added >= before.added.saturating_add(change.added)
            && gone.subtracted >= before.subtracted.saturating_add(change.subtracted)
            && gone != CounterSums::default();
        if is_gone {
            against(&mut cleared);
        }
    }
    let actor = Actor { region: RegionId(0), node: NodeId(request), incarnation: u32::MAX };
    if sums != CounterSums::default() {
        counter.join(&CounterState::of_entry(actor, sums, cleared));
    }
}
