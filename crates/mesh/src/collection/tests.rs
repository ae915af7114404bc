//! Replicas of collections in memory, the model that they are compared with, and the laws.

mod convert;
mod cost;
mod counters;
mod laws;
mod lists;
mod lost;
mod model;
mod mutants;
mod ranges;

use super::*;
use crate::actor::{Actor, Dot, RegionId};
use crate::decimal::Decimal;
use crate::hlc::Stamp;
use crate::op::WriteEvent;
use crate::rows::Row;
use base::{Code, NodeId};
use bytes::Bytes;
use std::cell::Cell as Counted;
use std::collections::BTreeMap;

/// Rows in memory, which count how many were read.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryRows {
    rows: BTreeMap<Bytes, Bytes>,
    n_read: Counted<usize>,
}

impl MemoryRows {
    fn count_read(&self) {
        self.n_read.set(self.n_read.get() + 1);
    }

    pub fn write(&mut self, rows: &[Row]) {
        for Row { key, value } in rows {
            match value {
                Some(value) => drop(self.rows.insert(key.clone(), value.clone())),
                None => drop(self.rows.remove(key)),
            }
        }
    }
}

impl CollectionRows for MemoryRows {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.count_read();
        self.rows.get(key).cloned()
    }

    fn scan(&self, range: &RowRange, direction: Direction, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        let mut rows = self.rows.range(range.from.clone()..range.to.clone());
        while let Some((key, value)) = match direction {
            Direction::Up => rows.next(),
            Direction::Down => rows.next_back(),
        } {
            self.count_read();
            if !visit(key, value) {
                return;
            }
        }
    }
}

/// One replica of one collection.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub actor: Actor,
    pub dots: u64,
    pub clock_ms: u64,
    pub header: CollectionHeader,
    pub rows: MemoryRows,
}

pub(super) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(super) fn actor(node: u64) -> Actor {
    Actor { region: RegionId(node as u32 % 2), node: NodeId(node), incarnation: 1 }
}

impl Replica {
    pub fn new(node: u64, kind: CollectionKind) -> Replica {
        Replica {
            actor: actor(node),
            dots: 0,
            clock_ms: 10,
            header: CollectionHeader::new(CollectionType { era: 0, kind }),
            rows: MemoryRows::default(),
        }
    }

    pub fn try_write(&mut self, ops: &[CollectionOp]) -> Result<CollectionDelta, Code> {
        self.clock_ms += 1;
        // Other keys take numbers too.
        let dot = Dot { actor: self.actor, counter: self.dots + 3 };
        let event = WriteEvent { dot, stamp: Stamp::at_ms(self.clock_ms), wall_ms: self.clock_ms };
        let delta = apply(&self.header, &self.rows, ops, event)?;
        self.dots = delta.context.newest(self.actor);
        let change = merge_own(&self.header, &self.rows, &delta).unwrap();
        self.take(change);
        Ok(delta)
    }

    pub fn writes(&mut self, op: CollectionOp) -> CollectionDelta {
        self.try_write(&[op]).unwrap()
    }

    pub fn hears(&mut self, delta: &CollectionDelta) {
        let change = merge(&self.header, &self.rows, delta).unwrap();
        self.take(change);
    }

    pub fn take(&mut self, change: CollectionChange) {
        assert_eq!(CollectionHeader::decode(change.header.encode()), Some(change.header.clone()));
        self.header = change.header;
        self.rows.write(&change.rows);
    }

    /// Sweeps some rows; what the others are to be told.
    pub fn sweeps(&mut self, rows_max: usize) -> Option<CollectionDelta> {
        let step = sweep(&self.header, &self.rows, rows_max)?;
        self.take(step.change);
        step.delta
    }

    pub fn visible(&self) -> Vec<ElementEntry> {
        let all = page(&self.header, &self.rows, None, usize::MAX);
        assert_eq!(all.upto, None);
        all.entries.into_iter().filter(|entry| entry.state.is_visible()).collect()
    }

    pub fn names(&self) -> Vec<Bytes> {
        self.visible().into_iter().map(|entry| entry.name).collect()
    }

    pub fn holds(&self, name: &str) -> bool {
        self.names().contains(&text(name))
    }

    pub fn values(&self) -> Vec<Bytes> {
        self.visible().iter().filter_map(|entry| entry.state.register().cloned()).collect()
    }

    pub fn state(&self, name: &str) -> ElementState {
        self.header.settled(self.rows.get(&view::element(name.as_bytes())).as_ref())
    }

    /// The whole of the other's rows, compared below the key.
    pub fn repair_with(&mut self, other: &mut Replica) {
        let mut spans = vec![ElementSpan { from: None, to: None }];
        for level in (1..=3).rev() {
            spans = spans.iter().flat_map(|span| self.differing(other, level, span)).collect();
        }
        for span in spans {
            self.exchange(other, &span);
        }
        let (mine, theirs) = (self.header.clone(), other.header.clone());
        self.header = join_same(&mine, &theirs).expect("the rows are the same");
        other.header = join_same(&theirs, &mine).expect("the rows are the same");
    }

    fn differing(&self, other: &Replica, level: u8, span: &ElementSpan) -> Vec<ElementSpan> {
        let ranges = |replica: &Replica| ranges_of(&replica.header, &replica.rows, level, span);
        differing_ranges(&ranges(self), &ranges(other), span)
    }

    pub fn remote_row(&self, name: &Bytes) -> RemoteRow {
        RemoteRow {
            name: name.clone(),
            state: self.header.settled(self.rows.get(&view::element(name)).as_ref()),
            context: self.header.context.clone(),
            cleared: self.header.cleared.clone(),
        }
    }

    /// Both take over each other's rows of a span.
    fn exchange(&mut self, other: &mut Replica, span: &ElementSpan) {
        let mut names = Vec::new();
        for replica in [&*self, &*other] {
            let range = view::elements_between(span.from.as_deref().unwrap_or_default(), span.to.as_deref());
            replica.rows.scan(&range, Direction::Up, &mut |row, _| {
                names.extend(view::element_name(row));
                true
            });
        }
        names.sort();
        names.dedup();
        for name in names {
            let (mine, theirs) = (self.remote_row(&name), other.remote_row(&name));
            let change = merge_row(&self.header, &self.rows, &theirs);
            self.take(change);
            let change = merge_row(&other.header, &other.rows, &mine);
            other.take(change);
        }
    }
}

/// What follows from the rows is what is written: the count, the digest, the rows by score, and ranks.
pub(super) fn check_derived(replica: &Replica) -> Result<(), String> {
    let visible = replica.visible();
    let header = &replica.header;
    let Some(count) = header.exact_count() else { return Ok(()) };
    let expect = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
    expect(count == visible.len() as u64, "the count is exact")?;
    let digest = visible.iter().fold(0, |digest, entry| digest ^ entry.state.digest(&entry.name));
    expect(header.digest == digest, "the digest is that of the rows")?;
    let kind = header.of.kind;
    if kind == CollectionKind::Flag {
        return Ok(());
    }
    let mut ordered: Vec<Bytes> = visible.iter().map(|entry| entry.name.clone()).collect();
    if kind == CollectionKind::SortedSet {
        let mut scored: Vec<(Decimal, Bytes)> =
            visible.iter().map(|entry| (entry.state.score(), entry.name.clone())).collect();
        scored.sort();
        ordered = scored.into_iter().map(|(_, name)| name).collect();
        let (from, to, direction) = (Decimal(i128::MIN), Decimal(i128::MAX), Direction::Up);
        let all = ScorePaging { from, to, direction, after: None, limit: usize::MAX };
        let by_score = page_by_score(header, &replica.rows, &all);
        let names: Vec<Bytes> = by_score.entries.into_iter().map(|entry| entry.name).collect();
        expect(header.sweep.is_some() || names == ordered, "scores are in order")?;
    }
    for (rank, name) in ordered.iter().enumerate() {
        expect(rank_of(header, &replica.rows, name) == Some(rank as u64), "an element has its rank")?;
        let found = page_by_rank(header, &replica.rows, rank as u64, 1);
        expect(found.len() == 1 && found[0].name == *name, "a rank has its element")?;
    }
    Ok(())
}
