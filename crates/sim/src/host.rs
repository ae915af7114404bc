//! One simulated machine: a disk that survives the process, a clock of its own, and the process if it runs.
//! The process is the real member (`engine::OpenedMember`); its threads are inboxes that the world serves at times
//! of its choosing, so every interleaving that the real threads could show can happen here.

use crate::history::Outcome;
use crate::lease_holders::SideRequest;
use crate::lock_clients::Calls;
use crate::readers::RangeRead;
use base::{Code, Index, Instant, NodeId, ReplyToken};
use coord::Members;
use coord::reply::Reply;
use disk::SimDisk;
use engine::OpenedMember;
use node::apply::HoldId;
use node::{AuthTokens, Flush, apply};
use raft::Persist;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Longer than a world lives.
const TOKEN_TTL: Duration = Duration::from_secs(300);

pub struct Host {
    pub id: NodeId,
    pub disk: SimDisk,
    pub process: Option<Process>,
    /// Counts starts and ends of the process, so that what was planned for an earlier one is not done to it.
    pub pid: u32,
    pub paused: bool,
    pub clock: Clock,
    /// Until then every sync of the disk takes long.
    pub slow_until: u64,
    /// The table of members that its store was last seen to have.
    pub flushed_members: Members,
    /// How many disks it has had before this one.
    pub disks: u64,
    /// Its log was damaged since it last ran.
    pub damaged: bool,
    /// Never starts again.
    pub retired: bool,
}

/// A monotonic clock that runs fast or slow, and may jump ahead.
pub struct Clock {
    pub parts_per_million: i64,
    pub ahead: u64,
}

pub struct Process {
    pub member: OpenedMember,
    /// What waits for the disk while a sync is in flight.
    pub to_persist: Vec<Persist>,
    /// What the disk is busy with: to be written, or written and being synced.
    pub writing: Vec<Persist>,
    pub to_apply: VecDeque<apply::ApplyInput>,
    pub apply_planned: bool,
    pub flush: Option<Flush>,
    /// When the last of what apply told consensus is heard.
    pub reported_at: u64,
    pub tokens: u64,
    /// Which operation of the history waits under a token.
    pub waiting: BTreeMap<ReplyToken, usize>,
    /// Large ranges that are read in pieces, and how many there were.
    pub readings: BTreeMap<HoldId, RangeRead>,
    pub holds: u64,
    /// Which tenant's request does.
    pub side_requests: BTreeMap<ReplyToken, SideRequest>,
    /// The tokens that clients hold.
    pub auth_tokens: AuthTokens,
    /// The lock calls of contenders.
    pub calls: Calls,
}

impl Clock {
    pub fn at(&self, now: u64) -> Instant {
        let drift = now as i64 / 1_000 * self.parts_per_million / 1_000;
        Instant((now as i64 + drift) as u64 + self.ahead)
    }

    /// How long, in true time, this clock takes for a span.
    pub fn true_span(&self, span: u64) -> u64 {
        (span as i64 - span as i64 * self.parts_per_million / 1_000_000) as u64
    }
}

impl Process {
    pub fn new(member: OpenedMember) -> Process {
        Process {
            member,
            to_persist: Vec::new(),
            writing: Vec::new(),
            to_apply: VecDeque::new(),
            apply_planned: false,
            flush: None,
            reported_at: 0,
            tokens: 0,
            waiting: BTreeMap::new(),
            readings: BTreeMap::new(),
            holds: 0,
            side_requests: BTreeMap::new(),
            auth_tokens: AuthTokens::new(TOKEN_TTL),
            calls: Calls::default(),
        }
    }

    pub fn applied(&self) -> Index {
        self.member.apply.applied().index
    }
}

/// What a client makes of an answer.
pub fn outcome_of(result: Result<Reply, Code>) -> Outcome {
    match result {
        Ok(reply) => Outcome::Done(reply),
        // The proposal may be in the log of some member.
        Err(Code::Timeout | Code::NoLeader | Code::Stopped) => Outcome::Unknown,
        Err(code) => Outcome::Refused(code),
    }
}
