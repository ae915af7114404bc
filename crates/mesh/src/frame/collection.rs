//! The frames that ask for what a replica has below the key of a collection: elements by name, those of a span, or the ranges
//! of a span. Readers and nodes that compare ask the same. What comes is validated as all frames are: names ascend, and every
//! element is one of the type's.

use super::{Frame, OpId, key};
use crate::collection::{
    CollectionKind, Direction, ElementEntry, ElementRange, ElementSpan, OrderedPage, RangeSummary,
    ScorePaging, is_lawful_element,
};
use crate::decimal::Decimal;
use crate::record::Record;
use crate::watermarks::Watermarks;
use base::codec::{Reader, put_bytes, put_optional, put_varint};
use bytes::{BufMut, Bytes};

/// Names that one question holds, and elements or ranges that one answer holds.
pub const ELEMENTS_MAX: usize = 1_024;
pub const RANGES_MAX: usize = 4_096;

/// Why it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryPurpose {
    /// A client waits, so only a replica that serves may answer.
    Read,
    /// Two nodes compare; the record whose storing waits for that, if there is one.
    Compare(OpId),
}

/// What is asked below a key, beside the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionQuestion {
    /// Elements by name, which ascend.
    Names(Vec<Bytes>),
    /// The first elements of a span.
    Page { span: ElementSpan, limit: u16 },
    /// The ranges of a level in a span.
    Ranges { level: u8, span: ElementSpan },
    /// The last item of a list.
    Last,
    /// The members of a sorted set in the order of their scores.
    Scores(ScorePaging),
    /// The elements from a rank on.
    Ranks { from: u64, limit: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionAnswer {
    /// Everything up to a name is in it; none if it reaches to the end of what was asked.
    Elements {
        entries: Vec<ElementEntry>,
        upto: Option<Bytes>,
    },
    Ranges(Vec<ElementRange>),
    /// In the order of scores, or of ranks.
    Ordered(OrderedPage),
}

/// What a replica has of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionView {
    /// The record of the key, whatever it is.
    pub record: Option<Bytes>,
    /// With nothing there, up to where what is missing was deleted everywhere.
    pub marks: Watermarks,
    pub answer: CollectionAnswer,
}

impl CollectionView {
    /// The record, and whether everything fits to it. None for what no node says.
    pub fn read(&self) -> Option<Option<Record>> {
        let record = match &self.record {
            Some(bytes) => Some(Record::decode(bytes.clone())?),
            None => None,
        };
        let entries = match &self.answer {
            CollectionAnswer::Elements { entries, .. } => entries.as_slice(),
            CollectionAnswer::Ordered(page) => &page.entries,
            CollectionAnswer::Ranges(_) => &[],
        };
        if !entries.is_empty() {
            let header = record.as_ref().and_then(Record::collection_header);
            let kind = header.map(|header| header.of.kind);
            let is_lawful = |entry: &ElementEntry| {
                kind.is_some_and(|kind: CollectionKind| is_lawful_element(kind, &entry.name, &entry.state))
            };
            if !entries.iter().all(is_lawful) {
                return None;
            }
        }
        Some(record)
    }
}

pub(super) fn encode(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::CollectionQuery { id, key, purpose, question } => {
            super::begin(out, 60, id);
            put_bytes(out, key.bytes());
            match purpose {
                QueryPurpose::Read => out.push(0),
                QueryPurpose::Compare(store) => {
                    out.push(1);
                    put_varint(out, store.0);
                }
            }
            encode_question(question, out);
        }
        Frame::CollectionAnswer { id, view } => {
            super::begin(out, 61, id);
            put_optional(out, view.record.as_ref());
            view.marks.encode(out);
            encode_answer(&view.answer, out);
        }
        _ => unreachable!("the caller has only these"),
    }
}

fn encode_question(question: &CollectionQuestion, out: &mut Vec<u8>) {
    match question {
        CollectionQuestion::Names(names) => {
            out.push(0);
            put_varint(out, names.len() as u64);
            names.iter().for_each(|name| put_bytes(out, name));
        }
        CollectionQuestion::Page { span, limit } => {
            out.push(1);
            put_span(out, span);
            put_varint(out, u64::from(*limit));
        }
        CollectionQuestion::Ranges { level, span } => {
            out.extend_from_slice(&[2, *level]);
            put_span(out, span);
        }
        CollectionQuestion::Last => out.push(3),
        CollectionQuestion::Scores(ScorePaging { from, to, direction, after, limit }) => {
            out.push(4);
            out.put_i128_le(from.0);
            out.put_i128_le(to.0);
            out.push(u8::from(*direction == Direction::Down));
            put_optional(out, after.as_ref());
            put_varint(out, *limit as u64);
        }
        CollectionQuestion::Ranks { from, limit } => {
            out.push(5);
            put_varint(out, *from);
            put_varint(out, u64::from(*limit));
        }
    }
}

fn encode_answer(answer: &CollectionAnswer, out: &mut Vec<u8>) {
    match answer {
        CollectionAnswer::Elements { entries, upto } => {
            out.push(0);
            ElementEntry::encode_all(entries, out);
            put_optional(out, upto.as_ref());
        }
        CollectionAnswer::Ordered(OrderedPage { entries, upto }) => {
            out.push(2);
            ElementEntry::encode_all(entries, out);
            put_optional(out, upto.as_ref());
        }
        CollectionAnswer::Ranges(ranges) => {
            out.push(1);
            put_varint(out, ranges.len() as u64);
            for ElementRange { from, summary } in ranges {
                put_optional(out, from.as_ref());
                put_varint(out, summary.count);
                out.extend_from_slice(&summary.digest.to_le_bytes());
            }
        }
    }
}

pub(super) fn decode(number: u8, id: OpId, reader: &mut Reader) -> Option<Frame> {
    if number == 60 {
        let key = key(reader)?;
        let purpose = match reader.u8()? {
            0 => QueryPurpose::Read,
            1 => QueryPurpose::Compare(OpId(reader.varint()?)),
            _ => return None,
        };
        return Some(Frame::CollectionQuery { id, key, purpose, question: question(reader)? });
    }
    let (record, marks) = (reader.optional()?, Watermarks::decode(reader)?);
    let view = CollectionView { record, marks, answer: answer(reader)? };
    Some(Frame::CollectionAnswer { id, view: Box::new(view) })
}

fn question(reader: &mut Reader) -> Option<CollectionQuestion> {
    Some(match reader.u8()? {
        0 => {
            let count = reader.count().filter(|count| *count <= ELEMENTS_MAX)?;
            let names = (0..count).map(|_| reader.bytes()).collect::<Option<Vec<_>>>()?;
            CollectionQuestion::Names(Some(names).filter(|names| names.is_sorted_by(|a, b| a < b))?)
        }
        1 => CollectionQuestion::Page { span: span(reader)?, limit: u16::try_from(reader.varint()?).ok()? },
        2 => {
            let level = reader.u8()?;
            CollectionQuestion::Ranges { level, span: span(reader)? }
        }
        3 => CollectionQuestion::Last,
        4 => {
            let decimal = |reader: &mut Reader| {
                Some(Decimal(i128::from_le_bytes(reader.take(16)?.as_ref().try_into().ok()?)))
            };
            let (from, to) = (decimal(reader)?, decimal(reader)?);
            let direction = if reader.bool()? { Direction::Down } else { Direction::Up };
            let after = match reader.optional()? {
                Some(after) => Some(Some(after).filter(|after| ScorePaging::is_place(after))?),
                None => None,
            };
            let limit = usize::from(u16::try_from(reader.varint()?).ok()?);
            CollectionQuestion::Scores(ScorePaging { from, to, direction, after, limit })
        }
        5 => {
            CollectionQuestion::Ranks { from: reader.varint()?, limit: u16::try_from(reader.varint()?).ok()? }
        }
        _ => return None,
    })
}

fn answer(reader: &mut Reader) -> Option<CollectionAnswer> {
    Some(match reader.u8()? {
        0 => {
            let entries = ElementEntry::decode_all(reader).filter(|all| all.len() <= ELEMENTS_MAX);
            let entries = entries.filter(|all| all.is_sorted_by(|a, b| a.name < b.name))?;
            CollectionAnswer::Elements { entries, upto: reader.optional()? }
        }
        1 => {
            let count = reader.count().filter(|count| *count <= RANGES_MAX)?;
            let range = |reader: &mut Reader| {
                let from = reader.optional()?;
                let summary = RangeSummary { count: reader.varint()?, digest: reader.u64()? };
                Some(ElementRange { from, summary })
            };
            let ranges = (0..count).map(|_| range(reader)).collect::<Option<Vec<_>>>()?;
            CollectionAnswer::Ranges(Some(ranges).filter(|all| all.is_sorted_by(|a, b| a.from < b.from))?)
        }
        2 => {
            let entries = ElementEntry::decode_all(reader).filter(|all| all.len() <= ELEMENTS_MAX)?;
            CollectionAnswer::Ordered(OrderedPage { entries, upto: reader.optional()? })
        }
        _ => return None,
    })
}

fn put_span(out: &mut Vec<u8>, span: &ElementSpan) {
    put_optional(out, span.from.as_ref());
    put_optional(out, span.to.as_ref());
}

fn span(reader: &mut Reader) -> Option<ElementSpan> {
    Some(ElementSpan { from: reader.optional()?, to: reader.optional()? })
}
