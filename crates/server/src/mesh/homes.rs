//! Which keys with a home this region may write, for the threads that serve clients; and the bytes in which the leader of
//! coord sends that to the other nodes.

use base::Instant;
use base::codec::{Reader, put_varint};
use bytes::Bytes;
use mesh::{HomeLease, HomeScope};
use mesh_node::{AskTime, HeldHome};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The home leases that the driver published last.
#[derive(Default)]
pub(crate) struct SharedHomeLeases {
    newest: Mutex<mesh_node::HomeLeases>,
}

impl SharedHomeLeases {
    fn lock(&self) -> MutexGuard<'_, mesh_node::HomeLeases> {
        self.newest.lock().expect("no thread panics while it holds the home leases")
    }

    pub fn set(&self, held: &[HomeLease]) {
        self.lock().set(held);
    }

    /// Whether this region may write the place now, as the owner of this epoch.
    pub fn holds(&self, scope: &HomeScope, epoch: u64, now: Instant) -> bool {
        self.lock().holds(scope, epoch, now)
    }
}

/// Places with their epochs, and for how long each is held still, in milliseconds.
pub(super) fn encode_held(held: &[HeldHome], out: &mut Vec<u8>) {
    put_varint(out, held.len() as u64);
    for (scope, epoch, span) in held {
        scope.encode(out);
        put_varint(out, *epoch);
        put_varint(out, span.as_millis() as u64);
    }
}

pub(super) fn decode_held(bytes: Bytes) -> Option<Vec<HeldHome>> {
    decode_spans(Reader::new(bytes))
}

pub(super) fn encode_asked(asked: AskTime, out: &mut Vec<u8>) {
    put_varint(out, asked.start);
    put_varint(out, asked.at);
}

pub(super) fn decode_asked(bytes: Bytes) -> Option<AskTime> {
    let mut reader = Reader::new(bytes);
    let asked = AskTime { start: reader.varint()?, at: reader.varint()? };
    reader.is_empty().then_some(asked)
}

/// When the node asked, and what is held from then on.
pub(super) fn decode_home_leases(bytes: Bytes) -> Option<(AskTime, Vec<HeldHome>)> {
    let mut reader = Reader::new(bytes);
    let asked = AskTime { start: reader.varint()?, at: reader.varint()? };
    Some((asked, decode_spans(reader)?))
}

fn decode_spans(mut reader: Reader) -> Option<Vec<HeldHome>> {
    let count = reader.count().filter(|count| *count <= mesh_node::HomeLeases::MAX)?;
    let one = |reader: &mut Reader| {
        let scope = HomeScope::decode(reader)?;
        let (epoch, ms) = (reader.varint()?, reader.varint()?);
        Some((scope, epoch, Duration::from_millis(ms)))
    };
    let held = (0..count).map(|_| one(&mut reader)).collect::<Option<_>>()?;
    reader.is_empty().then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_told_as_spans() {
        let held = [(HomeScope::new("shop", "eu/"), 2, Duration::from_millis(5))];
        let mut bytes = Vec::new();
        encode_held(&held, &mut bytes);
        assert_eq!(decode_held(bytes.clone().into()).unwrap(), held);
        for cut in 0..bytes.len() {
            assert_eq!(decode_held(Bytes::copy_from_slice(&bytes[..cut])), None);
        }
    }

    #[test]
    fn a_question_and_its_answer_read_back_and_cut_ones_are_refused() {
        let asked = AskTime { start: 3 << 32, at: 4_000 };
        let mut question = Vec::new();
        encode_asked(asked, &mut question);
        assert_eq!(decode_asked(question.clone().into()), Some(asked));
        let held = [(HomeScope::new("shop", ""), 7, Duration::from_millis(900))];
        let mut answer = question.clone();
        encode_held(&held, &mut answer);
        assert_eq!(decode_home_leases(answer.clone().into()), Some((asked, held.to_vec())));
        for cut in 0..answer.len() {
            assert_eq!(decode_home_leases(Bytes::copy_from_slice(&answer[..cut])), None);
        }
        assert!(
            (0..question.len()).all(|cut| decode_asked(Bytes::copy_from_slice(&question[..cut])).is_none())
        );
    }
}
