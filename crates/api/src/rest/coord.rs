//! Keys of the coordination store over REST: folders, single keys, their past, and writes that happen only if the key is as
//! the writer has seen it. What the caller may is decided by the store itself, as for etcd's clients.

use super::query::Query;
use super::refusal::Refusal;
use super::request_head::{WholeBody, parse_json};
use super::{Rest, json};
use crate::audit;
use crate::grpc::lock::now_unix_ms;
use axum::extract::RawQuery;
use axum::response::Response;
use base::{Code, KeyRange, LeaseId, Revision, key_range};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use coord::call::Call;
use coord::reply::{Body, KeyValue, RangeReply};
use coord::request::{Compare, Delete, Put, Range, Relation, Request, Target, Txn};
use coord::{CompactionState, PastChange};
use serde::Deserialize;
use serde_json::{Map, Value, json as object};
use server::{Handle, RequiredAccess};

pub const LIST_PARAMS: [&str; 5] = ["prefix", "delimiter", "limit", "page", "sample"];
const KEY_PARAMS: [&str; 4] = ["key", "key_base64", "revision", "limit"];
const LIMIT_MAX: u64 = 1_000;
const LIMIT_DEFAULT: u64 = 100;
/// Keys of a folder that are read to say about how large it is.
const SAMPLE_MAX: u64 = 100;
/// Entries of a page of folders: each is found by a request of its own.
const FOLDERS_MAX: u64 = 200;
const RIGHT: &str = r#"{"value": "text"} or {"value_base64": "…"}, with "mod_revision" (what the writer has seen; 0 for no key) and "lease" if wanted"#;

impl Rest {
    /// The coordination store, acting for the caller.
    pub async fn coord(&self) -> Result<Handle, Refusal> {
        let handle = match &self.caller {
            None if self.handle().auth().is_on() => return Err(Code::UserEmpty.into()),
            None => self.handle().clone(),
            Some(caller) => {
                let token = self.handle().auth().certificate_token(&caller.user).ok_or(Code::Stopped)?;
                self.handle().auth().admit(Some(&token)).await?
            }
        };
        if handle.is_data_only() {
            return Err(Refusal::new(
                Code::NoLeader,
                "this node keeps data alone and has nothing of the coordination store; ask a member",
            ));
        }
        Ok(handle)
    }
}

/// `GET /v1/coord/keys`: the keys below a prefix, those in folders as folders.
pub async fn list(rest: Rest, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&LIST_PARAMS)?;
    let prefix = Bytes::from(query.get("prefix").unwrap_or("").to_owned());
    let delimiter = query.get("delimiter").unwrap_or("");
    let limit = query.number("limit", 1, LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT);
    let page = query.get("page").map(|page| from_base64("page", page)).transpose()?;
    audit::note(|entry| entry.add_keys_from(&prefix, None));
    let handle = rest.coord().await?;
    let from = page.unwrap_or_else(|| prefix.clone());
    if delimiter.is_empty() {
        return list_plain(&handle, &prefix, from, limit).await;
    }
    let sample = query.number("sample", 1, SAMPLE_MAX)?;
    let (mut shown, folders) =
        list_folders(&handle, &prefix, delimiter.as_bytes(), (from, limit.min(FOLDERS_MAX))).await?;
    let mut all = Vec::new();
    for (folder, count) in &folders {
        let mut fields = Map::new();
        put_bytes(&mut fields, "prefix", folder);
        fields.insert("count".into(), (*count).into());
        if let Some(sample) = sample {
            fields
                .insert("bytes_about".into(), bytes_of_folder(&handle, folder, *count, sample).await?.into());
        }
        all.push(Value::Object(fields));
    }
    shown.insert("folders".into(), all.into());
    Ok(json(&shown))
}

/// About how many bytes the keys and values of a folder take, from the first of them.
async fn bytes_of_folder(handle: &Handle, folder: &Bytes, count: u64, sample: u64) -> Result<u64, Refusal> {
    let keys = KeyRange::from_wire(folder.clone(), key_range::prefix_end(folder));
    let (_, found) = ranged(handle, Range { limit: sample, ..Range::of(keys) }).await?;
    let bytes: usize = found.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    Ok((bytes as u64).saturating_mul(count) / (found.kvs.len() as u64).max(1))
}

async fn list_plain(handle: &Handle, prefix: &Bytes, from: Bytes, limit: u64) -> Result<Response, Refusal> {
    let (revision, found) = range(handle, from, prefix, limit).await?;
    let next = found.kvs.last().filter(|_| found.more).map(|last| after(&last.key));
    Ok(json(&object!({
        "revision": revision.0,
        "count": found.count,
        "folders": [],
        "keys": found.kvs.iter().map(head_of).collect::<Vec<_>>(),
        "next_page": next.map(|next| STANDARD.encode(next)),
    })))
}

/// The answer without its folders, and these with how many keys each has. Each entry is the first key behind the one before;
/// of a folder the walk goes on behind all its keys, and how many those are is what the rest has less.
async fn list_folders(
    handle: &Handle,
    prefix: &Bytes,
    delimiter: &[u8],
    (mut from, limit): (Bytes, u64),
) -> Result<(Map<String, Value>, Vec<(Bytes, u64)>), Refusal> {
    let (mut folders, mut keys): (Vec<(Bytes, u64)>, Vec<Value>) = (Vec::new(), Vec::new());
    let (revision, mut found) = range(handle, from.clone(), prefix, 1).await?;
    let count = found.count;
    while let Some(first) = found.kvs.first().cloned() {
        if folders.len() + keys.len() >= limit as usize {
            break;
        }
        let folder = folder_of(&first.key, prefix, delimiter);
        from = match &folder {
            Some(folder) => key_range::prefix_end(folder),
            None => after(&first.key),
        };
        let before = found.count;
        found = if from.as_ref() == b"\0" {
            RangeReply::default()
        } else {
            range(handle, from.clone(), prefix, 1).await?.1
        };
        match folder {
            Some(folder) => folders.push((folder, before.saturating_sub(found.count))),
            None => keys.push(Value::Object(head_of(&first))),
        }
    }
    let mut shown = Map::new();
    shown.insert("revision".into(), revision.0.into());
    shown.insert("count".into(), count.into());
    shown.insert("keys".into(), keys.into());
    let next = (!found.kvs.is_empty()).then(|| STANDARD.encode(&from));
    shown.insert("next_page".into(), next.into());
    Ok((shown, folders))
}

/// Up to and with the first delimiter behind the prefix; one that the key begins with opens no folder of its own.
fn folder_of(key: &Bytes, prefix: &Bytes, delimiter: &[u8]) -> Option<Bytes> {
    let rest = &key[prefix.len()..];
    let skipped = usize::from(prefix.is_empty() && rest.starts_with(delimiter)) * delimiter.len();
    let at = rest[skipped..].windows(delimiter.len()).position(|part| part == delimiter)?;
    Some(key.slice(..prefix.len() + skipped + at + delimiter.len()))
}

async fn range(
    handle: &Handle,
    from: Bytes,
    prefix: &Bytes,
    limit: u64,
) -> Result<(Revision, RangeReply), Refusal> {
    let start = if from.is_empty() { Bytes::from_static(b"\0") } else { from };
    let keys = KeyRange::from_wire(start, key_range::prefix_end(prefix));
    let range = Range { limit, keys_only: true, ..Range::of(keys) };
    ranged(handle, range).await
}

pub async fn ranged(handle: &Handle, range: Range) -> Result<(Revision, RangeReply), Refusal> {
    let reply = handle.kv().submit(range).await?;
    Ok((reply.revision, reply.body))
}

/// `GET /v1/coord/key`: one key, now or at a revision.
pub async fn get(rest: Rest, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let (query, key) = parse_key(query)?;
    let revision = query.number("revision", 1, i64::MAX as u64)?.unwrap_or(0);
    let handle = rest.coord().await?;
    let range = Range { revision: Revision(revision as i64), ..Range::of(KeyRange::single(key)) };
    let (revision, found) = ranged(&handle, range).await?;
    let found = found.kvs.first().ok_or_else(|| Refusal::new(Code::KeyAbsent, "there is no such key"))?;
    let mut shown = whole_of(found);
    shown.insert("revision".into(), revision.0.into());
    if found.lease != LeaseId::NONE
        && let Ok(time) = handle.leases().time_to_live(found.lease).await
    {
        shown.insert("lease_ttl_seconds".into(), time.body.ttl.into());
        shown.insert("lease_granted_ttl_seconds".into(), time.body.granted.into());
    }
    Ok(json(&shown))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutBody {
    value: Option<String>,
    value_base64: Option<String>,
    mod_revision: Option<i64>,
    lease: Option<String>,
}

/// `PUT /v1/coord/key`.
pub async fn put(
    rest: Rest,
    RawQuery(query): RawQuery,
    WholeBody(body): WholeBody,
) -> Result<Response, Refusal> {
    let (_, key) = parse_key(query)?;
    let handle = rest.coord().await?;
    let PutBody { value, value_base64, mod_revision, lease } = parse_json(&body, RIGHT)?;
    let value = match (value, value_base64) {
        (Some(text), None) => Bytes::from(text),
        (None, Some(encoded)) => from_base64("value_base64", &encoded)?,
        _ => return Err(Refusal::bad(format!("the body gives one value; right is {RIGHT}"))),
    };
    let lease = lease.map(|lease| parse_lease(&lease)).transpose()?.unwrap_or(LeaseId::NONE);
    let put = Put { key: key.clone(), value: Some(value), lease: Some(lease), prev_kv: false };
    change(&handle, key, mod_revision, put).await
}

/// `DELETE /v1/coord/key`.
pub async fn delete(rest: Rest, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let (query, key) = parse_key_with(query, &["mod_revision"])?;
    let seen = query.number("mod_revision", 0, i64::MAX as u64)?.map(|seen| seen as i64);
    let handle = rest.coord().await?;
    let delete = Delete { keys: KeyRange::single(key.clone()), prev_kv: false };
    change(&handle, key, seen, delete).await
}

/// A change that happens only if the key is as the writer has seen it; if not, the refusal shows what is there.
async fn change(
    handle: &Handle,
    key: Bytes,
    seen: Option<i64>,
    call: impl Call,
) -> Result<Response, Refusal> {
    let Some(seen) = seen else {
        let reply = handle.kv().submit(call).await?;
        return Ok(json(&object!({ "status": "ok", "revision": reply.revision.0 })));
    };
    let keys = KeyRange::single(key);
    let unchanged =
        Compare { keys: keys.clone(), relation: Relation::Equal, target: Target::Mod(Revision(seen)) };
    let txn = Txn {
        compares: vec![unchanged],
        success: vec![call.into_request()],
        failure: vec![Request::Range(Range::of(keys))],
    };
    let reply = handle.kv().submit(txn).await?;
    if reply.body.succeeded {
        return Ok(json(&object!({ "status": "ok", "revision": reply.revision.0 })));
    }
    let message = "the key has changed since it was read; read it again";
    let refusal = Refusal::new(Code::ConflictDetected, message);
    let there = reply.body.bodies.iter().find_map(|body| match body {
        Body::Range(range) => range.kvs.first(),
        _ => None,
    });
    Err(match there {
        Some(there) => refusal.with("there", whole_of(there)),
        None => refusal.with("there", Value::Null),
    })
}

/// `GET /v1/coord/history`: what is still known of the key's past, the oldest first.
pub async fn history(rest: Rest, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let (query, key) = parse_key(query)?;
    let limit = query.number("limit", 1, LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT) as usize;
    let handle = rest.coord().await?;
    handle.auth().permit(RequiredAccess::Read(vec![KeyRange::single(key.clone())])).await?;
    let (past, more) = handle.kv().history(key, limit).await?;
    Ok(json(&object!({
        "changes": past.iter().map(|past| change_of(past, now_unix_ms())).collect::<Vec<_>>(),
        "more": more,
        "compact_revision": handle.status().compacted.0,
    })))
}

/// What is not marked yet has happened by now.
fn change_of(change: &PastChange, now_ms: i64) -> Value {
    let put = change.put.as_ref();
    let compacted_at_ms = match change.compacted {
        CompactionState::Readable => None,
        CompactionState::Compacted(at) => Some(at.unwrap_or(now_ms)),
    };
    object!({
        "revision": change.revision.0,
        "deleted": put.is_none(),
        "at_ms": change.millis.unwrap_or(now_ms),
        "compacted_at_ms": compacted_at_ms,
        "create_revision": put.map(|put| put.create.0),
        "version": put.map(|put| put.version),
        "lease": put.filter(|put| put.lease != LeaseId::NONE).map(|put| hex(put.lease)),
        "value_bytes": put.map(|put| put.value_len),
    })
}

fn head_of(kv: &KeyValue) -> Map<String, Value> {
    let mut shown = Map::new();
    put_bytes(&mut shown, "key", &kv.key);
    shown.insert("create_revision".into(), kv.create_revision.0.into());
    shown.insert("mod_revision".into(), kv.mod_revision.0.into());
    shown.insert("version".into(), kv.version.into());
    shown.insert("lease".into(), (kv.lease != LeaseId::NONE).then(|| hex(kv.lease)).into());
    shown
}

pub fn whole_of(kv: &KeyValue) -> Map<String, Value> {
    let mut shown = head_of(kv);
    put_bytes(&mut shown, "value", &kv.value);
    shown.insert("value_bytes".into(), kv.value.len().into());
    shown
}

/// As text where it is text, and else in base64 under a name that says so.
pub fn put_bytes(into: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => into.insert(name.to_owned(), text.into()),
        Err(_) => into.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

pub fn hex(lease: LeaseId) -> String {
    format!("{:x}", lease.0)
}

fn parse_lease(text: &str) -> Result<LeaseId, Refusal> {
    let number = i64::from_str_radix(text, 16).map(LeaseId);
    number.map_err(|_| Refusal::bad(format!("`{text}` is no id of a lease in hexadecimal")))
}

fn parse_key(query: Option<String>) -> Result<(Query, Bytes), Refusal> {
    parse_key_with(query, &[])
}

fn parse_key_with(query: Option<String>, more: &[&str]) -> Result<(Query, Bytes), Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or(""))?;
    query.only(&[&KEY_PARAMS[..], more].concat())?;
    let key = match (query.get("key"), query.get("key_base64")) {
        (Some(key), None) => Bytes::from(key.to_owned()),
        (None, Some(encoded)) => from_base64("key_base64", encoded)?,
        _ => return Err(Refusal::bad("name the key as ?key= or, if it is no text, as ?key_base64=")),
    };
    if key.is_empty() {
        return Err(Code::EmptyKey.into());
    }
    audit::note(|entry| entry.add_key(&key));
    Ok((query, key))
}

fn from_base64(name: &str, text: &str) -> Result<Bytes, Refusal> {
    STANDARD.decode(text).map(Bytes::from).map_err(|_| Refusal::bad(format!("{name} is not base64")))
}

/// The smallest key behind this one.
pub fn after(key: &Bytes) -> Bytes {
    [&key[..], b"\0"].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(key: &'static str, prefix: &'static str) -> Option<String> {
        let (key, prefix) = (Bytes::from_static(key.as_bytes()), Bytes::from_static(prefix.as_bytes()));
        folder_of(&key, &prefix, b"/").map(|folder| String::from_utf8(folder.into()).unwrap())
    }

    #[test]
    fn a_folder_ends_with_the_first_slash_behind_the_prefix() {
        assert_eq!(folder("a/b/c", ""), Some("a/".into()));
        assert_eq!(folder("a/b/c", "a/"), Some("a/b/".into()));
        assert_eq!(folder("a/b/c", "a/b/"), None);
        assert_eq!(
            folder("/registry/pods/x", ""),
            Some("/registry/".into()),
            "a first slash opens no folder"
        );
        assert_eq!(folder("/registry/pods/x", "/registry/"), Some("/registry/pods/".into()));
        assert_eq!(folder("plain", ""), None);
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_in_base64() {
        let mut shown = Map::new();
        put_bytes(&mut shown, "value", b"text");
        put_bytes(&mut shown, "key", &[0xff]);
        assert_eq!(Value::Object(shown), object!({ "value": "text", "key_base64": "/w==" }));
    }
}
