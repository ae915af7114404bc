//! Which keys with a home this region may write, for the threads that serve clients; and the bytes in which the leader of
//! coord sends that to the other nodes.

use base::Instant;
use base::codec::{Reader, put_varint};
use bytes::Bytes;
use mesh::homes::Place;
use mesh::steward::Tenure;
use mesh_node::{AskedAt, HeldFor};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// What the driver knows of it.
#[derive(Default)]
pub(crate) struct Tenures {
    newest: Mutex<mesh_node::Tenures>,
}

impl Tenures {
    fn lock(&self) -> MutexGuard<'_, mesh_node::Tenures> {
        self.newest.lock().expect("no thread panics while it holds the tenures")
    }

    pub fn set(&self, held: &[Tenure]) {
        self.lock().set(held);
    }

    /// Whether this region may write the place now, as the owner of this epoch.
    pub fn holds(&self, place: &Place, epoch: u64, now: Instant) -> bool {
        self.lock().holds(place, epoch, now)
    }
}

/// Places with their epochs, and for how long each is held still, in milliseconds.
pub(super) fn encode_held(held: &[HeldFor], out: &mut Vec<u8>) {
    put_varint(out, held.len() as u64);
    for (place, epoch, span) in held {
        place.encode(out);
        put_varint(out, *epoch);
        put_varint(out, span.as_millis() as u64);
    }
}

pub(super) fn decode_held(bytes: Bytes) -> Option<Vec<HeldFor>> {
    decode_spans(Reader::new(bytes))
}

pub(super) fn encode_asked(asked: AskedAt, out: &mut Vec<u8>) {
    put_varint(out, asked.start);
    put_varint(out, asked.at);
}

pub(super) fn decode_asked(bytes: Bytes) -> Option<AskedAt> {
    let mut reader = Reader::new(bytes);
    let asked = AskedAt { start: reader.varint()?, at: reader.varint()? };
    reader.is_empty().then_some(asked)
}

/// When the node asked, and what is held from then on.
pub(super) fn decode_tenures(bytes: Bytes) -> Option<(AskedAt, Vec<HeldFor>)> {
    let mut reader = Reader::new(bytes);
    let asked = AskedAt { start: reader.varint()?, at: reader.varint()? };
    Some((asked, decode_spans(reader)?))
}

fn decode_spans(mut reader: Reader) -> Option<Vec<HeldFor>> {
    let count = reader.count().filter(|count| *count <= mesh_node::Tenures::MAX)?;
    let one = |reader: &mut Reader| {
        let place = Place::decode(reader)?;
        let (epoch, ms) = (reader.varint()?, reader.varint()?);
        Some((place, epoch, Duration::from_millis(ms)))
    };
    let held = (0..count).map(|_| one(&mut reader)).collect::<Option<_>>()?;
    reader.is_empty().then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_told_as_spans() {
        let held = [(Place::new("shop", "eu/"), 2, Duration::from_millis(5))];
        let mut bytes = Vec::new();
        encode_held(&held, &mut bytes);
        assert_eq!(decode_held(bytes.clone().into()).unwrap(), held);
        for cut in 0..bytes.len() {
            assert_eq!(decode_held(Bytes::copy_from_slice(&bytes[..cut])), None);
        }
    }

    #[test]
    fn a_question_and_its_answer_read_back_and_cut_ones_are_refused() {
        let asked = AskedAt { start: 3 << 32, at: 4_000 };
        let mut question = Vec::new();
        encode_asked(asked, &mut question);
        assert_eq!(decode_asked(question.clone().into()), Some(asked));
        let held = [(Place::new("shop", ""), 7, Duration::from_millis(900))];
        let mut answer = question.clone();
        encode_held(&held, &mut answer);
        assert_eq!(decode_tenures(answer.clone().into()), Some((asked, held.to_vec())));
        for cut in 0..answer.len() {
            assert_eq!(decode_tenures(Bytes::copy_from_slice(&answer[..cut])), None);
        }
        assert!(
            (0..question.len()).all(|cut| decode_asked(Bytes::copy_from_slice(&question[..cut])).is_none())
        );
    }
}
