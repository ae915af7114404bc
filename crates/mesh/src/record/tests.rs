use super::*;
use crate::actor::Actor;
use base::NodeId;

fn record() -> Record {
    let dot = Dot { actor: Actor { region: RegionId(7), node: NodeId(300), incarnation: 2 }, counter: 9 };
    let mut context = Context::default();
    context.extend(dot);
    let rare = RareFields {
        fence: Some(Fence { lock: Bytes::from_static(b"lock"), token: 12 }),
        home: Some(RegionId(7)),
        metadata: vec![(Bytes::from_static(b"source"), Bytes::from_static(b"mobile"))],
        schema: 3,
        handler: None,
        ballot: Some(Ballot { turn: 4, ..Ballot::default() }),
        requests: vec![
            DecidedRequest { request: 78, body: 79, stamp: Stamp::at_ms(4_500), dot, is_refused: false },
            DecidedRequest { request: 80, body: 81, stamp: Stamp::at_ms(4_600), dot, is_refused: true },
        ],
        replaces_apart: true,
        unknown: Vec::new(),
    };
    let header = Header {
        dot,
        stamp: Stamp::at_ms(5_000),
        tombstone: false,
        expires_ms: Some(90_000),
        rare: Some(Box::new(rare)),
    };
    let recent = vec![RecentRequest { stamp: Stamp::at_ms(5_000), request: 77 }];
    let body = Body::Register(Bytes::from_static(b"value"));
    Record { era: 1, kind: Kind::Register, header, body, context, created_ms: 4_000, recent }
}

#[test]
fn every_field_survives_a_round_trip() {
    let record = record();
    assert_eq!(Record::decode(record.encode()), Some(record));
}

#[test]
fn cut_bytes_are_refused_or_lack_a_field() {
    let whole = record();
    let bytes = whole.encode();
    for cut in 0..bytes.len() {
        assert_ne!(Record::decode(bytes.slice(..cut)), Some(whole.clone()));
    }
}

#[test]
fn a_field_of_a_later_format_is_kept_and_written_again() {
    let mut bytes = record().encode().to_vec();
    bytes.extend_from_slice(&[200, 1, 3, b'n', b'e', b'w']);
    let read = Record::decode(bytes.clone().into()).unwrap();
    assert_eq!(read.header.rare.as_ref().unwrap().unknown, [(200, Bytes::from_static(b"new"))]);
    assert_eq!(read.encode(), bytes);
}

#[test]
fn fields_that_an_older_writer_did_not_know_have_their_defaults() {
    let mut plain = record();
    plain.header = Header { expires_ms: None, rare: None, ..plain.header };
    (plain.era, plain.recent) = (0, Vec::new());
    let bytes = plain.encode();
    assert_eq!(Record::decode(bytes.clone()), Some(plain));
    assert!(bytes.len() < 50, "{} bytes for five of value", bytes.len());
}

#[test]
fn a_record_is_written_in_the_oldest_version_that_holds_it_and_every_version_is_read() {
    let mut record = record();
    assert_eq!(record.encode()[0], 1);
    record.header.rare.as_mut().unwrap().handler = Some(Bytes::from_static(b"max"));
    let bytes = record.encode();
    assert_eq!(bytes[0], 2);
    assert_eq!(Record::decode(bytes.clone()), Some(record.clone()));
    // A node of the first version keeps the field without knowing it, and so do we in a record of that version.
    let old = Bytes::from([&[1], &bytes[1..]].concat());
    let read = Record::decode(old.clone()).unwrap();
    assert_eq!(read.header.rare.as_ref().unwrap().unknown, [(8, Bytes::from_static(b"max"))]);
    assert_eq!(read.encode(), old);
}

#[test]
fn a_version_that_is_not_known_is_refused() {
    let mut bytes = record().encode().to_vec();
    bytes[0] = 9;
    assert_eq!(Record::decode(bytes.into()), None);
}
