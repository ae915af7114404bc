//! The lease clock with a state machine of its own, on a clock that the tests move.

use super::*;
use base::{Boot, NodeId, Position, ProposalId, ReplyToken, Revision};
use coord::{Applied, Grant, Proposal, Record, Records};

struct NoRecords;

impl Records for NoRecords {
    fn record(&self, _: &[u8], _: Revision) -> Option<Record> {
        None
    }
}

const TERM: Term = Term(4);
const ELECTION: Duration = Duration::from_secs(1);

struct World {
    lease_clock: LeaseClock,
    state: State,
    at: Position,
    now: Instant,
    lease_out: LeaseOutput,
}

impl World {
    fn new(checkpoint_interval: Duration) -> World {
        let params = LeaseClockParams { election: ELECTION, checkpoint_interval };
        World {
            lease_clock: LeaseClock::new(params, Instant::ZERO),
            state: State::empty(),
            at: Position { term: TERM, index: Index::ZERO },
            now: Instant::ZERO,
            lease_out: LeaseOutput::default(),
        }
    }

    fn leading() -> World {
        let mut world = World::new(Duration::from_secs(300));
        world.lead(Some(TERM));
        world
    }

    fn lead(&mut self, term: Option<Term>) {
        self.at.term = term.unwrap_or(self.at.term);
        self.lease_clock.set_leading(self.now, term, &self.state, &mut self.lease_out);
    }

    fn apply(&mut self, command: Command) {
        self.at.index = self.at.index.next();
        let id = ProposalId { origin: NodeId(1), boot: Boot(1), seq: self.at.index.0 };
        let proposal = Proposal { id, low: 0, command };
        let Applied::Done { reply, .. } = self.state.apply(&NoRecords, self.at, &proposal) else {
            panic!("it is new");
        };
        self.lease_clock.on_applied(self.now, &proposal.command, &reply, &self.state, &mut self.lease_out);
    }

    fn grant(&mut self, id: i64, ttl: i64) {
        self.apply(Command::LeaseGrant(Grant { id: LeaseId(id), ttl }));
    }

    /// Lets time pass in small steps and answers what was proposed in it.
    fn pass(&mut self, millis: u64) -> Vec<Command> {
        for _ in 0..millis / 100 {
            self.now = self.now.after(Duration::from_millis(100));
            self.lease_clock.tick(self.now, &self.state, &mut self.lease_out);
        }
        std::mem::take(&mut self.lease_out.commands)
    }

    fn apply_all(&mut self, commands: Vec<Command>) {
        commands.into_iter().for_each(|command| self.apply(command));
    }

    fn ask(&mut self, question: LeaderQuestion) -> Option<LeaderAnswer> {
        let asker = AskerId { member: NodeId(1), boot: Boot(1), token: ReplyToken(1) };
        let ask = AskedQuestion { asker, deadline: Instant::FAR_FUTURE, question };
        self.lease_clock.answer(self.now, ask, &self.state, &mut self.lease_out);
        self.answer()
    }

    fn answer(&mut self) -> Option<LeaderAnswer> {
        self.lease_out.answers.pop().map(|(_, answer)| answer)
    }

    fn keep_alive(&mut self, id: i64) -> Option<i64> {
        self.ask(LeaderQuestion::KeepAlive(LeaseId(id))).map(renewed)
    }

    fn left(&mut self, id: i64) -> i64 {
        match self.ask(LeaderQuestion::TimeToLive { id: LeaseId(id), keys: false }) {
            Some(Some(Reply { body: Body::LeaseTime(time), .. })) => time.ttl,
            other => panic!("answered at once, not {other:?}"),
        }
    }
}

fn renewed(answer: LeaderAnswer) -> i64 {
    match answer {
        Some(Reply { body: Body::LeaseRenewed { ttl, .. }, .. }) => ttl,
        other => panic!("not a renewal: {other:?}"),
    }
}

#[test]
fn an_expired_lease_is_proposed_to_end_until_it_does() {
    let mut world = World::leading();
    world.grant(7, 2);
    assert!(world.pass(1_900).is_empty());
    let guard = Some(Guard { term: TERM, granted: Index(1) });
    let revoke = Command::LeaseRevoke(Revoke { id: LeaseId(7), guard });
    assert_eq!(world.pass(100), std::slice::from_ref(&revoke));
    assert!(world.pass(900).is_empty());
    assert_eq!(world.pass(100), std::slice::from_ref(&revoke), "it was lost on the way");
    world.apply(revoke);
    assert!(world.state.lease(LeaseId(7)).is_none());
    assert!(world.pass(5_000).is_empty());
}

#[test]
fn a_renewal_gives_the_lease_its_whole_ttl_again() {
    let mut world = World::leading();
    world.grant(7, 2);
    world.pass(1_500);
    assert_eq!(world.keep_alive(7), Some(2));
    assert!(world.pass(1_900).is_empty());
    assert_eq!(world.pass(100).len(), 1);
}

#[test]
fn a_lease_whose_end_was_proposed_is_not_renewed_and_the_client_hears_of_its_end() {
    let mut world = World::leading();
    world.grant(7, 2);
    let revoke = world.pass(2_000);
    assert_eq!(world.keep_alive(7), None, "the outcome is not known yet");
    world.apply_all(revoke);
    assert_eq!(world.answer().map(renewed), Some(0));
    assert_eq!(world.keep_alive(7), Some(0));
    assert_eq!(world.left(7), -1);
}

#[test]
fn a_keep_alive_that_waits_when_leadership_ends_is_sent_elsewhere() {
    let mut world = World::leading();
    world.grant(7, 2);
    world.pass(2_000);
    world.keep_alive(7);
    world.lead(None);
    assert_eq!(world.answer(), Some(None));
    assert_eq!(world.ask(LeaderQuestion::KeepAlive(LeaseId(7))), Some(None));
    assert!(world.pass(60_000).is_empty(), "a follower counts no time");
}

#[test]
fn a_new_leader_owes_the_whole_time_and_an_election() {
    let mut world = World::new(Duration::from_secs(300));
    world.grant(7, 2);
    world.pass(10_000);
    world.lead(Some(TERM));
    assert!(world.pass(2_900).is_empty());
    assert_eq!(world.pass(100).len(), 1);
}

#[test]
fn a_checkpoint_survives_an_election() {
    let mut world = World::new(Duration::from_secs(10));
    world.lead(Some(TERM));
    world.grant(7, 25);
    let checkpoint = world.pass(10_000);
    assert_eq!(checkpoint.len(), 1);
    world.apply_all(checkpoint);
    assert_eq!(world.state.lease(LeaseId(7)).map(Lease::owed), Some(16));
    world.lead(None);
    world.lead(Some(Term(5)));
    assert_eq!(world.left(7), 17, "what was left and an election");
}

#[test]
fn a_renewal_waits_until_the_checkpoint_is_forgotten() {
    let mut world = World::new(Duration::from_secs(10));
    world.lead(Some(TERM));
    world.grant(7, 25);
    let checkpoint = world.pass(10_000);
    assert_eq!(world.keep_alive(7), None, "the checkpoint is on its way");
    let forget = std::mem::take(&mut world.lease_out.commands);
    assert_eq!(forget.len(), 1);
    world.apply_all(checkpoint);
    assert_eq!(world.answer(), None);
    world.apply_all(forget);
    assert_eq!(world.answer().map(renewed), Some(25));
    assert_eq!(world.state.lease(LeaseId(7)).map(Lease::owed), Some(25));
}

#[test]
fn time_without_ticks_hardly_counts() {
    let mut world = World::leading();
    world.grant(7, 2);
    world.now = world.now.after(Duration::from_secs(3_600));
    world.lease_clock.tick(world.now, &world.state, &mut world.lease_out);
    assert!(world.lease_out.commands.is_empty());
    assert_eq!(world.left(7), 1);
}

#[test]
fn a_hundred_thousand_leases_end_in_bounded_batches() {
    let mut world = World::leading();
    for id in 1..=100_000 {
        world.grant(id, 2);
    }
    let mut batch = world.pass(2_000);
    let mut rounds = 0;
    while !batch.is_empty() {
        assert!(batch.len() <= LEASE_REVOKES_IN_FLIGHT_MAX);
        rounds += 1;
        world.apply_all(batch);
        world.lease_clock.tick(world.now, &world.state, &mut world.lease_out);
        batch = std::mem::take(&mut world.lease_out.commands);
    }
    assert_eq!(rounds, 100_000usize.div_ceil(LEASE_REVOKES_IN_FLIGHT_MAX));
    assert_eq!(world.state.leases().count(), 0);
}

#[test]
fn after_an_election_leases_end_one_after_the_other() {
    let mut world = World::new(Duration::from_secs(300));
    for id in 1..=20_000 {
        world.grant(id, 2);
    }
    world.lead(Some(TERM));
    let leading = world.lease_clock.leading.as_ref().expect("it leads");
    let mut by_second: BTreeMap<u64, u64> = BTreeMap::new();
    leading.timers.values().for_each(|timer| *by_second.entry(timer.due.0 / 1_000_000).or_default() += 1);
    assert!(by_second.values().all(|count| *count <= LEASE_EXPIRIES_PER_SECOND_MAX), "{by_second:?}");
    assert!(leading.timers.values().all(|timer| timer.due >= Instant::ZERO.after(Duration::from_secs(3))));
}

#[test]
fn leases_that_end_soon_are_named_until_they_are_renewed_or_have_ended() {
    let mut world = World::leading();
    for (id, ttl) in [(1, 5), (2, 3), (3, 60)] {
        world.grant(id, ttl);
    }
    let ask = |world: &mut World, question| match world.ask(question) {
        Some(Some(Reply { body: Body::LeasesEnding(list), .. })) => {
            list.iter().map(|ending| (ending.id.0, ending.left_ms)).collect::<Vec<_>>()
        }
        other => panic!("answered at once, not {other:?}"),
    };
    let ending = |world: &mut World| ask(world, LeaderQuestion::Ending { within_ms: 2_000 });
    let left = |world: &mut World, id| ask(world, LeaderQuestion::TimeLeft(LeaseId(id)));
    assert!(ending(&mut world).is_empty());
    world.pass(1_000);
    assert_eq!(ending(&mut world), [(2, 2_000)]);
    world.pass(1_900);
    assert_eq!(ending(&mut world), [(2, 100)]);
    assert_eq!([left(&mut world, 3), left(&mut world, 4)], [vec![(3, 57_100)], vec![]]);
    assert_eq!(world.keep_alive(2), Some(3));
    world.pass(200);
    assert_eq!(ending(&mut world), [(1, 1_900)]);
    let proposed = world.pass(1_900);
    assert_eq!(ending(&mut world), [(2, 900), (1, 0)], "its end is proposed and may yet fail");
    world.apply_all(proposed);
    assert_eq!(ending(&mut world), [(2, 900)]);
}

#[test]
fn a_renewal_has_a_name_that_no_other_has() {
    let mut world = World::leading();
    world.grant(1, 60);
    world.grant(2, 60);
    let renew = |world: &mut World, id| match world.ask(LeaderQuestion::KeepAlive(LeaseId(id))) {
        Some(Some(Reply { body: Body::LeaseRenewed { renewal, .. }, .. })) => renewal,
        other => panic!("answered at once, not {other:?}"),
    };
    let last = |world: &mut World, id| match world
        .ask(LeaderQuestion::TimeToLive { id: LeaseId(id), keys: false })
    {
        Some(Some(Reply { body: Body::LeaseTime(time), .. })) => time.renewal,
        other => panic!("answered at once, not {other:?}"),
    };
    let first = renew(&mut world, 1);
    assert_eq!(last(&mut world, 1), first);
    renew(&mut world, 2);
    assert_eq!(last(&mut world, 1), first, "another lease was renewed");
    assert_ne!(renew(&mut world, 1), first);
    world.lead(Some(Term(TERM.0 + 1)));
    assert_ne!(last(&mut world, 1), first, "a new leader does not know it");
}

/// Neither a turn nor a proposal grows with the number of leases that end at once.
#[test]
fn a_hundred_thousand_leases_end_together_without_a_stall() {
    const LEASES: i64 = 100_000;
    let mut world = World::leading();
    for id in 1..=LEASES {
        world.grant(id, 10);
    }
    world.pass(9_900);
    let mut turns = 0;
    let mut proposals = 0;
    while world.state.lease_count() > 0 {
        let proposed = world.pass(100);
        assert!(
            proposed.len() <= base::limits::LEASE_REVOKES_IN_FLIGHT_MAX,
            "{} in one turn",
            proposed.len()
        );
        proposals += proposed.len();
        turns += 1;
        world.apply_all(proposed);
    }
    assert_eq!(proposals, LEASES as usize, "each is proposed once");
    assert!(turns <= LEASES as usize / base::limits::LEASE_REVOKES_IN_FLIGHT_MAX + 2, "{turns} turns");
}

#[test]
fn a_checkpoint_that_the_log_takes_back_after_the_election_does_not_shorten_the_lease() {
    let mut world = World::new(Duration::from_secs(300));
    world.grant(7, 10);
    let checkpoint = |remaining| {
        Command::LeaseCheckpoint(vec![coord::Checkpoint { id: LeaseId(7), granted: Index(1), remaining }])
    };
    world.apply(checkpoint(2));
    world.lead(Some(TERM));
    // The previous leader had renewed it after this, and crashed.
    world.apply(checkpoint(0));
    assert!(world.pass(10_000).is_empty());
}
