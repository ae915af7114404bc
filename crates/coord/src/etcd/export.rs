//! Rows of ours made into rows of etcd's buckets.

use super::message::Message;
use super::{CLUSTER_VERSION, EtcdRow, SEPARATOR, TOMBSTONE, bucket, row};
use crate::alarms::Alarms;
use crate::auth::Auth;
use crate::change::Record;
use crate::compaction;
use crate::leases;
use crate::members::{Member, Members};
use crate::rows::{CorruptRow, LoggedChange, Meta};
use base::{ReadView, Revision, Table};
use bytes::Bytes;
use std::ops::Bound::Unbounded;

/// A change as etcd keeps it. `record` is that of a put.
pub fn key_row(revision: Revision, sub: u32, logged: &LoggedChange, record: Option<&Record>) -> EtcdRow {
    let mut name = revision_bytes(revision, sub);
    let message = Message::default().bytes(1, &logged.key);
    let Some(record) = record else {
        name.push(TOMBSTONE);
        return (name, message.0);
    };
    let message = message
        .number(2, record.create.0 as u64)
        .number(3, revision.0 as u64)
        .number(4, record.version as u64)
        .bytes(5, &record.value)
        .number(6, record.lease.0 as u64);
    (name, message.0)
}

fn revision_bytes(revision: Revision, sub: u32) -> Vec<u8> {
    let mut bytes = revision.0.to_be_bytes().to_vec();
    bytes.push(SEPARATOR);
    bytes.extend_from_slice(&u64::from(sub).to_be_bytes());
    bytes
}

/// All buckets but that of the keys, each with its rows in order.
pub fn small_buckets(view: &dyn ReadView) -> Result<Vec<(&'static str, Vec<EtcdRow>)>, CorruptRow> {
    let members = Members::read(view)?.unwrap_or_default();
    let auth = Auth::load(view)?;
    Ok(vec![
        (bucket::ALARM, alarm_rows(view)?),
        (bucket::AUTH, auth_rows(&auth)),
        (bucket::ROLES, auth.etcd_roles()),
        (bucket::USERS, auth.etcd_users()),
        (bucket::CLUSTER, vec![(row::CLUSTER_VERSION.to_vec(), CLUSTER_VERSION.into())]),
        (bucket::LEASE, lease_rows(view)?),
        (bucket::MEMBERS, sorted(members.iter().map(member_row))),
        (
            bucket::MEMBERS_REMOVED,
            sorted(members.removed().iter().map(|id| (hex(id.0), b"removed".to_vec()))),
        ),
        (bucket::META, meta_rows(view, &members)?),
    ])
}

fn sorted(rows: impl Iterator<Item = EtcdRow>) -> Vec<EtcdRow> {
    let mut rows: Vec<EtcdRow> = rows.collect();
    rows.sort();
    rows
}

fn alarm_rows(view: &dyn ReadView) -> Result<Vec<EtcdRow>, CorruptRow> {
    let row = |alarm: crate::Alarm| {
        (Message::default().number(1, alarm.member.0).number(2, alarm.kind as u64).0, Vec::new())
    };
    let mut rows = sorted(Alarms::load(view)?.iter().map(row));
    rows.dedup();
    Ok(rows)
}

fn auth_rows(auth: &Auth) -> Vec<EtcdRow> {
    vec![
        (row::AUTH_ENABLED.to_vec(), vec![u8::from(auth.is_enabled())]),
        (row::AUTH_REVISION.to_vec(), auth.revision().to_be_bytes().to_vec()),
    ]
}

fn lease_rows(view: &dyn ReadView) -> Result<Vec<EtcdRow>, CorruptRow> {
    let (mut rows, mut outcome) = (Vec::new(), Ok(()));
    view.scan(Table::Leases, Unbounded, Unbounded, &mut |key, value| {
        let lease = crate::Lease::decode(Bytes::copy_from_slice(value));
        match leases::parse_key(key).zip(lease) {
            Some((id, lease)) => {
                let numbers = Message::default().number(1, id.0 as u64).number(2, lease.ttl as u64);
                rows.push((key.to_vec(), numbers.number(3, lease.remaining as u64).0));
            }
            None => outcome = Err(CorruptRow::malformed(Table::Leases, key)),
        }
        outcome.is_ok()
    });
    outcome.map(|()| rows)
}

fn meta_rows(view: &dyn ReadView, members: &Members) -> Result<Vec<EtcdRow>, CorruptRow> {
    let Some(meta) = Meta::read(view)? else { return Ok(Vec::new()) };
    let number = |number: u64| number.to_be_bytes().to_vec();
    let mut rows = vec![
        (row::CONF_STATE.to_vec(), conf_state(members)),
        (row::CONSISTENT_INDEX.to_vec(), number(meta.applied.index.0)),
        (row::TERM.to_vec(), number(meta.applied.term.0)),
    ];
    if meta.compacted > Revision::ZERO {
        let compacted = revision_bytes(meta.compacted, 0);
        rows.push((row::COMPACT_SCHEDULED.to_vec(), compacted.clone()));
        let is_swept = view.get(Table::Meta, compaction::SWEEP_KEY).is_none();
        rows.extend(is_swept.then(|| (row::COMPACT_FINISHED.to_vec(), compacted)));
    }
    Ok(sorted(rows.into_iter()))
}

fn conf_state(members: &Members) -> Vec<u8> {
    let list = |ids: Vec<base::NodeId>| ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",");
    let (voters, learners) = (list(members.voters()), list(members.learners()));
    let learners = if learners.is_empty() { String::new() } else { format!(r#""learners":[{learners}],"#) };
    format!(r#"{{"voters":[{voters}],{learners}"auto_leave":false}}"#).into()
}

fn member_row(member: &Member) -> EtcdRow {
    let texts = |texts: &[String]| texts.iter().map(|text| json(text)).collect::<Vec<_>>().join(",");
    let mut value = format!(r#"{{"id":{},"peerURLs":[{}]"#, member.id.0, texts(&member.peer_urls));
    if member.learner {
        value.push_str(r#","isLearner":true"#);
    }
    if !member.name.is_empty() {
        value.push_str(&format!(r#","name":{}"#, json(&member.name)));
    }
    if !member.client_urls.is_empty() {
        value.push_str(&format!(r#","clientURLs":[{}]"#, texts(&member.client_urls)));
    }
    value.push('}');
    (hex(member.id.0), value.into())
}

fn hex(number: u64) -> Vec<u8> {
    format!("{number:x}").into()
}

/// A text in JSON.
fn json(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}
