//! Versions on the wire: exactly, as an opaque word that clients hand back, and for people, as a count per region.
//! A context goes in and comes out again the same; a word that is not one of ours is refused by the name of the
//! header that carried it.

use super::refusal::Refusal;
use axum::http::HeaderValue;
use base::codec::Reader;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mesh::{Context, RegionId};
use std::collections::BTreeMap;

const VERSION: u8 = 1;
/// More than any context of ours takes.
const WORD_BYTES_MAX: usize = 64 * 1024;
const WORD_BYTES_USUAL: usize = 64;

/// The exact version, as a header.
pub fn header_of(context: &Context) -> HeaderValue {
    let word = code_name(context);
    HeaderValue::try_from(word).expect("base64 is plain text")
}

pub fn code_name(context: &Context) -> String {
    let mut bytes = vec![VERSION];
    context.encode(&mut bytes);
    STANDARD.encode(bytes)
}

/// The same word, behind what is in `out`.
pub fn put_word(context: &Context, out: &mut Vec<u8>) {
    let mut bytes = Vec::with_capacity(WORD_BYTES_USUAL);
    bytes.push(VERSION);
    context.encode(&mut bytes);
    let at = out.len();
    out.resize(at + bytes.len().div_ceil(3) * 4, 0);
    STANDARD.encode_slice(bytes, &mut out[at..]).expect("base64 takes four bytes for three");
}

/// Reads what `header_of` made; `name` is the header that it came in.
pub fn parse(name: &str, word: &[u8]) -> Result<Context, Refusal> {
    decode(word).ok_or_else(|| {
        Refusal::bad(format!("{name} must be what X-Vector-Clock of an earlier answer said, unchanged"))
    })
}

fn decode(word: &[u8]) -> Option<Context> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let mut reader = Reader::new(STANDARD.decode(word).ok()?.into());
    let version = reader.u8()?;
    let context = Context::decode(&mut reader)?;
    (version == VERSION && reader.is_empty()).then_some(context)
}

/// How far each region has counted.
pub fn by_region(context: &Context, name: impl Fn(RegionId) -> String) -> BTreeMap<String, u64> {
    context.by_region().into_iter().map(|(region, count)| (name(region), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;
    use mesh::{Actor, Dot};

    #[test]
    fn versions_survive_a_round_trip_and_nonsense_is_refused() {
        let actor = Actor { region: RegionId(7), node: NodeId(3), incarnation: 1 };
        let context = Context::of_dot(Dot { actor, counter: 42 });
        let word = code_name(&context);
        assert_eq!(parse("X-If-Vector-Clock", word.as_bytes()).unwrap(), context);
        let mut out = b"x: ".to_vec();
        put_word(&context, &mut out);
        assert_eq!(out, format!("x: {word}").into_bytes());
        let (cut, long) = (&word.as_bytes()[..4], "A".repeat(WORD_BYTES_MAX + 4));
        for nonsense in [&b""[..], b"!", b"AAAA", cut, long.as_bytes()] {
            assert!(parse("X-If-Vector-Clock", nonsense).is_err());
        }
    }
}
