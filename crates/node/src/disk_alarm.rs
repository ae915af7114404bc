//! Whether a member's disk still has space, and its alarm.
//! Measures go in; whether space is low comes out, and which alarm to raise or clear. Once low, twice as much must be
//! free before the alarm is cleared. The alarm is this member's own, and no other member clears it.

use crate::alarm_proposal::AlarmProposal;
use base::disk_space::file_bytes;
use base::{DiskAccount, FormatLevel, Instant, NodeId};
use coord::{Alarm, AlarmCommand, AlarmKind, AlarmOrigin};

/// What was measured of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskMeasures {
    /// The free bytes of the disk, beside what is kept in reserve.
    pub free_bytes: u64,
    /// What the store's file takes of the disk.
    pub taken_bytes: u64,
    /// What rows hold of it.
    pub held_bytes: u64,
    /// Rows that are still to be written to it.
    pub unflushed_bytes: u64,
    /// Something is still being removed from it, which takes space before it gives any.
    pub sweeping: bool,
    /// The largest request that was refused since the last check for lack of space, whatever else was under way.
    pub refused_bytes: u64,
}

impl DiskMeasures {
    /// What can still be written, on the disk and in the store's file.
    fn space(&self) -> u64 {
        let DiskMeasures { free_bytes, taken_bytes, held_bytes, .. } = *self;
        DiskAccount { free_bytes, taken_bytes, stored_bytes: held_bytes }.writable_bytes()
    }

    pub fn has_ample_space(&self, low_bytes: u64) -> bool {
        self.space() >= low_bytes
    }

    /// Whether so much may be under way to the log and to the store without space becoming low. This bounds what is
    /// accepted between two checks of the disk, however long that is.
    pub fn has_space_for(&self, under_way_bytes: u64, low_bytes: u64) -> bool {
        let for_store = file_bytes(under_way_bytes.saturating_add(self.unflushed_bytes));
        let written = under_way_bytes.saturating_add(for_store);
        self.has_ample_space(low_bytes.saturating_add(written))
    }
}

pub struct DiskAlarm {
    me: NodeId,
    low_bytes: u64,
    low: bool,
    proposal: AlarmProposal,
}

impl DiskAlarm {
    pub fn new(me: NodeId, low_bytes: u64) -> DiskAlarm {
        DiskAlarm { me, low_bytes, low: false, proposal: AlarmProposal::default() }
    }

    /// No write that grows the store should be accepted.
    pub fn is_low(&self) -> bool {
        self.low
    }

    /// A request that was refused although space is not low would be refused for ever: compaction frees space only
    /// when space is known to be low.
    pub fn measure(&mut self, measures: DiskMeasures) {
        // Unflushed rows are written before long, and are no reason for an alarm.
        let flushed = DiskMeasures { unflushed_bytes: 0, ..measures };
        let enough = if self.low {
            measures.has_ample_space(2 * self.low_bytes)
        } else {
            flushed.has_space_for(measures.refused_bytes, self.low_bytes)
        };
        self.low = !enough || self.low && measures.sweeping;
    }

    /// The command that brings the alarm in line with the disk, if it is not.
    pub fn alarm(
        &mut self,
        now: Instant,
        mut raised: impl Iterator<Item = Alarm>,
        level: FormatLevel,
    ) -> Option<AlarmCommand> {
        // The oldest formats take an alarm of a disk for one of a client.
        let origin = if level > FormatLevel::OLDEST { AlarmOrigin::Disk } else { AlarmOrigin::Client };
        let own = Alarm { kind: AlarmKind::NoSpace, member: self.me, origin };
        let wanted = match (self.low, raised.any(|alarm| alarm == own)) {
            (true, false) => Some(AlarmCommand::Raise(own)),
            (false, true) => Some(AlarmCommand::Clear(own)),
            _ => None,
        };
        self.proposal.due(now, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const OWN: Alarm = Alarm { kind: AlarmKind::NoSpace, member: NodeId(1), origin: AlarmOrigin::Disk };

    fn measure(alarm: &mut DiskAlarm, free_bytes: u64, taken_bytes: u64, held_bytes: u64) -> bool {
        alarm.measure(DiskMeasures { free_bytes, taken_bytes, held_bytes, ..DiskMeasures::default() });
        alarm.is_low()
    }

    #[test]
    fn space_is_low_until_twice_as_much_is_free() {
        let mut alarm = DiskAlarm::new(NodeId(1), 100);
        assert!(!measure(&mut alarm, 100, 1_000, 900));
        assert!(measure(&mut alarm, 99, 1_000, 900));
        assert!(measure(&mut alarm, 199, 1_000, 900));
        assert!(!measure(&mut alarm, 200, 1_000, 900));
    }

    #[test]
    fn space_freed_in_the_store_file_counts_as_free() {
        let mut alarm = DiskAlarm::new(NodeId(1), 100);
        assert!(measure(&mut alarm, 10, 1_000, 900));
        assert!(measure(&mut alarm, 10, 1_000, 300));
        alarm.measure(DiskMeasures {
            free_bytes: 10,
            taken_bytes: 1_000,
            held_bytes: 100,
            sweeping: true,
            ..DiskMeasures::default()
        });
        assert!(alarm.is_low(), "there is more to come");
        assert!(!measure(&mut alarm, 10, 1_000, 100));
    }

    #[test]
    fn what_is_under_way_counts_for_the_log_and_for_the_store() {
        let measures =
            DiskMeasures { free_bytes: 400, taken_bytes: 1_000, held_bytes: 900, ..DiskMeasures::default() };
        assert!(measures.has_space_for(100, 100));
        assert!(!measures.has_space_for(101, 100));
        assert!(!measures.has_space_for(u64::MAX, 100));
    }

    #[test]
    fn unflushed_bytes_count_for_the_store_and_raise_no_alarm() {
        let measures = DiskMeasures { free_bytes: 400, unflushed_bytes: 150, ..DiskMeasures::default() };
        assert!(measures.has_space_for(0, 100));
        assert!(!measures.has_space_for(1, 100));
        let mut alarm = DiskAlarm::new(NodeId(1), 100);
        alarm.measure(DiskMeasures { unflushed_bytes: 1_000, refused_bytes: 1, ..measures });
        assert!(!alarm.is_low());
    }

    #[test]
    fn space_is_low_after_a_request_was_refused_for_it() {
        let mut alarm = DiskAlarm::new(NodeId(1), 100);
        let measures = DiskMeasures { free_bytes: 129, ..DiskMeasures::default() };
        assert!(!measures.has_space_for(10, 100));
        alarm.measure(measures);
        assert!(!alarm.is_low(), "no request was refused");
        alarm.measure(DiskMeasures { refused_bytes: 9, ..measures });
        assert!(!alarm.is_low(), "it was refused because of others");
        alarm.measure(DiskMeasures { refused_bytes: 10, ..measures });
        assert!(alarm.is_low());
        alarm.measure(measures);
        assert!(alarm.is_low(), "it does not matter who asks while there is not twice as much");
        alarm.measure(DiskMeasures { free_bytes: 200, ..measures });
        assert!(!alarm.is_low());
    }

    #[test]
    fn the_alarm_is_proposed_until_it_is_what_it_should_be() {
        let mut alarm = DiskAlarm::new(NodeId(1), 100);
        let second = |number: u64| Instant::ZERO.after(Duration::from_secs(number));
        assert_eq!(alarm.alarm(second(0), [].into_iter(), FormatLevel::NEWEST), None);
        measure(&mut alarm, 0, 0, 0);
        assert_eq!(
            alarm.alarm(second(1), [].into_iter(), FormatLevel::NEWEST),
            Some(AlarmCommand::Raise(OWN))
        );
        assert_eq!(alarm.alarm(second(1), [].into_iter(), FormatLevel::NEWEST), None, "it is under way");
        assert_eq!(
            alarm.alarm(second(2), [].into_iter(), FormatLevel::NEWEST),
            Some(AlarmCommand::Raise(OWN))
        );
        assert_eq!(alarm.alarm(second(3), [OWN].into_iter(), FormatLevel::NEWEST), None);
        measure(&mut alarm, 1_000, 0, 0);
        for origin in [AlarmOrigin::Client, AlarmOrigin::Leader] {
            let other = Alarm { origin, ..OWN };
            assert_eq!(
                alarm.alarm(second(4), [other].into_iter(), FormatLevel::NEWEST),
                None,
                "it is not the disk's"
            );
        }
        assert_eq!(
            alarm.alarm(second(5), [OWN].into_iter(), FormatLevel::NEWEST),
            Some(AlarmCommand::Clear(OWN))
        );
    }
}
