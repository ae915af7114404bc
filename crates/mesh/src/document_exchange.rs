//! Synchronises the documents that regions share: namespaces and merge handlers.
//! The leader of each region's coord sends the other regions a digest of each such document every few seconds. A region
//! whose own document has another digest replies with the whole document; the first region merges it into its own and
//! proposes the result. Both sides send digests, so both end with the same document, and a lost message is sent again.

use crate::actor::RegionId;
use crate::documents::{self, EXCHANGED};
use crate::handler::Handlers;
use crate::mutant::Mutant;
use crate::namespaces::Namespaces;
use base::checksum::hash64;
use base::codec::{Reader, put_bytes, put_varint};
use base::mutant::planted;
use base::{FormatLevel, Instant};
use bytes::{BufMut, Bytes};
use std::collections::BTreeMap;
use std::time::Duration;

const TELL_EVERY: Duration = Duration::from_secs(2);
/// The same document goes to the same region no more often than this.
const SEND_EVERY: Duration = Duration::from_secs(1);

const DIGESTS: u8 = 1;
const DOCUMENT: u8 = 2;

/// From the leader of one region to the leader of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentMessage {
    /// The digest of each document by its name.
    Digests(BTreeMap<String, u64>),
    Document {
        name: String,
        bytes: Bytes,
    },
}

/// What follows from a message or from the time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DocumentActions {
    pub send: Vec<(RegionId, DocumentMessage)>,
    /// A document and what it is to become.
    pub propose: Vec<(&'static str, Bytes)>,
}

#[derive(Debug, Default)]
pub struct DocumentExchange {
    tell_at: Instant,
    sent: BTreeMap<(RegionId, &'static str), Instant>,
}

impl DocumentExchange {
    /// To be called while this node leads its region. `document` finds what the region has agreed on.
    pub fn tick(
        &mut self,
        now: Instant,
        others: impl IntoIterator<Item = RegionId>,
        document: impl Fn(&str) -> Option<Bytes>,
    ) -> DocumentActions {
        if now < self.tell_at {
            return DocumentActions::default();
        }
        self.tell_at = now.after(TELL_EVERY);
        let mut others = others.into_iter().peekable();
        if others.peek().is_none() || planted(Mutant::DocumentsNotExchanged) {
            return DocumentActions::default();
        }
        let digest = |name: &&str| Some(((*name).to_owned(), digest_of(&normalise(name, document(name)?)?)));
        let digests: BTreeMap<String, u64> = EXCHANGED.iter().filter_map(digest).collect();
        let send = others.map(|region| (region, DocumentMessage::Digests(digests.clone()))).collect();
        DocumentActions { send, propose: Vec::new() }
    }

    /// The leader of another region has sent something to this one.
    pub fn receive(
        &mut self,
        now: Instant,
        from: RegionId,
        message: DocumentMessage,
        document: impl Fn(&str) -> Option<Bytes>,
    ) -> DocumentActions {
        match message {
            DocumentMessage::Digests(theirs) => {
                let differing = EXCHANGED.into_iter().filter_map(|name| {
                    let ours = normalise(name, document(name)?)?;
                    (theirs.get(name) != Some(&digest_of(&ours))).then_some((name, ours))
                });
                let due: Vec<_> = differing.filter(|(name, _)| self.may_send(now, from, name)).collect();
                let send = due.into_iter().map(|(name, bytes)| {
                    self.sent.insert((from, name), now);
                    (from, DocumentMessage::Document { name: name.to_owned(), bytes })
                });
                DocumentActions { send: send.collect(), propose: Vec::new() }
            }
            DocumentMessage::Document { name, bytes } => {
                let name = EXCHANGED.into_iter().find(|exchanged| *exchanged == name);
                let merged = name.and_then(|name| Some((name, merge(name, document(name), bytes)?)));
                DocumentActions { send: Vec::new(), propose: merged.into_iter().collect() }
            }
        }
    }

    fn may_send(&self, now: Instant, to: RegionId, name: &'static str) -> bool {
        self.sent.get(&(to, name)).is_none_or(|at| now >= at.after(SEND_EVERY))
    }
}

fn digest_of(bytes: &Bytes) -> u64 {
    hash64(bytes, 0)
}

/// The bytes of a document in its newest form, whichever form it was written in.
fn normalise(name: &str, bytes: Bytes) -> Option<Bytes> {
    if name == documents::NAMESPACES {
        return Namespaces::decode(bytes).map(|namespaces| namespaces.encode(FormatLevel::NEWEST));
    }
    Handlers::decode(bytes).map(|handlers| handlers.encode(FormatLevel::NEWEST))
}

/// Both together, if that differs from what this region has.
fn merge(name: &str, ours: Option<Bytes>, theirs: Bytes) -> Option<Bytes> {
    let before = ours.clone().and_then(|ours| normalise(name, ours));
    // A document that this version cannot read is not replaced.
    if ours.is_some() && before.is_none() {
        return None;
    }
    let after = if name == documents::NAMESPACES {
        let mut all = before.clone().and_then(Namespaces::decode).unwrap_or_default();
        all.merge(&Namespaces::decode(theirs)?);
        all.encode(FormatLevel::NEWEST)
    } else {
        let mut all = before.clone().and_then(Handlers::decode).unwrap_or_default();
        all.merge(&Handlers::decode(theirs)?);
        all.encode(FormatLevel::NEWEST)
    };
    (before.as_ref() != Some(&after)).then_some(after)
}

impl DocumentMessage {
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            DocumentMessage::Digests(digests) => {
                out.push(DIGESTS);
                put_varint(&mut out, digests.len() as u64);
                for (name, digest) in digests {
                    put_bytes(&mut out, name.as_bytes());
                    out.put_u64_le(*digest);
                }
            }
            DocumentMessage::Document { name, bytes } => {
                out.push(DOCUMENT);
                put_bytes(&mut out, name.as_bytes());
                out.extend_from_slice(bytes);
            }
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<DocumentMessage> {
        let mut reader = Reader::new(bytes);
        let name = |reader: &mut Reader| String::from_utf8(reader.bytes()?.into()).ok();
        match reader.u8()? {
            DIGESTS => {
                let count = reader.count().filter(|count| *count <= EXCHANGED.len())?;
                let one = |reader: &mut Reader| {
                    let name = name(reader)?;
                    let digest = reader.take(8)?;
                    Some((name, u64::from_le_bytes(digest.as_ref().try_into().ok()?)))
                };
                let digests = (0..count).map(|_| one(&mut reader)).collect::<Option<_>>()?;
                reader.is_empty().then_some(DocumentMessage::Digests(digests))
            }
            DOCUMENT => Some(DocumentMessage::Document { name: name(&mut reader)?, bytes: reader.rest() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::Namespace;

    const EAST: RegionId = RegionId(1);
    const WEST: RegionId = RegionId(2);

    #[derive(Default)]
    struct Leader {
        exchange: DocumentExchange,
        documents: BTreeMap<&'static str, Bytes>,
    }

    impl Leader {
        fn create(&mut self, name: &str, here: RegionId) {
            let mut all = self.namespaces();
            all.set(name, Namespace::default(), here).unwrap();
            self.documents.insert(documents::NAMESPACES, all.encode(FormatLevel::NEWEST));
        }

        fn namespaces(&self) -> Namespaces {
            let bytes = self.documents.get(documents::NAMESPACES).cloned();
            bytes.and_then(Namespaces::decode).unwrap_or_default()
        }

        fn perform(&mut self, actions: DocumentActions) -> Vec<(RegionId, DocumentMessage)> {
            self.documents.extend(actions.propose);
            actions.send
        }

        fn tick(&mut self, now: Instant, others: &[RegionId]) -> Vec<(RegionId, DocumentMessage)> {
            let documents = self.documents.clone();
            let find = |name: &str| documents.get(name).cloned();
            let actions = self.exchange.tick(now, others.iter().copied(), find);
            self.perform(actions)
        }

        fn receive(
            &mut self,
            now: Instant,
            from: RegionId,
            message: DocumentMessage,
        ) -> Vec<(RegionId, DocumentMessage)> {
            let documents = self.documents.clone();
            let find = |name: &str| documents.get(name).cloned();
            let message = DocumentMessage::decode(message.encode()).unwrap();
            let actions = self.exchange.receive(now, from, message, find);
            self.perform(actions)
        }
    }

    /// Everything that is sent arrives, until nothing more is sent; both tell their digests.
    fn exchange(east: &mut Leader, west: &mut Leader, now: Instant) {
        let mut under_way: Vec<(RegionId, RegionId, DocumentMessage)> = Vec::new();
        under_way.extend(east.tick(now, &[WEST]).into_iter().map(|(to, message)| (EAST, to, message)));
        under_way.extend(west.tick(now, &[EAST]).into_iter().map(|(to, message)| (WEST, to, message)));
        while let Some((from, to, message)) = under_way.pop() {
            let leader = if to == EAST { &mut *east } else { &mut *west };
            let sent = leader.receive(now, from, message);
            under_way.extend(sent.into_iter().map(|(next, message)| (to, next, message)));
        }
    }

    #[test]
    fn what_one_region_creates_the_other_has() {
        let (mut east, mut west) = (Leader::default(), Leader::default());
        east.create("shop", EAST);
        exchange(&mut east, &mut west, Instant::ZERO);
        assert_eq!(west.namespaces(), east.namespaces());
        assert!(west.namespaces().get("shop").is_some());
    }

    #[test]
    fn what_both_have_created_meanwhile_both_have() {
        let (mut east, mut west) = (Leader::default(), Leader::default());
        east.create("shop", EAST);
        west.create("shop", WEST);
        west.create("bank", WEST);
        exchange(&mut east, &mut west, Instant::ZERO);
        assert_eq!(west.documents, east.documents);
        assert_eq!(east.namespaces().iter().count(), 3);
        let silent = exchange_is_silent(&mut east, &mut west, Instant::ZERO.after(TELL_EVERY));
        assert!(silent, "equal documents are not sent");
    }

    fn exchange_is_silent(east: &mut Leader, west: &mut Leader, now: Instant) -> bool {
        let told = east.tick(now, &[WEST]);
        told.into_iter().all(|(_, message)| west.receive(now, EAST, message).is_empty())
    }

    #[test]
    fn a_document_is_sent_to_a_region_once_in_a_while() {
        let mut east = Leader::default();
        east.create("shop", EAST);
        let nothing = DocumentMessage::Digests(BTreeMap::new());
        assert_eq!(east.receive(Instant(5), WEST, nothing.clone()).len(), 1);
        assert_eq!(east.receive(Instant(6), WEST, nothing.clone()).len(), 0);
        assert_eq!(east.receive(Instant(5).after(SEND_EVERY), WEST, nothing).len(), 1);
    }

    #[test]
    fn what_cannot_be_read_changes_nothing() {
        let mut east = Leader::default();
        east.create("shop", EAST);
        let before = east.documents.clone();
        for (name, bytes) in [("namespaces", &b"\x09"[..]), ("topology", b"\x01"), ("handlers", b"")] {
            let message =
                DocumentMessage::Document { name: name.to_owned(), bytes: Bytes::copy_from_slice(bytes) };
            assert_eq!(east.receive(Instant(1), WEST, message), []);
        }
        assert_eq!(east.documents, before);
        let mut newer = Leader::default();
        newer.documents.insert(documents::NAMESPACES, Bytes::from_static(b"\x63"));
        let bytes = before[documents::NAMESPACES].clone();
        newer.receive(Instant(1), EAST, DocumentMessage::Document { name: "namespaces".to_owned(), bytes });
        assert_eq!(newer.documents[documents::NAMESPACES], Bytes::from_static(b"\x63"));
        for junk in [&b""[..], &[0], &[DIGESTS], &[DIGESTS, 3], &[DIGESTS, 1, 1, 65, 1], &[DOCUMENT]] {
            assert_eq!(DocumentMessage::decode(Bytes::copy_from_slice(junk)), None);
        }
    }
}
