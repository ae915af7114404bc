//! The fields format: a line for every field, its name quoted, keys and values quoted as Go quotes them.

use super::quote::quote;
use super::{EndpointHash, EndpointHealth, EndpointStatus};
use crate::client::duration;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    AlarmResponse, DeleteRangeResponse, LeaseLeasesResponse, LeaseTimeToLiveResponse, Member, PutResponse,
    RangeResponse, ResponseHeader, TxnResponse, WatchResponse,
};
use proto::mvccpb::KeyValue;
use std::fmt::Display;

pub fn range(response: &RangeResponse) -> String {
    let mut text = header(response.header);
    response.kvs.iter().for_each(|kv| text.push_str(&key_value("", kv)));
    text + &field("More", response.more) + &field("Count", response.count)
}

pub fn put(response: &PutResponse) -> String {
    let before: String = response.prev_kv.iter().map(|kv| key_value("Prev", kv)).collect();
    header(response.header) + &before
}

pub fn delete(response: &DeleteRangeResponse) -> String {
    let before: String = response.prev_kvs.iter().map(|kv| key_value("Prev", kv)).collect();
    header(response.header) + &field("Deleted", response.deleted) + &before
}

pub fn txn(response: &TxnResponse) -> String {
    let op = |answer: &Option<Response>| match answer {
        Some(Response::ResponseRange(answer)) => range(answer),
        Some(Response::ResponsePut(answer)) => put(answer),
        Some(Response::ResponseDeleteRange(answer)) => delete(answer),
        Some(Response::ResponseTxn(answer)) => txn(answer),
        None => String::new(),
    };
    let answers: String = response.responses.iter().map(|one| op(&one.response)).collect();
    header(response.header) + &field("Succeeded", response.succeeded) + &answers
}

pub fn statuses(all: &[EndpointStatus]) -> String {
    let one = |one: &EndpointStatus| {
        let status = &one.status;
        let downgrade = status.downgrade_info.clone().unwrap_or_default();
        let errors: Vec<String> = status.errors.iter().map(|error| quote(error.as_bytes())).collect();
        [
            header(status.header),
            field("Version", quote(status.version.as_bytes())),
            field("StorageVersion", quote(status.storage_version.as_bytes())),
            field("DBSize", status.db_size),
            field("DBSizeInUse", status.db_size_in_use),
            field("DBSizeQuota", status.db_size_quota),
            field("Leader", status.leader),
            field("IsLearner", status.is_learner),
            field("RaftIndex", status.raft_index),
            field("RaftTerm", status.raft_term),
            field("RaftAppliedIndex", status.raft_applied_index),
            field("Errors", format!("[{}]", errors.join(" "))),
            field("Endpoint", quote(one.endpoint.as_bytes())),
            field("DowngradeTargetVersion", quote(downgrade.target_version.as_bytes())),
            field("DowngradeEnabled", downgrade.enabled),
            "\n".to_owned(),
        ]
        .concat()
    };
    all.iter().map(one).collect()
}

pub fn healths(all: &[EndpointHealth]) -> String {
    let one = |one: &EndpointHealth| {
        [
            field("Endpoint", quote(one.endpoint.as_bytes())),
            field("Health", one.error.is_empty()),
            field("Took", duration::render(one.took)),
            field("Error", &one.error),
            "\n".to_owned(),
        ]
        .concat()
    };
    all.iter().map(one).collect()
}

pub fn hashes(all: &[EndpointHash]) -> String {
    let one = |one: &EndpointHash| {
        let endpoint = field("Endpoint", quote(one.endpoint.as_bytes()));
        let hash = field("Hash", one.hash.hash) + &field("HashRevision", one.hash.hash_revision);
        header(one.hash.header) + &endpoint + &hash + "\n"
    };
    all.iter().map(one).collect()
}

pub fn watch(response: &WatchResponse) -> String {
    let mut text = header(response.header);
    for event in &response.events {
        text.push_str(&field("Type", event.r#type().as_str_name()));
        event.prev_kv.iter().for_each(|kv| text.push_str(&key_value("Prev", kv)));
        event.kv.iter().for_each(|kv| text.push_str(&key_value("", kv)));
    }
    text
}

/// One that was granted or kept alive.
pub fn lease(told: Option<ResponseHeader>, id: i64, ttl: i64) -> String {
    header(told) + &field("ID", id) + &field("TTL", ttl)
}

pub fn time_to_live(response: &LeaseTimeToLiveResponse) -> String {
    let keys: String = response.keys.iter().map(|key| field("Key", quote(key))).collect();
    lease(response.header, response.id, response.ttl) + &field("GrantedTTL", response.granted_ttl) + &keys
}

pub fn leases(response: &LeaseLeasesResponse) -> String {
    let ids: String = response.leases.iter().map(|lease| field("ID", lease.id)).collect();
    header(response.header) + &ids
}

pub fn members(told: Option<ResponseHeader>, members: &[Member]) -> String {
    let urls = |name: &str, urls: &[String]| {
        urls.iter().map(|url| field(name, quote(url.as_bytes()))).collect::<String>()
    };
    let one = |member: &Member| {
        [
            field("ID", member.id),
            field("Name", quote(member.name.as_bytes())),
            urls("PeerURL", &member.peer_ur_ls),
            urls("ClientURL", &member.client_ur_ls),
            field("IsLearner", member.is_learner),
            "\n".to_owned(),
        ]
        .concat()
    };
    header(told) + &members.iter().map(one).collect::<String>()
}

pub fn alarms(response: &AlarmResponse) -> String {
    let mut text = header(response.header);
    for alarm in &response.alarms {
        text.push_str(&field("MemberID", alarm.member_id));
        text.push_str(&field("AlarmType", alarm.alarm().as_str_name()));
        text.push('\n');
    }
    text
}

pub fn header(header: Option<ResponseHeader>) -> String {
    let header = header.unwrap_or_default();
    [
        field("ClusterID", header.cluster_id),
        field("MemberID", header.member_id),
        // Answers about members tell none.
        if header.revision > 0 { field("Revision", header.revision) } else { String::new() },
        field("RaftTerm", header.raft_term),
    ]
    .concat()
}

fn key_value(prefix: &str, kv: &KeyValue) -> String {
    let field = |name: &str, value: &dyn Display| field(&format!("{prefix}{name}"), value);
    [
        field("Key", &quote(&kv.key)),
        field("CreateRevision", &kv.create_revision),
        field("ModRevision", &kv.mod_revision),
        field("Version", &kv.version),
        field("Value", &quote(&kv.value)),
        field("Lease", &kv.lease),
    ]
    .concat()
}

pub(super) fn field(name: &str, value: impl Display) -> String {
    format!("\"{name}\" : {value}\n")
}
