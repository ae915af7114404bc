//! Rounds of a leader with two other members, whose answers the tests make up.

use super::*;

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);

struct World {
    compactor: Compactor,
    members: BTreeSet<NodeId>,
    now: Instant,
    revision: i64,
    compacted: i64,
    aged: Option<i64>,
    no_space: bool,
}

impl World {
    /// 1,000 revisions, of which 100 are kept and 950 are old enough.
    fn new() -> World {
        let keep = Retention { age: Duration::from_secs(300), revisions: 100, step: 10 };
        let params = CompactorParams {
            keep: Some(keep),
            lag_max: LagLimit { age: Duration::from_secs(3_600), revisions: 1_000_000 },
            interval: Duration::from_secs(5),
            patience: Duration::from_secs(1),
            grace: Duration::from_secs(60),
        };
        let mut compactor = Compactor::new(params);
        compactor.set_leading(Instant::ZERO, Some(Term(7)));
        World {
            compactor,
            members: [A, B, C].into(),
            now: Instant::ZERO,
            revision: 1_000,
            compacted: 0,
            aged: Some(950),
            no_space: false,
        }
    }

    fn step(
        &mut self,
        act: impl FnOnce(&mut Compactor, &CompactionContext<'_>, &mut CompactorOutput),
    ) -> CompactorOutput {
        let context = CompactionContext {
            now: self.now,
            members: &self.members,
            revision: Revision(self.revision),
            compacted: Revision(self.compacted),
            aged: self.aged.map(Revision),
            no_space: self.no_space,
        };
        let mut output = CompactorOutput::default();
        act(&mut self.compactor, &context, &mut output);
        output
    }

    fn after(&mut self, seconds: u64) -> CompactorOutput {
        self.now = self.now.after(Duration::from_secs(seconds));
        self.step(|compactor, context, output| compactor.tick(context, output))
    }

    fn on_message(&mut self, from: NodeId, signal: CompactionSignal) -> CompactorOutput {
        let epoch = self.compactor.epoch().expect("it leads");
        self.step(|compactor, context, output| {
            compactor.on_message(context, from, CompactionMessage { epoch, signal }, output)
        })
    }

    /// A round up to the notice, in which the members need these; returns the revision of the notice.
    fn needs(&mut self, needs: [i64; 3]) -> Option<i64> {
        assert_eq!(
            signal(&self.after(5)),
            [(A, CompactionSignal::Ask), (B, CompactionSignal::Ask), (C, CompactionSignal::Ask)]
        );
        assert_eq!(
            self.on_message(A, CompactionSignal::Need(Revision(needs[0]))),
            CompactorOutput::default()
        );
        assert_eq!(
            self.on_message(B, CompactionSignal::Need(Revision(needs[1]))),
            CompactorOutput::default()
        );
        let told = signal(&self.on_message(C, CompactionSignal::Need(Revision(needs[2]))));
        match told.as_slice() {
            [] => None,
            [
                (A, CompactionSignal::Notice(to)),
                (B, CompactionSignal::Notice(_)),
                (C, CompactionSignal::Notice(_)),
            ] => Some(to.0),
            other => panic!("not a notice: {other:?}"),
        }
    }
}

fn signal(output: &CompactorOutput) -> Vec<(NodeId, CompactionSignal)> {
    output.peer_messages.iter().map(|(to, message)| (*to, message.signal)).collect()
}

#[test]
fn a_round_goes_to_one_below_what_is_needed_when_all_agree() {
    let mut world = World::new();
    assert_eq!(world.after(4), CompactorOutput::default());
    world.now = Instant::ZERO;
    assert_eq!(world.needs([1_000, 500, 900]), Some(499));
    assert_eq!(world.on_message(A, CompactionSignal::Agreed), CompactorOutput::default());
    assert_eq!(world.on_message(C, CompactionSignal::Agreed), CompactorOutput::default());
    assert_eq!(world.on_message(C, CompactionSignal::Agreed), CompactorOutput::default(), "once is enough");
    assert_eq!(world.on_message(B, CompactionSignal::Agreed).compact, Some(Revision(499)));
}

#[test]
fn the_retained_revisions_are_not_compacted() {
    assert_eq!(World::new().needs([1_000; 3]), Some(900), "the last hundred");
    let mut young = World { aged: Some(300), ..World::new() };
    assert_eq!(young.needs([1_000; 3]), Some(300));
    let mut unknown = World { aged: None, ..World::new() };
    assert_eq!(unknown.after(5), CompactorOutput::default(), "it is not known how old anything is");
}

#[test]
fn a_round_that_gains_little_is_not_begun_or_ends() {
    let mut world = World { compacted: 891, ..World::new() };
    assert_eq!(world.after(5), CompactorOutput::default());
    let mut world = World { compacted: 600, ..World::new() };
    assert_eq!(world.needs([1_000, 610, 1_000]), None);
}

#[test]
fn space_is_more_urgent_than_the_past_but_not_than_a_watch() {
    let mut world = World { no_space: true, compacted: 998, ..World::new() };
    assert_eq!(world.needs([1_000; 3]), Some(999));
    let mut world = World { no_space: true, ..World::new() };
    assert_eq!(world.needs([1_000, 30, 1_000]), Some(29));
}

#[test]
fn rounds_follow_each_other_quickly_while_there_is_no_space() {
    let mut world = World::new();
    assert_eq!(world.after(1), CompactorOutput::default());
    world.no_space = true;
    assert_eq!(signal(&world.after(0)).len(), 3, "all members are asked");
}

#[test]
fn a_refused_notice_is_given_once_more() {
    let mut world = World::new();
    world.needs([1_000; 3]);
    world.on_message(A, CompactionSignal::Agreed);
    world.on_message(B, CompactionSignal::Agreed);
    assert_eq!(world.on_message(C, CompactionSignal::Refused), CompactorOutput::default());
    assert_eq!(signal(&world.after(1)), [(C, CompactionSignal::Notice(Revision(900)))]);
    assert_eq!(world.on_message(C, CompactionSignal::Agreed).compact, Some(Revision(900)));

    world.needs([1_000; 3]);
    world.on_message(A, CompactionSignal::Agreed);
    assert_eq!(signal(&world.after(1)).len(), 2);
    assert_eq!(world.after(1), CompactorOutput::default());
    assert_eq!(world.on_message(B, CompactionSignal::Agreed), CompactorOutput::default());
    assert_eq!(
        world.on_message(C, CompactionSignal::Agreed),
        CompactorOutput::default(),
        "the round is over"
    );
}

#[test]
fn a_silent_member_ends_the_round_until_nothing_is_kept_for_it() {
    let mut world = World::new();
    for _ in 0..9 {
        assert_eq!(world.after(5).peer_messages.len(), 3);
        world.on_message(A, CompactionSignal::Need(Revision(1_000)));
        assert_eq!(world.on_message(B, CompactionSignal::Need(Revision(1_000))), CompactorOutput::default());
        assert_eq!(world.after(1), CompactorOutput::default(), "C may need something");
    }
    assert_eq!(world.after(5).peer_messages.len(), 3);
    world.on_message(A, CompactionSignal::Need(Revision(1_000)));
    world.on_message(B, CompactionSignal::Need(Revision(1_000)));
    assert_eq!(signal(&world.after(1)).len(), 2, "it has been silent for a minute");
    world.on_message(A, CompactionSignal::Agreed);
    assert_eq!(world.on_message(B, CompactionSignal::Agreed).compact, Some(Revision(900)));
    world.on_message(C, CompactionSignal::Agreed);
    assert_eq!(world.after(5).peer_messages.len(), 3);
    world.on_message(A, CompactionSignal::Need(Revision(1_000)));
    assert_eq!(
        world.on_message(B, CompactionSignal::Need(Revision(1_000))),
        CompactorOutput::default(),
        "it is back"
    );
}

#[test]
fn messages_of_another_round_are_ignored() {
    let mut world = World::new();
    world.after(5);
    let epoch = CompactionEpoch { term: Term(7), nth: 0 };
    for member in [A, B, C] {
        let message = CompactionMessage { epoch, signal: CompactionSignal::Need(Revision(1_000)) };
        let output =
            world.step(|compactor, context, output| compactor.on_message(context, member, message, output));
        assert_eq!(output, CompactorOutput::default());
    }
}

#[test]
fn a_new_leader_starts_a_round_and_a_follower_does_nothing() {
    let mut world = World::new();
    world.needs([1_000; 3]);
    let now = world.now;
    world.compactor.set_leading(now, Some(Term(8)));
    assert_eq!(world.on_message(A, CompactionSignal::Agreed), CompactorOutput::default());
    assert_eq!(world.after(5).peer_messages.len(), 3);
    let now = world.now;
    world.compactor.set_leading(now, None);
    assert_eq!(world.after(100), CompactorOutput::default());
}

#[test]
fn a_round_is_reported_once_with_what_held_it_back() {
    let mut world = World::new();
    assert_eq!(world.needs([1_000, 8, 900]), None);
    let report = world.compactor.take_report().expect("the round has ended");
    assert_eq!((report.outcome.clone(), report.held_by()), (RoundOutcome::HeldBack, Some((B, Revision(8)))));
    assert_eq!(world.compactor.take_report(), None);
    assert_eq!(world.compactor.last_round(), Some(&report));
    assert_eq!(world.needs([1_000, 500, 900]), Some(499));
    for member in [A, B, C] {
        world.on_message(member, CompactionSignal::Agreed);
    }
    let report = world.compactor.take_report().expect("the round has ended");
    assert_eq!((report.outcome, report.to), (RoundOutcome::Compacted, Revision(499)));
}

#[test]
fn a_round_that_is_not_answered_names_the_silent() {
    let mut world = World::new();
    world.after(5);
    world.on_message(A, CompactionSignal::Need(Revision(1_000)));
    world.after(2);
    let report = world.compactor.take_report().expect("the round has ended");
    assert_eq!(report.outcome, RoundOutcome::Unanswered(BTreeSet::from([B, C])));
}
