//! One element's row: the writes that keep it there, each with what it holds, and what was counted in it.
//! Two states of an element are joined with what each side has seen: a write that one side has seen and no longer has was
//! removed there. Amounts are sums of each actor, of which a removal notes how much it has seen.

use crate::actor::Dot;
use crate::context::Context;
use crate::counter::{CounterState, CounterSums};
use crate::decimal::Decimal;
use crate::hlc::Stamp;
use crate::mutant::Mutant;
use crate::set::join_dots;
use base::checksum::hash64;
use base::codec::{Reader, put_bytes, put_varint};
use base::mutant::planted;
use bytes::Bytes;

/// What one write left in an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellValue {
    /// The element exists and has no value: sets and flags.
    Member,
    /// A value of which the last one written shows: fields, scores, items.
    Register { stamp: Stamp, value: Bytes, expires_ms: Option<u64> },
    /// Its actor has added to the element's amount, and has come to these sums.
    Increment(CounterSums),
    /// The largest shows: HyperLogLogs.
    Rank(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub dot: Dot,
    pub value: CellValue,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementState {
    /// By dot.
    pub(super) cells: Vec<Cell>,
    pub(super) counter: CounterState,
}

const VERSION: u8 = 1;
const SCORE_BYTES: usize = size_of::<i128>();

impl ElementState {
    pub fn of_cell(cell: Cell) -> ElementState {
        ElementState { cells: vec![cell], counter: CounterState::default() }
    }

    /// The element is in its collection.
    pub fn is_visible(&self) -> bool {
        !self.cells.is_empty()
    }

    /// Whether something was added to its amount, or to its score.
    pub fn is_counted(&self) -> bool {
        self.cells.iter().any(|cell| cell.value.is_increment())
    }

    /// Whether nothing has to be remembered of the element.
    pub fn is_vacant(&self) -> bool {
        self.cells.is_empty() && self.counter.is_vacant()
    }

    /// About what its values take.
    pub fn bytes(&self) -> usize {
        let value = |cell: &Cell| match &cell.value {
            CellValue::Register { value, .. } => value.len(),
            CellValue::Member | CellValue::Increment(_) | CellValue::Rank(_) => 0,
        };
        self.cells.iter().map(|cell| size_of::<Cell>() + value(cell)).sum()
    }

    /// The latest stamp of a value.
    pub fn latest(&self) -> Stamp {
        let stamps = self.cells.iter().map(|cell| match cell.value {
            CellValue::Register { stamp, .. } => stamp,
            CellValue::Member | CellValue::Increment(_) | CellValue::Rank(_) => Stamp::ZERO,
        });
        stamps.max().unwrap_or(Stamp::ZERO)
    }

    /// Whether its time has come.
    pub fn is_expired(&self, wall_ms: u64) -> bool {
        self.is_visible() && self.expires_ms().is_some_and(|expires_ms| expires_ms <= wall_ms)
    }

    pub fn dots(&self) -> Vec<Dot> {
        self.cells.iter().map(|cell| cell.dot).collect()
    }

    /// The value that was written last, if one is there.
    pub fn register(&self) -> Option<&Bytes> {
        let last = self.cells.iter().filter_map(|cell| match &cell.value {
            CellValue::Register { stamp, value, .. } => Some(((*stamp, cell.dot), value)),
            _ => None,
        });
        last.max_by_key(|(rank, _)| *rank).map(|(_, value)| value)
    }

    /// What was counted in it and not removed.
    pub fn amount(&self) -> Decimal {
        Decimal(self.counter.value())
    }

    /// The score that was set last, and what was added to it since.
    pub fn score(&self) -> Decimal {
        let set = self.register().and_then(|value| Some(i128::from_be_bytes(value[..].try_into().ok()?)));
        Decimal(set.unwrap_or(0).saturating_add(self.counter.value()))
    }

    pub fn rank(&self) -> u8 {
        let ranks = self.cells.iter().map(|cell| match cell.value {
            CellValue::Rank(rank) => rank,
            _ => 0,
        });
        ranks.max().unwrap_or(0)
    }

    /// When the element expires: with the last of its writes, and never if one of them does not expire.
    pub fn expires_ms(&self) -> Option<u64> {
        let ends = self.cells.iter().map(|cell| match cell.value {
            CellValue::Register { expires_ms, .. } => expires_ms,
            _ => None,
        });
        ends.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Takes out the writes that a clear has seen, and what their actors had counted by then.
    pub fn settle(&mut self, cleared: &Context) {
        let counter = &mut self.counter;
        self.cells.retain(|cell| {
            let is_gone = cleared.covers(cell.dot);
            if let (true, CellValue::Increment(sums)) = (is_gone, &cell.value) {
                counter.clear_upto(cell.dot.actor, *sums);
            }
            !is_gone
        });
    }

    /// Takes everything out that is here; the dots go into `seen`. The delta of the counter is returned.
    pub fn remove(&mut self, seen: &mut Context) -> CounterState {
        for cell in self.cells.drain(..) {
            if !planted(Mutant::RemovalUnseen) {
                seen.join(&Context::of_dot(cell.dot));
            }
        }
        if self.counter.is_empty() { CounterState::default() } else { self.counter.clear() }
    }

    /// Joins two states, each with what its side has seen.
    pub fn join(left: (&ElementState, &Context), right: (&ElementState, &Context)) -> ElementState {
        let kept = join_dots((&left.0.dots(), left.1), (&right.0.dots(), right.1));
        let find = |dot: &Dot| left.0.cells.iter().chain(&right.0.cells).find(|cell| cell.dot == *dot);
        let mut counter = left.0.counter.clone();
        counter.join(&right.0.counter);
        let mut cells: Vec<Cell> = kept.iter().filter_map(find).cloned().collect();
        // A removal has seen what the actor added after this, which has not come here yet.
        cells.retain(|cell| match cell.value {
            CellValue::Increment(sums) => !counter.cleared_of(cell.dot.actor).exceeds(sums),
            _ => true,
        });
        ElementState { cells, counter }
    }

    /// What it contributes to the digest of its collection.
    pub fn digest(&self, name: &[u8]) -> u64 {
        if self.is_vacant() { 0 } else { hash64(&self.encode(), hash64(name, 0)) }
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        self.encode_to(&mut out);
        out.into()
    }

    pub fn encode_to(&self, out: &mut Vec<u8>) {
        put_varint(out, self.cells.len() as u64);
        for Cell { dot, value } in &self.cells {
            dot.encode(out);
            value.encode(out);
        }
        self.counter.encode(out);
    }

    pub fn decode(bytes: Bytes) -> Option<ElementState> {
        let mut reader = Reader::new(bytes);
        reader.u8().filter(|version| *version == VERSION)?;
        let state = ElementState::decode_from(&mut reader)?;
        reader.is_empty().then_some(state)
    }

    pub fn decode_from(reader: &mut Reader) -> Option<ElementState> {
        let cell =
            |reader: &mut Reader| Some(Cell { dot: Dot::decode(reader)?, value: CellValue::decode(reader)? });
        let count = reader.count()?;
        let cells = (0..count).map(|_| cell(reader)).collect::<Option<Vec<_>>>()?;
        let counter = CounterState::decode(reader)?;
        cells.is_sorted_by(|left, right| left.dot < right.dot).then_some(ElementState { cells, counter })
    }
}

impl CellValue {
    /// A score that is set.
    pub fn score(stamp: Stamp, score: Decimal) -> CellValue {
        let value = Bytes::copy_from_slice(&score.0.to_be_bytes());
        CellValue::Register { stamp, value, expires_ms: None }
    }

    pub fn is_register(&self) -> bool {
        matches!(self, CellValue::Register { .. })
    }

    pub fn is_increment(&self) -> bool {
        matches!(self, CellValue::Increment(_))
    }

    /// Whether it can be read as a score.
    pub fn is_score(&self) -> bool {
        match self {
            CellValue::Register { value, expires_ms, .. } => {
                value.len() == SCORE_BYTES && expires_ms.is_none()
            }
            CellValue::Increment(_) => true,
            CellValue::Member | CellValue::Rank(_) => false,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            CellValue::Member => out.push(0),
            CellValue::Register { stamp, value, expires_ms } => {
                out.push(1 + u8::from(expires_ms.is_some()));
                put_varint(out, stamp.0);
                expires_ms.iter().for_each(|expires_ms| put_varint(out, *expires_ms));
                put_bytes(out, value);
            }
            CellValue::Increment(sums) => {
                out.push(3);
                sums.encode(out);
            }
            CellValue::Rank(rank) => out.extend_from_slice(&[4, *rank]),
        }
    }

    fn decode(reader: &mut Reader) -> Option<CellValue> {
        Some(match reader.u8()? {
            0 => CellValue::Member,
            tag @ (1 | 2) => {
                let stamp = Stamp(reader.varint()?);
                let expires_ms = if tag == 2 { Some(reader.varint()?) } else { None };
                CellValue::Register { stamp, value: reader.bytes()?, expires_ms }
            }
            3 => CellValue::Increment(CounterSums::decode(reader)?),
            4 => CellValue::Rank(reader.u8()?),
            _ => return None,
        })
    }
}
