//! Writes elements of a collection: the row itself, the rows that follow from it, the count and the digest, all in one batch.

use super::draft::Draft;
use super::element::ElementState;
use super::header::{CollectionHeader, CollectionKind, Sweep};
use super::hyper_log_log::RANKS;
use super::ranges::{ItemChange, RangeSummary, RangeTree};
use super::view::{self, CollectionRows, RangeOrder};
use crate::context::Context;
use crate::mutant::Mutant;
use crate::rows::Row;
use base::mutant::planted;
use bytes::Bytes;

pub(super) struct CollectionWriter<'a> {
    pub header: CollectionHeader,
    draft: Draft<'a>,
}

/// Where a change began.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Here,
    Elsewhere,
}

/// An element as it is stored, and as it counts.
pub(super) struct StoredElement {
    pub row: Option<Bytes>,
    pub state: ElementState,
}

impl<'a> CollectionWriter<'a> {
    pub fn new(header: &CollectionHeader, rows: &'a dyn CollectionRows) -> CollectionWriter<'a> {
        CollectionWriter { header: header.clone(), draft: Draft::new(rows) }
    }

    pub fn finish(self) -> (CollectionHeader, Vec<Row>) {
        (self.header, self.draft.into_rows())
    }

    pub fn load(&self, name: &[u8]) -> StoredElement {
        let row = self.draft.get(&view::element(name));
        let state = self.header.settled(row.as_ref());
        StoredElement { row, state }
    }

    /// Puts a state in the place of what is stored.
    pub fn store(&mut self, name: &[u8], stored: &StoredElement, state: &ElementState) {
        // A late delta must not bring back what is removed.
        for dot in stored.state.dots() {
            if !state.cells.iter().any(|cell| cell.dot == dot) && !self.header.context.covers(dot) {
                self.header.context.join(&Context::of_dot(dot));
            }
        }
        let is_counted = self.header.counts(name);
        let counted = is_counted.then_some(&stored.state);
        self.put(name, stored.row.as_ref(), counted, state);
    }

    /// The sweep has reached an element.
    pub fn sweep(&mut self, name: &Bytes, row: &Bytes) {
        let state = self.header.settled(Some(row));
        let is_counted = self.header.counts(name);
        if let Some(sweep) = &mut self.header.sweep {
            sweep.after = Some(name.clone());
        }
        self.put(name, Some(row), is_counted.then_some(&state), &state);
    }

    /// `counted` is what was counted of it until now.
    fn put(
        &mut self,
        name: &[u8],
        row: Option<&Bytes>,
        counted: Option<&ElementState>,
        state: &ElementState,
    ) {
        let written = (!state.is_vacant()).then(|| state.encode());
        if written.as_ref() != row {
            self.put_secondary(name, row, state);
            self.draft.put(view::element(name), written);
        }
        if self.header.counts(name) {
            self.count(name, counted, state);
        }
    }

    /// The rows that follow from the element's row.
    fn put_secondary(&mut self, name: &[u8], row: Option<&Bytes>, state: &ElementState) {
        let stored = row.and_then(|row| ElementState::decode(row.clone())).unwrap_or_default();
        let (old, new) = (self.secondary(name, &stored), self.secondary(name, state));
        if old == new {
            return;
        }
        if let Some(old) = old.filter(|_| !planted(Mutant::OldScoreStays)) {
            self.draft.put(old, None);
        }
        if let Some(new) = new {
            self.draft.put(new, Some(Bytes::new()));
        }
    }

    fn secondary(&self, name: &[u8], state: &ElementState) -> Option<Bytes> {
        let visible = Some(state).filter(|state| state.is_visible())?;
        match self.header.of.kind {
            CollectionKind::SortedSet => Some(view::score_row(&view::score_place(visible.score(), name))),
            CollectionKind::Map => visible.expires_ms().map(|expires_ms| view::expiry_row(expires_ms, name)),
            _ => None,
        }
    }

    fn count(&mut self, name: &[u8], counted: Option<&ElementState>, state: &ElementState) {
        let item = |state: &ElementState| {
            state.is_visible().then(|| RangeSummary { count: 1, digest: state.digest(name) })
        };
        let change = ItemChange { before: counted.and_then(item), after: item(state) };
        let (before, after) = (change.before.unwrap_or_default(), change.after.unwrap_or_default());
        let header = &mut self.header;
        header.count = (header.count + after.count).saturating_sub(before.count);
        header.digest ^= before.digest ^ after.digest;
        if header.of.kind == CollectionKind::HyperLogLog {
            header.ranks.resize(RANKS, 0);
            let [before, after] = [counted.map_or(0, ElementState::rank), state.rank()].map(usize::from);
            header.ranks[before] = header.ranks[before].saturating_sub(1);
            header.ranks[after] += 1;
            header.ranks[0] = 0;
        }
        if header.of.kind != CollectionKind::Flag {
            RangeTree::new(RangeOrder::ByElement, header).change(&mut self.draft, header, name, &change);
        }
        if header.of.kind == CollectionKind::SortedSet {
            self.count_score(name, counted.filter(|state| state.is_visible()), state);
        }
    }

    fn count_score(&mut self, name: &[u8], counted: Option<&ElementState>, state: &ElementState) {
        let place = |state: &ElementState| view::score_place(state.score(), name);
        let (old, new) = (counted.map(place), state.is_visible().then(|| place(state)));
        if old == new {
            return;
        }
        let tree = RangeTree::new(RangeOrder::ByScore, &self.header);
        let one = Some(RangeSummary { count: 1, digest: 0 });
        if let Some(old) = old {
            tree.change(&mut self.draft, &self.header, &old, &ItemChange { before: one, after: None });
        }
        if let Some(new) = new {
            tree.change(&mut self.draft, &self.header, &new, &ItemChange { before: None, after: one });
        }
    }

    /// Clears everything that the context has seen. The rows are removed later by a sweep.
    pub fn clear(&mut self, seen: &Context, origin: Origin) {
        let header = &mut self.header;
        if header.cleared.dominates(seen) {
            return;
        }
        if planted(Mutant::ClearTakesUnseen) {
            header.cleared.join(&header.context);
        }
        header.cleared.join(seen);
        let may_survive = !header.cleared.dominates(&header.context);
        header.context.join(seen);
        header.expiry.retain(|expiry| !header.cleared.covers(expiry.dot));
        (header.count, header.digest, header.ranks) = (0, 0, Vec::new());
        header.generation += 1;
        let tells = origin == Origin::Here || header.sweep.as_ref().is_some_and(|sweep| sweep.tells);
        let recounts = may_survive && !planted(Mutant::SurvivorsUncounted);
        header.sweep = Some(Sweep { after: None, recounts, tells });
    }
}
