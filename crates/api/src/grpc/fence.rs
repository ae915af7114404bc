//! Fences on the wire: how a write names the lock and the token that it depends on, and how it is refused.
//! `althing-fence: lock=NAME,token=N` in the metadata of a call, the name percent-encoded; at the gateway the header
//! `X-Fence` says the same. A refusal names both tokens.

use crate::percent;
use base::{Code, Revision};
use coord::FencingToken;
use coord::call::FenceOutcome;
use coord::reply::{FenceRefusal, Reply};
use tonic::metadata::MetadataMap;
use tonic::{Code as GrpcCode, Status};

pub const METADATA: &str = "althing-fence";
/// The same at the gateway.
pub const HEADER: &str = "x-fence";

/// The fence of a call, if it has one. More than one would leave open which counts.
pub fn parse(metadata: &MetadataMap) -> Result<Option<FencingToken>, Code> {
    let mut values = metadata.get_all(METADATA).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => parse_value(value.as_encoded_bytes()).map(Some).ok_or(Code::BadFence),
        (Some(_), Some(_)) => Err(Code::BadFence),
    }
}

pub fn parse_value(value: &[u8]) -> Option<FencingToken> {
    let value = std::str::from_utf8(value).ok()?;
    let (lock, token) = value.split_once(',')?;
    let lock = percent::decode(lock.trim().strip_prefix("lock=")?)?.into();
    let token = token.trim().strip_prefix("token=")?.parse().ok()?;
    (token > 0).then_some(FencingToken { lock, token: Revision(token) })
}

/// The reply to a write whose fence held, or the refusal.
pub fn passed<T>(reply: Reply<FenceOutcome<T>>) -> Result<Reply<T>, Status> {
    match reply.body {
        FenceOutcome::Passed(body) => Ok(Reply { revision: reply.revision, body }),
        FenceOutcome::Refused(refusal) => Err(refuse_write(&refusal)),
    }
}

/// A write whose token does not hold the lock.
pub fn refuse_write(refusal: &FenceRefusal) -> Status {
    let FenceRefusal { lock, given, last } = refusal;
    let lock = String::from_utf8_lossy(lock);
    refuse(match *last {
        Revision::ZERO => format!("token {given} does not hold lock {lock:?}: the lock is free"),
        last => format!("token {given} does not hold lock {lock:?}: token {last} does"),
    })
}

/// A token that is older than what its resource has seen.
pub fn refuse_token(resource: &str, refusal: &FenceRefusal) -> Status {
    let FenceRefusal { given, last, .. } = refusal;
    refuse(format!("token {given} is lower than token {last}, which resource {resource:?} has seen"))
}

fn refuse(what: String) -> Status {
    let code = GrpcCode::from_i32(Code::Fenced.grpc() as i32);
    Status::new(code, format!("{}: {what}", Code::Fenced.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(values: &[&str]) -> Result<Option<(String, i64)>, Code> {
        let mut metadata = MetadataMap::new();
        for value in values {
            metadata.append(METADATA, value.parse().unwrap());
        }
        let fence = parse(&metadata)?;
        Ok(fence.map(|fence| (String::from_utf8(fence.lock.to_vec()).unwrap(), fence.token.0)))
    }

    #[test]
    fn a_fence_names_a_lock_and_a_token() {
        assert_eq!(parsed(&[]), Ok(None));
        assert_eq!(parsed(&["lock=/locks/db,token=7"]), Ok(Some(("/locks/db".into(), 7))));
        assert_eq!(parsed(&["lock=a%2Cb%20%25, token=9"]), Ok(Some(("a,b %".into(), 9))));
    }

    #[test]
    fn what_could_be_misunderstood_is_refused() {
        for value in
            ["", "lock=a", "token=1", "lock=a,token=", "lock=a,token=x", "lock=a,token=0", "lock=a,token=-1"]
        {
            assert_eq!(parsed(&[value]), Err(Code::BadFence), "{value}");
        }
        for value in ["lock=%,token=1", "lock=%f,token=1", "lock=%+1,token=1", "lock=%zz,token=1"] {
            assert_eq!(parsed(&[value]), Err(Code::BadFence), "{value}");
        }
        assert_eq!(parsed(&["lock=a,token=1", "lock=a,token=1"]), Err(Code::BadFence));
    }

    #[test]
    fn a_refusal_names_both_tokens() {
        let refusal = |last| FenceRefusal { lock: "db".into(), given: Revision(100), last: Revision(last) };
        let message = refuse_write(&refusal(101)).message().to_owned();
        assert_eq!(
            message,
            "althing: fencing token is stale: token 100 does not hold lock \"db\": token 101 does"
        );
        assert!(refuse_write(&refusal(0)).message().ends_with("the lock is free"));
        assert!(refuse_token("disk", &refusal(101)).message().contains("100 is lower than token 101"));
    }
}
