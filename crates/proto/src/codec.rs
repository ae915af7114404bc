//! The codec of our services: prost, after a check of the bytes.
//! A frame goes in, a message or a refusal comes out. Decoding must not cost much more memory than the frame
//! has bytes, so each request type may refuse its bytes before anything is built from them.

use crate::decode_limit::DecodeLimit;
use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Encodes `T`, decodes `U`.
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Codec<T, U> {
        Codec(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + DecodeLimit + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = GuardedDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> GuardedDecoder<U> {
        GuardedDecoder(ProstCodec::<T, U>::default().decoder())
    }
}

pub struct GuardedDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default + DecodeLimit> Decoder for GuardedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, frame: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        use bytes::Buf;
        let bytes = frame.chunk();
        assert_eq!(bytes.len(), frame.remaining(), "tonic gathers a frame into one buffer");
        U::check(bytes)?;
        self.0.decode(frame)
    }
}
