//! The operations of clients on a collection, and the delta that carries each out: made where the write begins, from the rows there.
//! The origin takes its own delta in as every other replica does. Each element that is added, set or counted takes a dot of
//! its own, so that rows can be told apart when they travel alone.

use super::delta::{CollectionDelta, ElementDelta};
use super::draft::Draft;
use super::element::{Cell, CellValue, ElementState};
use super::header::{CollectionHeader, CollectionKind, Expiry};
use super::hyper_log_log::{self, Observation};
use super::page::ElementEntry;
use super::position::Position;
use super::view::{self, CollectionRows, Direction, RowRange};
use crate::actor::Dot;
use crate::context::{Context, Span};
use crate::counter::CounterState;
use crate::decimal::Decimal;
use crate::op::WriteEvent;
use base::Code;
use bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionOp {
    /// For sets.
    Add(Vec<Bytes>),
    /// For elements of sets, fields of maps, members of sorted sets and positions of lists.
    Remove(Vec<Bytes>),
    /// For flags.
    Enable,
    Disable,
    /// For fields of maps.
    SetField {
        field: Bytes,
        value: Bytes,
        expires_ms: Option<u64>,
    },
    /// For fields that are counters, and for members of sorted sets.
    Increment {
        name: Bytes,
        by: Decimal,
    },
    /// For sorted sets.
    SetScore {
        member: Bytes,
        score: Decimal,
    },
    /// For lists: the values come to stand behind each other at a place.
    Insert {
        place: InsertPosition,
        values: Vec<Bytes>,
    },
    /// For items of lists that are there.
    Replace {
        position: Bytes,
        value: Bytes,
    },
    /// For HyperLogLogs.
    Observe(Vec<Bytes>),
    /// For HyperLogLogs: what was observed elsewhere, as a register keeps it.
    RaiseRegister {
        register: Bytes,
        rank: u8,
    },
    /// For every type: removes all elements that this replica has.
    Clear,
    /// For every type: when the whole collection expires; `None` for never.
    Expire(Option<u64>),
}

/// Where an item is inserted. A position may be that of an item that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertPosition {
    First,
    Last,
    After(Bytes),
    Before(Bytes),
}

/// Makes the delta of some operations. Their dots begin at that of the event and are as many as the context of the delta says.
pub fn apply(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    ops: &[CollectionOp],
    event: WriteEvent,
) -> Result<CollectionDelta, Code> {
    apply_found(header, rows, ops, event, &[])
}

/// The same where a quorum has some elements otherwise than the rows here: what was found is what the operations act on.
pub fn apply_found(
    header: &CollectionHeader,
    rows: &dyn CollectionRows,
    ops: &[CollectionOp],
    event: WriteEvent,
    found: &[ElementEntry],
) -> Result<CollectionDelta, Code> {
    let mut made = DeltaBuilder::new(header, rows, event);
    for ElementEntry { name, state } in found {
        made.draft.put(view::element(name), Some(state.encode()));
    }
    if header.is_expired(event.wall_ms) {
        made.clear();
    }
    for op in ops {
        made.carry_out(op)?;
    }
    Ok(made.finish())
}

struct DeltaBuilder<'a> {
    header: CollectionHeader,
    draft: Draft<'a>,
    event: WriteEvent,
    n_dots: u64,
    seen: Context,
    cleared: Context,
    expiry: Vec<Expiry>,
    /// The counts by element.
    counted: BTreeMap<Bytes, CounterState>,
}

/// The two items between which a new one is inserted.
struct Neighbours {
    left: Option<Position>,
    right: Option<Position>,
}

impl<'a> DeltaBuilder<'a> {
    fn new(header: &CollectionHeader, rows: &'a dyn CollectionRows, event: WriteEvent) -> DeltaBuilder<'a> {
        DeltaBuilder {
            header: header.clone(),
            draft: Draft::new(rows),
            event,
            n_dots: 0,
            seen: Context::default(),
            cleared: Context::default(),
            expiry: Vec::new(),
            counted: BTreeMap::new(),
        }
    }

    fn carry_out(&mut self, op: &CollectionOp) -> Result<(), Code> {
        use CollectionKind::{Flag, HyperLogLog, List, Map, Set, SortedSet};
        let stamp = self.event.stamp;
        match (self.header.of.kind, op) {
            (Set, CollectionOp::Add(elements)) => {
                elements.iter().for_each(|element| self.set(element, CellValue::Member))
            }
            (Set | Map | SortedSet | List, CollectionOp::Remove(names)) => {
                names.iter().for_each(|name| self.remove(name))
            }
            (Flag, CollectionOp::Enable) => self.set(&Bytes::new(), CellValue::Member),
            (Flag, CollectionOp::Disable) => self.remove(&Bytes::new()),
            (Map, CollectionOp::SetField { field, value, expires_ms }) => {
                let (value, expires_ms) = (value.clone(), *expires_ms);
                self.set(field, CellValue::Register { stamp, value, expires_ms })
            }
            (Map | SortedSet, CollectionOp::Increment { name, by }) => self.increment(name, *by)?,
            (SortedSet, CollectionOp::SetScore { member, score }) => {
                self.set(member, CellValue::score(stamp, *score))
            }
            (List, CollectionOp::Insert { place, values }) => self.insert(place, values)?,
            (List, CollectionOp::Replace { position, value }) => self.replace(position, value)?,
            (HyperLogLog, CollectionOp::Observe(values)) => {
                values.iter().for_each(|value| self.raise(hyper_log_log::observe(value)))
            }
            (HyperLogLog, CollectionOp::RaiseRegister { register, rank }) => {
                self.raise(Observation::of_register(register, *rank).ok_or(Code::BadRequest)?)
            }
            (_, CollectionOp::Clear) => self.clear(),
            (_, CollectionOp::Expire(expires_ms)) => self.expire(*expires_ms),
            _ => return Err(Code::WrongType),
        }
        Ok(())
    }

    fn next_dot(&mut self) -> Dot {
        let Dot { actor, counter } = self.event.dot;
        self.n_dots += 1;
        Dot { actor, counter: counter + self.n_dots - 1 }
    }

    fn load(&self, name: &[u8]) -> ElementState {
        self.header.settled(self.draft.get(&view::element(name)).as_ref())
    }

    fn store(&mut self, name: &[u8], state: &ElementState, counted: &CounterState) {
        self.draft.put(view::element(name), Some(state.encode()));
        self.counted.entry(Bytes::copy_from_slice(name)).or_default().join(counted);
    }

    /// Replaces all that is here of an element.
    fn set(&mut self, name: &Bytes, value: CellValue) {
        let mut state = self.load(name);
        let counted = state.remove(&mut self.seen);
        state.cells.push(Cell { dot: self.next_dot(), value });
        self.store(name, &state, &counted);
    }

    fn remove(&mut self, name: &[u8]) {
        let mut state = self.load(name);
        let counted = state.remove(&mut self.seen);
        self.store(name, &state, &counted);
    }

    /// Adds to an amount: what this actor has counted is one sum, under its last dot.
    fn increment(&mut self, name: &[u8], by: Decimal) -> Result<(), Code> {
        let mut state = self.load(name);
        let mut gone = CounterState::default();
        if state.is_expired(self.event.wall_ms) {
            gone = state.remove(&mut self.seen);
        }
        let is_field = self.header.of.kind == CollectionKind::Map;
        if is_field && state.cells.iter().any(|cell| cell.value.is_register()) {
            return Err(Code::WrongType);
        }
        let dot = self.next_dot();
        let mut counted = state.counter.add(dot.actor, by.0)?;
        counted.join(&gone);
        let seen = &mut self.seen;
        state.cells.retain(|cell| {
            let is_replaced = cell.value.is_increment() && cell.dot.actor == dot.actor;
            if is_replaced {
                seen.join(&Context::of_dot(cell.dot));
            }
            !is_replaced
        });
        let at = state.cells.partition_point(|cell| cell.dot < dot);
        let value = CellValue::Increment(state.counter.sums_by(dot.actor));
        state.cells.insert(at, Cell { dot, value });
        self.store(name, &state, &counted);
        Ok(())
    }

    fn raise(&mut self, observation: Observation) {
        if self.load(&observation.register).rank() < observation.rank {
            self.set(&observation.register, CellValue::Rank(observation.rank));
        }
    }

    fn insert(&mut self, place: &InsertPosition, values: &[Bytes]) -> Result<(), Code> {
        let Neighbours { mut left, right } = self.neighbours(place)?;
        for value in values {
            let dot = self.next_dot();
            let position =
                Position::between(left.as_ref(), right.as_ref(), dot).ok_or(Code::RequestTooLarge)?;
            let name = position.encode();
            let mut state = self.load(&name);
            let counted = state.remove(&mut self.seen);
            let value =
                CellValue::Register { stamp: self.event.stamp, value: value.clone(), expires_ms: None };
            state.cells.push(Cell { dot, value });
            self.store(&name, &state, &counted);
            left = Some(position);
        }
        Ok(())
    }

    fn neighbours(&self, place: &InsertPosition) -> Result<Neighbours, Code> {
        let parse = |bytes: &Bytes| Position::decode(bytes).ok_or(Code::BadRequest);
        Ok(match place {
            InsertPosition::First => Neighbours { left: None, right: self.next_item(None) },
            InsertPosition::Last => Neighbours { left: self.last_item(None), right: None },
            InsertPosition::After(left) => {
                Neighbours { left: Some(parse(left)?), right: self.next_item(Some(left)) }
            }
            InsertPosition::Before(right) => {
                Neighbours { left: self.last_item(Some(right)), right: Some(parse(right)?) }
            }
        })
    }

    fn next_item(&self, after: Option<&[u8]>) -> Option<Position> {
        self.first_visible(&view::elements_after(after), Direction::Up)
    }

    fn last_item(&self, before: Option<&[u8]>) -> Option<Position> {
        self.first_visible(&view::elements_before(before), Direction::Down)
    }

    fn first_visible(&self, range: &RowRange, direction: Direction) -> Option<Position> {
        let mut found = None;
        self.draft.scan(range, direction, &mut |row, value| {
            if self.header.settled(Some(value)).is_visible() {
                found = view::element_name(row).and_then(|name| Position::decode(&name));
            }
            found.is_none()
        });
        found
    }

    fn replace(&mut self, position: &Bytes, value: &Bytes) -> Result<(), Code> {
        if !self.load(position).is_visible() {
            return Err(Code::KeyAbsent);
        }
        let (stamp, value) = (self.event.stamp, value.clone());
        self.set(position, CellValue::Register { stamp, value, expires_ms: None });
        Ok(())
    }

    /// Clears everything that was seen, with what the earlier operations of this write did.
    fn clear(&mut self) {
        self.cleared = self.header.context.clone();
        if self.n_dots > 0 {
            self.cleared.add(self.event.dot.actor, self.span());
        }
        self.header.cleared = self.cleared.clone();
        self.header.expiry.clear();
        self.expiry.clear();
        self.counted.values_mut().for_each(|counted| drop(counted.clear()));
    }

    fn expire(&mut self, expires_ms: Option<u64>) {
        for expiry in self.header.expiry.drain(..).chain(self.expiry.drain(..)) {
            self.seen.join(&Context::of_dot(expiry.dot));
        }
        let dot = self.next_dot();
        self.expiry.push(Expiry { dot, expires_ms: expires_ms.unwrap_or(u64::MAX) });
    }

    /// This write and all that its actor has written to the collection since its last write.
    fn span(&self) -> Span {
        let Dot { actor, counter } = self.event.dot;
        Span { after: self.header.context.newest(actor), upto: counter + self.n_dots.max(1) - 1 }
    }

    fn finish(mut self) -> CollectionDelta {
        let actor = self.event.dot.actor;
        self.seen.add(actor, self.span());
        let is_new = |cell: &Cell| cell.dot.actor == actor && cell.dot.counter >= self.event.dot.counter;
        let mut elements = Vec::with_capacity(self.counted.len());
        for (name, counter) in &self.counted {
            let mut state = self.load(name);
            state.cells.retain(is_new);
            elements.push(ElementDelta {
                name: name.clone(),
                state: ElementState { counter: counter.clone(), ..state },
            });
        }
        let CollectionHeader { of, .. } = self.header;
        let (cleared, expiry) = (self.cleared, self.expiry);
        CollectionDelta { of, context: self.seen, cleared, expiry, elements }
    }
}
