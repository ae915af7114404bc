//! Three state machines that apply the same log, one of which diverges, and which receive each other's messages.

use super::*;
use crate::apply::{ApplyInput, ApplyParams};
use crate::batch::Proposal;
use crate::mutant::Mutant;
use crate::{compactor, lease_clock};
use base::mutant::plant;
use base::{Boot, Instant, LeaseId, Position, ProposalId, ReadView, Table, Term};
use bytes::Bytes;
use coord::request::Put;
use coord::{Member, MemberChange, watch};
use raft::Entry;
use std::ops::Bound;
use std::time::Duration;

const LEADER: usize = 0;
const DIVERGED: usize = 2;

/// A store to which nothing was ever written.
struct Nothing;

impl ReadView for Nothing {
    fn get(&self, _: Table, _: &[u8]) -> Option<Bytes> {
        None
    }

    fn scan(&self, _: Table, _: Bound<&[u8]>, _: Bound<&[u8]>, _: &mut dyn FnMut(&[u8], &[u8]) -> bool) {}
}

struct World {
    members: Vec<Apply>,
    index: u64,
    now: Instant,
    /// Questions are lost.
    is_deaf: bool,
    /// What the leader proposed.
    proposed: Vec<Command>,
}

fn id(member: usize) -> NodeId {
    NodeId(member as u64 + 1)
}

fn machine(member: usize) -> Apply {
    let params = ApplyParams {
        me: id(member),
        boot: Boot(1),
        flush_interval: Duration::MAX,
        flush_bytes: usize::MAX,
        range_bytes: 1_000,
        watch: watch::Params {
            progress_interval: Duration::MAX,
            fragment_bytes: 1_000,
            batch_revisions: 1_000,
            batch_bytes: 1_000,
            watches_max: 1,
        },
        leases: lease_clock::LeaseClockParams { election: Duration::MAX, checkpoint_interval: Duration::MAX },
        digest_secret: member as u64,
        initial_members: Vec::new(),
        quota_bytes: 0,
        history: coord::HistoryWindow::NONE,
        compaction: compactor::CompactorParams {
            keep: None,
            lag_max: compactor::LagLimit { age: Duration::MAX, revisions: u64::MAX },
            interval: Duration::MAX,
            patience: Duration::MAX,
            grace: Duration::MAX,
        },
    };
    Apply::restore(params, Instant::ZERO, &Nothing).expect("there is nothing to be damaged")
}

impl World {
    fn new(count: usize) -> World {
        let mut world = World {
            members: (0..count).map(machine).collect(),
            index: 0,
            now: Instant::ZERO,
            is_deaf: false,
            proposed: Vec::new(),
        };
        let initial_members = (0..count).map(|member| Member {
            id: id(member),
            name: format!("m{member}"),
            peer_urls: vec![format!("http://m{member}")],
            client_urls: Vec::new(),
            learner: false,
        });
        world.commit(&[Command::Members(MemberChange::Bootstrap(initial_members.collect()))], None);
        world.step(LEADER, ApplyInput::Leading(Some(Term(1))));
        world
    }

    fn step(&mut self, member: usize, input: ApplyInput) {
        let mut out = ApplyOutput::default();
        self.members[member].step(self.now, &Nothing, input, &mut out);
        let commands = out.proposals.into_iter().flat_map(|proposals| proposals.commands);
        self.proposed.extend(commands.filter_map(Command::decode));
        for (to, message) in out.peer_messages {
            if self.is_deaf && matches!(message, PeerMessage::DigestQuestion { .. }) {
                continue;
            }
            self.step(to.0 as usize - 1, ApplyInput::PeerMessage { from: id(member), message });
        }
    }

    /// All members apply an entry; the diverging member may apply another in its place.
    fn commit(&mut self, commands: &[Command], diverged: Option<&[Command]>) {
        self.index += 1;
        for member in 0..self.members.len() {
            let commands = diverged.filter(|_| member == DIVERGED).unwrap_or(commands);
            let mut data = Vec::new();
            for command in commands {
                let mut bytes = Vec::new();
                command.encode(&mut bytes);
                let id = ProposalId { origin: NodeId(99), boot: Boot(1), seq: self.index };
                Proposal { id, low: self.index, command: bytes.into() }.encode(&mut data);
            }
            let at = Position { term: Term(1), index: Index(self.index) };
            self.step(
                member,
                ApplyInput::Committed(vec![Entry { at, data: data.into(), reconfigures: false }]),
            );
        }
    }

    fn put_until_compared(&mut self) {
        while !self.index.is_multiple_of(DIGEST_EVERY_ENTRIES) || self.index == 0 {
            self.commit(&[put("same")], None);
        }
    }

    /// Another process says this to a member in the name of all others.
    fn forge(&mut self, to: usize, message: PeerMessage) {
        for other in (0..self.members.len()).filter(|other| *other != to) {
            self.step(to, ApplyInput::PeerMessage { from: id(other), message });
        }
    }

    fn diverged(&self) -> Vec<bool> {
        self.members.iter().map(Apply::is_diverged).collect()
    }
}

fn put(value: &'static str) -> Command {
    let key = Bytes::from_static(b"k");
    Command::Put(Put { key, value: Some(value.into()), lease: Some(LeaseId::NONE), prev_kv: false })
}

fn corrupt(member: usize) -> Alarm {
    Alarm { kind: AlarmKind::Corrupt, member: id(member), origin: AlarmOrigin::Leader }
}

#[test]
fn members_that_agree_go_on() {
    let mut world = World::new(3);
    world.put_until_compared();
    assert_eq!(world.diverged(), [false; 3]);
    assert!(world.proposed.is_empty());
}

#[test]
fn a_diverged_member_is_fenced_and_alarmed_until_it_is_replaced() {
    let mut world = World::new(3);
    world.commit(&[put("right")], Some(&[put("wrong")]));
    world.put_until_compared();
    assert_eq!(world.diverged(), [false, false, true]);
    let raise = Command::Alarm(AlarmCommand::Raise(corrupt(DIVERGED)));
    assert_eq!(world.proposed[0], raise);
    let applied = world.members[DIVERGED].applied_index();
    world.commit(&[raise], None);
    assert_eq!(world.members[DIVERGED].applied_index(), applied, "it does nothing more");
    world.proposed.clear();
    world.step(LEADER, ApplyInput::Tick);
    assert!(world.proposed.is_empty(), "it is still there");
    world.commit(&[Command::Members(MemberChange::Remove(id(DIVERGED)))], None);
    world.step(LEADER, ApplyInput::Tick);
    assert_eq!(world.proposed, [Command::Alarm(AlarmCommand::Clear(corrupt(DIVERGED)))]);
}

#[test]
fn two_members_that_differ_are_undecided() {
    let mut world = World::new(2);
    world.members[1].state.forget_lease(LeaseId(1));
    world.put_until_compared();
    assert_eq!(world.diverged(), [false; 2]);
    assert_eq!(world.proposed[0], Command::Alarm(AlarmCommand::Raise(corrupt(1))));
}

#[test]
fn the_planted_bug_would_let_it_go_on() {
    plant(Some(Mutant::DigestsUnread.into()));
    let mut world = World::new(3);
    world.commit(&[put("right")], Some(&[put("wrong")]));
    world.put_until_compared();
    plant(None);
    assert_eq!(world.diverged(), [false; 3], "which the test above would not let pass");
}

/// What is said to a member in the names of all others: about an index that it has applied, and about one to come.
fn world_of_lies(to: usize) -> World {
    let mut world = World::new(3);
    world.put_until_compared();
    let digest = |index| StateDigest { index: Index(index), hash: 7 };
    for index in [DIGEST_EVERY_ENTRIES, 2 * DIGEST_EVERY_ENTRIES] {
        world.forge(to, PeerMessage::Digest(digest(index)));
        world.forge(to, PeerMessage::DigestAnswer { nonce: 0, digest: digest(index) });
    }
    world.commit(&[put("same")], None);
    world.put_until_compared();
    world
}

#[test]
fn forged_digests_fence_no_member_and_raise_no_alarm() {
    plant(None);
    for to in 0..3 {
        let world = world_of_lies(to);
        assert_eq!((world.diverged(), world.index), (vec![false; 3], 2 * DIGEST_EVERY_ENTRIES));
        assert!(world.proposed.is_empty(), "{:?}", world.proposed);
    }
    plant(Some(Mutant::DigestsUnasked.into()));
    let world = world_of_lies(DIVERGED);
    plant(None);
    assert_eq!(world.diverged(), [false, false, true], "the planted bug believes them");
}

#[test]
fn members_are_asked_again_until_they_answer() {
    plant(None);
    let mut world = World::new(3);
    world.is_deaf = true;
    world.commit(&[put("right")], Some(&[put("wrong")]));
    world.put_until_compared();
    world.is_deaf = false;
    world.step(DIVERGED, ApplyInput::Tick);
    assert_eq!(world.diverged(), [false; 3], "they were asked a moment ago");
    world.now = world.now.after(ASK_AGAIN_AFTER);
    (0..3).for_each(|member| world.step(member, ApplyInput::Tick));
    assert_eq!(world.diverged(), [false, false, true]);
    assert_eq!(world.proposed[0], Command::Alarm(AlarmCommand::Raise(corrupt(DIVERGED))));
}
