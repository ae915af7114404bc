//! Writes that happen only while a token holds its lock.
//! A fence, which is a lock's name and a token, goes in with a write; the server checks it at the very moment when
//! the write is applied. So a holder that slept beyond its lease writes nothing.

use crate::kv::kv;
use crate::{Client, Error, Kind};
use proto::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, TxnRequest, TxnResponse,
};
use std::fmt::{self, Write};
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};

/// The metadata of a call that carries its fence.
const METADATA: &str = "althing-fence";

/// What a write depends on. It can be passed to others that write for the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub lock: Vec<u8>,
    pub token: i64,
}

impl Fence {
    /// `lock=NAME,token=N`, the name percent-encoded, as headers and `ALTHING_FENCE` have it.
    pub fn parse(text: &str) -> Option<Fence> {
        let (lock, token) = text.split_once(',')?;
        let lock = percent_decode(lock.trim().strip_prefix("lock=")?)?;
        let token = token.trim().strip_prefix("token=")?.parse().ok()?;
        (token > 0).then_some(Fence { lock, token })
    }

    /// As the metadata has it.
    fn value(&self) -> MetadataValue<Ascii> {
        self.to_string().parse().expect("what is not plain was encoded")
    }

    fn attach_to<T>(&self, request: T) -> Request<T> {
        let mut request = Request::new(request);
        request.metadata_mut().insert(METADATA, self.value());
        request
    }
}

fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(bytes.next())? * 16 + digit(bytes.next())?) as u8
            }
            plain => plain,
        });
    }
    Some(decoded)
}

impl fmt::Display for Fence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::from("lock=");
        for byte in &self.lock {
            match byte {
                b'%' | b',' | b' ' | ..0x20 | 0x7f.. => {
                    write!(text, "%{byte:02X}").expect("a string takes everything");
                }
                plain => text.push(char::from(*plain)),
            }
        }
        write!(formatter, "{text},token={}", self.token)
    }
}

impl Client {
    pub async fn put_fenced(&self, fence: &Fence, request: PutRequest) -> Result<PutResponse, Error> {
        let call = |channel| {
            let request = fence.attach_to(request.clone());
            async move { kv(channel).put(request).await }
        };
        self.call(Kind::Write, call).await
    }

    pub async fn delete_fenced(
        &self,
        fence: &Fence,
        request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Error> {
        let call = |channel| {
            let request = fence.attach_to(request.clone());
            async move { kv(channel).delete_range(request).await }
        };
        self.call(Kind::Write, call).await
    }

    pub async fn txn_fenced(&self, fence: &Fence, request: TxnRequest) -> Result<TxnResponse, Error> {
        let call = |channel| {
            let request = fence.attach_to(request.clone());
            async move { kv(channel).txn(request).await }
        };
        self.call(Kind::Write, call).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_cannot_carry_is_encoded() {
        let value =
            |lock: &[u8]| Fence { lock: lock.to_vec(), token: 7 }.value().to_str().unwrap().to_owned();
        assert_eq!(value(b"/locks/db"), "lock=/locks/db,token=7");
        assert_eq!(value(b"a,b %"), "lock=a%2Cb%20%25,token=7");
        assert_eq!(value(&[0, b'a', 0xff]), "lock=%00a%FF,token=7");
    }

    #[test]
    fn a_fence_is_read_as_it_is_written() {
        for lock in [b"/locks/db".to_vec(), "Schlüssel, b %".into(), vec![0, b'a', 0xff]] {
            let fence = Fence { lock, token: 7 };
            assert_eq!(Fence::parse(&fence.to_string()), Some(fence));
        }
        for text in ["", "lock=a", "lock=a,token=0", "lock=%f,token=1", "lock=%zz,token=1", "a,1"] {
            assert_eq!(Fence::parse(text), None, "{text}");
        }
    }
}
