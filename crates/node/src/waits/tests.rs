use super::*;
use base::{Boot, Code, Index, LeaseId, NodeId, Position, ProposalId};
use coord::reply::{Body, Reply};
use coord::{Applied, Grant, Leave, Record, Records, Release, Revoke};

struct NoRecords;

impl Records for NoRecords {
    fn record(&self, _: &[u8], _: Revision) -> Option<Record> {
        None
    }
}

/// A state, and the waits on it.
struct Room {
    state: State,
    waits: Waits,
    seq: u64,
    heard: Vec<(WaitId, News)>,
}

const LOCK: Bytes = Bytes::from_static(b"lock");

impl Room {
    fn new(leases: i64) -> Room {
        let mut room = Room { state: State::empty(), waits: Waits::default(), seq: 0, heard: Vec::new() };
        for id in 1..=leases {
            room.apply(Command::LeaseGrant(Grant { id: LeaseId(id), ttl: 30 })).expect("granted");
        }
        room
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
        let wait = Wait { lock: LOCK, key: reply.key, token: reply.token, call };
        self.waits.step(Input::Begin { id: WaitId(call), wait }, &self.state, &mut self.heard);
        reply.token
    }

    fn release(&mut self, lease: i64) {
        let key = queue::key_of(&LOCK, LeaseId(lease));
        self.apply(Command::LockRelease(Release { key, token: Revision::ZERO })).expect("it holds the lock");
    }

    fn granted(&mut self) -> Vec<u64> {
        let heard = std::mem::take(&mut self.heard);
        let granted = heard.iter().filter(|(_, news)| matches!(news, News::Granted { .. }));
        granted.map(|(id, _)| id.0).collect()
    }

    fn gone(&mut self) -> Vec<u64> {
        let heard = std::mem::take(&mut self.heard);
        heard.iter().filter(|(_, news)| *news == News::Gone).map(|(id, _)| id.0).collect()
    }
}

#[test]
fn a_release_with_a_thousand_waiters_wakes_one() {
    let mut room = Room::new(1_001);
    (1..=1_001).for_each(|lease| _ = room.wait(lease, lease as u64));
    assert_eq!(room.granted(), [1], "the first call holds it at once");
    assert_eq!(room.waits.count(), 1_000);
    for lease in 1..=1_000 {
        room.release(lease);
        assert_eq!(room.granted(), [lease as u64 + 1], "in the order of asking");
    }
    assert_eq!((room.waits.count(), room.waits.woken()), (0, 1_001));
    assert!(room.waits.by_lock.is_empty());
}

#[test]
fn the_end_of_a_lease_wakes_the_next_and_tells_its_own_waiters_that_they_are_gone() {
    let mut room = Room::new(4);
    (1..=4).for_each(|lease| _ = room.wait(lease, lease as u64));
    room.heard.clear();
    room.apply(Command::LeaseRevoke(Revoke { id: LeaseId(2), guard: None })).expect("it is there");
    assert_eq!(room.gone(), [2]);
    room.apply(Command::LeaseRevoke(Revoke { id: LeaseId(1), guard: None })).expect("it is there");
    assert_eq!(room.granted(), [3]);
}

#[test]
fn who_comes_late_to_wait_hears_at_once_what_happened_meanwhile() {
    let mut room = Room::new(2);
    room.wait(1, 1);
    let token = room.wait(2, 2);
    room.waits.step(Input::End(WaitId(2)), &room.state, &mut room.heard);
    room.heard.clear();
    room.release(1);
    assert!(room.heard.is_empty(), "a wait that has gone gets no outcome");
    let key = queue::key_of(&LOCK, LeaseId(2));
    let wait = |token| Wait { lock: LOCK, key: key.clone(), token, call: 2 };
    room.waits.step(Input::Begin { id: WaitId(9), wait: wait(token) }, &room.state, &mut room.heard);
    assert_eq!(room.granted(), [9]);
    let other = Revision(token.0 + 1);
    room.waits.step(Input::Begin { id: WaitId(10), wait: wait(other) }, &room.state, &mut room.heard);
    assert_eq!(room.gone(), [10], "the place of an earlier lease is another");
}

#[test]
fn a_later_call_of_the_same_lease_takes_the_place_over() {
    let mut room = Room::new(2);
    room.wait(1, 1);
    room.wait(2, 2);
    room.heard.clear();
    room.wait(2, 3);
    assert_eq!(room.gone(), [2]);
    room.release(1);
    assert_eq!(room.granted(), [3]);
}

#[test]
fn a_waiter_that_leaves_is_not_in_the_way() {
    let mut room = Room::new(3);
    (1..=3).for_each(|lease| _ = room.wait(lease, lease as u64));
    room.heard.clear();
    let key = queue::key_of(&LOCK, LeaseId(2));
    room.apply(Command::LockLeave(Leave { key, call: 2, keeps_held: false })).expect("never refused");
    assert_eq!(room.gone(), [2]);
    room.release(1);
    assert_eq!(room.granted(), [3]);
}

#[test]
fn after_a_snapshot_everybody_hears_what_it_brought() {
    let mut room = Room::new(3);
    (1..=3).for_each(|lease| _ = room.wait(lease, lease as u64));
    room.heard.clear();
    let mut elsewhere = Room::new(3);
    (1..=3).for_each(|lease| _ = elsewhere.wait(lease, lease as u64));
    elsewhere.release(1);
    elsewhere.apply(Command::LeaseRevoke(Revoke { id: LeaseId(3), guard: None })).expect("it is there");
    room.waits.installed(&elsewhere.state, &mut room.heard);
    assert_eq!(room.heard.len(), 2);
    assert_eq!((room.heard[0].0, room.heard[1]), (WaitId(2), (WaitId(3), News::Gone)));
}
