//! Commands, which the log replicates, and their bytes. A command is a validated request that may change the state;
//! it goes into the log encoded and comes out on every member. Decoding refuses what this version does not know,
//! never panics, and slices keys and values out of the given bytes without copying. The layout is drawn in
//! docs/formats/command.md.

use crate::alarms::AlarmCommand;
use crate::auth::AuthCommand;
use crate::authed::AuthedCommand;
use crate::documents::SetDocument;
use crate::idempotent::IdempotentCommand;
use crate::lease_command::{Checkpoint, Grant, Revoke};
use crate::lock_command::{Acquire, CheckFence, Fenced, FencingToken, Leave, Release};
use crate::member_command;
use crate::members::MemberChange;
use crate::request::{
    Bounds, Compare, Delete, Order, Put, Range, Relation, Request, Sort, SortTarget, Target, Txn,
};
use base::codec::{Reader, put_bytes, put_signed, put_varint};
use base::limits::{TXN_DEPTH_MAX, TXN_OPS_MAX};
use base::{FormatLevel, KeyRange, LeaseId, RangeEnd, Revision};
use bytes::Bytes;

/// The layout that this code writes; the first byte of every command.
pub(crate) const FORMAT: u8 = 1;

// Kinds of commands and of operations share one numbering. 13 to 15 are kept for locks.
const RANGE: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;
const TXN: u8 = 3;
const LEASE_GRANT: u8 = 4;
const LEASE_REVOKE: u8 = 5;
const LEASE_CHECKPOINT: u8 = 6;
const COMPACT: u8 = 7;
const LOCK_ACQUIRE: u8 = 8;
const LOCK_RELEASE: u8 = 9;
const LOCK_LEAVE: u8 = 10;
const FENCED: u8 = 11;
const FENCE_CHECK: u8 = 12;
const IDEMPOTENT: u8 = 16;
const ALARM: u8 = 24;
const DOCUMENT: u8 = 28;
const MARK: u8 = 32;
const QUOTA: u8 = 33;
pub(crate) const AUTHED: u8 = 40;
const AUTH: u8 = 41;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Put(Put),
    Delete(Delete),
    Txn(Txn),
    LeaseGrant(Grant),
    LeaseRevoke(Revoke),
    LeaseCheckpoint(Vec<Checkpoint>),
    Compact(Compact),
    Alarm(AlarmCommand),
    /// The time of day by the leader's clock, in milliseconds since 1970.
    TimeMark {
        millis: i64,
    },
    /// The quota of all members from now on; `None` leaves each member to its own setting.
    Quota(Option<u64>),
    LockAcquire(Acquire),
    LockRelease(Release),
    LockLeave(Leave),
    Fenced(Fenced),
    FenceCheck(CheckFence),
    /// A change of the table of members.
    Members(MemberChange),
    /// Replaces a document of the cluster.
    Document(SetDocument),
    /// A client's command with an identity that detects a repetition.
    Idempotent(IdempotentCommand),
    /// A client's command with its user.
    Authed(AuthedCommand),
    /// A command about users, roles and permissions.
    Auth(AuthCommand),
}

/// Forget what was before a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compact {
    pub revision: Revision,
    /// The caller waits until the store has removed the rows, too.
    pub physical: bool,
}

impl Command {
    /// The name of an encoded command's kind, read from its first bytes.
    pub fn kind_of(bytes: &Bytes) -> &'static str {
        match bytes.get(1) {
            Some(&AUTHED) => AuthedCommand::inner(bytes).map_or("unknown", |inner| Command::kind_of(&inner)),
            Some(&PUT) => "put",
            Some(&DELETE) => "delete",
            Some(&TXN) => "txn",
            Some(&LEASE_GRANT) => "lease_grant",
            Some(&LEASE_REVOKE) => "lease_revoke",
            Some(&LEASE_CHECKPOINT) => "lease_checkpoint",
            Some(&COMPACT) => "compact",
            Some(&(LOCK_ACQUIRE | LOCK_RELEASE | LOCK_LEAVE)) => "lock",
            Some(&(FENCED | FENCE_CHECK)) => "fenced",
            Some(&IDEMPOTENT) => "idempotent",
            Some(&ALARM) => "alarm",
            Some(&DOCUMENT) => "document",
            Some(&MARK) => "time_mark",
            Some(&QUOTA) => "quota",
            Some(&AUTH) => "auth",
            Some(&(member_command::BOOTSTRAP..=member_command::PUBLISH)) => "members",
            _ => "unknown",
        }
    }

    /// Below this level it is not proposed: members of an older release cannot read it.
    pub fn level_needed(&self) -> FormatLevel {
        match self {
            Command::Auth(command) => command.level_needed(),
            Command::Authed(authed) => authed.command().level_needed(),
            _ => FormatLevel::OLDEST,
        }
    }

    /// The command that carries out a request; a plain range is no command.
    pub fn from_request(request: Request) -> Option<Command> {
        match request {
            Request::Range(_) => None,
            Request::Put(put) => Some(Command::Put(put)),
            Request::Delete(delete) => Some(Command::Delete(delete)),
            Request::Txn(txn) => Some(Command::Txn(txn)),
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        match self {
            Command::Put(put) => encode_put(put, out),
            Command::Delete(delete) => encode_delete(delete, out),
            Command::Txn(txn) => encode_txn(txn, out),
            Command::LeaseGrant(grant) => {
                out.push(LEASE_GRANT);
                grant.encode(out);
            }
            Command::LeaseRevoke(revoke) => {
                out.push(LEASE_REVOKE);
                revoke.encode(out);
            }
            Command::LeaseCheckpoint(checkpoints) => {
                out.push(LEASE_CHECKPOINT);
                Checkpoint::encode_list(checkpoints, out);
            }
            Command::Compact(compact) => {
                out.push(COMPACT);
                put_signed(out, compact.revision.0);
                out.push(u8::from(compact.physical));
            }
            Command::Alarm(alarm) => {
                out.push(ALARM);
                alarm.encode(out);
            }
            Command::TimeMark { millis } => {
                out.push(MARK);
                put_signed(out, *millis);
            }
            Command::Quota(bytes) => {
                out.push(QUOTA);
                out.push(u8::from(bytes.is_some()));
                put_varint(out, bytes.unwrap_or(0));
            }
            Command::LockAcquire(acquire) => {
                out.push(LOCK_ACQUIRE);
                acquire.encode(out);
            }
            Command::LockRelease(release) => {
                out.push(LOCK_RELEASE);
                release.encode(out);
            }
            Command::LockLeave(leave) => {
                out.push(LOCK_LEAVE);
                leave.encode(out);
            }
            Command::Fenced(fenced) => {
                out.push(FENCED);
                fenced.fence.encode(out);
                encode_request(&fenced.request, out);
            }
            Command::FenceCheck(check) => {
                out.push(FENCE_CHECK);
                check.encode(out);
            }
            Command::Members(change) => change.encode(out),
            Command::Document(set) => {
                out.push(DOCUMENT);
                set.encode(out);
            }
            Command::Idempotent(once) => {
                out.push(IDEMPOTENT);
                once.encode(out);
            }
            Command::Authed(authed) => {
                out.push(AUTHED);
                authed.encode(out);
            }
            Command::Auth(command) => {
                out.push(AUTH);
                command.encode(out);
            }
        }
    }

    /// These are the bytes of a command that changes who votes or who is sent the log.
    pub fn reconfigures(bytes: &[u8]) -> bool {
        bytes.get(1) == Some(&member_command::RECONFIGURE)
    }

    pub fn decode(bytes: Bytes) -> Option<Command> {
        if bytes.get(1) != Some(&AUTHED) {
            return Command::decode_unauthed(bytes);
        }
        let mut reader = Reader::new(bytes);
        if reader.u8()? != FORMAT || reader.u8()? != AUTHED {
            return None;
        }
        AuthedCommand::decode(&mut reader).map(Command::Authed)
    }

    /// A command without a caller.
    pub(crate) fn decode_unauthed(bytes: Bytes) -> Option<Command> {
        if bytes.get(1) != Some(&IDEMPOTENT) {
            return Command::decode_plain(bytes);
        }
        let mut reader = Reader::new(bytes);
        if reader.u8()? != FORMAT || reader.u8()? != IDEMPOTENT {
            return None;
        }
        let once = IdempotentCommand::decode(&mut reader)?;
        reader.is_empty().then_some(Command::Idempotent(once))
    }

    /// A command without an identity of its client's.
    pub(crate) fn decode_plain(bytes: Bytes) -> Option<Command> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != FORMAT {
            return None;
        }
        let command = match reader.u8()? {
            LEASE_GRANT => Command::LeaseGrant(Grant::decode(&mut reader)?),
            LEASE_REVOKE => Command::LeaseRevoke(Revoke::decode(&mut reader)?),
            LEASE_CHECKPOINT => Command::LeaseCheckpoint(Checkpoint::decode_list(&mut reader)?),
            COMPACT => Command::Compact(decode_compact(&mut reader)?),
            ALARM => Command::Alarm(AlarmCommand::decode(&mut reader)?),
            MARK => Command::TimeMark { millis: reader.signed()? },
            QUOTA => {
                let set = reader.bool()?;
                Command::Quota(Some(reader.varint()?).filter(|_| set))
            }
            LOCK_ACQUIRE => Command::LockAcquire(Acquire::decode(&mut reader)?),
            LOCK_RELEASE => Command::LockRelease(Release::decode(&mut reader)?),
            LOCK_LEAVE => Command::LockLeave(Leave::decode(&mut reader)?),
            FENCED => Command::Fenced(decode_fenced(&mut reader)?),
            FENCE_CHECK => Command::FenceCheck(CheckFence::decode(&mut reader)?),
            DOCUMENT => Command::Document(SetDocument::decode(&mut reader)?),
            AUTH => Command::Auth(AuthCommand::decode(&mut reader)?),
            kind @ member_command::BOOTSTRAP..=member_command::PUBLISH => {
                Command::Members(MemberChange::decode(kind, &mut reader)?)
            }
            kind => Command::from_request(decode_request(kind, &mut reader, 0)?)?,
        };
        reader.is_empty().then_some(command)
    }
}

fn decode_compact(reader: &mut Reader) -> Option<Compact> {
    Some(Compact { revision: Revision(reader.signed()?), physical: reader.bool()? })
}

/// What only reads needs no fence in the log, except where it is part of a transaction.
fn decode_fenced(reader: &mut Reader) -> Option<Fenced> {
    let fence = FencingToken::decode(reader)?;
    let request = decode_operation(reader, 0)?;
    (!matches!(request, Request::Range(_))).then_some(Fenced { fence, request })
}

fn encode_request(request: &Request, out: &mut Vec<u8>) {
    match request {
        Request::Range(range) => encode_range(range, out),
        Request::Put(put) => encode_put(put, out),
        Request::Delete(delete) => encode_delete(delete, out),
        Request::Txn(txn) => encode_txn(txn, out),
    }
}

/// `depth` counts the transactions around this request.
fn decode_request(kind: u8, reader: &mut Reader, depth: usize) -> Option<Request> {
    match kind {
        RANGE => decode_range(reader).map(Request::Range),
        PUT => decode_put(reader).map(Request::Put),
        DELETE => decode_delete(reader).map(Request::Delete),
        TXN if depth <= TXN_DEPTH_MAX => decode_txn(reader, depth).map(Request::Txn),
        _ => None,
    }
}

mod put_flag {
    pub const PREV_KV: u8 = 1;
    pub const VALUE: u8 = 2;
    pub const LEASE: u8 = 4;
    pub const ALL: u8 = 7;
}

fn encode_put(put: &Put, out: &mut Vec<u8>) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    out.push(PUT);
    out.push(
        flag(put.prev_kv, put_flag::PREV_KV)
            | flag(put.value.is_some(), put_flag::VALUE)
            | flag(put.lease.is_some(), put_flag::LEASE),
    );
    put_bytes(out, &put.key);
    if let Some(lease) = put.lease {
        put_signed(out, lease.0);
    }
    if let Some(value) = &put.value {
        put_bytes(out, value);
    }
}

fn decode_put(reader: &mut Reader) -> Option<Put> {
    let flags = reader.u8()?;
    if flags & !put_flag::ALL != 0 {
        return None;
    }
    let key = reader.bytes()?;
    let lease = match flags & put_flag::LEASE {
        0 => None,
        _ => Some(LeaseId(reader.signed()?)),
    };
    let value = match flags & put_flag::VALUE {
        0 => None,
        _ => Some(reader.bytes()?),
    };
    Some(Put { key, value, lease, prev_kv: flags & put_flag::PREV_KV != 0 })
}

fn encode_delete(delete: &Delete, out: &mut Vec<u8>) {
    out.push(DELETE);
    out.push(u8::from(delete.prev_kv));
    encode_keys(&delete.keys, out);
}

fn decode_delete(reader: &mut Reader) -> Option<Delete> {
    let prev_kv = reader.bool()?;
    Some(Delete { keys: decode_keys(reader)?, prev_kv })
}

fn encode_txn(txn: &Txn, out: &mut Vec<u8>) {
    out.push(TXN);
    put_varint(out, txn.compares.len() as u64);
    for compare in &txn.compares {
        encode_compare(compare, out);
    }
    for branch in [&txn.success, &txn.failure] {
        put_varint(out, branch.len() as u64);
        for request in branch {
            encode_request(request, out);
        }
    }
}

fn decode_txn(reader: &mut Reader, depth: usize) -> Option<Txn> {
    Some(Txn {
        compares: decode_list(reader, decode_compare)?,
        success: decode_list(reader, |reader| decode_operation(reader, depth + 1))?,
        failure: decode_list(reader, |reader| decode_operation(reader, depth + 1))?,
    })
}

fn decode_operation(reader: &mut Reader, depth: usize) -> Option<Request> {
    let kind = reader.u8()?;
    decode_request(kind, reader, depth)
}

/// The vector grows as items are really there, so a false count costs nothing.
fn decode_list<T>(reader: &mut Reader, mut decode: impl FnMut(&mut Reader) -> Option<T>) -> Option<Vec<T>> {
    let count = reader.count()?;
    if count > TXN_OPS_MAX {
        return None;
    }
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(decode(reader)?);
    }
    Some(items)
}

mod target {
    pub const VERSION: u8 = 0;
    pub const CREATE: u8 = 1;
    pub const MOD: u8 = 2;
    pub const VALUE: u8 = 3;
    pub const LEASE: u8 = 4;
}

fn encode_compare(compare: &Compare, out: &mut Vec<u8>) {
    encode_keys(&compare.keys, out);
    out.push(match compare.relation {
        Relation::Equal => 0,
        Relation::Greater => 1,
        Relation::Less => 2,
        Relation::NotEqual => 3,
    });
    let (number, operand) = match &compare.target {
        Target::Version(version) => (target::VERSION, *version),
        Target::Create(revision) => (target::CREATE, revision.0),
        Target::Mod(revision) => (target::MOD, revision.0),
        Target::Lease(lease) => (target::LEASE, lease.0),
        Target::Value(value) => {
            out.push(target::VALUE);
            return put_bytes(out, value);
        }
    };
    out.push(number);
    put_signed(out, operand);
}

fn decode_compare(reader: &mut Reader) -> Option<Compare> {
    let keys = decode_keys(reader)?;
    let relation = match reader.u8()? {
        0 => Relation::Equal,
        1 => Relation::Greater,
        2 => Relation::Less,
        3 => Relation::NotEqual,
        _ => return None,
    };
    let target = match reader.u8()? {
        target::VERSION => Target::Version(reader.signed()?),
        target::CREATE => Target::Create(Revision(reader.signed()?)),
        target::MOD => Target::Mod(Revision(reader.signed()?)),
        target::VALUE => Target::Value(reader.bytes()?),
        target::LEASE => Target::Lease(LeaseId(reader.signed()?)),
        _ => return None,
    };
    Some(Compare { keys, relation, target })
}

mod range_flag {
    pub const SERIALIZABLE: u8 = 1;
    pub const KEYS_ONLY: u8 = 2;
    pub const COUNT_ONLY: u8 = 4;
    pub const SORTED: u8 = 8;
    pub const DESCENDING: u8 = 16;
    pub const BOUNDED: u8 = 32;
    pub const UNSPECIFIED_ORDER: u8 = 64;
    pub const ALL: u8 = 127;
}

fn encode_range(range: &Range, out: &mut Vec<u8>) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    out.push(RANGE);
    out.push(
        flag(range.serializable, range_flag::SERIALIZABLE)
            | flag(range.keys_only, range_flag::KEYS_ONLY)
            | flag(range.count_only, range_flag::COUNT_ONLY)
            | flag(range.sort.is_some(), range_flag::SORTED)
            | range.sort.map_or(0, |sort| order_flag(sort.order))
            | flag(range.is_filtered(), range_flag::BOUNDED),
    );
    encode_keys(&range.keys, out);
    put_signed(out, range.revision.0);
    put_varint(out, range.limit);
    if let Some(sort) = range.sort {
        out.push(match sort.target {
            SortTarget::Key => 0,
            SortTarget::Version => 1,
            SortTarget::Create => 2,
            SortTarget::Mod => 3,
            SortTarget::Value => 4,
        });
    }
    if range.is_filtered() {
        for bounds in [range.mod_revisions, range.create_revisions] {
            put_signed(out, bounds.min.0);
            put_signed(out, bounds.max.0);
        }
    }
}

fn decode_range(reader: &mut Reader) -> Option<Range> {
    let flags = reader.u8()?;
    if flags & !range_flag::ALL != 0 {
        return None;
    }
    let has = |bit: u8| flags & bit != 0;
    let keys = decode_keys(reader)?;
    let revision = Revision(reader.signed()?);
    let limit = reader.varint()?;
    let sort = if has(range_flag::SORTED) {
        Some(Sort { target: decode_sort_target(reader)?, order: order_of(flags)? })
    } else if has(range_flag::DESCENDING) || has(range_flag::UNSPECIFIED_ORDER) {
        return None;
    } else {
        None
    };
    let (mod_revisions, create_revisions) = if has(range_flag::BOUNDED) {
        (decode_bounds(reader)?, decode_bounds(reader)?)
    } else {
        (Bounds::default(), Bounds::default())
    };
    Some(Range {
        keys,
        revision,
        limit,
        sort,
        serializable: has(range_flag::SERIALIZABLE),
        keys_only: has(range_flag::KEYS_ONLY),
        count_only: has(range_flag::COUNT_ONLY),
        mod_revisions,
        create_revisions,
        in_pieces: false,
    })
}

fn order_flag(order: Order) -> u8 {
    match order {
        Order::Ascending => 0,
        Order::Descending => range_flag::DESCENDING,
        Order::Unspecified => range_flag::UNSPECIFIED_ORDER,
    }
}

fn order_of(flags: u8) -> Option<Order> {
    match flags & (range_flag::DESCENDING | range_flag::UNSPECIFIED_ORDER) {
        0 => Some(Order::Ascending),
        range_flag::DESCENDING => Some(Order::Descending),
        range_flag::UNSPECIFIED_ORDER => Some(Order::Unspecified),
        _ => None,
    }
}

fn decode_sort_target(reader: &mut Reader) -> Option<SortTarget> {
    match reader.u8()? {
        0 => Some(SortTarget::Key),
        1 => Some(SortTarget::Version),
        2 => Some(SortTarget::Create),
        3 => Some(SortTarget::Mod),
        4 => Some(SortTarget::Value),
        _ => None,
    }
}

fn decode_bounds(reader: &mut Reader) -> Option<Bounds> {
    Some(Bounds { min: Revision(reader.signed()?), max: Revision(reader.signed()?) })
}

fn encode_keys(keys: &KeyRange, out: &mut Vec<u8>) {
    match &keys.end {
        RangeEnd::Single => out.push(0),
        RangeEnd::Before(_) => out.push(1),
        RangeEnd::Open => out.push(2),
    }
    put_bytes(out, &keys.start);
    if let RangeEnd::Before(end) = &keys.end {
        put_bytes(out, end);
    }
}

fn decode_keys(reader: &mut Reader) -> Option<KeyRange> {
    let kind = reader.u8()?;
    let start = reader.bytes()?;
    let end = match kind {
        0 => RangeEnd::Single,
        1 => RangeEnd::Before(reader.bytes()?),
        2 => RangeEnd::Open,
        _ => return None,
    };
    Some(KeyRange { start, end })
}
