//! The state machine itself: the index of keys, the revision, what was applied, and a hash of it all.
//! Proposals go in by log order and each comes out as an answer and its changes; reads go in and leave no
//! trace. Two members that applied the same log have the same state, which equal hashes show.

use crate::alarms::{Alarm, Alarms};
use crate::auth::{self, Auth, AuthCommand, Caller, LeaseAccess};
use crate::cached_reply::ReplyResult;
use crate::change::{Change, ChangeKind, Records};
use crate::clock::RevisionClock;
use crate::command::Command;
use crate::compaction::Sweep;
use crate::compaction_times::CompactionTimes;
use crate::documents::{Documents, SetDocument};
use crate::draft::{self, Draft, Effect, Revisions};
use crate::history_rows::HistoryRows;
use crate::idempotent::{IdempotentCommand, RequestId};
use crate::index::Index;
use crate::leases::{GrantTime, Lease, Leases};
use crate::locks::{LockClaim, Locks};
use crate::members::{MemberChange, Members};
use crate::mutant::Mutant;
use crate::origins::Origins;
use crate::proposal::Proposal;
use crate::quota::Quota;
use crate::reply::{Body, RangeReply, Reply};
use crate::request::{Range, Request};
use crate::rows::{LoggedChange, change_bytes};
use crate::sessions::Sessions;
use crate::{range, txn};
use base::checksum::hash64;
use base::mutant::planted;
use base::{Code, FormatLevel, LeaseId, Position, Revision};

#[derive(Debug)]
pub struct State {
    pub(crate) index: Index,
    pub(crate) origins: Origins,
    pub(crate) leases: Leases,
    pub(crate) locks: Locks,
    pub(crate) sessions: Sessions,
    pub(crate) members: Members,
    pub(crate) alarms: Alarms,
    pub(crate) clock: RevisionClock,
    pub(crate) quota: Quota,
    pub(crate) history_rows: HistoryRows,
    pub(crate) compaction_times: CompactionTimes,
    pub(crate) documents: Documents,
    pub(crate) auth: Auth,
    /// The level of the formats that are written; derived from documents and members.
    pub(crate) level: FormatLevel,
    /// The bytes of the rows of all changes, those of the past included. Members sweep at their own pace, so it is
    /// no part of what they must agree on.
    pub(crate) stored_bytes: u64,
    /// Where in the log the removal of what was compacted goes on.
    pub(crate) sweep: Option<Sweep>,
    pub(crate) revision: Revision,
    pub(crate) compacted: Revision,
    pub(crate) hash: u64,
}

/// The place of a line in the log of changes: a revision, and the order within it.
pub(crate) type ChangePosition = (Revision, u32);

/// The outcome of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The proposal was applied before, and changed nothing now. Its reply went to the first caller.
    Duplicate,
    /// The proposal was applied. Refused or not, it is remembered and part of the hash; refused, it changed nothing.
    Done { reply: Result<Reply, Code>, changes: Vec<Change> },
}

impl State {
    /// A store to which nothing was ever written.
    pub fn empty() -> State {
        State {
            index: Index::default(),
            origins: Origins::default(),
            leases: Leases::default(),
            locks: Locks::default(),
            sessions: Sessions::default(),
            members: Members::default(),
            alarms: Alarms::default(),
            clock: RevisionClock::default(),
            quota: Quota::default(),
            history_rows: HistoryRows::default(),
            compaction_times: CompactionTimes::default(),
            documents: Documents::default(),
            auth: Auth::default(),
            level: FormatLevel::NEWEST,
            stored_bytes: 0,
            sweep: None,
            revision: Revision::EMPTY_STORE,
            compacted: Revision::ZERO,
            hash: 0,
        }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The oldest revision that can still be read; zero while nothing was compacted.
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// Covers every proposal applied so far, with its outcome.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Live keys.
    pub fn key_count(&self) -> usize {
        self.index.len()
    }

    pub fn apply(&mut self, records: &dyn Records, at: Position, proposal: &Proposal) -> Applied {
        if self.origins.is_duplicate(proposal.id) {
            return Applied::Duplicate;
        }
        let (caller, command) = proposal.command.caller_and_command();
        let refusal = auth::check_command(&self.auth, &self.leases, caller, command).err();
        let (reply, changes, effects) = match refusal.map(Err).or_else(|| self.recall(command)) {
            Some(answer) => (answer, Vec::new(), Vec::new()),
            None => self.execute(records, at, command),
        };
        self.origins.record(proposal.id, proposal.low);
        self.hash = next_hash(self.hash, at, proposal, reply.as_ref().err().copied());
        self.hash = changes.iter().fold(self.hash, hash_change);
        self.hash = effects.iter().fold(self.hash, hash_effect);
        if let Command::Idempotent(once) = command {
            self.hash = hash_once(self.hash, once, &reply);
        }
        Applied::Done { reply, changes }
    }

    /// The cached reply to a client's request that must not be applied: it was applied before, or that is not known.
    fn recall(&self, command: &Command) -> Option<ReplyResult> {
        let Command::Idempotent(once) = command else { return None };
        self.sessions.recall(&self.leases, once)
    }

    fn execute(
        &mut self,
        records: &dyn Records,
        at: Position,
        command: &Command,
    ) -> (ReplyResult, Vec<Change>, Vec<Effect>) {
        if let Command::Members(change) = command {
            return (self.change_members(change), Vec::new(), Vec::new());
        }
        if let Command::Document(set) = command {
            return (self.set_document(set), Vec::new(), Vec::new());
        }
        if let Command::Auth(command) = command {
            return (self.run_auth(at, command), Vec::new(), Vec::new());
        }
        let mut draft = self.draft(records);
        let outcome = match self.alarms.refusal(command, self.level) {
            Some(code) => Err(code),
            None => txn::run_command(&mut draft, at, command),
        };
        let (body, (changes, effects)) = match outcome {
            Ok(body) => (Ok(body), draft.into_parts()),
            Err(code) => (Err(code), Default::default()),
        };
        self.apply_changes(&changes);
        effects.iter().for_each(|effect| self.apply_effect(at, effect.clone()));
        let answer = body.map(|body| Reply { revision: self.revision, body });
        if let Command::Idempotent(once) = command
            && self.leases.get(once.id.session).is_some()
            && !(answer.is_err() && planted(Mutant::RefusalNotKept))
        {
            self.sessions.remember(once, &answer);
        }
        (answer, changes, effects)
    }

    /// The table is hashed whole: it is small, and changes are rare.
    fn change_members(&mut self, change: &MemberChange) -> ReplyResult {
        self.members.change(change)?;
        self.level = format_level(&self.documents, &self.members);
        self.hash = hash64(&self.members.encode(), self.hash);
        let members = self.members.iter().cloned().collect();
        Ok(Reply { revision: self.revision, body: Body::Members(members) })
    }

    fn set_document(&mut self, set: &SetDocument) -> ReplyResult {
        self.check_level(set)?;
        let version = self.documents.set(set)?;
        self.level = format_level(&self.documents, &self.members);
        self.hash = hash64(&set.bytes, hash_row(self.hash, 28, set.name.as_bytes(), |_| {}));
        Ok(Reply { revision: self.revision, body: Body::Document { version } })
    }

    /// A level never falls: rows of the higher one are there.
    fn check_level(&self, set: &SetDocument) -> Result<(), Code> {
        if set.name != FormatLevel::DOCUMENT {
            return Ok(());
        }
        let may_be_set = FormatLevel::decode(&set.bytes)
            .is_some_and(|level| self.documents.get(FormatLevel::DOCUMENT).is_none() || level >= self.level);
        if may_be_set { Ok(()) } else { Err(Code::BadDocument) }
    }

    /// The level of the formats that this state is written in.
    pub fn format_level(&self) -> FormatLevel {
        self.level
    }

    /// Hashes the command: the users' rights follow from the commands.
    fn run_auth(&mut self, at: Position, command: &AuthCommand) -> ReplyResult {
        let reply = self.auth.run(at.index, command, self.level)?;
        let numbers = [41, self.auth.revision(), u64::from(self.auth.is_enabled())];
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        self.hash = hash64(&bytes, hash_numbers(self.hash, &numbers));
        Ok(Reply { revision: self.revision, body: Body::Auth(reply) })
    }

    /// Users, roles and permissions.
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// Why a read of this caller is not answered.
    pub fn check_read(&self, caller: &Caller, request: &Request) -> Result<(), Code> {
        auth::check_request(&self.auth, &self.leases, caller, request)
    }

    /// Why a call of this caller about leases is not answered.
    pub fn check_leases(&self, caller: &Caller, need: LeaseAccess) -> Result<(), Code> {
        auth::check_leases(&self.auth, &self.leases, caller, need)
    }

    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The table of members.
    pub fn members(&self) -> &Members {
        &self.members
    }

    pub fn range(&self, records: &dyn Records, range: &Range) -> Result<RangeReply, Code> {
        range::answer(&self.draft(records), range)
    }

    /// Answers a request that `Request::is_read_only`, from this state and without a proposal.
    pub fn read(&self, records: &dyn Records, request: &Request) -> Result<Reply, Code> {
        assert!(request.is_read_only(), "a request that writes goes through the log");
        let body = match request {
            Request::Range(range) => Body::Range(self.range(records, range)?),
            Request::Txn(txn) => Body::Txn(txn::run_txn(&mut self.draft(records), txn)?),
            Request::Put(_) | Request::Delete(_) => unreachable!("neither is read-only"),
        };
        Ok(Reply { revision: self.revision, body })
    }

    pub(crate) fn draft<'a>(&'a self, records: &'a dyn Records) -> Draft<'a> {
        let revisions = Revisions { current: self.revision, compacted: self.compacted };
        Draft::new(&self.index, &self.leases, &self.alarms, &self.locks, records, revisions)
            .at_level(self.level)
    }

    pub fn lease(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(id)
    }

    /// Every lease, by its id.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.iter()
    }

    /// The leases with larger ids than this one.
    pub fn leases_after(&self, id: LeaseId) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.after(id)
    }

    /// The client behind a place in the queue of a lock.
    pub fn claim(&self, key: &[u8]) -> Option<&LockClaim> {
        self.locks.claim(key)
    }

    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    pub fn lease_count(&self) -> usize {
        self.leases.count()
    }

    /// Answers which leases there are.
    pub fn list_leases(&self) -> Reply {
        let ids = self.leases.iter().map(|(id, _)| id).collect();
        Reply { revision: self.revision, body: Body::Leases(ids) }
    }

    fn apply_effect(&mut self, at: Position, effect: Effect) {
        match effect {
            Effect::Grant { id, ttl } => {
                let mut lease = Lease::new(ttl, at.index);
                if self.level == FormatLevel::OLDEST {
                    lease.granted_at = GrantTime::Unknown;
                }
                self.leases.grant(id, lease);
            }
            Effect::Revoke(id) => {
                self.leases.remove(id);
                self.sessions.remove(id);
            }
            Effect::Checkpoint { id, remaining } => self.leases.checkpoint(id, remaining),
            Effect::Alarm { alarm, raised } => self.alarms.set(alarm, raised, self.level),
            Effect::TimeMark { millis } => {
                let millis = self.clock.mark(self.revision, millis);
                self.leases.mark(millis);
            }
            Effect::Quota(bytes) => self.quota.set(bytes),
            Effect::Compact(revision) => {
                self.sweep = Some(Sweep::rise(self.compacted, self.sweep));
                self.compacted = revision;
            }
            Effect::Claim { key, claim } => self.locks.set_claim(key, claim),
            Effect::Fence { resource, fence } => self.locks.set_fence(resource, fence),
        }
    }

    pub fn alarms(&self) -> impl Iterator<Item = Alarm> {
        self.alarms.iter()
    }

    /// The bytes of the rows of all changes in the store, those of the past included; pages and indexes add to it.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// The quota that was set at run time, if one was; zero sets no bound.
    pub fn quota(&self) -> Option<u64> {
        self.quota.get()
    }

    /// Notes the time of compactions that have been applied since it was last called, by the clock of this member.
    pub fn note_compaction_time(&mut self, millis: i64) {
        self.compaction_times.note(self.compacted, millis);
    }

    /// Something has changed since the time of day was last marked.
    pub fn needs_time_mark(&self) -> bool {
        let is_marked = self.revision <= Revision::EMPTY_STORE || self.clock.is_marked(self.revision);
        !is_marked || self.leases.need_time_mark()
    }

    /// Answers that are kept for clients who may ask again.
    pub fn cached_replies(&self) -> usize {
        self.sessions.answers()
    }

    /// The planted bug of a snapshot without the sessions.
    pub fn forget_sessions(&mut self) {
        self.sessions.forget_all();
    }

    /// The planted bug of a leader that takes an expired lease out of its own state.
    pub fn forget_lease(&mut self, id: LeaseId) {
        self.leases.remove(id);
        self.hash = hash_effect(self.hash, &Effect::Revoke(id));
    }

    fn apply_changes(&mut self, changes: &[Change]) {
        for change in changes {
            self.move_between_leases(change);
            match draft::pending(change) {
                Some(current) => self.index.put(&change.key, current),
                None => {
                    self.index.delete(&change.key, change.revision);
                    self.locks.forget(&change.key);
                }
            }
            self.stored_bytes += change_bytes(&LoggedChange::of(change));
            self.revision = change.revision;
        }
    }

    /// A key is attached to the lease of its current version, and to no other.
    fn move_between_leases(&mut self, change: &Change) {
        let before = self.index.current(&change.key).map_or(LeaseId::NONE, |current| current.lease);
        let after = match &change.kind {
            ChangeKind::Put(record) => record.lease,
            ChangeKind::Delete => LeaseId::NONE,
        };
        if before != after {
            if !planted(Mutant::KeyNotDetached) {
                self.leases.detach(before, &change.key);
            }
            self.leases.attach(after, &change.key);
        }
    }
}

/// Before the first members are known nothing was written, and a cluster begins with the newest formats.
pub(crate) fn format_level(documents: &Documents, members: &Members) -> FormatLevel {
    let begins = members.is_empty();
    match documents.get(FormatLevel::DOCUMENT) {
        Some(document) => FormatLevel::decode(&document.bytes).unwrap_or(FormatLevel::OLDEST),
        None if begins => FormatLevel::NEWEST,
        None => FormatLevel::OLDEST,
    }
}

fn hash_effect(hash: u64, effect: &Effect) -> u64 {
    match effect {
        Effect::Grant { id, ttl } => hash_numbers(hash, &[4, id.0 as u64, *ttl as u64]),
        Effect::Revoke(id) => hash_numbers(hash, &[5, id.0 as u64]),
        Effect::Checkpoint { id, remaining } => hash_numbers(hash, &[6, id.0 as u64, *remaining as u64]),
        Effect::Compact(revision) => hash_numbers(hash, &[7, revision.0 as u64]),
        Effect::Alarm { alarm, raised } => {
            let numbers = [alarm.kind as u64, alarm.member.0, alarm.origin as u64, u64::from(*raised)];
            hash_numbers(hash_numbers(hash, &[24]), &numbers)
        }
        Effect::TimeMark { millis } => hash_numbers(hash, &[32, *millis as u64]),
        Effect::Quota(bytes) => hash_numbers(hash, &[33, u64::from(bytes.is_some()), bytes.unwrap_or(0)]),
        Effect::Claim { key, claim } => hash_row(hash, 8, key, |row| claim.encode(row)),
        Effect::Fence { resource, fence } => hash_row(hash, 12, resource, |row| fence.encode(row)),
    }
}

fn hash_row(hash: u64, kind: u64, key: &[u8], encode: impl FnOnce(&mut Vec<u8>)) -> u64 {
    let mut row = Vec::new();
    encode(&mut row);
    hash64(&row, hash64(key, hash_numbers(hash, &[kind, key.len() as u64])))
}

/// The state of the session follows from this and the changes, so equal hashes also mean equal answers to come.
fn hash_once(hash: u64, once: &IdempotentCommand, answer: &ReplyResult) -> u64 {
    let RequestId { session, seq, low } = once.id;
    let revision = answer.as_ref().map_or(0, |reply| reply.revision.0 as u64);
    hash_numbers(hash, &[16, session.0 as u64, seq, low, once.fingerprint(), revision])
}

/// The proposal's identity and low mark are part of it, so equal hashes also mean equal de-duplication.
fn next_hash(hash: u64, at: Position, proposal: &Proposal, refusal: Option<Code>) -> u64 {
    let id = proposal.id;
    let refusal = refusal.map_or(0, |code| u64::from(code as u8));
    hash_numbers(hash, &[at.index.0, at.term.0, id.origin.0, id.boot.0, id.seq, proposal.low, refusal])
}

fn hash_change(hash: u64, change: &Change) -> u64 {
    let head = [change.revision.0 as u64, u64::from(change.sub), change.key.len() as u64];
    let hash = hash64(&change.key, hash_numbers(hash, &head));
    match &change.kind {
        ChangeKind::Delete => hash_numbers(hash, &[0]),
        ChangeKind::Put(record) => {
            let meta = [1, record.create.0 as u64, record.version as u64, record.lease.0 as u64];
            hash64(&record.value, hash_numbers(hash, &meta))
        }
    }
}

fn hash_numbers<const N: usize>(hash: u64, numbers: &[u64; N]) -> u64 {
    let mut bytes = [[0u8; 8]; N];
    for (slot, number) in bytes.iter_mut().zip(numbers) {
        *slot = number.to_le_bytes();
    }
    hash64(bytes.as_flattened(), hash)
}
