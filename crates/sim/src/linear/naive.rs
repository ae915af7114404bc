//! The definition of linearizability, tried out in every order: hopeless beyond a dozen operations, and too
//! simple to be wrong. The real checker is measured against it.

use crate::history::{Operation, Outcome, agrees, leases_of, may_change, tells_of_the_state};
use crate::model::{State, carry_out};
use crate::serializable::is_serializable;
use base::Revision;

pub fn is_valid(history: &[Operation]) -> bool {
    let places = |operation: &&Operation| match operation.outcome {
        Outcome::Unknown => may_change(&operation.request),
        Outcome::Refused(code) => tells_of_the_state(code) && !is_serializable(&operation.request),
        Outcome::Done(_) => !is_serializable(&operation.request),
    };
    let stale: Vec<&Operation> = history
        .iter()
        .filter(|operation| is_serializable(&operation.request) && operation.reply().is_some())
        .collect();
    let remaining: Vec<&Operation> = history.iter().filter(places).collect();
    extend(&State::with_leases(leases_of(history)), &remaining, &mut Vec::new(), &stale)
}

/// `made` holds, for each revision made so far, when its maker was invoked.
fn extend(
    state: &State,
    remaining: &[&Operation],
    made: &mut Vec<(Revision, u64)>,
    stale: &[&Operation],
) -> bool {
    let finished = remaining.iter().all(|operation| operation.outcome == Outcome::Unknown);
    if finished && stale.iter().all(|read| is_lawfully_stale(read, state, made)) {
        return true;
    }
    (0..remaining.len()).any(|next| {
        let operation = remaining[next];
        if remaining.iter().any(|other| other.deadline() < operation.invoked) {
            return false;
        }
        let after = match (carry_out(state, &operation.request), &operation.outcome) {
            (Ok((after, reply)), Outcome::Done(told)) if agrees(told, &reply) => after,
            (Ok((after, _)), Outcome::Unknown) => after,
            (Err(code), Outcome::Refused(told)) if code == *told => state.clone(),
            _ => return false,
        };
        let rest: Vec<&Operation> =
            remaining.iter().enumerate().filter(|(at, _)| *at != next).map(|(_, other)| *other).collect();
        let effective = after.revision() > state.revision();
        if effective {
            made.push((after.revision(), operation.invoked));
        }
        let lawful = extend(&after, &rest, made, stale);
        if effective {
            made.pop();
        }
        lawful
    })
}

pub fn is_lawfully_stale(read: &Operation, state: &State, made: &[(Revision, u64)]) -> bool {
    let told = read.reply().expect("only answered reads are asked about");
    let known =
        made.iter().all(|(revision, invoked)| *revision > told.revision || *invoked <= read.deadline());
    let then = state.at(told.revision);
    known && then.is_some_and(|then| carry_out(then, &read.request).is_ok_and(|(_, reply)| reply == *told))
}
