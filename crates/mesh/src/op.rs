//! The operations of clients on a key, carried out on the state that the origin of the write has.
//! The local record, the operation and the new dot go in; the new state and the delta that takes any other
//! replica there come out, or a refusal. The delta is small for mergeable kinds and the whole for a register.

use crate::actor::{Actor, Dot, RegionId};
use crate::collection::{BoundedCounter, CollectionOp};
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
    /// For bounded counters.
    Bounded(BoundedOp),
    /// For every kind: the record of a backup, where there is nothing or what it replaces.
    Restore(Bytes),
}

/// An operation on a bounded counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundedOp {
    pub change: BoundedChange,
    /// The bound of a counter that is not there yet, or the one that it must have.
    pub bound: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundedChange {
    Add(u64),
    Subtract(u64),
    /// The node that takes it is to own so many rights.
    Reserve(u64),
    /// Between nodes: the node that takes it hands rights over, or says that it needs more.
    Give {
        to: Actor,
        amount: u64,
    },
    Want(u64),
}

impl BoundedOp {
    /// The rights that the node needs which carries it out.
    pub fn rights_needed(&self) -> u64 {
        match self.change {
            BoundedChange::Subtract(amount) | BoundedChange::Reserve(amount) => amount,
            _ => 0,
        }
    }
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
            Op::Delete | Op::Add(_) | Op::Assign(_) | Op::Bounded(_) => 0,
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
            Op::Replace(_) | Op::Add(_) | Op::Insert(_) | Op::Elements(_) | Op::Bounded(_) => false,
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
            restored::put(&mut full, saved, (is_live, event.dot.actor), &mut seen)?
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
    let begins_again = full.kind == Kind::BoundedCounter && local.is_some_and(|local| local.era != full.era);
    if full.kind.is_last_write_wins() || begins_again {
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
    if local.kind == Kind::BoundedCounter && (*op == Op::Delete || kind == local.kind) {
        return start_bounded(local, op, wall_ms);
    }
    if local.kind == kind || *op == Op::Delete {
        return Ok(local.clone());
    }
    if local.is_live(wall_ms) {
        return Err(Code::WrongType);
    }
    let era = local.era.checked_add(1).ok_or(Code::NumberTooLarge)?;
    Ok(Record { era, kind, body: kind.empty_body(), created_ms: wall_ms, ..local.clone() })
}

/// A bounded counter that was deleted, or has expired, begins another life: rights of the one before count in it no more, neither
/// those that are known here nor those that others are spending meanwhile.
fn start_bounded(local: &Record, op: &Op, wall_ms: u64) -> Result<Record, Code> {
    let ends = *op == Op::Delete && !local.is_tombstone() || local.is_expired(wall_ms);
    let created_ms = if ends || local.is_tombstone() { wall_ms } else { local.created_ms };
    if !ends || planted(Mutant::RightsOutliveDelete) {
        return Ok(Record { created_ms, ..local.clone() });
    }
    let era = local.era.checked_add(1).ok_or(Code::NumberTooLarge)?;
    Ok(Record { era, body: local.kind.empty_body(), created_ms, ..local.clone() })
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
        // It has begun another life.
        Body::Bounded(_) | Body::Collection(_) => {}
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
        (Body::Bounded(_), Op::Delete) => {}
        (Body::Bounded(counter), Op::Bounded(op)) => {
            change_bounded(counter, *op, event.dot.actor)?;
            // All of it travels: what was taken never arrives before the rights to it, so that no reader is shown less than the bound.
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

fn change_bounded(counter: &mut BoundedCounter, op: BoundedOp, me: Actor) -> Result<(), Code> {
    if counter.is_vacant() {
        *counter = BoundedCounter::new(op.bound.unwrap_or(0));
    }
    if op.bound.is_some_and(|bound| bound != counter.bound()) {
        return Err(Code::BoundDiffers);
    }
    let short = if counter.above() < op.rights_needed() { Code::BelowBound } else { Code::RightsElsewhere };
    match op.change {
        BoundedChange::Add(amount) => counter.add(me, amount).map(drop),
        BoundedChange::Subtract(amount) => counter.subtract(me, amount)?.map(drop).ok_or(short),
        BoundedChange::Reserve(amount) if counter.rights(me) < amount => Err(short),
        BoundedChange::Reserve(_) => Ok(()),
        // What is not owned is not given.
        BoundedChange::Give { to, amount } => counter.give(me, to, amount).map(drop),
        BoundedChange::Want(amount) => counter.want(me, amount).map(drop),
    }
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
