//! The operations of clients on a key, carried out on the state that the origin of the write has.
//! The local record, the operation and the new dot go in; the new state and the delta that takes any other
//! replica there come out, or a refusal. The delta is small for mergeable kinds and the whole for a register.

use crate::actor::{Dot, RegionId};
use crate::collection::CollectionOp;
use crate::context::Context;
use crate::counter::CounterState;
use crate::hlc::Stamp;
use crate::merge::join_recent;
use crate::mutant::Mutant;
use crate::record::{Body, Fence, Header, Kind, RareFields, RecentRequest, Record};
use crate::request::Level;
use crate::restored;
use crate::set::OrSet;
use crate::siblings::{Sibling, Siblings};
use base::Code;
use base::mutant::planted;
use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// For registers and siblings.
    Put(Bytes),
    /// For custom values: a put that takes the place of values which could not be merged with it. They go to the log of conflicts.
    Replace(Bytes),
    /// For every kind.
    Delete,
    /// For counters, and in units of 10^-18 for numerics.
    Add(i128),
    /// For numerics: the difference to what is here is added.
    Assign(i128),
    Insert(Bytes),
    Remove(Bytes),
    /// For collections: operations on elements, one after the other and all in one change.
    Elements(Vec<CollectionOp>),
    /// For every kind: the record of a backup, where there is nothing or what it replaces.
    Restore(Bytes),
}

impl Op {
    /// The bytes of the client's value in it.
    pub fn value_bytes(&self) -> usize {
        match self {
            Op::Put(bytes)
            | Op::Replace(bytes)
            | Op::Insert(bytes)
            | Op::Remove(bytes)
            | Op::Restore(bytes) => bytes.len(),
            Op::Elements(ops) => ops.iter().map(CollectionOp::bytes).sum(),
            Op::Delete | Op::Add(_) | Op::Assign(_) => 0,
        }
    }

    /// Whether nothing stays of the attributes of what was there.
    fn replaces(&self) -> bool {
        matches!(self, Op::Put(_) | Op::Replace(_) | Op::Delete | Op::Restore(_))
    }

    /// Whether what it does to a value of this kind depends on what was there before. Additions and new elements come to
    /// the same in any order; so do values that replace what their writer has read.
    pub fn is_ordered(&self, kind: Kind) -> bool {
        match self {
            Op::Put(_) => kind == Kind::Register,
            Op::Delete | Op::Remove(_) | Op::Assign(_) | Op::Restore(_) => true,
            Op::Replace(_) | Op::Add(_) | Op::Insert(_) | Op::Elements(_) => false,
        }
    }
}

/// The attributes of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The context that the client has seen: siblings in it are replaced.
    pub context: Option<Context>,
    pub expires_ms: Option<u64>,
    pub fence: Option<Fence>,
    pub home: Option<RegionId>,
    /// By name.
    pub metadata: Vec<(Bytes, Bytes)>,
    pub schema: u32,
    /// The handler that merges the values of a `custom` record; the last one named stays.
    pub handler: Option<Bytes>,
    /// The hash of the client's request id.
    pub request: Option<u64>,
    /// The name that the node where the write began has given it, so that several replicas may be asked to do it.
    pub operation: Option<u64>,
    /// Which replicas must have the write before the client is answered.
    pub level: Level,
    /// The write comes after everything that its session has seen: its stamp is larger than this.
    pub after: Stamp,
}

impl Attributes {
    /// What the write is remembered by, so that it counts once: its request id, or else its name.
    pub fn once(&self) -> Option<u64> {
        self.request.or(self.operation)
    }
}

/// The name and the time of a write.
#[derive(Clone, Copy, Debug)]
pub struct WriteEvent {
    pub dot: Dot,
    pub stamp: Stamp,
    pub wall_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub full: Record,
    /// None for a last write, whose delta is the whole.
    pub delta: Option<Record>,
}

/// Applies an operation where the write is born.
pub fn apply(
    local: Option<&Record>,
    kind: Kind,
    op: &Op,
    attributes: &Attributes,
    event: WriteEvent,
) -> Result<Written, Code> {
    let token = attributes.fence.as_ref().map_or(0, |fence| fence.token);
    if local.is_some_and(|local| token < local.header.token()) && !planted(Mutant::FenceIgnored) {
        return Err(Code::FencePassed);
    }
    let mut full = start(local, kind, op, event.wall_ms)?;
    let overwritten = local.map_or(Stamp::ZERO, |local| local.header.stamp);
    let event = WriteEvent { stamp: event.stamp.max(overwritten.next()), ..event };
    full.header = header(&full.header, op, attributes, event);
    let mut seen = Context::default();
    let gone = if local.is_some_and(|local| local.is_expired(event.wall_ms)) {
        clear(&mut full.body, &mut seen)
    } else {
        None
    };
    let mut body = match op {
        Op::Restore(saved) => {
            let is_live = local.is_some_and(|local| local.is_live(event.wall_ms));
            restored::put(&mut full, saved, is_live, &mut seen)?
        }
        op => change(&mut full, op, attributes, event, &mut seen)?,
    };
    if let (Body::Counter(delta), Some(gone)) = (&mut body, gone) {
        delta.join(&gone);
    }
    let span = full.context.extend(event.dot);
    let read = attributes.context.as_ref();
    let read = read.filter(|_| matches!(full.kind, Kind::Register | Kind::Siblings | Kind::Custom));
    let recent = attributes.request.map(|request| RecentRequest { stamp: event.stamp, request });
    let recent: Vec<RecentRequest> = recent.into_iter().collect();
    full.recent = join_recent(&full.recent, &recent);
    if full.kind.is_last_write_wins() {
        read.into_iter().for_each(|read| full.context.join(read));
        return Ok(Written { delta: None, full });
    }
    seen.add(event.dot.actor, span);
    read.into_iter().for_each(|read| seen.join(read));
    full.context.join(&seen);
    let delta = Record { body, context: seen, recent, ..full.clone() };
    Ok(Written { full, delta: Some(delta) })
}

/// The state that the operation is done on. What has expired is gone; what is deleted may come back as another kind.
fn start(local: Option<&Record>, kind: Kind, op: &Op, wall_ms: u64) -> Result<Record, Code> {
    let Some(local) = local else {
        return Ok(Record {
            era: 0,
            kind,
            header: Header::default(),
            body: kind.empty_body(),
            context: Context::default(),
            created_ms: wall_ms,
            recent: Vec::new(),
        });
    };
    if local.kind == kind || *op == Op::Delete {
        return Ok(local.clone());
    }
    if local.is_live(wall_ms) {
        return Err(Code::WrongType);
    }
    let era = local.era.checked_add(1).ok_or(Code::NumberTooLarge)?;
    Ok(Record { era, kind, body: kind.empty_body(), created_ms: wall_ms, ..local.clone() })
}

/// A put or a delete replaces all attributes; the others keep what they do not mention.
pub(crate) fn header(old: &Header, op: &Op, attributes: &Attributes, event: WriteEvent) -> Header {
    let expired = old.expires_ms.is_some_and(|expires_ms| expires_ms <= event.wall_ms);
    let inherited = old.expires_ms.filter(|_| !op.replaces() && !expired);
    Header {
        dot: event.dot,
        stamp: event.stamp,
        tombstone: *op == Op::Delete,
        expires_ms: attributes.expires_ms.or(inherited),
        rare: rare(old, op, attributes).filter(|rare| *rare != RareFields::default()).map(Box::new),
    }
}

fn rare(old: &Header, op: &Op, attributes: &Attributes) -> Option<RareFields> {
    let Attributes { fence, home, metadata, schema, handler, .. } = attributes;
    let (replaces, replaces_apart) = (op.replaces(), matches!(op, Op::Replace(_)));
    let says_nothing = fence.is_none() && home.is_none() && metadata.is_empty() && !replaces_apart;
    if says_nothing && *schema == 0 && handler.is_none() && old.rare.is_none() {
        return None;
    }
    let mut rare = old.rare.as_deref().filter(|_| !replaces).cloned().unwrap_or_default();
    rare.fence = fence.clone();
    rare.replaces_apart = replaces_apart;
    let inherited = old.rare.as_ref().and_then(|rare| rare.handler.clone());
    rare.handler = handler.clone().or(inherited);
    rare.home = home.or(rare.home);
    if !metadata.is_empty() {
        rare.metadata = metadata.clone();
    }
    if *schema != 0 {
        rare.schema = *schema;
    }
    Some(rare)
}

/// Clears an expired body, which counts no more; the delta of a tally is returned, those of the others are in `seen`.
fn clear(body: &mut Body, seen: &mut Context) -> Option<CounterState> {
    match body {
        Body::Register(_) => {}
        Body::Counter(counter) => return Some(counter.clear()),
        Body::Set(set) => set.clear(seen),
        Body::Siblings(siblings) => siblings.clear(seen),
        Body::Collection(_) => {}
    }
    None
}

/// Changes the body and gives the body of the delta; dots that went are put into `seen`.
fn change(
    full: &mut Record,
    op: &Op,
    attributes: &Attributes,
    event: WriteEvent,
    seen: &mut Context,
) -> Result<Body, Code> {
    match (&mut full.body, op) {
        (Body::Register(value), Op::Put(new)) => *value = new.clone(),
        (Body::Register(value), Op::Delete) => *value = Bytes::new(),
        (Body::Counter(counter), op) => {
            return change_counter(counter, full.kind, op, event).map(Body::Counter);
        }
        (Body::Set(set), Op::Insert(element)) => {
            return Ok(Body::Set(set.add(element.clone(), event.dot, seen)));
        }
        (Body::Set(set), Op::Remove(element)) => {
            set.remove(element, seen);
            return Ok(Body::Set(OrSet::default()));
        }
        (Body::Set(set), Op::Delete) => {
            set.clear(seen);
            return Ok(Body::Set(OrSet::default()));
        }
        (Body::Siblings(siblings), Op::Put(value) | Op::Replace(value)) => {
            let sibling = Sibling { dot: event.dot, stamp: event.stamp, value: value.clone() };
            let read = attributes.context.clone().unwrap_or_default();
            return Ok(Body::Siblings(siblings.put(sibling, &read, seen)?));
        }
        (Body::Siblings(siblings), Op::Delete) => {
            match &attributes.context {
                Some(read) => siblings.drop_seen(read, seen),
                None => siblings.clear(seen),
            }
            return Ok(Body::Siblings(Siblings::default()));
        }
        _ => return Err(Code::WrongType),
    }
    Ok(full.body.clone())
}

fn change_counter(
    counter: &mut CounterState,
    kind: Kind,
    op: &Op,
    event: WriteEvent,
) -> Result<CounterState, Code> {
    match op {
        Op::Add(amount) if *amount < 0 && kind == Kind::GrowingCounter => Err(Code::NegativeAmount),
        Op::Add(amount) => counter.add(event.dot.actor, *amount),
        Op::Assign(target) if kind == Kind::Numeric => {
            let difference = target.checked_sub(counter.value()).ok_or(Code::NumberTooLarge)?;
            counter.add(event.dot.actor, difference)
        }
        Op::Delete => Ok(counter.clear()),
        _ => Err(Code::WrongType),
    }
}
