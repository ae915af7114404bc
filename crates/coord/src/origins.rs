//! Which proposals were applied, so that none is applied twice.
//! For each origin member: its newest boot, the seq below which everything is finished, and the applied seqs
//! from there on. A proposal of an older boot, below the low mark or in the set is a duplicate for ever; the
//! set stays as small as the origin's proposals in flight, because each proposal carries the low mark along.

use crate::mutant::Mutant;
use base::codec::{Reader, put_varint};
use base::mutant::planted;
use base::{Boot, NodeId, ProposalId};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The layout that this code writes; the first byte of every row.
const FORMAT: u8 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    by_member: BTreeMap<NodeId, Origin>,
}

/// What is known of one member's proposals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    boot: Boot,
    low: u64,
    /// Applied seqs at or above `low`, as runs in rising order with a gap between any two.
    runs: Vec<Run>,
}

/// First and last seq, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u64,
    last: u64,
}

impl Origins {
    pub fn is_duplicate(&self, id: ProposalId) -> bool {
        if planted(Mutant::NoDeduplication) {
            return false;
        }
        self.by_member.get(&id.origin).is_some_and(|origin| origin.has_seen(id.boot, id.seq))
    }

    /// Remembers an applied proposal and forgets what its low mark says is finished.
    pub fn record(&mut self, id: ProposalId, low: u64) {
        let fresh = || Origin { boot: id.boot, low: 0, runs: Vec::new() };
        let origin = self.by_member.entry(id.origin).or_insert_with(fresh);
        if origin.boot < id.boot {
            *origin = fresh();
        }
        origin.add(id.seq);
        origin.prune(low);
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Origin)> {
        self.by_member.iter().map(|(member, origin)| (*member, origin))
    }

    pub fn insert(&mut self, member: NodeId, origin: Origin) {
        self.by_member.insert(member, origin);
    }
}

impl Origin {
    fn has_seen(&self, boot: Boot, seq: u64) -> bool {
        boot < self.boot || (boot == self.boot && (seq < self.low || self.contains(seq)))
    }

    fn contains(&self, seq: u64) -> bool {
        let after = self.runs.partition_point(|run| run.first <= seq);
        after > 0 && self.runs[after - 1].last >= seq
    }

    fn add(&mut self, seq: u64) {
        if seq < self.low || self.contains(seq) {
            return;
        }
        let at = self.runs.partition_point(|run| run.first <= seq);
        let joins_left = at > 0 && self.runs[at - 1].last.checked_add(1) == Some(seq);
        let joins_right = at < self.runs.len() && self.runs[at].first - 1 == seq;
        match (joins_left, joins_right) {
            (true, true) => {
                self.runs[at - 1].last = self.runs[at].last;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].last = seq,
            (false, true) => self.runs[at].first = seq,
            (false, false) => self.runs.insert(at, Run { first: seq, last: seq }),
        }
    }

    fn prune(&mut self, low: u64) {
        if low <= self.low {
            return;
        }
        self.low = low;
        let gone = self.runs.partition_point(|run| run.last < low);
        self.runs.drain(..gone);
        if let Some(run) = self.runs.first_mut() {
            run.first = run.first.max(low);
        }
    }

    /// Runs are written as distances: from the end of the one before, and their own length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        put_varint(out, self.boot.0);
        put_varint(out, self.low);
        put_varint(out, self.runs.len() as u64);
        let mut from = self.low;
        for run in &self.runs {
            put_varint(out, run.first - from);
            put_varint(out, run.last - run.first);
            from = run.last;
        }
    }

    pub fn decode(bytes: Bytes) -> Option<Origin> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != FORMAT {
            return None;
        }
        let boot = Boot(reader.varint()?);
        let low = reader.varint()?;
        let count = reader.count()?;
        let mut runs: Vec<Run> = Vec::new();
        let mut from = low;
        for _ in 0..count {
            let gap = reader.varint()?;
            if !runs.is_empty() && gap < 2 {
                return None;
            }
            let first = from.checked_add(gap)?;
            let last = first.checked_add(reader.varint()?)?;
            runs.push(Run { first, last });
            from = last;
        }
        reader.is_empty().then_some(Origin { boot, low, runs })
    }
}

#[cfg(test)]
mod tests;
