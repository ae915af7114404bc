//! Whether a compare of a transaction holds.
//! It is asked of the state before the transaction, key by key over a range; all must hold. A range without
//! keys compares as one key of zeros, except by value: no value is neither equal nor unequal to anything.

use crate::draft::Draft;
use crate::entry::Current;
use crate::request::{Compare, Relation, Target};
use base::{LeaseId, Revision};
use std::cmp::Ordering;

const MISSING: Current = Current {
    create: Revision::ZERO,
    modified: Revision::ZERO,
    version: 0,
    lease: LeaseId::NONE,
    value_len: 0,
};

pub fn holds(draft: &Draft<'_>, compare: &Compare) -> bool {
    let mut present = draft.before().iter(&compare.keys).peekable();
    if present.peek().is_none() {
        return match &compare.target {
            Target::Value(_) => false,
            target => satisfies(compare.relation, number_ordering(&MISSING, target)),
        };
    }
    present.all(|(key, current)| match &compare.target {
        Target::Value(value) => value_holds(draft, key, &current, compare.relation, value),
        target => satisfies(compare.relation, number_ordering(&current, target)),
    })
}

/// Lengths alone often decide an equality, without reading the value.
fn value_holds(draft: &Draft<'_>, key: &[u8], current: &Current, relation: Relation, value: &[u8]) -> bool {
    let differs_in_length = current.value_len as usize != value.len();
    match relation {
        Relation::Equal if differs_in_length => false,
        Relation::NotEqual if differs_in_length => true,
        _ => satisfies(relation, draft.record(key, current.modified).value.as_ref().cmp(value)),
    }
}

fn number_ordering(current: &Current, target: &Target) -> Ordering {
    match target {
        Target::Version(version) => current.version.cmp(version),
        Target::Create(revision) => current.create.cmp(revision),
        Target::Mod(revision) => current.modified.cmp(revision),
        Target::Lease(lease) => current.lease.cmp(lease),
        Target::Value(_) => unreachable!("values are compared as bytes"),
    }
}

fn satisfies(relation: Relation, ordering: Ordering) -> bool {
    match relation {
        Relation::Equal => ordering.is_eq(),
        Relation::NotEqual => ordering.is_ne(),
        Relation::Greater => ordering.is_gt(),
        Relation::Less => ordering.is_lt(),
    }
}
