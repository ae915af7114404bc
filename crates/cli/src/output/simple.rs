//! The simple format: keys and values as they are, a line each, whatever bytes they hold.

use super::{EndpointHealth, EndpointStatus, Shown, status_columns};
use crate::client::duration;
use proto::etcdserverpb::response_op::Response;
use proto::etcdserverpb::{DeleteRangeResponse, PutResponse, RangeResponse, TxnResponse};
use proto::mvccpb::KeyValue;

/// The simple format of keys and values.
#[derive(Clone, Copy)]
pub struct Simple {
    pub hex: bool,
    pub shown: Shown,
}

impl Simple {
    pub fn range(self, response: &RangeResponse) -> Vec<u8> {
        match self.shown {
            Shown::Count => format!("{}\n", response.count).into_bytes(),
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

    fn pairs(self, kvs: &[KeyValue]) -> Vec<u8> {
        let mut text = vec![];
        for kv in kvs {
            if self.shown != Shown::Value {
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
