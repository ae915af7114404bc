//! Worlds with a bias: what goes wrong and what clients do there is chosen so that one known kind of bug would show.
//! A scenario is a name, the bias, and a count of how often the thing that it is about happened; a run in which it
//! never does proves nothing. The judges are those of every world. `STORM` is the world without a bias.

use crate::history::{ModelRequest, Outcome};
use crate::nemesis::{self, Fault};
use crate::watchers::WatchSeen;
use crate::world::World;
use base::limits;
use base::mutant::PlantedBug;
use base::{Code, Revision};
use coord::request::Request;

#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// The class of bugs, by its usual name elsewhere.
    pub about: &'static str,
    pub bias: Bias,
    pub met: fn(&World) -> u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Bias {
    /// How many members there are at first, one of these.
    pub members: &'static [usize],
    /// With their weights.
    pub faults: &'static [(u64, Fault)],
    /// Between two faults, in µs.
    pub fault_pause: (u64, u64),
    /// Of the log nothing is kept for those who lag.
    pub short_log: bool,
    /// So much of the log is sent at a time.
    pub append_bytes: usize,
    /// Between two changes of the cluster, in µs.
    pub change_pause: (u64, u64),
    /// Members are removed down to so many voters.
    pub fewest_voters: usize,
    /// How often an added member has no vote at first, in a million.
    pub learners: u64,
    /// Clients that take their responses late, in a million.
    pub slow_watchers: u64,
    pub starts: Starts,
    /// Between two whims of a watcher, in µs.
    pub whims: (u64, u64),
    /// How often the tenant who compacts does so, in a million.
    pub compactions: u64,
    /// How often it is the leader who compacts, and not that tenant, in a million worlds.
    pub leader_compacts: u64,
    /// Slow clients take nothing at all until all is calm, and are not waited for.
    pub dead_watchers: bool,
    /// Compactions are at the newest delete.
    pub compact_deletes: bool,
    pub ttl_seconds: (u64, u64),
    pub renewals: (u64, u64),
    pub mix: Mix,
    /// The world is about locks.
    pub only_locks: bool,
}

/// Where watches begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starts {
    Anywhere,
    Zero,
    FarAhead,
    AtCompaction,
}

/// What clients ask for more often than anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    Usual,
    Deletes,
    SameKeys,
    LookingBack,
}

const UNBIASED: Bias = Bias {
    members: &[1, 3, 3, 3, 3, 3, 3, 5, 5, 5],
    faults: nemesis::STORM,
    fault_pause: (200_000, 4_000_000),
    short_log: false,
    append_bytes: limits::APPEND_BYTES_SOFT,
    change_pause: (4_000_000, 20_000_000),
    fewest_voters: 2,
    learners: 400_000,
    slow_watchers: 300_000,
    starts: Starts::Anywhere,
    whims: (200_000, 4_000_000),
    compactions: 300_000,
    leader_compacts: 500_000,
    dead_watchers: false,
    compact_deletes: false,
    ttl_seconds: (2, 9),
    renewals: (0, 12),
    mix: Mix::Usual,
    only_locks: false,
};

pub static STORM: Scenario =
    Scenario { name: "storm", about: "everything", bias: UNBIASED, met: |world| world.counts.faults };

/// Snapshots, compactions and changes of the cluster, and no fault that would hide what a crash among them does.
pub static UPKEEP: Scenario = Scenario {
    name: "upkeep",
    about: "compactions, snapshots and changes at once",
    bias: Bias {
        faults: &[(1, Fault::IsolateFollower)],
        fault_pause: (1_000_000, 4_000_000),
        short_log: true,
        change_pause: (1_000_000, 4_000_000),
        leader_compacts: 1_000_000,
        ..UNBIASED
    },
    met: |world| world.counts.rounds,
};

/// Elections, and members that go down and come back while they vote.
pub static VOTES: Scenario = Scenario {
    name: "votes",
    about: "a member votes twice in a term",
    bias: Bias {
        members: &[3, 5],
        faults: &[(4, Fault::Flicker), (1, Fault::Kill)],
        fault_pause: (500_000, 2_500_000),
        change_pause: (20_000_000, 60_000_000),
        ..UNBIASED
    },
    met: |world| world.counts.elections,
};

/// Power goes while the cluster is changed, and all members come back with what their disks say of it.
pub static CHANGES: Scenario = Scenario {
    name: "changes",
    about: "members count by configurations whose majorities do not meet",
    bias: Bias {
        members: &[3, 5],
        faults: &[(3, Fault::Blackout), (2, Fault::Split), (1, Fault::Kill)],
        fault_pause: (500_000, 2_500_000),
        change_pause: (300_000, 1_500_000),
        ..UNBIASED
    },
    met: |world| world.operators.changes,
};

/// Disks are lost one at a time, and their members come back empty under the ids that they had.
pub static DISKS: Scenario = Scenario {
    name: "lost-disks",
    about: "a member that has lost its disk is taken for what it was",
    bias: Bias {
        members: &[3, 5],
        faults: &[
            (4, Fault::LoseDisk),
            (4, Fault::Ambush),
            (3, Fault::IsolateLeader),
            (2, Fault::Kill),
            (1, Fault::Split),
        ],
        fault_pause: (300_000, 2_000_000),
        append_bytes: 128,
        change_pause: (20_000_000, 60_000_000),
        ..UNBIASED
    },
    met: |world| world.counts.disks_lost,
};

/// Logs are damaged one at a time, most of them right after their member was counted on.
pub static LOGS: Scenario = Scenario {
    name: "damaged-logs",
    about: "a member that has lost part of its log is taken for what it was",
    bias: Bias {
        members: &[3, 5],
        faults: &[
            (3, Fault::DamageLog),
            (8, Fault::DamageLogInAmbush),
            (3, Fault::IsolateLeader),
            (2, Fault::Kill),
            (1, Fault::PowerCut),
            (1, Fault::Blackout),
            (1, Fault::Split),
        ],
        fault_pause: (300_000, 2_000_000),
        append_bytes: 128,
        change_pause: (20_000_000, 60_000_000),
        ..UNBIASED
    },
    met: |world| world.counts.logs_damaged,
};

/// Every world is about locks, not every fourth.
pub static LOCKS: Scenario = Scenario {
    name: "locks",
    about: "locks",
    bias: Bias { only_locks: true, ..UNBIASED },
    met: |world| world.counts.acquired,
};

/// Users come with their tokens while an administrator gives and takes what they may do; a world counts if requests
/// were served and refused.
pub static AUTH: Scenario = Scenario {
    name: "auth",
    about: "what was revoked is done nevertheless",
    bias: Bias { fault_pause: (200_000, 2_000_000), ..UNBIASED },
    met: |world| world.auth_users.served.min(world.auth_users.refused),
};

pub static ALL: [Scenario; 17] = [
    Scenario {
        name: "c5-progress-of-slow-streams",
        about: "progress is reported before the events it stands for (etcd 15220)",
        bias: Bias {
            faults: &[(1, Fault::Kill), (2, Fault::Pause)],
            slow_watchers: 900_000,
            whims: (20_000, 400_000),
            ..UNBIASED
        },
        met: |world| seen(world, |_, seen| matches!(seen, WatchSeen::Progress(_))),
    },
    Scenario {
        name: "c6-watch-over-a-snapshot",
        about: "a watch goes back in time after a partition and a snapshot (etcd 15271)",
        bias: Bias {
            faults: &[(6, Fault::IsolateFollower), (1, Fault::Pause)],
            short_log: true,
            compactions: 50_000,
            ..UNBIASED
        },
        met: |world| world.counts.snapshots,
    },
    Scenario {
        name: "c7-starved-streams",
        about: "events are lost for clients that do not take them (etcd 17529)",
        bias: Bias {
            faults: &[(1, Fault::Pause), (1, Fault::SlowDisks)],
            slow_watchers: 1_000_000,
            compactions: 50_000,
            ..UNBIASED
        },
        met: |world| seen(world, |_, seen| matches!(seen, WatchSeen::Events { .. })),
    },
    Scenario {
        name: "c8-watch-at-a-compacted-delete",
        about: "a delete at the compacted revision is not delivered (etcd 18089, 19179)",
        bias: Bias {
            faults: &[(2, Fault::Kill), (1, Fault::IsolateFollower)],
            starts: Starts::AtCompaction,
            whims: (100_000, 1_000_000),
            compactions: 900_000,
            leader_compacts: 0,
            compact_deletes: true,
            mix: Mix::Deletes,
            ..UNBIASED
        },
        met: |world| {
            let at_delete =
                |start| world.truth.compactions.contains(start) && world.truth.deletes.contains(start);
            world.watchers.records.iter().filter(|record| at_delete(&record.start)).count() as u64
        },
    },
    Scenario {
        name: "c9-watch-of-the-future",
        about: "a watch of a future revision hears of earlier ones (etcd 20221)",
        bias: Bias {
            faults: &[(2, Fault::IsolateFollower), (2, Fault::Pause), (1, Fault::Kill)],
            starts: Starts::FarAhead,
            whims: (100_000, 1_000_000),
            ..UNBIASED
        },
        met: |world| seen(world, |start, seen| matches!(seen, WatchSeen::Created(header) if start > *header)),
    },
    Scenario {
        name: "c10-transactions-on-the-compacted",
        about: "a transaction that reads a compacted revision makes members differ (etcd 18667)",
        bias: Bias {
            faults: &[(3, Fault::Kill), (1, Fault::Blackout), (2, Fault::IsolateFollower)],
            compactions: 900_000,
            mix: Mix::LookingBack,
            leader_compacts: 0,
            ..UNBIASED
        },
        met: |world| {
            let refused = world.clients.history.iter().filter(|operation| {
                matches!(operation.request, ModelRequest::Kv(Request::Txn(_)))
                    && operation.outcome == Outcome::Refused(Code::Compacted)
            });
            refused.count() as u64
        },
    },
    Scenario {
        name: "c14-members-come-and-go",
        about: "a snapshot, a restart or an election in the midst of changes of the cluster (etcd 18055, 20271)",
        bias: Bias {
            faults: nemesis::STORM,
            short_log: true,
            change_pause: (300_000, 2_000_000),
            ..UNBIASED
        },
        met: |world| world.operators.changes.saturating_sub(1),
    },
    Scenario {
        name: "c15-same-keys-in-a-transaction",
        about: "a transaction that names a key several times makes an event twice (etcd 17247)",
        bias: Bias { faults: &[(1, Fault::Kill), (1, Fault::Pause)], mix: Mix::SameKeys, ..UNBIASED },
        met: |world| seen(world, |_, seen| matches!(seen, WatchSeen::Events { .. })),
    },
    Scenario {
        name: "c18-old-leader-revokes",
        about: "a leader that was stopped revokes what its successor renewed (etcd 12528)",
        bias: Bias {
            faults: &[(4, Fault::PauseLeader), (1, Fault::IsolateLeader)],
            fault_pause: (1_000_000, 5_000_000),
            ttl_seconds: (2, 5),
            renewals: (6, 30),
            ..UNBIASED
        },
        met: |world| world.counts.elections.saturating_sub(1),
    },
    Scenario {
        name: "c19-revokes-that-fail",
        about: "the revoke of an expired lease is lost and its keys stay (etcd 9935, 10686)",
        bias: Bias {
            faults: &[
                (2, Fault::OneWay),
                (2, Fault::SlowDisks),
                (2, Fault::IsolateLeader),
                (1, Fault::FailSync),
            ],
            ttl_seconds: (2, 4),
            renewals: (0, 2),
            ..UNBIASED
        },
        met: |world| world.counts.expired,
    },
    Scenario {
        name: "c20-elections-within-a-lease",
        about: "a lease starts again with every leader, or ends early (etcd 13294, 17132)",
        bias: Bias {
            faults: &[(8, Fault::Transfer), (1, Fault::Kill)],
            fault_pause: (200_000, 1_500_000),
            ttl_seconds: (6, 9),
            renewals: (0, 4),
            ..UNBIASED
        },
        met: |world| world.counts.elections / 3,
    },
    Scenario {
        name: "c23-watch-from-zero",
        about: "it is not said what a watch from revision zero hears (Jepsen, etcd 3.4.3)",
        bias: Bias {
            faults: &[(1, Fault::Kill), (1, Fault::IsolateFollower)],
            starts: Starts::Zero,
            whims: (100_000, 1_000_000),
            ..UNBIASED
        },
        met: |world| {
            seen(world, |start, seen| start == Revision::ZERO && matches!(seen, WatchSeen::Created(_)))
        },
    },
    Scenario {
        name: "c3-crash-in-a-compaction",
        about: "the revision goes down, or a value is lost, when a compaction, a snapshot or a change is cut short (etcd 14685, 17780)",
        bias: Bias {
            faults: &[
                (4, Fault::Kill),
                (2, Fault::Blackout),
                (2, Fault::IsolateFollower),
                (2, Fault::Transfer),
            ],
            fault_pause: (200_000, 1_500_000),
            short_log: true,
            change_pause: (1_000_000, 6_000_000),
            leader_compacts: 1_000_000,
            ..UNBIASED
        },
        met: |world| world.counts.rounds,
    },
    Scenario {
        name: "c24-changes-with-one-down",
        about: "a cluster that has its quorum cannot be changed while a member is down (etcd 3.6)",
        bias: Bias {
            members: &[3, 5],
            faults: &[(2, Fault::Kill), (3, Fault::PowerCut), (1, Fault::Transfer)],
            fault_pause: (500_000, 2_000_000),
            change_pause: (300_000, 1_500_000),
            ..UNBIASED
        },
        met: |world| world.operators.changes_short,
    },
    Scenario {
        name: "c28-dead-watchers",
        about: "one slow watch or a dead member holds up compaction for ever",
        bias: Bias {
            faults: &[(2, Fault::Kill), (1, Fault::IsolateFollower), (1, Fault::Pause)],
            slow_watchers: 800_000,
            whims: (5_000_000, 30_000_000),
            leader_compacts: 1_000_000,
            dead_watchers: true,
            ..UNBIASED
        },
        met: |world| world.counts.overtaken,
    },
    Scenario {
        name: "one-becomes-several",
        about: "a lone member crashes while others join it",
        bias: Bias {
            members: &[1],
            faults: &[(3, Fault::SlowDisks), (2, Fault::FailSync), (3, Fault::PowerCut)],
            fault_pause: (300_000, 1_800_000),
            change_pause: (3_000_000, 9_000_000),
            learners: 1_000_000,
            // Lock clients ask before there is a leader, so their requests are in its first entries.
            only_locks: true,
            ..UNBIASED
        },
        met: |world| world.operators.changes,
    },
    Scenario {
        name: "several-become-one",
        about: "a removed member is gone before those that need its vote know of the removal",
        bias: Bias {
            members: &[2],
            faults: &[(3, Fault::Split), (2, Fault::Kill), (2, Fault::PowerCut), (1, Fault::IsolateLeader)],
            fault_pause: (200_000, 1_500_000),
            change_pause: (200_000, 1_000_000),
            fewest_voters: 1,
            learners: 0,
            ..UNBIASED
        },
        met: |world| world.operators.changes,
    },
];

/// Every world: the storm, those with a subject of their own, and those named after a class of bugs.
pub fn all() -> Vec<&'static Scenario> {
    let named = [&STORM, &UPKEEP, &LOCKS, &AUTH, &VOTES, &CHANGES, &DISKS, &LOGS];
    named.into_iter().chain(&ALL).collect()
}

pub fn by_name(name: &str) -> Option<&'static Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}

/// Counts what watches were sent; the first revision asked for goes with each.
fn seen(world: &World, wanted: impl Fn(Revision, &WatchSeen) -> bool) -> u64 {
    let records = world.watchers.records.iter();
    records.map(|record| record.seen.iter().filter(|seen| wanted(record.start, seen)).count() as u64).sum()
}

/// Worlds in which planted bugs are looked for that the usual worlds do not meet within reason.
const HUNTING_GROUNDS: &[(&str, &[PlantedBug])] = &[
    ("c20-elections-within-a-lease", &[node::Mutant::RevokeProposedOnce.bug()]),
    ("votes", &[raft::Mutant::VoteForgotten.bug()]),
    (
        "lost-disks",
        &[
            node::Mutant::StartsCountedFromOne.bug(),
            raft::Mutant::EmptiedVotes.bug(),
            raft::Mutant::DoubtNotKept.bug(),
            raft::Mutant::DoubtEndsEarly.bug(),
        ],
    ),
    (
        "damaged-logs",
        &[
            disk::Mutant::ShortSegmentAccepted.bug(),
            disk::Mutant::MissingSegmentAccepted.bug(),
            raft::Mutant::VotesInDoubt.bug(),
        ],
    ),
    ("changes", &[raft::Mutant::StandsOnOldConfig.bug()]),
    ("several-become-one", &[coord::Mutant::RemovedGoesAtOnce.bug()]),
    ("one-becomes-several", &[raft::Mutant::LeadsBeforeItsVote.bug()]),
    (
        "auth",
        &[
            coord::Mutant::AuthRevisionUnchecked.bug(),
            coord::Mutant::PermissionByStartKey.bug(),
            coord::Mutant::DeletedRoleStays.bug(),
            coord::Mutant::RevokedRangeStays.bug(),
            node::Mutant::TokenOutlivesUser.bug(),
            coord::Mutant::EpochNotRaised.bug(),
            coord::Mutant::DataPermissionsNotWritten.bug(),
        ],
    ),
];

/// The worlds in which a planted bug is looked for: the usual ones, or where it can be met at all within reason.
pub fn hunting_ground(bug: PlantedBug) -> &'static Scenario {
    HUNTING_GROUNDS
        .iter()
        .find(|(_, bugs)| bugs.contains(&bug))
        .map_or(&STORM, |(name, _)| by_name(name).expect("it is a world"))
}
