//! The bytes of operations on collections, for a node that passes a write on to a replica, and what an operation is about.

use super::op::{CollectionOp, InsertPosition};
use crate::decimal::Decimal;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::{BufMut, Bytes};

/// The one element of a flag.
static FLAG: [Bytes; 1] = [Bytes::new()];

impl CollectionOp {
    /// The bytes of the client's names and values in it.
    pub fn bytes(&self) -> usize {
        let sum = |all: &[Bytes]| all.iter().map(Bytes::len).sum();
        match self {
            CollectionOp::Add(all) | CollectionOp::Remove(all) | CollectionOp::Observe(all) => sum(all),
            CollectionOp::SetField { field, value, .. } => field.len() + value.len(),
            CollectionOp::Increment { name, .. } => name.len(),
            CollectionOp::SetScore { member, .. } => member.len(),
            CollectionOp::Insert { place, values } => sum(values) + place.position().map_or(0, Bytes::len),
            CollectionOp::Replace { position, value } => position.len() + value.len(),
            CollectionOp::RaiseRegister { register, .. } => register.len() + 1,
            CollectionOp::Enable | CollectionOp::Disable | CollectionOp::Clear | CollectionOp::Expire(_) => 0,
        }
    }

    /// How many dots it takes at most.
    pub fn dots(&self) -> usize {
        match self {
            CollectionOp::Add(all) | CollectionOp::Observe(all) => all.len(),
            CollectionOp::Insert { values, .. } => values.len(),
            CollectionOp::Enable
            | CollectionOp::SetField { .. }
            | CollectionOp::Increment { .. }
            | CollectionOp::SetScore { .. }
            | CollectionOp::Replace { .. }
            | CollectionOp::RaiseRegister { .. }
            | CollectionOp::Expire(_) => 1,
            CollectionOp::Remove(_) | CollectionOp::Disable | CollectionOp::Clear => 0,
        }
    }

    /// The elements that it acts on as they are. What only adds to them needs not know them.
    pub fn acts_on(&self) -> &[Bytes] {
        match self {
            CollectionOp::Remove(names) => names,
            CollectionOp::Disable => &FLAG,
            CollectionOp::SetField { field: name, .. }
            | CollectionOp::Increment { name, .. }
            | CollectionOp::SetScore { member: name, .. }
            | CollectionOp::Replace { position: name, .. } => std::slice::from_ref(name),
            CollectionOp::Add(_)
            | CollectionOp::Observe(_)
            | CollectionOp::RaiseRegister { .. }
            | CollectionOp::Enable
            | CollectionOp::Insert { .. }
            | CollectionOp::Clear
            | CollectionOp::Expire(_) => &[],
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        let put_all = |out: &mut Vec<u8>, number: u8, all: &[Bytes]| {
            out.push(number);
            put_varint(out, all.len() as u64);
            all.iter().for_each(|one| put_bytes(out, one));
        };
        match self {
            CollectionOp::Add(elements) => put_all(out, 0, elements),
            CollectionOp::Remove(names) => put_all(out, 1, names),
            CollectionOp::Enable => out.push(2),
            CollectionOp::Disable => out.push(3),
            CollectionOp::SetField { field, value, expires_ms } => {
                out.push(4);
                put_bytes(out, field);
                put_bytes(out, value);
                put_expiry(out, *expires_ms);
            }
            CollectionOp::Increment { name, by } => {
                out.push(5);
                put_bytes(out, name);
                out.put_i128_le(by.0);
            }
            CollectionOp::SetScore { member, score } => {
                out.push(6);
                put_bytes(out, member);
                out.put_i128_le(score.0);
            }
            CollectionOp::Insert { place, values } => {
                put_all(out, 7, values);
                out.push(match place {
                    InsertPosition::First => 0,
                    InsertPosition::Last => 1,
                    InsertPosition::After(_) => 2,
                    InsertPosition::Before(_) => 3,
                });
                place.position().into_iter().for_each(|position| put_bytes(out, position));
            }
            CollectionOp::Replace { position, value } => {
                out.push(8);
                put_bytes(out, position);
                put_bytes(out, value);
            }
            CollectionOp::Observe(values) => put_all(out, 9, values),
            CollectionOp::Clear => out.push(10),
            CollectionOp::Expire(expires_ms) => {
                out.push(11);
                put_expiry(out, *expires_ms);
            }
            CollectionOp::RaiseRegister { register, rank } => {
                out.push(12);
                put_bytes(out, register);
                out.push(*rank);
            }
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<CollectionOp> {
        let all = |reader: &mut Reader| {
            let count = reader.count()?;
            (0..count).map(|_| reader.bytes()).collect::<Option<Vec<_>>>()
        };
        let decimal = |reader: &mut Reader| {
            Some(Decimal(i128::from_le_bytes(reader.take(16)?.as_ref().try_into().ok()?)))
        };
        Some(match reader.u8()? {
            0 => CollectionOp::Add(all(reader)?),
            1 => CollectionOp::Remove(all(reader)?),
            2 => CollectionOp::Enable,
            3 => CollectionOp::Disable,
            4 => {
                let (field, value) = (reader.bytes()?, reader.bytes()?);
                CollectionOp::SetField { field, value, expires_ms: expiry(reader)? }
            }
            5 => CollectionOp::Increment { name: reader.bytes()?, by: decimal(reader)? },
            6 => CollectionOp::SetScore { member: reader.bytes()?, score: decimal(reader)? },
            7 => {
                let values = all(reader)?;
                let place = match reader.u8()? {
                    0 => InsertPosition::First,
                    1 => InsertPosition::Last,
                    2 => InsertPosition::After(reader.bytes()?),
                    3 => InsertPosition::Before(reader.bytes()?),
                    _ => return None,
                };
                CollectionOp::Insert { place, values }
            }
            8 => CollectionOp::Replace { position: reader.bytes()?, value: reader.bytes()? },
            9 => CollectionOp::Observe(all(reader)?),
            10 => CollectionOp::Clear,
            11 => CollectionOp::Expire(expiry(reader)?),
            12 => CollectionOp::RaiseRegister { register: reader.bytes()?, rank: reader.u8()? },
            _ => return None,
        })
    }
}

impl InsertPosition {
    fn position(&self) -> Option<&Bytes> {
        match self {
            InsertPosition::First | InsertPosition::Last => None,
            InsertPosition::After(position) | InsertPosition::Before(position) => Some(position),
        }
    }
}

fn put_expiry(out: &mut Vec<u8>, expires_ms: Option<u64>) {
    out.push(u8::from(expires_ms.is_some()));
    expires_ms.iter().for_each(|expires_ms| put_varint(out, *expires_ms));
}

fn expiry(reader: &mut Reader) -> Option<Option<u64>> {
    if reader.bool()? { reader.varint().map(Some) } else { Some(None) }
}
