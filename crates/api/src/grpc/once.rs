//! The client's own identity of a request, as metadata: `althing-request-id: SESSION-SEQ` or `SESSION-SEQ-LOW`.
//! Text goes in, a `coord::RequestId` comes out, or a refusal; of an answer of which only the revision was kept, a
//! status that says so and carries the revision.

use crate::grpc::refusal;
use base::{Code, LeaseId};
use coord::RequestId;
use coord::call::RepeatOutcome;
use coord::reply::Reply;
use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};

/// Session (a lease), number of the request in it, and the number below which the client has every answer; decimal.
const REQUEST_ID: &str = "althing-request-id";
/// Accompanies the refusal of an answer that was not cached.
const REVISION: &str = "althing-revision";

/// `None` without the metadata.
pub fn request_id(metadata: &MetadataMap) -> Result<Option<RequestId>, Status> {
    let mut given = metadata.get_all(REQUEST_ID).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let id = value.to_str().ok().and_then(parse).filter(|_| given.next().is_none());
    id.map(Some).ok_or_else(|| refusal::render(Code::RequestIdMalformed))
}

fn parse(text: &str) -> Option<RequestId> {
    // The first number may have a sign of its own.
    let digits_from = usize::from(text.starts_with('-'));
    let session_end = digits_from + text.get(digits_from..)?.find('-')?;
    let (session, rest) = text.split_at(session_end);
    let mut numbers = rest[1..].split('-');
    let seq = number(numbers.next()?)?;
    let low = numbers.next().map_or(Some(0), number)?;
    let session = LeaseId(session.parse().ok()?);
    let lawful = numbers.next().is_none() && low <= seq && session != LeaseId::NONE;
    lawful.then_some(RequestId { session, seq, low })
}

/// Digits alone: no sign, no space.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// An answer that was cached whole, or the refusal that stands for it.
pub fn whole<T>(Reply { revision, body }: Reply<RepeatOutcome<T>>) -> Result<Reply<T>, Status> {
    match body {
        RepeatOutcome::Whole(body) => Ok(Reply { revision, body }),
        RepeatOutcome::RevisionAlone => {
            let mut status = refusal::render(Code::ReplyNotKept);
            status.metadata_mut().insert(REVISION, MetadataValue::from(revision.0));
            Err(status)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(session: i64, seq: u64, low: u64) -> Option<RequestId> {
        Some(RequestId { session: LeaseId(session), seq, low })
    }

    #[test]
    fn an_id_is_two_or_three_decimal_numbers() {
        assert_eq!(parse("7587862094-1"), id(7_587_862_094, 1, 0));
        assert_eq!(parse("-5-12-3"), id(-5, 12, 3));
        assert_eq!(parse("5-12-12"), id(5, 12, 12));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "-",
            "--",
            "5",
            "5-",
            "-5",
            "-5-",
            "0-1",
            "5-1-2",
            "5-1-0-0",
            "5-+1",
            "5- 1",
            "x-1",
            "5-x",
            "é-1",
            "5-1-",
            "5--1",
            "5-99999999999999999999",
            "99999999999999999999-1",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn two_ids_are_none() {
        let mut metadata = MetadataMap::new();
        assert_eq!(request_id(&metadata).unwrap(), None);
        metadata.append(REQUEST_ID, MetadataValue::from_static("5-1"));
        assert_eq!(request_id(&metadata).unwrap(), id(5, 1, 0));
        metadata.append(REQUEST_ID, MetadataValue::from_static("5-2"));
        assert_eq!(request_id(&metadata).unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
