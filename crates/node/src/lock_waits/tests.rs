use super::*;
use base::{Boot, Code, Index, LeaseId, NodeId, Position, ProposalId, Term};
use coord::reply::{Body, Reply};
use coord::{Applied, Grant, Leave, Record, Records, Release, Revoke};

struct NoRecords;

impl Records for NoRecords {
    fn record(&self, _: &[u8], _: Revision) -> Option<Record> {
        None
    }
}

/// A state, and the waits on it.
struct Fixture {
    state: State,
    waits: LockWaits,
    seq: u64,
    heard: Vec<(WaitId, WaitOutcome)>,
}

const LOCK: Bytes = Bytes::from_static(b"lock");

impl Fixture {
    fn new(leases: i64) -> Fixture {
        let mut fixture =
            Fixture { state: State::empty(), waits: LockWaits::default(), seq: 0, heard: Vec::new() };
        for id in 1..=leases {
            fixture.apply(Command::LeaseGrant(Grant { id: LeaseId(id), ttl: 30 })).expect("granted");
        }
        fixture
    }

    fn apply(&mut self, command: Command) -> Result<Reply, Code> {
        self.seq += 1;
        let id = ProposalId { origin: NodeId(1), boot: Boot(1), seq: self.seq };
        let at = Position { index: Index(self.seq), term: Term(1) };
        let proposal = coord::Proposal { id, low: 0, command };
        let Applied::Done { reply, changes } = self.state.apply(&NoRecords, at, &proposal) else {
            panic!("it is new");
        };
        self.waits.observe(&proposal.command, &changes, &self.state, &mut self.heard);
        reply
    }

    /// The lease takes its place in the queue, and the call waits.
    fn wait(&mut self, lease: i64, call: u64) -> Revision {
        let acquire = Acquire {
            name: LOCK,
            lease: LeaseId(lease),
            value: Bytes::new(),
            holder: Bytes::new(),
            since: 0,
            call,
            is_try: false,
            replaces_value: false,
        };
        let reply = self.apply(Command::LockAcquire(acquire)).expect("the lease is there");
        let Body::Lock(reply) = reply.body else { panic!("an acquire is answered by a lock") };
        let wait = LockWait { lock: LOCK, key: reply.key, token: reply.token, call };
        self.waits.step(LockWaitInput::Begin { id: WaitId(call), wait }, &self.state, &mut self.heard);
        reply.token
    }

    fn release(&mut self, lease: i64) {
        let key = lock_queue::key_of(&LOCK, LeaseId(lease));
        self.apply(Command::LockRelease(Release { key, token: Revision::ZERO })).expect("it holds the lock");
    }

    fn granted(&mut self) -> Vec<u64> {
        let heard = std::mem::take(&mut self.heard);
        let granted = heard.iter().filter(|(_, news)| matches!(news, WaitOutcome::Granted { .. }));
        granted.map(|(id, _)| id.0).collect()
    }

    fn gone(&mut self) -> Vec<u64> {
        let heard = std::mem::take(&mut self.heard);
        heard.iter().filter(|(_, news)| *news == WaitOutcome::Gone).map(|(id, _)| id.0).collect()
    }
}

#[test]
fn a_release_with_a_thousand_waiters_wakes_one() {
    let mut fixture = Fixture::new(1_001);
    (1..=1_001).for_each(|lease| _ = fixture.wait(lease, lease as u64));
    assert_eq!(fixture.granted(), [1], "the first call holds it at once");
    assert_eq!(fixture.waits.count(), 1_000);
    for lease in 1..=1_000 {
        fixture.release(lease);
        assert_eq!(fixture.granted(), [lease as u64 + 1], "in the order of asking");
    }
    assert_eq!((fixture.waits.count(), fixture.waits.woken()), (0, 1_001));
    assert!(fixture.waits.by_lock.is_empty());
}

#[test]
fn the_end_of_a_lease_wakes_the_next_and_tells_its_own_waiters_that_they_are_gone() {
    let mut fixture = Fixture::new(4);
    (1..=4).for_each(|lease| _ = fixture.wait(lease, lease as u64));
    fixture.heard.clear();
    fixture.apply(Command::LeaseRevoke(Revoke { id: LeaseId(2), guard: None })).expect("it is there");
    assert_eq!(fixture.gone(), [2]);
    fixture.apply(Command::LeaseRevoke(Revoke { id: LeaseId(1), guard: None })).expect("it is there");
    assert_eq!(fixture.granted(), [3]);
}

#[test]
fn who_comes_late_to_wait_hears_at_once_what_happened_meanwhile() {
    let mut fixture = Fixture::new(2);
    fixture.wait(1, 1);
    let token = fixture.wait(2, 2);
    fixture.waits.step(LockWaitInput::End(WaitId(2)), &fixture.state, &mut fixture.heard);
    fixture.heard.clear();
    fixture.release(1);
    assert!(fixture.heard.is_empty(), "a wait that has gone gets no outcome");
    let key = lock_queue::key_of(&LOCK, LeaseId(2));
    let wait = |token| LockWait { lock: LOCK, key: key.clone(), token, call: 2 };
    fixture.waits.step(
        LockWaitInput::Begin { id: WaitId(9), wait: wait(token) },
        &fixture.state,
        &mut fixture.heard,
    );
    assert_eq!(fixture.granted(), [9]);
    let other = Revision(token.0 + 1);
    fixture.waits.step(
        LockWaitInput::Begin { id: WaitId(10), wait: wait(other) },
        &fixture.state,
        &mut fixture.heard,
    );
    assert_eq!(fixture.gone(), [10], "the place of an earlier lease is another");
}

#[test]
fn a_later_call_of_the_same_lease_takes_the_place_over() {
    let mut fixture = Fixture::new(2);
    fixture.wait(1, 1);
    fixture.wait(2, 2);
    fixture.heard.clear();
    fixture.wait(2, 3);
    assert_eq!(fixture.gone(), [2]);
    fixture.release(1);
    assert_eq!(fixture.granted(), [3]);
}

#[test]
fn a_waiter_that_leaves_is_not_in_the_way() {
    let mut fixture = Fixture::new(3);
    (1..=3).for_each(|lease| _ = fixture.wait(lease, lease as u64));
    fixture.heard.clear();
    let key = lock_queue::key_of(&LOCK, LeaseId(2));
    fixture.apply(Command::LockLeave(Leave { key, call: 2, keeps_held: false })).expect("never refused");
    assert_eq!(fixture.gone(), [2]);
    fixture.release(1);
    assert_eq!(fixture.granted(), [3]);
}

#[test]
fn after_a_snapshot_every_waiter_hears_what_it_brought() {
    let mut fixture = Fixture::new(3);
    (1..=3).for_each(|lease| _ = fixture.wait(lease, lease as u64));
    fixture.heard.clear();
    let mut elsewhere = Fixture::new(3);
    (1..=3).for_each(|lease| _ = elsewhere.wait(lease, lease as u64));
    elsewhere.release(1);
    elsewhere.apply(Command::LeaseRevoke(Revoke { id: LeaseId(3), guard: None })).expect("it is there");
    fixture.waits.installed(&elsewhere.state, &mut fixture.heard);
    assert_eq!(fixture.heard.len(), 2);
    assert_eq!((fixture.heard[0].0, fixture.heard[1]), (WaitId(2), (WaitId(3), WaitOutcome::Gone)));
}
