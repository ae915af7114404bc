//! The JSON format as Go's encoder writes etcd's messages: fields in their order, none that is empty, bytes in
//! base64, numbers bare.

use super::{BackupStatus, EndpointHash, EndpointHealth, EndpointStatus};
use crate::client::duration;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::althing::auth::v1::DataPermission;
use proto::authpb::Permission;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    AlarmResponse, DeleteRangeResponse, DowngradeInfo, DowngradeResponse, LeaseGrantResponse,
    LeaseKeepAliveResponse, LeaseLeasesResponse, LeaseTimeToLiveResponse, Member, MemberAddResponse,
    PutResponse, RangeResponse, ResponseHeader, TxnResponse, WatchResponse,
};
use proto::mvccpb::{Event, KeyValue};

pub fn line(json: &str) -> String {
    format!("{json}\n")
}

pub fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", Vec::from_iter(items).join(","))
}

pub fn range(response: &RangeResponse) -> String {
    Object::default()
        .header(response.header)
        .items("kvs", response.kvs.iter().map(key_value))
        .flag("more", response.more)
        .number("count", response.count)
        .end()
}

pub fn put(response: &PutResponse) -> String {
    let before = response.prev_kv.as_ref().map(key_value);
    Object::default().header(response.header).maybe("prev_kv", before).end()
}

pub fn delete(response: &DeleteRangeResponse) -> String {
    Object::default()
        .header(response.header)
        .number("deleted", response.deleted)
        .items("prev_kvs", response.prev_kvs.iter().map(key_value))
        .end()
}

pub fn txn(response: &TxnResponse) -> String {
    let op = |response: &Option<Response>| {
        let (name, answer) = match response {
            Some(Response::ResponseRange(answer)) => ("response_range", range(answer)),
            Some(Response::ResponsePut(answer)) => ("response_put", put(answer)),
            Some(Response::ResponseDeleteRange(answer)) => ("response_delete_range", delete(answer)),
            Some(Response::ResponseTxn(answer)) => ("response_txn", txn(answer)),
            None => return r#"{"Response":null}"#.to_owned(),
        };
        let inner = Object::default().raw(name, &answer).end();
        Object::default().raw("Response", &inner).end()
    };
    Object::default()
        .header(response.header)
        .flag("succeeded", response.succeeded)
        .items("responses", response.responses.iter().map(|one| op(&one.response)))
        .end()
}

pub fn status(one: &EndpointStatus) -> String {
    let status = &one.status;
    let inner = Object::default()
        .header(status.header)
        .text("version", &status.version)
        .number("dbSize", status.db_size)
        .number("leader", status.leader)
        .number("raftIndex", status.raft_index)
        .number("raftTerm", status.raft_term)
        .number("raftAppliedIndex", status.raft_applied_index)
        .items("errors", status.errors.iter().map(|error| quoted(error)))
        .number("dbSizeInUse", status.db_size_in_use)
        .flag("isLearner", status.is_learner)
        .text("storageVersion", &status.storage_version)
        .number("dbSizeQuota", status.db_size_quota)
        .maybe("downgradeInfo", status.downgrade_info.as_ref().map(downgrade_info))
        .end();
    Object::default().text("Endpoint", &one.endpoint).raw("Status", &inner).end()
}

fn downgrade_info(info: &DowngradeInfo) -> String {
    Object::default().flag("enabled", info.enabled).text("targetVersion", &info.target_version).end()
}

/// The answer to a question about a downgrade.
pub fn downgrade(response: &DowngradeResponse) -> String {
    Object::default().header(response.header).text("version", &response.version).end()
}

pub fn health(one: &EndpointHealth) -> String {
    Object::default()
        .text("endpoint", &one.endpoint)
        .raw("health", if one.error.is_empty() { "true" } else { "false" })
        .text("took", &duration::render(one.took))
        .text("error", &one.error)
        .end()
}

pub fn hash(one: &EndpointHash) -> String {
    let inner = Object::default()
        .header(one.hash.header)
        .number("hash", one.hash.hash)
        .number("compact_revision", one.hash.compact_revision)
        .number("hash_revision", one.hash.hash_revision)
        .end();
    Object::default().text("Endpoint", &one.endpoint).raw("HashKV", &inner).end()
}

/// Here etcdctl prints a structure of its own, with capitals and with what is empty.
pub fn watch(response: &WatchResponse) -> String {
    let event = |event: &Event| {
        Object::default()
            .number("type", event.r#type)
            .maybe("kv", event.kv.as_ref().map(key_value))
            .maybe("prev_kv", event.prev_kv.as_ref().map(key_value))
            .end()
    };
    Object::default()
        .raw("Header", &Object::default().header_fields(response.header.unwrap_or_default()).end())
        .raw("Events", &list(response.events.iter().map(event)))
        .raw("CompactRevision", &response.compact_revision.to_string())
        .raw("Canceled", &response.canceled.to_string())
        .raw("Created", &response.created.to_string())
        .end()
}

pub fn header_alone(header: Option<ResponseHeader>) -> String {
    Object::default().header(header).end()
}

/// The answers about leases have the header's fields among their own.
pub fn granted(response: &LeaseGrantResponse) -> String {
    Object::default()
        .header_fields(response.header.unwrap_or_default())
        .raw("ID", &response.id.to_string())
        .raw("TTL", &response.ttl.to_string())
        .raw("Error", &quoted(&response.error))
        .end()
}

pub fn kept(response: &LeaseKeepAliveResponse) -> String {
    Object::default()
        .header_fields(response.header.unwrap_or_default())
        .raw("ID", &response.id.to_string())
        .raw("TTL", &response.ttl.to_string())
        .end()
}

pub fn time_to_live(response: &LeaseTimeToLiveResponse) -> String {
    let key = |key: &[u8]| format!("\"{}\"", STANDARD.encode(key));
    let keys = match &response.keys[..] {
        [] => "null".to_owned(),
        keys => list(keys.iter().map(|one| key(one))),
    };
    Object::default()
        .header_fields(response.header.unwrap_or_default())
        .raw("id", &response.id.to_string())
        .raw("ttl", &response.ttl.to_string())
        .raw("granted-ttl", &response.granted_ttl.to_string())
        .raw("keys", &keys)
        .end()
}

pub fn leases(response: &LeaseLeasesResponse) -> String {
    let lease = |id: i64| Object::default().raw("id", &id.to_string()).end();
    Object::default()
        .header_fields(response.header.unwrap_or_default())
        .raw("leases", &list(response.leases.iter().map(|one| lease(one.id))))
        .end()
}

pub fn members(header: Option<ResponseHeader>, all: &[Member]) -> String {
    Object::default().header(header).items("members", all.iter().map(member)).end()
}

pub fn member_added(response: &MemberAddResponse, token: Option<&str>) -> String {
    Object::default()
        .header(response.header)
        .maybe("member", response.member.as_ref().map(member))
        .items("members", response.members.iter().map(member))
        .maybe("join_token", token.map(|token| format!("\"{token}\"")))
        .end()
}

fn member(member: &Member) -> String {
    Object::default()
        .number("ID", member.id)
        .text("name", &member.name)
        .items("peerURLs", member.peer_ur_ls.iter().map(|url| quoted(url)))
        .items("clientURLs", member.client_ur_ls.iter().map(|url| quoted(url)))
        .flag("isLearner", member.is_learner)
        .end()
}

pub fn auth_status(header: Option<ResponseHeader>, enabled: bool, revision: u64) -> String {
    Object::default().header(header).flag("enabled", enabled).number("authRevision", revision).end()
}

pub fn names(header: Option<ResponseHeader>, field: &str, names: &[String]) -> String {
    Object::default().header(header).items(field, names.iter().map(|name| quoted(name))).end()
}

pub fn permissions(header: Option<ResponseHeader>, list: &[Permission], data: &[DataPermission]) -> String {
    let permission = |one: &Permission| {
        Object::default()
            .number("permType", one.perm_type)
            .bytes("key", &one.key)
            .bytes("range_end", &one.range_end)
            .end()
    };
    let on_data = |one: &DataPermission| {
        Object::default()
            .number("access", one.access)
            .text("namespace", &one.namespace)
            .bytes("prefix", &one.prefix)
            .end()
    };
    let shown = Object::default().header(header).items("perm", list.iter().map(permission));
    if data.is_empty() { shown.end() } else { shown.items("data", data.iter().map(on_data)).end() }
}

pub fn alarms(response: &AlarmResponse) -> String {
    let alarms = response.alarms.iter();
    let alarm = alarms
        .map(|one| Object::default().number("memberID", one.member_id).number("alarm", one.alarm).end());
    Object::default().header(response.header).items("alarms", alarm).end()
}

pub fn backup(status: &BackupStatus) -> String {
    Object::default()
        .raw("hash", &status.hash.to_string())
        .raw("revision", &status.revision.to_string())
        .raw("totalKey", &status.total_key.to_string())
        .raw("totalSize", &status.total_size.to_string())
        .end()
}

fn key_value(kv: &KeyValue) -> String {
    Object::default()
        .bytes("key", &kv.key)
        .number("create_revision", kv.create_revision)
        .number("mod_revision", kv.mod_revision)
        .number("version", kv.version)
        .bytes("value", &kv.value)
        .number("lease", kv.lease)
        .end()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An object under construction; what is empty is left out.
#[derive(Default)]
pub(super) struct Object(Vec<String>);

impl Object {
    pub(super) fn raw(mut self, name: &str, json: &str) -> Object {
        self.0.push(format!("\"{name}\":{json}"));
        self
    }

    pub(super) fn maybe(self, name: &str, json: Option<String>) -> Object {
        match json {
            Some(json) => self.raw(name, &json),
            None => self,
        }
    }

    pub(super) fn header(self, header: Option<ResponseHeader>) -> Object {
        let json = header.map(|header| Object::default().header_fields(header).end());
        self.maybe("header", json)
    }

    fn header_fields(self, header: ResponseHeader) -> Object {
        self.number("cluster_id", header.cluster_id)
            .number("member_id", header.member_id)
            .number("revision", header.revision)
            .number("raft_term", header.raft_term)
    }

    pub(super) fn number<N: Default + PartialEq + ToString>(self, name: &str, number: N) -> Object {
        if number == N::default() { self } else { self.raw(name, &number.to_string()) }
    }

    pub fn flag(self, name: &str, flag: bool) -> Object {
        if flag { self.raw(name, "true") } else { self }
    }

    pub(super) fn text(self, name: &str, text: &str) -> Object {
        if text.is_empty() { self } else { self.raw(name, &quoted(text)) }
    }

    pub(super) fn bytes(self, name: &str, bytes: &[u8]) -> Object {
        if bytes.is_empty() { self } else { self.raw(name, &format!("\"{}\"", STANDARD.encode(bytes))) }
    }

    pub(super) fn items(self, name: &str, items: impl Iterator<Item = String>) -> Object {
        let json = list(items);
        if json == "[]" { self } else { self.raw(name, &json) }
    }

    pub(super) fn end(self) -> String {
        format!("{{{}}}", self.0.join(","))
    }
}
