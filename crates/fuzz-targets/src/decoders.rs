//! Decoders: any bytes go in, a value or nothing comes out. What is read is written again and read as the same, where a
//! format promises that.

use base::codec::Reader;
use bytes::Bytes;
use coord::{Command, Members};
use mesh::{Conflict, Context, Envelope, Json, Record, Regions, Session, Topology};

fn copied(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

pub fn frame(bytes: &[u8]) {
    if let Some(frame) = node::Frame::decode(copied(bytes)) {
        assert!(node::Frame::decode(frame.encode()).is_some(), "a frame that was read is written as one");
    }
}

pub fn raft_record(bytes: &[u8]) {
    if let Some(record) = raft::Record::decode(copied(bytes)) {
        assert_eq!(raft::Record::decode(record.encode()), Some(record));
    }
}

pub fn batch(bytes: &[u8]) {
    for proposal in node::batch::decode(copied(bytes)).unwrap_or_default() {
        let mut out = Vec::new();
        proposal.encode(&mut out);
        let _ = Command::decode(proposal.command);
    }
}

pub fn command(bytes: &[u8]) {
    if let Some(command) = Command::decode(copied(bytes)) {
        let mut out = Vec::new();
        command.encode(&mut out);
        assert_eq!(Command::decode(out.into()), Some(command));
    }
}

pub fn members(bytes: &[u8]) {
    if let Some(members) = Members::decode(copied(bytes)) {
        let config = node::member::config_of(&members);
        let _ = config.is_valid();
        let _ = Members::decode(members.encode().into());
    }
}

pub fn mesh_frame(bytes: &[u8]) {
    if let Some(envelope) = Envelope::decode(copied(bytes)) {
        assert_eq!(Envelope::decode(envelope.encode()), Some(envelope));
    }
}

pub fn record(bytes: &[u8]) {
    let Some(record) = Record::decode(copied(bytes)) else { return };
    let again = Record::decode(record.encode()).expect("a record that was read is written as one");
    let merged = mesh::merge(&record, &again).record;
    let _ = (merged.is_tombstone(), merged.is_expired(u64::MAX), merged.writers(), merged.rank(&record));
    let _ = mesh::index_rows(&mesh::Key::new(0, b"k"), &merged);
}

pub fn two_records(bytes: &[u8]) {
    let (left, right) = bytes.split_at(bytes.len() / 2);
    if let (Some(left), Some(right)) = (Record::decode(copied(left)), Record::decode(copied(right))) {
        let there = mesh::merge(&left, &right).record;
        let back = mesh::merge(&right, &left).record;
        assert_eq!(there.encode(), back.encode(), "merging is commutative");
    }
}

pub fn context(bytes: &[u8]) {
    let mut reader = Reader::new(copied(bytes));
    let (Some(left), Some(right)) = (Context::decode(&mut reader), Context::decode(&mut reader)) else {
        return;
    };
    let mut joined = left.clone();
    joined.join(&right);
    assert!(joined.dominates(&left) && joined.dominates(&right));
    let actor = joined.spans().first().map(|(actor, _)| *actor);
    if let Some(actor) = actor {
        let _ = joined.clip(actor, joined.newest(actor) / 2);
        assert!(joined.newest(actor) <= left.newest(actor).max(right.newest(actor)) / 2 + 1);
    }
    let mut out = Vec::new();
    joined.encode(&mut out);
    assert_eq!(Context::decode(&mut Reader::new(out.into())), Some(joined));
}

pub fn session(bytes: &[u8]) {
    if let Some(session) = Session::decode(copied(bytes)) {
        assert_eq!(Session::decode(session.encode()), Some(session));
    }
}

/// Everything that regions and nodes agree on as documents.
pub fn documents(bytes: &[u8]) {
    let topology = Topology::decode(copied(bytes));
    if let Some(topology) = topology {
        let _ = topology.placement();
    }
    let _ = Regions::decode(copied(bytes));
    let _ = mesh::Homes::decode(copied(bytes));
    let _ = mesh::Handlers::decode(copied(bytes));
    let _ = mesh::namespaces::Namespaces::decode(copied(bytes));
    let _ = coord::Policy::decode(copied(bytes));
    let _ = mesh::MeshPlan::decode(copied(bytes));
}

/// What nodes of other regions, and other nodes of this one, say beside the frames of the machine.
pub fn region_frames(bytes: &[u8]) {
    let _ = mesh::HomeMessage::decode(copied(bytes));
    let _ = mesh::NodeReport::decode(copied(bytes));
    let _ = mesh::LogEntry::decode(copied(bytes));
    let _ = Conflict::decode(copied(bytes));
}

pub fn json_merge(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (left, right) = text.split_once('\0').unwrap_or((&text, "null"));
    let (Some(left), Some(right)) = (Json::parse(left), Json::parse(right)) else { return };
    let mut out = String::new();
    left.clone().merge(right.clone()).write(&mut out);
    assert!(Json::parse(&out).is_some(), "what is merged is JSON");
    assert_eq!(right.merge(left), Json::parse(&out).expect("read just now"), "merging is commutative");
}

/// The rows of a snapshot's stream.
pub fn snapshot_rows(bytes: &[u8]) {
    let _ = disk::store::chunk::decode(copied(bytes));
}

/// The rows of the mesh's log.
pub fn mesh_batch(bytes: &[u8]) {
    for row in mesh::rows::decode_batch(copied(bytes)).unwrap_or_default() {
        let _ = (mesh::rows::row_kind(&row.key), mesh::rows::record_key(&row.key));
    }
}
