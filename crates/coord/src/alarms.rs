//! Alarms: problems that all members know, because they went through the log. A command raises, clears or lists them;
//! while there is no space, commands that would make the store grow are refused by every member alike, and those that
//! make it smaller pass. While a client says that the cluster is corrupt, no client's change passes. Rows in
//! docs/formats/rows.md.

use crate::command::Command;
use crate::draft::{Draft, Effect};
use crate::reply::Body;
use crate::request::{Request, Txn};
use crate::rows::{CorruptRow, Emit, FORMAT, formatted};
use base::codec::{Reader, put_varint};
use base::{Code, FormatLevel, NodeId, ReadView, Table};
use bytes::Bytes;
use std::collections::BTreeSet;

pub(crate) const ALARMS_KEY: &[u8] = b"alarms";

/// Numbered as in etcd's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AlarmKind {
    NoSpace = 1,
    /// The state of the member has diverged from the others.
    Corrupt = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    pub kind: AlarmKind,
    /// The member whose store it is about.
    pub member: NodeId,
    pub origin: AlarmOrigin,
}

/// Why an alarm is there, and so what clears it. One alarm may have several origins at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AlarmOrigin {
    /// A client raised it, and only a client clears it.
    Client = 0,
    /// The leader raised it, and clears it when its cause is gone.
    Leader = 1,
    /// The member raised it because its disk is nearly full, and clears it.
    Disk = 2,
    /// The leader found that the cause is gone. It refuses nothing any more, and is listed for a while, because
    /// operators and their scripts disarm an alarm after they have made space.
    Healed = 3,
}

impl AlarmOrigin {
    fn decode(byte: u8) -> Option<AlarmOrigin> {
        [AlarmOrigin::Client, AlarmOrigin::Leader, AlarmOrigin::Disk, AlarmOrigin::Healed]
            .into_iter()
            .find(|origin| *origin as u8 == byte)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmCommand {
    List,
    Raise(Alarm),
    /// By a client: whatever its origin. By a member: what has the same origin.
    Clear(Alarm),
}

const LIST: u8 = 0;
const RAISE: u8 = 1;
const CLEAR: u8 = 2;

impl Alarm {
    /// Whether it refuses what makes the store grow.
    pub fn refuses_growth(&self) -> bool {
        self.kind == AlarmKind::NoSpace && self.origin != AlarmOrigin::Healed
    }

    /// Whether it refuses every change. A member that diverged by itself is fenced alone.
    pub fn refuses_changes(&self) -> bool {
        self.kind == AlarmKind::Corrupt && self.origin == AlarmOrigin::Client
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        out.push(self.origin as u8);
        out.extend_from_slice(&self.member.0.to_le_bytes());
    }

    fn decode(reader: &mut Reader) -> Option<Alarm> {
        let kind = match reader.u8()? {
            1 => AlarmKind::NoSpace,
            2 => AlarmKind::Corrupt,
            _ => return None,
        };
        Some(Alarm { kind, origin: AlarmOrigin::decode(reader.u8()?)?, member: NodeId(reader.u64()?) })
    }
}

impl AlarmCommand {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        match self {
            AlarmCommand::List => out.push(LIST),
            AlarmCommand::Raise(alarm) => {
                out.push(RAISE);
                alarm.encode(out);
            }
            AlarmCommand::Clear(alarm) => {
                out.push(CLEAR);
                alarm.encode(out);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<AlarmCommand> {
        match reader.u8()? {
            LIST => Some(AlarmCommand::List),
            RAISE => Alarm::decode(reader).map(AlarmCommand::Raise),
            CLEAR => Alarm::decode(reader).map(AlarmCommand::Clear),
            _ => None,
        }
    }
}

/// Returns the alarms that were asked for, raised, or cleared.
pub(crate) fn run(draft: &mut Draft<'_>, command: AlarmCommand) -> Body {
    let mut told = match command {
        AlarmCommand::List => draft.alarms().iter().collect(),
        AlarmCommand::Raise(alarm) => {
            let ended = match alarm.origin {
                AlarmOrigin::Leader => Some(AlarmOrigin::Healed),
                AlarmOrigin::Healed => Some(AlarmOrigin::Leader),
                AlarmOrigin::Client | AlarmOrigin::Disk => None,
            };
            let ended = ended.map(|origin| Alarm { origin, ..alarm });
            if let Some(ended) = ended.filter(|ended| draft.alarms().raised.contains(&Alarms::key(*ended))) {
                draft.add_effect(Effect::Alarm { alarm: ended, raised: false });
            }
            draft.add_effect(Effect::Alarm { alarm, raised: true });
            vec![alarm]
        }
        AlarmCommand::Clear(alarm) => {
            let any_origin = alarm.origin == AlarmOrigin::Client || draft.level() == FormatLevel::OLDEST;
            let is_meant = |raised: &Alarm| {
                (raised.kind, raised.member) == (alarm.kind, alarm.member)
                    && (any_origin || raised.origin == alarm.origin)
            };
            let found: Vec<Alarm> = draft.alarms().iter().filter(is_meant).collect();
            for alarm in &found {
                draft.add_effect(Effect::Alarm { alarm: *alarm, raised: false });
            }
            found
        }
    };
    told.dedup_by_key(|alarm| (alarm.kind, alarm.member));
    Body::Alarms(told)
}

/// All that are raised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alarms {
    raised: BTreeSet<(AlarmKind, NodeId, AlarmOrigin)>,
    /// Not written yet.
    changed: bool,
}

impl Alarms {
    pub fn iter(&self) -> impl Iterator<Item = Alarm> {
        self.raised.iter().map(|(kind, member, origin)| Alarm {
            kind: *kind,
            member: *member,
            origin: *origin,
        })
    }

    fn key(alarm: Alarm) -> (AlarmKind, NodeId, AlarmOrigin) {
        (alarm.kind, alarm.member, alarm.origin)
    }

    /// In the oldest formats an alarm has one origin, its last.
    pub fn set(&mut self, alarm: Alarm, raised: bool, level: FormatLevel) {
        let key = Alarms::key(alarm);
        if raised {
            if level == FormatLevel::OLDEST {
                self.raised.retain(|(kind, member, _)| (*kind, *member) != (alarm.kind, alarm.member));
            }
            self.raised.insert(key);
        } else {
            self.raised.remove(&key);
        }
        self.changed = true;
    }

    /// Why a command is refused. Members of 0.1.0 do not refuse changes of a corrupt cluster, and all must decide alike.
    pub fn refusal(&self, command: &Command, level: FormatLevel) -> Option<Code> {
        if self.raised.is_empty() {
            return None;
        }
        let is_corrupt = level > FormatLevel::OLDEST && self.iter().any(|alarm| alarm.refuses_changes());
        if is_corrupt && command.is_clients_change() {
            return Some(Code::Corrupt);
        }
        let full = self.iter().any(|alarm| alarm.refuses_growth());
        (full && command.grows()).then_some(Code::NoSpace)
    }

    pub fn take_rows(&mut self, emit: &mut Emit<'_>) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let mut value = vec![FORMAT];
        put_varint(&mut value, self.raised.len() as u64);
        self.iter().for_each(|alarm| alarm.encode(&mut value));
        emit(Table::Meta, ALARMS_KEY, (!self.raised.is_empty()).then_some(&value));
    }

    pub fn load(view: &dyn ReadView) -> Result<Alarms, CorruptRow> {
        let Some(row) = view.get(Table::Meta, ALARMS_KEY) else { return Ok(Alarms::default()) };
        Alarms::decode(row).ok_or(CorruptRow::malformed(Table::Meta, ALARMS_KEY))
    }

    fn decode(row: Bytes) -> Option<Alarms> {
        let mut reader = formatted(row)?;
        let mut alarms = Alarms::default();
        for _ in 0..reader.count()? {
            let alarm = Alarm::decode(&mut reader)?;
            alarms.raised.insert(Alarms::key(alarm));
        }
        reader.is_empty().then_some(alarms)
    }
}

impl Command {
    /// Whether the store may need more space for it, as etcd judges: a transaction by whatever it might put.
    pub fn grows(&self) -> bool {
        match self {
            Command::Put(_) | Command::LeaseGrant(_) => true,
            Command::Txn(txn) => puts(txn),
            // A place in the queue is a key.
            Command::LockAcquire(_) => true,
            Command::Fenced(fenced) => grows(&fenced.request),
            Command::Idempotent(once) => once.command().grows(),
            Command::Authed(authed) => authed.command().grows(),
            _ => false,
        }
    }

    /// Whether a corrupt cluster refuses it, as etcd's does. Leases end all the same.
    pub fn is_clients_change(&self) -> bool {
        match self {
            Command::Put(_) | Command::Delete(_) | Command::Txn(_) => true,
            Command::LeaseGrant(_) | Command::Compact(_) | Command::LockAcquire(_) | Command::Fenced(_) => {
                true
            }
            Command::Idempotent(once) => once.command().is_clients_change(),
            Command::Authed(authed) => authed.command().is_clients_change(),
            _ => false,
        }
    }
}

fn puts(txn: &Txn) -> bool {
    txn.success.iter().chain(&txn.failure).any(grows)
}

fn grows(request: &Request) -> bool {
    match request {
        Request::Put(_) => true,
        Request::Txn(txn) => puts(txn),
        Request::Range(_) | Request::Delete(_) => false,
    }
}
