//! The quota alarm: the leader proposes to raise it when the stored bytes pass the quota, and to heal it when enough
//! is free again; a healed one refuses nothing, and goes after a while. Time, leadership and the applied state go in; now and then a command comes out. It changes nothing
//! itself: there is an alarm when the log says so, on all members alike. Between the two marks nothing happens, so
//! that a store at its quota does not raise and clear the alarm all the time.

use crate::alarm_proposal::AlarmProposal;
use base::{FormatLevel, Instant, NodeId};
use coord::{Alarm, AlarmCommand, AlarmKind, AlarmOrigin, State};
use std::time::Duration;

/// The alarm is cleared when no more than this part of the quota is used.
const CLEAR_BELOW_PERCENT: u64 = 90;
/// For so long a healed alarm can be disarmed.
const HEALED_FOR: Duration = Duration::from_secs(30);

pub(crate) struct QuotaAlarm {
    me: NodeId,
    /// Unless another was set at run time; zero means none.
    quota_bytes: u64,
    proposal: AlarmProposal,
    /// Since when this leader has known of a healed alarm.
    healed: Option<Instant>,
}

impl QuotaAlarm {
    pub fn new(me: NodeId, quota_bytes: u64) -> QuotaAlarm {
        QuotaAlarm { me, quota_bytes, proposal: AlarmProposal::default(), healed: None }
    }

    /// What the leader should propose now.
    pub fn tick(&mut self, now: Instant, state: &State) -> Option<AlarmCommand> {
        let wanted = self.wanted_alarm(state).or_else(|| self.ended_alarm(now, state));
        self.proposal.due(now, wanted)
    }

    fn wanted_alarm(&self, state: &State) -> Option<AlarmCommand> {
        let raised = find(state, AlarmOrigin::Leader);
        let stored = state.stored_bytes();
        let quota = state.quota().unwrap_or(self.quota_bytes);
        match raised {
            None if quota > 0 && stored > quota => {
                let alarm = Alarm { kind: AlarmKind::NoSpace, member: self.me, origin: AlarmOrigin::Leader };
                Some(AlarmCommand::Raise(alarm))
            }
            Some(alarm) if quota == 0 || stored <= quota / 100 * CLEAR_BELOW_PERCENT => {
                // The oldest formats know no healed alarms.
                let heals = state.format_level() > FormatLevel::OLDEST;
                let healed = Alarm { origin: AlarmOrigin::Healed, ..alarm };
                Some(if heals { AlarmCommand::Raise(healed) } else { AlarmCommand::Clear(alarm) })
            }
            _ => None,
        }
    }

    /// A healed alarm that was there for long enough.
    fn ended_alarm(&mut self, now: Instant, state: &State) -> Option<AlarmCommand> {
        let Some(alarm) = find(state, AlarmOrigin::Healed) else {
            self.healed = None;
            return None;
        };
        let since = *self.healed.get_or_insert(now);
        (now.since(since) >= HEALED_FOR).then_some(AlarmCommand::Clear(alarm))
    }
}

fn find(state: &State, origin: AlarmOrigin) -> Option<Alarm> {
    state.alarms().find(|alarm| alarm.origin == origin && alarm.kind == AlarmKind::NoSpace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Boot, Index, Position, ProposalId, Revision, Term};
    use bytes::Bytes;
    use coord::request::{Delete, Put};
    use coord::{Applied, Command, Proposal, Record, Records};

    struct Nothing;

    impl Records for Nothing {
        fn record(&self, _: &[u8], _: Revision) -> Option<Record> {
            None
        }
    }

    struct World {
        state: State,
        seq: u64,
        space: QuotaAlarm,
    }

    impl World {
        fn new(quota_bytes: u64) -> World {
            World { state: State::empty(), seq: 0, space: QuotaAlarm::new(NodeId(1), quota_bytes) }
        }

        fn apply(&mut self, command: Command) -> Result<(), base::Code> {
            self.seq += 1;
            let at = Position { index: Index(self.seq), term: Term(1) };
            let id = ProposalId { origin: NodeId(1), boot: Boot(1), seq: self.seq };
            match self.state.apply(&Nothing, at, &Proposal { id, low: self.seq, command }) {
                Applied::Done { reply, .. } => reply.map(drop),
                Applied::Duplicate => panic!("nothing comes twice"),
            }
        }

        fn put(&mut self, bytes: usize) -> Result<(), base::Code> {
            let (key, value) = (Bytes::from_static(b"k"), Some(vec![0; bytes].into()));
            self.apply(Command::Put(Put { key, value, lease: Some(base::LeaseId::NONE), prev_kv: false }))
        }

        fn tick(&mut self, millis: u64) -> Option<AlarmCommand> {
            self.space.tick(Instant::ZERO.after(Duration::from_millis(millis)), &self.state)
        }
    }

    #[test]
    fn the_alarm_is_asked_for_once_in_a_while_until_it_is_there() {
        let mut world = World::new(1_000);
        world.put(900).unwrap();
        assert_eq!(world.tick(0), None);
        world.put(900).unwrap();
        let Some(raise @ AlarmCommand::Raise(_)) = world.tick(1) else { panic!("it is full") };
        assert_eq!(world.tick(500), None, "it is under way");
        assert_eq!(world.tick(1_001), Some(raise), "it may have been lost");
        world.apply(Command::Alarm(raise)).unwrap();
        assert_eq!(world.tick(5_000), None);
    }

    #[test]
    fn while_there_is_no_space_only_what_shrinks_is_accepted() {
        let mut world = World::new(1_000);
        world.put(2_000).unwrap();
        let raise = world.tick(0).unwrap();
        world.apply(Command::Alarm(raise)).unwrap();
        assert_eq!(world.put(1), Err(base::Code::NoSpace));
        let keys = base::KeyRange::single(Bytes::from_static(b"k"));
        world.apply(Command::Delete(Delete { keys, prev_kv: false })).unwrap();
        let revision = world.state.revision();
        world.apply(Command::Compact(coord::Compact { revision, physical: false })).unwrap();
    }

    #[test]
    fn a_quota_that_is_set_at_run_time_counts_at_once() {
        let mut world = World::new(1_000);
        world.put(2_000).unwrap();
        let raise = world.tick(0).unwrap();
        world.apply(Command::Alarm(raise)).unwrap();
        world.apply(Command::Quota(Some(10_000))).unwrap();
        let heal = world.tick(2_000).unwrap();
        assert!(matches!(heal, AlarmCommand::Raise(Alarm { origin: AlarmOrigin::Healed, .. })), "{heal:?}");
        world.apply(Command::Alarm(heal)).unwrap();
        world.put(1).unwrap();
        assert_eq!(world.tick(4_000), None);
        world.apply(Command::Quota(None)).unwrap();
        let Some(raise @ AlarmCommand::Raise(Alarm { origin: AlarmOrigin::Leader, .. })) = world.tick(6_000)
        else {
            panic!("the first quota again");
        };
        world.apply(Command::Alarm(raise)).unwrap();
        assert_eq!(world.state.alarms().count(), 1, "it is not healed any more");
    }

    #[test]
    fn a_healed_alarm_can_be_disarmed_for_a_while() {
        let mut world = World::new(1_000);
        world.put(2_000).unwrap();
        let raise = world.tick(0).unwrap();
        world.apply(Command::Alarm(raise)).unwrap();
        world.apply(Command::Quota(Some(10_000))).unwrap();
        let heal = world.tick(2_000).unwrap();
        world.apply(Command::Alarm(heal)).unwrap();
        assert_eq!(world.tick(3_000), None);
        assert_eq!(world.tick(32_000), None);
        let healed = world.state.alarms().next().unwrap();
        assert_eq!(world.tick(33_000), Some(AlarmCommand::Clear(healed)));
        let disarm = AlarmCommand::Clear(Alarm { origin: AlarmOrigin::Client, ..healed });
        world.apply(Command::Alarm(disarm)).unwrap();
        assert_eq!(world.state.alarms().count(), 0);
    }

    #[test]
    fn a_corrupt_cluster_refuses_changes_when_a_client_says_so() {
        let mut world = World::new(0);
        let alarm = Alarm { kind: AlarmKind::Corrupt, member: NodeId(7), origin: AlarmOrigin::Client };
        let own = Alarm { origin: AlarmOrigin::Leader, ..alarm };
        world.apply(Command::Alarm(AlarmCommand::Raise(own))).unwrap();
        world.put(1).unwrap();
        world.apply(Command::Alarm(AlarmCommand::Raise(alarm))).unwrap();
        assert_eq!(world.put(1), Err(base::Code::Corrupt));
        world.apply(Command::Alarm(AlarmCommand::Clear(alarm))).unwrap();
        world.put(1).unwrap();
        assert_eq!(world.state.alarms().count(), 0);
    }

    #[test]
    fn only_its_own_alarm_is_cleared_by_itself() {
        let mut world = World::new(0);
        let by_hand = Alarm { kind: AlarmKind::NoSpace, member: NodeId(9), origin: AlarmOrigin::Client };
        world.apply(Command::Alarm(AlarmCommand::Raise(by_hand))).unwrap();
        assert_eq!(world.tick(0), None);
        let own = Alarm { kind: AlarmKind::NoSpace, member: NodeId(2), origin: AlarmOrigin::Leader };
        world.apply(Command::Alarm(AlarmCommand::Raise(own))).unwrap();
        let healed = Alarm { origin: AlarmOrigin::Healed, ..own };
        assert_eq!(world.tick(1), Some(AlarmCommand::Raise(healed)));
    }
}
