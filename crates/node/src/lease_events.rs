//! Lease events, for clients that subscribe to them. Grants and ends come from the log, so every member reports them,
//! in log order and once each; only the leader knows warnings and renewals, and is asked for them
//! (`Question::Ending`). After an installed snapshot the difference between the two states is reported, so that no
//! subscriber misses an end.

use base::{LeaseId, Revision};
use coord::reply::{Body, Reply};
use coord::{Command, Revoke, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseEvent {
    pub id: LeaseId,
    /// The store's, when it happened.
    pub revision: Revision,
    pub kind: LeaseEventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEventKind {
    Granted {
        ttl: i64,
    },
    /// After a warning.
    Renewed,
    /// Its time is nearly up.
    Expiring {
        left_ms: u64,
    },
    Expired,
    Revoked,
    /// The cause is not known: this member was brought up to date by a snapshot.
    Ended,
}

/// The number of leases before a command. A repetition of a client's request is answered like the request itself, so
/// only the count of leases shows whether something happened.
pub(crate) struct LeasesBefore {
    leases: usize,
}

impl LeasesBefore {
    pub fn of(state: &State) -> LeasesBefore {
        LeasesBefore { leases: state.lease_count() }
    }

    pub fn after(self, command: &Command, answer: Option<&Reply>, state: &State) -> Option<LeaseEvent> {
        let revision = state.revision();
        let now = state.lease_count();
        match (plain(command), answer.map(|reply| &reply.body)) {
            (_, Some(Body::LeaseGranted { id, ttl })) if now > self.leases => {
                Some(LeaseEvent { id: *id, revision, kind: LeaseEventKind::Granted { ttl: *ttl } })
            }
            (Command::LeaseRevoke(Revoke { id, guard }), _) if now < self.leases => {
                let kind = if guard.is_some() { LeaseEventKind::Expired } else { LeaseEventKind::Revoked };
                Some(LeaseEvent { id: *id, revision, kind })
            }
            _ => None,
        }
    }
}

fn plain(command: &Command) -> &Command {
    match command {
        Command::Authed(authed) => plain(authed.command()),
        Command::Idempotent(once) => once.command(),
        command => command,
    }
}

/// The events between two states.
pub(crate) fn between(before: &State, after: &State) -> Vec<LeaseEvent> {
    let revision = after.revision();
    let same = |one: &State, id, other: &coord::Lease| {
        one.lease(id).is_some_and(|lease| lease.granted == other.granted)
    };
    let ended = before.leases().filter(|(id, lease)| !same(after, *id, lease));
    let ended = ended.map(|(id, _)| LeaseEvent { id, revision, kind: LeaseEventKind::Ended });
    let granted = after.leases().filter(|(id, lease)| !same(before, *id, lease));
    let granted = granted.map(|(id, lease)| LeaseEvent {
        id,
        revision,
        kind: LeaseEventKind::Granted { ttl: lease.ttl },
    });
    ended.chain(granted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Boot, Index, NodeId, Position, ProposalId, Term};
    use coord::{Applied, Grant, Guard, IdempotentCommand, Proposal, Record, Records, RequestId};

    struct NoRecords;

    impl Records for NoRecords {
        fn record(&self, _: &[u8], _: Revision) -> Option<Record> {
            None
        }
    }

    fn apply(state: &mut State, index: u64, command: Command) -> Option<LeaseEventKind> {
        let at = Position { term: Term(1), index: Index(index) };
        let id = ProposalId { origin: NodeId(1), boot: Boot(1), seq: index };
        let before = LeasesBefore::of(state);
        let proposal = Proposal { id, low: 0, command };
        let Applied::Done { reply, .. } = state.apply(&NoRecords, at, &proposal) else { panic!("it is new") };
        before.after(&proposal.command, reply.as_ref().ok(), state).map(|event| event.kind)
    }

    fn grant(id: i64) -> Command {
        Command::LeaseGrant(Grant { id: LeaseId(id), ttl: 9 })
    }

    fn revoke(id: i64, guard: Option<Guard>) -> Command {
        Command::LeaseRevoke(Revoke { id: LeaseId(id), guard })
    }

    #[test]
    fn grants_and_ends_are_told_once_and_refusals_not_at_all() {
        let mut state = State::empty();
        let granted = Some(LeaseEventKind::Granted { ttl: 9 });
        assert_eq!(apply(&mut state, 1, grant(5)), granted);
        assert_eq!(apply(&mut state, 2, grant(5)), None);
        let guard = |term| Some(Guard { term: Term(term), granted: Index(1) });
        assert_eq!(apply(&mut state, 3, revoke(5, guard(9))), None);
        assert_eq!(apply(&mut state, 4, revoke(5, guard(1))), Some(LeaseEventKind::Expired));
        assert_eq!(apply(&mut state, 5, revoke(5, None)), None);
        assert_eq!(apply(&mut state, 6, grant(5)), granted);
        assert_eq!(apply(&mut state, 7, revoke(5, None)), Some(LeaseEventKind::Revoked));
    }

    #[test]
    fn a_repeated_request_is_no_second_event() {
        let mut state = State::empty();
        apply(&mut state, 1, grant(5));
        let id = |seq| RequestId { session: LeaseId(5), seq, low: 0 };
        let once =
            |seq, command| Command::Idempotent(IdempotentCommand::new(id(seq), command).expect("a client's"));
        assert!(apply(&mut state, 2, once(1, grant(6))).is_some());
        assert!(apply(&mut state, 3, once(1, grant(6))).is_none());
        assert!(apply(&mut state, 4, once(2, revoke(6, None))).is_some());
        assert!(apply(&mut state, 5, once(2, revoke(6, None))).is_none());
    }

    #[test]
    fn a_snapshot_tells_the_difference() {
        let mut before = State::empty();
        let mut after = State::empty();
        for (index, id) in [(1, 5), (2, 6), (3, 7)] {
            apply(&mut before, index, grant(id));
            apply(&mut after, index, grant(id));
        }
        apply(&mut after, 4, revoke(5, None));
        apply(&mut after, 5, revoke(6, None));
        apply(&mut after, 6, grant(6));
        apply(&mut after, 7, grant(8));
        let told: Vec<_> = between(&before, &after).iter().map(|event| (event.id.0, event.kind)).collect();
        let granted = LeaseEventKind::Granted { ttl: 9 };
        assert_eq!(
            told,
            [(5, LeaseEventKind::Ended), (6, LeaseEventKind::Ended), (6, granted), (8, granted)]
        );
    }
}
