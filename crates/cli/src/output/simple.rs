//! The simple format: keys and values as they are, a line each, whatever bytes they hold.

use super::quote::quote;
use super::{EndpointHash, EndpointHealth, EndpointStatus, SimpleParts, member_columns, status_columns};
use crate::client::duration;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{
    AlarmMember, DeleteRangeResponse, LeaseLeasesResponse, LeaseTimeToLiveResponse, Member,
    MemberAddResponse, PutResponse, RangeResponse, TxnResponse, WatchResponse,
};
use proto::mvccpb::KeyValue;

/// The simple format of keys and values.
#[derive(Clone, Copy)]
pub struct Simple {
    pub hex: bool,
    pub shown: SimpleParts,
}

impl Simple {
    pub fn range(self, response: &RangeResponse) -> Vec<u8> {
        match self.shown {
            SimpleParts::Count => format!("{}\n", response.count).into_bytes(),
            _ => self.pairs(&response.kvs),
        }
    }

    pub fn put(self, response: &PutResponse) -> Vec<u8> {
        [b"OK\n".to_vec(), self.pairs(response.prev_kv.as_slice())].concat()
    }

    pub fn delete(self, response: &DeleteRangeResponse) -> Vec<u8> {
        [format!("{}\n", response.deleted).into_bytes(), self.pairs(&response.prev_kvs)].concat()
    }

    pub fn txn(self, response: &TxnResponse) -> Vec<u8> {
        let verdict: &[u8] = if response.succeeded { b"SUCCESS\n" } else { b"FAILURE\n" };
        let mut text = verdict.to_vec();
        for op in &response.responses {
            text.push(b'\n');
            text.extend(match &op.response {
                Some(Response::ResponseRange(answer)) => self.range(answer),
                Some(Response::ResponsePut(answer)) => self.put(answer),
                Some(Response::ResponseDeleteRange(answer)) => self.delete(answer),
                Some(Response::ResponseTxn(answer)) => self.txn(answer),
                None => vec![],
            });
        }
        text
    }

    /// Progress, which has no events, is printed as well.
    pub fn watch(self, response: &WatchResponse) -> Vec<u8> {
        if response.events.is_empty() {
            let revision = response.header.map_or(0, |header| header.revision);
            return format!("progress notify: {revision}\n").into_bytes();
        }
        let mut text = vec![];
        for event in &response.events {
            text.extend(format!("{}\n", event.r#type().as_str_name()).as_bytes());
            text.extend(self.pairs(event.prev_kv.as_slice()));
            text.extend(self.pairs(event.kv.as_slice()));
        }
        text
    }

    fn pairs(self, kvs: &[KeyValue]) -> Vec<u8> {
        let mut text = vec![];
        for kv in kvs {
            if self.shown != SimpleParts::Value {
                self.line(&kv.key, &mut text);
            }
            self.line(&kv.value, &mut text);
        }
        text
    }

    fn line(self, bytes: &[u8], text: &mut Vec<u8>) {
        if self.hex {
            bytes.iter().for_each(|byte| text.extend(format!("\\x{byte:02x}").as_bytes()));
        } else {
            text.extend(bytes);
        }
        text.push(b'\n');
    }
}

pub fn statuses(all: &[EndpointStatus]) -> String {
    all.iter().map(|one| status_columns(one).join(", ") + "\n").collect()
}

pub fn healths(all: &[EndpointHealth]) -> String {
    let line = |one: &EndpointHealth| match one.error.as_str() {
        "" => format!(
            "{} is healthy: successfully committed proposal: took = {}\n",
            one.endpoint,
            duration::render(one.took)
        ),
        error => format!("{} is unhealthy: failed to commit proposal: {error}\n", one.endpoint),
    };
    all.iter().map(line).collect()
}

pub fn hashes(all: &[EndpointHash]) -> String {
    let line =
        |one: &EndpointHash| format!("{}, {}, {}\n", one.endpoint, one.hash.hash, one.hash.hash_revision);
    all.iter().map(line).collect()
}

pub fn time_to_live(response: &LeaseTimeToLiveResponse, keys: bool) -> Vec<u8> {
    let id = response.id;
    if response.granted_ttl == 0 && response.ttl == -1 {
        return format!("lease {id:016x} already expired\n").into_bytes();
    }
    let (granted, left) = (response.granted_ttl, response.ttl);
    let mut text = format!("lease {id:016x} granted with TTL({granted}s), remaining({left}s)").into_bytes();
    if keys {
        text.extend(b", attached keys([");
        text.extend(response.keys.join(&b' '));
        text.extend(b"])");
    }
    text.push(b'\n');
    text
}

pub fn leases(response: &LeaseLeasesResponse) -> String {
    let ids: String = response.leases.iter().map(|lease| format!("{:016x}\n", lease.id)).collect();
    format!("found {} leases\n{ids}", response.leases.len())
}

pub fn members(members: &[Member]) -> String {
    members.iter().map(|member| member_columns(member).join(", ") + "\n").collect()
}

pub fn member_added(name: &str, response: &MemberAddResponse) -> String {
    let new = response.member.clone().unwrap_or_default();
    let cluster = response.header.map_or(0, |header| header.cluster_id);
    let named = |member: &Member| {
        let name = if member.id == new.id { name } else { &member.name };
        member.peer_ur_ls.iter().map(|url| format!("{name}={url}")).collect::<Vec<_>>()
    };
    let all: Vec<String> = response.members.iter().flat_map(named).collect();
    let quoted = |text: &str| quote(text.as_bytes());
    format!(
        "Member {:16x} added to cluster {cluster:16x}\n\n\
         ETCD_NAME={}\nETCD_INITIAL_CLUSTER={}\nETCD_INITIAL_ADVERTISE_PEER_URLS={}\n\
         ETCD_INITIAL_CLUSTER_STATE=\"existing\"\n",
        new.id,
        quoted(name),
        quoted(&all.join(",")),
        quoted(&new.peer_ur_ls.join(",")),
    )
}

/// The blank at the end is etcdctl's.
pub fn alarms(alarms: &[AlarmMember]) -> String {
    let line =
        |one: &AlarmMember| format!("memberID:{} alarm:{} \n", one.member_id, one.alarm().as_str_name());
    alarms.iter().map(line).collect()
}
