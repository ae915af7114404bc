//! Merges two states of one key into the state that has seen both.
//! The header and a register's value are the greater by rank; mergeable bodies are joined; contexts are united. The merge is
//! commutative, associative and idempotent. A last-write-wins value that loses against one that had not seen it is returned,
//! so that no write is lost silently; so are custom values that a write replaces because they cannot be merged with it. Of two ballots the higher one stays as it is: it was made from what a majority of the
//! replicas had, and nothing is merged into it.

#[cfg(test)]
mod tests;

use crate::mutant::Mutant;
use crate::record::{Body, RECENT_MAX, RecentRequest, Record};
use crate::set::OrSet;
use crate::siblings::Siblings;
use base::mutant::planted;
use std::cmp::Ordering;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    pub record: Record,
    /// The write that lost against one that had not seen it.
    pub loser: Option<Record>,
}

/// Merges two records into one that has seen what both have seen.
pub fn merge(left: &Record, right: &Record) -> Merged {
    let rank = left.rank(right);
    let (greater, lesser) = if rank == Ordering::Less { (right, left) } else { (left, right) };
    if greater.ballot() != lesser.ballot() && !planted(Mutant::PlainMixedIn) {
        return Merged { record: greater.clone(), loser: passed_over(greater, lesser) };
    }
    let same_thing = (left.era, left.kind) == (right.era, right.kind);
    let body = if same_thing { join_bodies(greater, lesser) } else { greater.body.clone() };
    let mut context = greater.context.clone();
    context.join(&lesser.context);
    let record = Record {
        era: greater.era,
        kind: greater.kind,
        header: greater.header.clone(),
        body,
        context,
        created_ms: left.created_ms.min(right.created_ms),
        recent: join_recent(&left.recent, &right.recent),
    };
    let alone = !same_thing || left.kind.is_last_write_wins();
    let unseen = rank != Ordering::Equal && !greater.context.covers(lesser.header.dot);
    let differs = lesser.body != greater.body || lesser.header.tombstone != greater.header.tombstone;
    let is_unmerged = rank != Ordering::Equal && same_thing && is_replaced_apart(greater, lesser);
    let loser = (alone && unseen && differs || is_unmerged).then(|| lesser.clone());
    Merged { record, loser }
}

/// Whether values of the lesser went for a write that they could not be merged with.
fn is_replaced_apart(greater: &Record, lesser: &Record) -> bool {
    let (Body::Siblings(newer), Body::Siblings(older)) = (&greater.body, &lesser.body) else { return false };
    let is_kept = |dot| newer.values().iter().any(|sibling| sibling.dot == dot);
    let is_gone = |dot| greater.context.covers(dot) && !is_kept(dot);
    greater.header.replaces_apart() && older.values().iter().any(|sibling| is_gone(sibling.dot))
}

/// The record that a higher ballot had not seen and hides: a plain write, or one of an earlier home. A lower ballot of the same home
/// was a proposal that was never decided, or that the higher one was made of.
fn passed_over(greater: &Record, lesser: &Record) -> Option<Record> {
    let term = |record: &Record| record.ballot().map(|ballot| ballot.round.term);
    let unseen = !greater.context.covers(lesser.header.dot);
    let differs = lesser.body != greater.body || lesser.header.tombstone != greater.header.tombstone;
    (term(greater) != term(lesser) && unseen && differs).then(|| lesser.clone())
}

fn join_bodies(greater: &Record, lesser: &Record) -> Body {
    let (left_seen, right_seen) = (&greater.context, &lesser.context);
    match (&greater.body, &lesser.body) {
        (Body::Counter(left), Body::Counter(right)) => {
            let mut joined = left.clone();
            joined.join(right);
            Body::Counter(joined)
        }
        (Body::Set(left), Body::Set(right)) => Body::Set(OrSet::join((left, left_seen), (right, right_seen))),
        (Body::Siblings(left), Body::Siblings(right)) => {
            Body::Siblings(Siblings::join((left, left_seen), (right, right_seen)))
        }
        (Body::Bounded(left), Body::Bounded(right)) => {
            let mut joined = left.clone();
            joined.join(right);
            Body::Bounded(joined)
        }
        (body, _) => body.clone(),
    }
}

/// The newest of both.
pub(crate) fn join_recent(left: &[RecentRequest], right: &[RecentRequest]) -> Vec<RecentRequest> {
    match (left, right) {
        ([], only) | (only, []) => return only.to_vec(),
        _ if left == right => return left.to_vec(),
        _ => {}
    }
    let mut all = [left, right].concat();
    all.sort_unstable_by(|left, right| right.cmp(left));
    all.dedup();
    all.truncate(RECENT_MAX);
    all
}
