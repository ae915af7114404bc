//! The apply machine: committed entries become changes, replies and rows; reads are answered from the state.
//! It owns the coordination state and what of it is not flushed yet. Every member applies the same entries in
//! the same order with the same outcome; only the member that a proposal came from answers it.

use crate::auth_tokens::TokenEvent;
use crate::batch;
use crate::compaction_round::RoundReport;
use crate::compactor;
use crate::layered_history::LayeredHistory;
use crate::lease_clock::{self, LeaderProposals};
use crate::lease_events::{self, LeaseEvent};
use crate::lock_waits::{self, LockWaits, WaitId, WaitOutcome};
use crate::mutant::Mutant;
use crate::peer_message::PeerMessage;
use crate::question::{AskerId, LeaderAnswer};
use crate::reads::{Read, ReadBatch};
use base::mutant::planted;
use base::{Boot, Code, FormatLevel, Index, Instant, NodeId, Position, ReadView, ReplyToken, Revision, Term};
use bytes::Bytes;
use compacting::CompactionPart;
use coord::reply::Reply;
use coord::request::Request;
use coord::watch::{self, Hub};
use coord::{
    Applied, Command, CorruptRow, Documents, HistoryWindow, LockClaim, Member, Members, State, rows,
};
use flushing::Flusher;
use integrity::IntegrityCheck;
use leading::LeaderDuties;
use raft::Entry;
use std::time::Duration;

mod auth;
mod compacting;
mod flushing;
mod history;
mod inspect;
mod integrity;
mod leading;
pub mod op_counts;
mod pieces;
mod replacing;

pub use crate::overlay::Flush;
pub use inspect::{CompactionDescription, CompactionPin, LeaseDescription, OldestNeeded, PinReader};
pub use op_counts::OpCounts;
pub use pieces::{HoldId, HoldKind, Page, PageRequest, PageRow, SizeSurvey, ValueSource};

#[derive(Clone, Debug)]
pub struct ApplyParams {
    pub me: NodeId,
    pub boot: Boot,
    /// How long applied changes may wait for their flush.
    pub flush_interval: Duration,
    /// How many bytes of them may wait.
    pub flush_bytes: usize,
    /// A range whose answer is larger is read in pieces, if the caller can do so.
    pub range_bytes: usize,
    pub watch: watch::Params,
    pub leases: lease_clock::LeaseClockParams,
    /// The initial members of the cluster, as configured; empty for a member that joins later.
    pub initial_members: Vec<Member>,
    /// The quota in bytes, by the rows of changes; zero sets no bound.
    pub quota_bytes: u64,
    pub compaction: compactor::CompactorParams,
    /// The history that compactions keep.
    pub history: HistoryWindow,
    /// Known to this start of this member alone.
    pub digest_secret: u64,
}

#[derive(Debug)]
pub enum ApplyInput {
    Committed(Vec<Entry>),
    Read(ReadBatch),
    Watch(watch::Input),
    Lock(lock_waits::LockWaitInput),
    /// The time of day, in milliseconds since 1970.
    TimeOfDay(i64),
    /// A message of another member.
    PeerMessage {
        from: NodeId,
        message: PeerMessage,
    },
    /// The term in which this member leads from now on, if it does.
    Leading(Option<Term>),
    /// The flush of this number is durable and visible in the view given with this input.
    Flushed(u64),
    Tick,
}

#[derive(Debug, Default)]
pub struct ApplyOutput {
    pub replies: Vec<(ReplyToken, Result<Reply, Code>)>,
    /// Proposals of this member that were applied.
    pub finished: Vec<u64>,
    /// Answers to questions, for `Consensus` to deliver.
    pub answers: Vec<(AskerId, LeaderAnswer)>,
    /// Messages that `Consensus` sends to other members.
    pub peer_messages: Vec<(NodeId, PeerMessage)>,
    /// For `Consensus` to propose.
    pub proposals: Vec<LeaderProposals>,
    pub flush: Option<Flush>,
    /// In the order in which each stream must get them.
    pub watch: Vec<watch::Response>,
    /// The outcomes of waits for locks.
    pub locks: Vec<(WaitId, WaitOutcome)>,
    /// The table of members from these indexes on.
    pub members: Vec<(Index, Members)>,
    /// Users, roles or permissions have changed.
    pub auth_changed: bool,
    /// In the order in which they happened.
    pub tokens: Vec<TokenEvent>,
    /// Some document was replaced.
    pub documents_changed: bool,
    /// In the order in which they happened.
    pub lease_events: Vec<LeaseEvent>,
    /// Rounds of automatic compaction that this member led and that have ended.
    pub compaction_rounds: Vec<RoundReport>,
}

pub struct Apply {
    params: ApplyParams,
    state: State,
    applied: Position,
    flusher: Flusher,
    leader: LeaderDuties,
    retention: CompactionPart,
    integrity: IntegrityCheck,
    hub: Hub,
    lock_waits: LockWaits,
    holds: pieces::RevisionHolds,
    /// Reads whose index is not applied yet.
    waiting_reads: Vec<ReadBatch>,
    installed: InstalledSnapshot,
    counts: ApplyCounts,
}

/// Counters of the member's own work since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyCounts {
    /// Leases that this member found expired while it led; some more than once.
    pub leases_expired: u64,
    /// Versions that compactions removed.
    pub versions_swept: u64,
    pub ops: OpCounts,
}

/// The contents of a snapshot that the next step reports.
#[derive(Default)]
struct InstalledSnapshot {
    /// Users and permissions may be others.
    auth_unknown: bool,
    /// The outcomes of waits for locks.
    lock_outcomes: Vec<(WaitId, WaitOutcome)>,
}

impl Apply {
    /// Starts from what the store holds.
    pub fn restore(params: ApplyParams, now: Instant, view: &dyn ReadView) -> Result<Apply, CorruptRow> {
        let (state, applied) = load(view)?;
        Ok(Apply {
            hub: Hub::new(params.watch.clone(), state.revision()),
            flusher: Flusher::new(now, applied),
            leader: LeaderDuties::new(now, &params),
            retention: CompactionPart::new(&params.compaction),
            integrity: IntegrityCheck::default(),
            lock_waits: LockWaits::default(),
            holds: pieces::RevisionHolds::default(),
            waiting_reads: Vec::new(),
            installed: InstalledSnapshot::default(),
            counts: ApplyCounts::default(),
            params,
            state,
            applied,
        })
    }

    pub fn step(&mut self, now: Instant, view: &dyn ReadView, input: ApplyInput, out: &mut ApplyOutput) {
        if self.integrity.diverged {
            return;
        }
        if std::mem::take(&mut self.installed.auth_unknown) {
            out.tokens.push(TokenEvent::AllRevoked);
            self.auth_changed(out);
        }
        match input {
            ApplyInput::Committed(entries) => self.on_committed(now, view, entries, out),
            ApplyInput::Read(batch) => self.on_read(now, view, batch, out),
            ApplyInput::Watch(input) => self.on_watch(now, view, input, out),
            ApplyInput::Lock(input) => self.lock_waits.step(input, &self.state, &mut out.locks),
            ApplyInput::PeerMessage { from, message: PeerMessage::Compaction(round) } => {
                self.on_round(now, from, round, out)
            }
            ApplyInput::PeerMessage { from, message: PeerMessage::Digest(digest) } => {
                self.on_digest(now, from, digest, out)
            }
            ApplyInput::PeerMessage { from, message: PeerMessage::DigestQuestion { index, nonce } } => {
                self.on_digest_question(from, index, nonce, out)
            }
            ApplyInput::PeerMessage { from, message: PeerMessage::DigestAnswer { nonce, digest } } => {
                self.on_digest_answer(from, nonce, digest, out)
            }
            ApplyInput::TimeOfDay(millis) => self.mark_time(now, millis, out),
            ApplyInput::Leading(term) => {
                self.retention.compactor.set_leading(now, term);
                if planted(Mutant::HandOverLost) {
                    self.lock_waits = LockWaits::default();
                }
                self.with_lease_clock(out, |lease_clock, state, said| {
                    lease_clock.set_leading(now, term, state, said)
                });
                self.propose_bootstrap(out);
                self.finish_found_replacement(now, out);
            }
            ApplyInput::Flushed(number) => {
                if self.flusher.on_flushed(number) && !self.state.is_sweeping() {
                    self.retention.answer_waiting(out);
                }
            }
            ApplyInput::Tick => {
                self.holds.expire(now, self.state.compacted());
                self.expire_reads(now, out);
                self.propose_bootstrap(out);
                self.finish_found_replacement(now, out);
                self.compact_when_due(now, out);
                self.ask_for_digests_again(now, out);
                self.clear_corrupt(out);
            }
        }
        out.locks.append(&mut self.installed.lock_outcomes);
        if self.integrity.diverged {
            return;
        }
        self.turn_watches(now, view, out);
        self.with_lease_clock(out, |lease_clock, state, said| lease_clock.tick(now, state, said));
        self.check_quota(now, out);
        self.flush_when_due(now, view, out);
    }

    fn on_committed(
        &mut self,
        now: Instant,
        view: &dyn ReadView,
        entries: Vec<Entry>,
        out: &mut ApplyOutput,
    ) {
        for entry in entries {
            // After a restart or an installed snapshot the log may begin before the store's position.
            if entry.at.index <= self.applied.index {
                continue;
            }
            assert_eq!(entry.at.index, self.applied.index.next(), "entries are applied without a gap");
            self.apply_entry(now, view, entry, out);
            self.digest_when_due(now, out);
            if self.integrity.diverged {
                return;
            }
        }
        self.serve_waiting(now, view, out);
    }

    fn apply_entry(&mut self, now: Instant, view: &dyn ReadView, entry: Entry, out: &mut ApplyOutput) {
        self.applied = entry.at;
        // A leader lets only whole batches into the log; should one not be, every member skips it alike.
        for proposal in batch::decode(entry.data).unwrap_or_default() {
            let id = proposal.id;
            let ours = id.origin == self.params.me && id.boot == self.params.boot;
            if planted(Mutant::ApplyNotDeterministic) && !ours && id.seq.is_multiple_of(16) {
                continue;
            }
            let Some(command) = Command::decode(proposal.command) else { continue };
            let proposal = coord::Proposal { id, low: proposal.low, command };
            let records = LayeredHistory { overlay: &self.flusher.overlay, view };
            let before = lease_events::LeasesBefore::of(&self.state);
            let Applied::Done { reply, changes } = self.state.apply(&records, entry.at, &proposal) else {
                // Its answer was given, or was skipped with a snapshot and will never be known.
                if ours {
                    out.finished.push(id.seq);
                    out.replies.push((ReplyToken(id.seq), Err(Code::Timeout)));
                }
                continue;
            };
            let watched =
                watch::HubContext { time: now, compacted: self.state.compacted(), change_log: &records };
            self.hub.observe(&watched, &changes, &mut out.watch);
            let (_, command) = proposal.command.caller_and_command();
            self.lock_waits.observe(command, &changes, &self.state, &mut out.locks);
            self.flusher.overlay.add(changes);
            self.counts.ops.add_command(command, &reply);
            if let Ok(reply) = &reply {
                self.after_auth(command, reply, out);
            }
            if matches!(command, Command::Members(_)) && reply.is_ok() {
                out.members.push((entry.at.index, self.state.members().clone()));
                self.propose_finish(now, out);
            }
            out.documents_changed |= matches!(command, Command::Document(_)) && reply.is_ok();
            out.lease_events.extend(before.after(command, reply.as_ref().ok(), &self.state));
            self.with_lease_clock(out, |lease_clock, state, said| {
                lease_clock.on_applied(now, command, &reply, state, said);
            });
            if ours {
                out.finished.push(id.seq);
                match (reply, command) {
                    (Ok(reply), Command::Compact(compact)) if compact.physical => {
                        self.retention.waiting.push((ReplyToken(id.seq), reply));
                    }
                    (reply, _) => out.replies.push((ReplyToken(id.seq), reply)),
                }
            }
        }
    }

    fn on_read(&mut self, now: Instant, view: &dyn ReadView, batch: ReadBatch, out: &mut ApplyOutput) {
        if batch.index <= self.applied.index || planted(Mutant::ReadBeforeApplied) {
            self.answer_batch(now, view, batch, out);
        } else {
            self.waiting_reads.push(batch);
        }
    }

    fn serve_waiting(&mut self, now: Instant, view: &dyn ReadView, out: &mut ApplyOutput) {
        let applied = self.applied.index;
        for batch in self.waiting_reads.extract_if(.., |batch| batch.index <= applied).collect::<Vec<_>>() {
            self.answer_batch(now, view, batch, out);
        }
    }

    fn answer_batch(&mut self, now: Instant, view: &dyn ReadView, batch: ReadBatch, out: &mut ApplyOutput) {
        batch.reads.into_iter().for_each(|read| self.answer(view, read, out));
        for ask in batch.asks {
            self.with_lease_clock(out, |lease_clock, state, said| lease_clock.answer(now, ask, state, said));
        }
    }

    fn answer(&mut self, view: &dyn ReadView, read: Read, out: &mut ApplyOutput) {
        if let Err(code) = self.state.check_read(&read.caller, &read.request) {
            return out.replies.push((read.token, Err(code)));
        }
        let records = LayeredHistory { overlay: &self.flusher.overlay, view };
        let reply = match read.request {
            Request::Range(range) if range.in_pieces => {
                self.state.range_unless_large(&records, range, self.params.range_bytes)
            }
            request => self.state.read(&records, &request),
        };
        self.counts.ops.add_read(&reply);
        out.replies.push((read.token, reply));
    }

    fn on_watch(&mut self, now: Instant, view: &dyn ReadView, input: watch::Input, out: &mut ApplyOutput) {
        let past = LayeredHistory { overlay: &self.flusher.overlay, view };
        let watched = watch::HubContext { time: now, compacted: self.state.compacted(), change_log: &past };
        self.hub.step(&watched, self.admit_watch(input), &mut out.watch);
    }

    fn turn_watches(&mut self, now: Instant, view: &dyn ReadView, out: &mut ApplyOutput) {
        let past = LayeredHistory { overlay: &self.flusher.overlay, view };
        let watched = watch::HubContext { time: now, compacted: self.state.compacted(), change_log: &past };
        self.hub.turn(&watched, &mut out.watch);
    }

    fn expire_reads(&mut self, now: Instant, out: &mut ApplyOutput) {
        for batch in &mut self.waiting_reads {
            let late = batch.reads.extract_if(.., |read| read.deadline <= now);
            out.replies.extend(late.map(|read| (read.token, Err(Code::Timeout))));
        }
        self.waiting_reads.iter_mut().for_each(|batch| batch.asks.retain(|ask| ask.deadline > now));
        self.waiting_reads.retain(|batch| !batch.reads.is_empty() || !batch.asks.is_empty());
    }

    /// The store was replaced by a snapshot: what was in memory belongs to the old one. The lease events in between
    /// are returned at once.
    pub fn install(&mut self, now: Instant, view: &dyn ReadView) -> Result<Vec<LeaseEvent>, CorruptRow> {
        let (state, applied) = load(view)?;
        let skipped = lease_events::between(&self.state, &state);
        assert!(applied.index > self.applied.index, "a snapshot is installed only when it leads further");
        self.state = state;
        if planted(Mutant::RepliesLostInSnapshot) {
            self.state.forget_sessions();
        }
        self.applied = applied;
        self.hub.installed(self.state.revision());
        self.installed.auth_unknown = true;
        self.lock_waits.installed(&self.state, &mut self.installed.lock_outcomes);
        self.leader.lease_clock.forget();
        self.integrity.installed(self.params.me);
        self.holds.installed(self.state.compacted());
        if planted(Mutant::OverlaySurvivesInstall) {
            return Ok(skipped);
        }
        self.flusher.installed(now, applied);
        Ok(skipped)
    }

    /// Watches that are behind can be sent more: the next step should not wait for input.
    pub fn is_catching_up(&self) -> bool {
        self.hub.is_busy()
    }

    pub fn counts(&self) -> ApplyCounts {
        self.counts
    }

    /// Revisions that the slowest watch has not been sent.
    pub fn watch_lag(&self) -> u64 {
        let oldest = self.hub.oldest_needed();
        oldest.map_or(0, |oldest| self.state.revision().next().0.saturating_sub(oldest.0).max(0) as u64)
    }

    pub fn watch_counts(&self) -> watch::WatchCounts {
        self.hub.counts()
    }

    /// Calls that wait for a lock, and how many waits have ended.
    pub fn lock_counts(&self) -> (usize, u64) {
        (self.lock_waits.count(), self.lock_waits.woken())
    }

    /// The client behind a place in the queue of a lock, as far as this member knows.
    pub fn claim(&self, key: &[u8]) -> Option<&LockClaim> {
        self.state.claim(key)
    }

    /// Keys of taken positions in the queues of locks, of those that begin so, in their order.
    pub fn lock_places(&self, prefix: &[u8], after: &[u8], limit: usize) -> Vec<Bytes> {
        let claims = self.state.locks().claims_from(prefix.max(after));
        let keys = claims.map(|(key, _)| key).skip_while(|key| !after.is_empty() && key[..] == *after);
        keys.take_while(|key| key.starts_with(prefix)).take(limit).cloned().collect()
    }

    pub fn applied(&self) -> Position {
        self.applied
    }

    pub fn applied_index(&self) -> Index {
        self.applied.index
    }

    /// The bytes of the rows of all changes in the store.
    pub fn stored_bytes(&self) -> u64 {
        self.state.stored_bytes()
    }

    /// The level of the formats that the state is written in.
    pub fn format_level(&self) -> FormatLevel {
        self.state.format_level()
    }

    pub fn alarms(&self) -> impl Iterator<Item = coord::Alarm> {
        self.state.alarms()
    }

    pub fn lease_count(&self) -> usize {
        self.state.lease_count()
    }

    /// The table of members, as far as this member has applied.
    pub fn members(&self) -> &Members {
        self.state.members()
    }

    /// The documents of the cluster, as far as this member has applied.
    pub fn documents(&self) -> &Documents {
        self.state.documents()
    }

    pub fn revision(&self) -> Revision {
        self.state.revision()
    }

    /// The oldest revision that can be read; zero while nothing was compacted.
    pub fn compacted(&self) -> Revision {
        self.state.compacted()
    }

    /// Live keys.
    pub fn key_count(&self) -> usize {
        self.state.key_count()
    }

    /// Equal on every member that has applied the same index.
    pub fn state_hash(&self) -> u64 {
        self.state.hash()
    }
}

fn load(view: &dyn ReadView) -> Result<(State, Position), CorruptRow> {
    let applied = rows::Meta::read(view)?.map_or(Position::ORIGIN, |meta| meta.applied);
    Ok((State::load(view)?.unwrap_or_else(State::empty), applied))
}
