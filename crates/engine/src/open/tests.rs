//! Starts on damaged logs: which doubt follows, for how many starts, and which logs are refused.

use super::*;
use crate::log_file::LogFile;
use base::mutant::plant;
use base::{Index, Position, Term};
use disk::SimDisk;
use disk::wal::FrameLocation;
use raft::{Entry, Persist};

const ME: NodeId = NodeId(1);
const SEGMENT: &str = "wal-0000000000000001";

fn params(voters: &[NodeId]) -> MemberParams {
    let raft = raft::Params {
        id: ME,
        voters: voters.to_vec(),
        heartbeat_ticks: 1,
        election_ticks: 10,
        seed: 1,
        log_keep_entries: 4,
        append_bytes: 4_096,
        lost: Doubt::None,
        is_new: false,
    };
    MemberParams {
        consensus: consensus::ConsensusParams { raft, retry_after: Duration::from_millis(300) },
        flush_interval: Duration::from_secs(1),
        flush_bytes: 1_024,
        range_bytes: 1_024,
        quota_bytes: 0,
        compaction: node::compactor::CompactorParams {
            keep: None,
            lag_max: node::compactor::LagLimit { age: Duration::from_secs(4), revisions: 1_000 },
            interval: Duration::from_secs(1),
            patience: Duration::from_secs(1),
            grace: Duration::from_secs(1),
        },
        history: coord::HistoryWindow { millis: i64::MAX, rows_max: u64::MAX },
        leases: node::LeaseClockParams {
            election: Duration::from_secs(1),
            checkpoint_interval: Duration::from_secs(1),
        },
        digest_secret: 1,
        initial_members: Vec::new(),
        first_boot: Boot(100),
        wal_segment_bytes: 64 * 1_024,
        member_store: MemberStoreParams {
            cache_bytes: 64 * 1_024,
            chunk_bytes: 1_024,
            unindexed_keys_max: 8,
        },
        watch: coord::watch::Params {
            progress_interval: Duration::from_secs(1),
            fragment_bytes: 1_024,
            batch_revisions: 5,
            batch_bytes: 1_024,
            watches_max: 8,
        },
    }
}

fn start(disk: &SimDisk, voters: &[NodeId]) -> Result<OpenedMember, Error> {
    open(Arc::new(disk.clone()), &params(voters), Instant(0))
}

fn persist(record: Record) -> Persist {
    Persist { seq: 1, install: None, records: vec![record] }
}

fn entry(index: u64) -> Record {
    let at = Position { term: Term(1), index: Index(index) };
    Record::Entries(vec![Entry { at, data: bytes::Bytes::from_static(b"data"), reconfigures: false }])
}

fn vote(term: u64) -> Record {
    Record::Vote { term: Term(term), vote: Some(ME), commit: Index(0) }
}

/// A member without doubt, with one entry in its log behind a vote.
fn founded(voters: &[NodeId]) -> SimDisk {
    let disk = SimDisk::new(1);
    let mut member = start(&disk, voters).unwrap();
    for record in [Record::Doubt(Doubt::None), vote(1), entry(1)] {
        member.member_log.write(&[persist(record)]).unwrap();
        member.member_log.sync().unwrap();
    }
    drop(member);
    disk.crash();
    assert_eq!(start(&disk.fork(), voters).unwrap().doubt, Doubt::None);
    disk
}

fn newest(disk: &SimDisk) -> FrameLocation {
    disk::wal::inspect(&disk.fork(), &mut |_| {}).unwrap().newest.unwrap()
}

const THREE: [NodeId; 3] = [ME, NodeId(2), NodeId(3)];

#[test]
fn a_damaged_last_frame_is_doubted_over_further_starts() {
    let disk = founded(&THREE);
    let last = newest(&disk);
    disk.flip_bit(&last.file, last.offset + 20);
    for _ in 0..3 {
        assert_eq!(start(&disk, &THREE).unwrap().doubt, Doubt::LastFrame);
        disk.crash();
    }
    let disk = founded(&THREE);
    disk.flip_bit(&last.file, last.offset + 20);
    plant(Some(Mutant::TailDoubtNotKept.into()));
    let first = start(&disk, &THREE).unwrap().doubt;
    disk.crash();
    let second = start(&disk, &THREE).unwrap().doubt;
    plant(None);
    assert_eq!((first, second), (Doubt::LastFrame, Doubt::None), "the planted bug does what it says");
}

#[test]
fn a_member_that_is_alone_cuts_a_torn_end_and_refuses_what_is_more() {
    let disk = founded(&[ME]);
    let last = newest(&disk);
    let torn = disk.fork();
    torn.flip_bit(&last.file, last.offset + 20);
    assert_eq!(start(&torn, &[ME]).unwrap().doubt, Doubt::None);
    disk.truncate_durably(&last.file, last.offset + 8);
    let Err(error) = start(&disk, &[ME]) else { panic!("it starts on a log that was cut short") };
    assert!(matches!(error, Error::Shortened { .. }), "{error}");
    assert!(error.to_string().contains("backup"), "{error}");
}

#[test]
fn a_log_that_was_cut_short_is_doubted_as_a_whole_and_starts_are_counted_from_the_clock() {
    let disk = founded(&THREE);
    let last = newest(&disk);
    disk.truncate_durably(&last.file, last.offset);
    let member = start(&disk, &THREE).unwrap();
    assert_eq!((member.doubt, member.boot), (Doubt::Everything, Boot(101)));
    let clock = MemberParams { first_boot: Boot(900), ..params(&THREE) };
    let disk = founded(&THREE);
    disk.truncate_durably(&last.file, last.offset);
    assert_eq!(open(Arc::new(disk.clone()), &clock, Instant(0)).unwrap().boot, Boot(900));
}

/// A vote is never in the one frame whose damage passes as a torn end.
#[test]
fn a_damaged_vote_is_damage() {
    let damage = |plants: Option<Mutant>| {
        let disk = founded(&THREE);
        let mut member = start(&disk, &THREE).unwrap();
        plant(plants.map(Mutant::bug));
        member.member_log.write(&[persist(vote(7))]).unwrap();
        member.member_log.sync().unwrap();
        plant(None);
        drop(member);
        disk.crash();
        let last = newest(&disk);
        disk.flip_bit(&last.file, last.offset + 20);
        start(&disk, &THREE).map(|member| member.doubt)
    };
    assert!(matches!(damage(None), Err(Error::Disk(disk::Error::Corrupt { .. }))));
    let planted = damage(Some(Mutant::VotesNotSealed));
    assert!(matches!(planted, Ok(Doubt::LastFrame)), "the planted bug does what it says");
}

#[test]
fn files_that_are_gone_are_missed() {
    let disk = founded(&THREE);
    disk.remove_durably(SEGMENT);
    let Err(error) = start(&disk, &THREE) else { panic!("it starts without its log") };
    assert!(error.to_string().contains(&format!("{SEGMENT} is missing. Replace this member")), "{error}");
}
