//! The bytes of what replicas say to each other to decide about a key by ballots.

use super::{Frame, OpId, RequestNote, begin, key};
use crate::ballot::{Ballot, Round};
use crate::record::REQUESTS_MAX;
use crate::watermarks::Watermarks;
use base::codec::{Reader, put_bytes, put_optional, put_varint};

pub(super) fn encode(frame: &Frame, out: &mut Vec<u8>) {
    match frame {
        Frame::Prepare { id, key, round, request } => {
            begin(out, 50, id);
            put_bytes(out, key.bytes());
            put_round(out, round.as_ref());
            out.push(u8::from(request.is_some()));
            request.iter().for_each(|request| put_varint(out, *request));
        }
        Frame::Promised { id, round, granted, prior, record, marks, attempts } => {
            begin(out, 51, id);
            put_round(out, round.as_ref());
            out.push(u8::from(*granted));
            put_round(out, prior.as_ref());
            put_optional(out, record.as_ref());
            marks.encode(out);
            put_optional(out, attempts.as_ref());
        }
        Frame::Accept { id, key, record, notes } => {
            begin(out, 52, id);
            put_bytes(out, key.bytes());
            put_bytes(out, record);
            put_varint(out, notes.len() as u64);
            for (request, note) in notes {
                put_varint(out, *request);
                put_bytes(out, note);
            }
        }
        Frame::Accepted { id, ballot, passed } => {
            begin(out, 53, id);
            ballot.encode(out);
            put_round(out, passed.as_ref());
        }
        _ => unreachable!("only frames of ballots come here"),
    }
}

pub(super) fn decode(number: u8, id: OpId, reader: &mut Reader) -> Option<Frame> {
    Some(match number {
        50 => Frame::Prepare {
            id,
            key: key(reader)?,
            round: optional_round(reader)?,
            request: if reader.bool()? { Some(reader.varint()?) } else { None },
        },
        51 => Frame::Promised {
            id,
            round: optional_round(reader)?,
            granted: reader.bool()?,
            prior: optional_round(reader)?,
            record: reader.optional()?,
            marks: Watermarks::decode(reader)?,
            attempts: reader.optional()?,
        },
        52 => Frame::Accept { id, key: key(reader)?, record: reader.bytes()?, notes: notes(reader)? },
        53 => Frame::Accepted { id, ballot: Ballot::decode(reader)?, passed: optional_round(reader)? },
        _ => return None,
    })
}

fn put_round(out: &mut Vec<u8>, round: Option<&Round>) {
    out.push(u8::from(round.is_some()));
    round.into_iter().for_each(|round| round.encode(out));
}

fn optional_round(reader: &mut Reader) -> Option<Option<Round>> {
    if reader.bool()? { Round::decode(reader).map(Some) } else { Some(None) }
}

fn notes(reader: &mut Reader) -> Option<Vec<RequestNote>> {
    let count = reader.varint().filter(|count| *count <= REQUESTS_MAX as u64)?;
    (0..count).map(|_| Some((reader.varint()?, reader.bytes()?))).collect()
}
