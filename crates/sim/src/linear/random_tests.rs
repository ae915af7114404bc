//! Thousands of random histories: lawful ones are accepted, corrupted ones are judged as the definition
//! judges them, and long corrupted ones are caught nearly always.

use super::naive::{is_lawfully_stale, is_valid};
use super::{Linearization, Verdict, check};
use crate::history::{History, Outcome, leases_of, may_change};
use crate::lawful::{Shape, history};
use crate::model::{State, carry_out};
use crate::serializable::is_serializable;
use base::{Code, Revision, Rng};
use bytes::Bytes;
use coord::reply::{Body, KeyValue};

const SHORT: Shape = Shape { operations: 9, clients: 3, keys: 3, unknown: 250_000 };
const LONG: Shape = Shape { operations: 200, clients: 8, keys: 10, unknown: 100_000 };
const FULL: Shape = Shape { operations: 3_000, clients: 16, keys: 10, unknown: 100_000 };

fn accepted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Lawful(_))
}

#[test]
fn lawful_histories_are_accepted_whatever_the_seed() {
    for seed in 0..3_000 {
        let verdict = check(&history(seed, &LONG));
        assert!(accepted(&verdict), "seed {seed}: {verdict:?}");
    }
}

#[test]
fn a_full_history_takes_few_steps() {
    for seed in 0..20 {
        match check(&history(seed, &FULL)) {
            Verdict::Lawful(found) => assert!(found.steps < 20_000, "seed {seed}: {} steps", found.steps),
            unlawful => panic!("seed {seed}: {unlawful:?}"),
        }
    }
}

#[test]
fn the_order_found_explains_every_answer_and_respects_real_time() {
    for seed in 0..500 {
        let history = history(seed, &LONG);
        let Verdict::Lawful(found) = check(&history) else { panic!("seed {seed} is lawful") };
        replay(&history, &found);
    }
}

/// A lawful verdict carries its own proof; this reads it.
fn replay(history: &History, found: &Linearization) {
    let stale = |at: &usize| is_serializable(&history[*at].request);
    let order: Vec<usize> = found.order.iter().copied().filter(|at| !stale(at)).collect();
    let mut state = State::with_leases(leases_of(history));
    let mut made: Vec<(Revision, u64)> = Vec::new();
    let mut earliest_return = u64::MAX;
    for at in &order {
        let operation = &history[*at];
        let before = state.revision();
        match (carry_out(&state, &operation.request), &operation.outcome) {
            (Ok((after, reply)), Outcome::Done(told)) => {
                assert_eq!(reply, *told);
                state = after;
            }
            (Ok((after, _)), Outcome::Unknown) => state = after,
            (Err(code), Outcome::Refused(told)) => assert_eq!(code, *told),
            other => panic!("{operation} {other:?}"),
        }
        if state.revision() > before {
            made.push((state.revision(), operation.invoked));
        }
    }
    for at in order.iter().rev() {
        assert!(history[*at].invoked <= earliest_return, "out of real time: {}", history[*at]);
        earliest_return = earliest_return.min(history[*at].deadline());
    }
    let answered = |at: &usize| matches!(history[*at].outcome, Outcome::Done(_));
    for at in (0..history.len()).filter(answered) {
        assert!(found.order.contains(&at), "left out: {}", history[at]);
        assert!(!stale(&at) || is_lawfully_stale(&history[at], &state, &made), "invented: {}", history[at]);
    }
}

#[test]
fn short_histories_are_judged_as_the_definition_judges_them() {
    let (mut lawful, mut unlawful) = (0, 0);
    for seed in 0..6_000 {
        let mut history = history(seed, &SHORT);
        let kind = corrupt(&mut history, &mut Rng::new(seed));
        let expected = is_valid(&history);
        let verdict = check(&history);
        assert!(!matches!(verdict, Verdict::Undecided(_)), "seed {seed}");
        assert_eq!(accepted(&verdict), expected, "seed {seed}, {kind:?}:\n{} {verdict:?}", told(&history));
        if expected { lawful += 1 } else { unlawful += 1 }
    }
    assert!(lawful > 300 && unlawful > 2_000, "{lawful} lawful, {unlawful} unlawful");
}

#[test]
fn corruptions_of_long_histories_are_caught_unless_another_order_explains_them() {
    let mut counts = [[0u32; 3]; Kind::ALL.len()];
    for seed in 0..3_000 {
        let mut history = history(seed, &LONG);
        let Some(kind) = corrupt(&mut history, &mut Rng::new(seed)) else { continue };
        let verdict = check(&history);
        if let Verdict::Lawful(found) = &verdict {
            replay(&history, found);
        }
        counts[kind as usize][rank(&verdict)] += 1;
    }
    let [caught, lawful, undecided] = [0, 1, 2].map(|rank| counts.iter().map(|kind| kind[rank]).sum::<u32>());
    let told = Kind::ALL.iter().zip(counts).collect::<Vec<_>>();
    assert!(lawful * 20 < caught, "still lawful: {lawful}, caught: {caught}; {told:?}");
    assert!(undecided * 100 < caught, "undecided: {undecided}, caught: {caught}; {told:?}");
}

fn rank(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Violation(_) => 0,
        Verdict::Lawful(_) => 1,
        Verdict::Undecided(_) => 2,
    }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    RevisionMoved,
    FieldChanged,
    KeyMissing,
    CountWrong,
    BranchFlipped,
    DeletedWrong,
    RefusedThoughDone,
    AnsweredFromThePast,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::RevisionMoved,
        Kind::FieldChanged,
        Kind::KeyMissing,
        Kind::CountWrong,
        Kind::BranchFlipped,
        Kind::DeletedWrong,
        Kind::RefusedThoughDone,
        Kind::AnsweredFromThePast,
    ];
}

/// One lie, in the first operation from a random place on that can hold a lie of a random kind.
fn corrupt(history: &mut History, rng: &mut Rng) -> Option<Kind> {
    let kind = *rng.pick(&Kind::ALL);
    let start = rng.between(0, history.len() as u64) as usize;
    let Verdict::Lawful(honest) = check(history) else { panic!("lawful before it is corrupted") };
    let (earlier, later) = history.split_at_mut(start);
    for operation in later.iter_mut().chain(earlier) {
        let request = operation.request.clone();
        let Outcome::Done(reply) = &mut operation.outcome else { continue };
        let lied = match kind {
            Kind::RevisionMoved => {
                let by = rng.between(1, 4) as i64 * if rng.chance(500_000) { 1 } else { -1 };
                reply.revision = Revision(reply.revision.0 + by);
                true
            }
            Kind::RefusedThoughDone => {
                let changed = operation.made_revision().is_some();
                if changed {
                    operation.outcome = Outcome::Refused(Code::NoLeader);
                }
                changed
            }
            Kind::AnsweredFromThePast => {
                let past = Revision((reply.revision.0 - rng.between(1, 9) as i64).max(1));
                match honest.state.at(past).map(|then| carry_out(then, &request)) {
                    Some(Ok((_, old))) if old.body != reply.body && !may_change(&request) => {
                        reply.body = old.body;
                        true
                    }
                    _ => false,
                }
            }
            _ => corrupt_body(kind, &mut reply.body, rng),
        };
        if lied {
            return Some(kind);
        }
    }
    None
}

fn corrupt_body(kind: Kind, body: &mut Body, rng: &mut Rng) -> bool {
    match (kind, body) {
        (Kind::BranchFlipped, Body::Txn(txn)) => txn.succeeded = !txn.succeeded,
        (_, Body::Txn(txn)) => return txn.bodies.iter_mut().any(|body| corrupt_body(kind, body, rng)),
        (Kind::FieldChanged, Body::Range(range)) if !range.kvs.is_empty() => change(&mut range.kvs[0], rng),
        (Kind::FieldChanged, Body::Put(put)) => match &mut put.prev_kv {
            Some(prev) => change(prev, rng),
            None => return false,
        },
        (Kind::KeyMissing, Body::Range(range)) if !range.kvs.is_empty() => {
            range.kvs.pop();
        }
        (Kind::CountWrong, Body::Range(range)) => range.count += 1,
        (Kind::DeletedWrong, Body::Delete(delete)) => delete.deleted += 1,
        _ => return false,
    }
    true
}

fn change(kv: &mut KeyValue, rng: &mut Rng) {
    match rng.between(0, 4) {
        0 => kv.version += 1,
        1 => kv.create_revision.0 -= 1,
        2 => kv.mod_revision.0 -= 1,
        _ => kv.value = Bytes::from_static(b"invented"),
    }
}

fn told(history: &History) -> String {
    history.iter().map(|operation| format!("  {operation}\n")).collect()
}
