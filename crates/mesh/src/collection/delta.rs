//! What one operation has changed: the rows, the dots, and a small context of what it has seen. It is all that travels to the
//! other replicas and regions. A delta comes from a peer: what does not fit the type is refused when it is read.

use super::element::{CellValue, ElementState};
use super::header::{CollectionKind, CollectionType, Expiry};
use super::{hyper_log_log, position};
use crate::context::Context;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;

/// What a delta says of one element: the writes that it adds, and what it has counted. The writes that it takes away are in
/// the context of the delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementDelta {
    pub name: Bytes,
    pub state: ElementState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionDelta {
    pub of: CollectionType,
    /// What it has seen of its elements, and itself.
    pub context: Context,
    /// What a clear has seen of the whole collection.
    pub cleared: Context,
    pub expiry: Vec<Expiry>,
    /// By name.
    pub elements: Vec<ElementDelta>,
}

const VERSION: u8 = 1;

impl CollectionDelta {
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        self.of.encode(&mut out);
        self.context.encode(&mut out);
        self.cleared.encode(&mut out);
        Expiry::encode_all(&self.expiry, &mut out);
        put_varint(&mut out, self.elements.len() as u64);
        for ElementDelta { name, state } in &self.elements {
            put_bytes(&mut out, name);
            state.encode_to(&mut out);
        }
        out.into()
    }

    /// None for what no node writes. Whether it is lawful is to be asked when its context is known, which may be kept apart.
    pub fn decode(bytes: Bytes) -> Option<CollectionDelta> {
        let mut reader = Reader::new(bytes);
        reader.u8().filter(|version| *version == VERSION)?;
        let of = CollectionType::decode(&mut reader)?;
        let context = Context::decode(&mut reader)?;
        let cleared = Context::decode(&mut reader)?;
        let expiry = Expiry::decode_all(&mut reader)?;
        let count = reader.count()?;
        let element = |reader: &mut Reader| {
            Some(ElementDelta { name: reader.bytes()?, state: ElementState::decode_from(reader)? })
        };
        let elements = (0..count).map(|_| element(&mut reader)).collect::<Option<Vec<_>>>()?;
        let delta = CollectionDelta { of, context, cleared, expiry, elements };
        reader.is_empty().then_some(delta)
    }

    /// Names ascend, every write that is added is in the context, and every cell is one of the type's.
    pub fn is_lawful(&self) -> bool {
        let names = self.elements.is_sorted_by(|left, right| left.name < right.name);
        let is_seen = |state: &ElementState| state.cells.iter().all(|cell| self.context.covers(cell.dot));
        let expiry = self.expiry.iter().all(|expiry| self.context.covers(expiry.dot));
        let fits = |element: &ElementDelta| {
            is_seen(&element.state) && is_lawful_element(self.of.kind, &element.name, &element.state)
        };
        names && expiry && self.elements.iter().all(fits)
    }
}

/// Whether an element can be one of a collection of this type.
pub fn is_lawful_element(kind: CollectionKind, name: &Bytes, state: &ElementState) -> bool {
    let is_counted = !state.counter.is_vacant();
    let cells = |fits: &dyn Fn(&CellValue) -> bool| state.cells.iter().all(|cell| fits(&cell.value));
    let is_field = |value: &CellValue| value.is_register() || value.is_increment();
    match kind {
        CollectionKind::Set => !is_counted && cells(&|value| *value == CellValue::Member),
        CollectionKind::Flag => name.is_empty() && !is_counted && cells(&|value| *value == CellValue::Member),
        CollectionKind::Map => cells(&is_field),
        CollectionKind::SortedSet => cells(&CellValue::is_score),
        CollectionKind::List => position::is_lawful(name) && !is_counted && cells(&CellValue::is_register),
        CollectionKind::HyperLogLog => {
            !is_counted && hyper_log_log::is_register_name(name) && cells(&hyper_log_log::is_rank)
        }
    }
}
