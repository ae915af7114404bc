//! Alarms: problems that all members know, because they went through the log. A command raises, clears or lists them;
//! while there is no space, commands that would make the store grow are refused by every member alike, and those that
//! make it smaller pass. Rows in docs/formats/rows.md.

use crate::command::Command;
use crate::draft::{Draft, Effect};
use crate::reply::Body;
use crate::request::{Request, Txn};
use crate::rows::{CorruptRow, Emit, FORMAT, formatted};
use base::codec::{Reader, put_varint};
use base::{Code, NodeId, ReadView, Table};
use bytes::Bytes;
use std::collections::BTreeMap;

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
    /// Raised by the leader, which clears it when its cause is gone; an operator clears the alarms that an operator
    /// raised.
    pub automatic: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmCommand {
    List,
    Raise(Alarm),
    /// Also clears an alarm that was raised in another way.
    Clear(Alarm),
}

const LIST: u8 = 0;
const RAISE: u8 = 1;
const CLEAR: u8 = 2;

impl Alarm {
    fn encode(self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        out.push(u8::from(self.automatic));
        out.extend_from_slice(&self.member.0.to_le_bytes());
    }

    fn decode(reader: &mut Reader) -> Option<Alarm> {
        let kind = match reader.u8()? {
            1 => AlarmKind::NoSpace,
            2 => AlarmKind::Corrupt,
            _ => return None,
        };
        Some(Alarm { kind, automatic: reader.bool()?, member: NodeId(reader.u64()?) })
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
    let told = match command {
        AlarmCommand::List => draft.alarms().iter().collect(),
        AlarmCommand::Raise(alarm) => {
            draft.add_effect(Effect::Alarm { alarm, raised: true });
            vec![alarm]
        }
        AlarmCommand::Clear(alarm) => {
            let found: Vec<Alarm> = draft.alarms().find(alarm.kind, alarm.member).into_iter().collect();
            if let Some(alarm) = found.first() {
                draft.add_effect(Effect::Alarm { alarm: *alarm, raised: false });
            }
            found
        }
    };
    Body::Alarms(told)
}

/// All that are raised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alarms {
    /// With whether it was raised automatically.
    raised: BTreeMap<(AlarmKind, NodeId), bool>,
    /// Not written yet.
    changed: bool,
}

impl Alarms {
    pub fn iter(&self) -> impl Iterator<Item = Alarm> {
        self.raised.iter().map(|((kind, member), automatic)| Alarm {
            kind: *kind,
            member: *member,
            automatic: *automatic,
        })
    }

    fn find(&self, kind: AlarmKind, member: NodeId) -> Option<Alarm> {
        self.iter().find(|alarm| (alarm.kind, alarm.member) == (kind, member))
    }

    pub fn set(&mut self, alarm: Alarm, raised: bool) {
        let key = (alarm.kind, alarm.member);
        if raised {
            self.raised.insert(key, alarm.automatic);
        } else {
            self.raised.remove(&key);
        }
        self.changed = true;
    }

    /// Why a command is refused.
    pub fn refusal(&self, command: &Command) -> Option<Code> {
        let full = self.raised.keys().any(|(kind, _)| *kind == AlarmKind::NoSpace);
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
            alarms.raised.insert((alarm.kind, alarm.member), alarm.automatic);
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
