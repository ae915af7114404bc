//! Load on leases: each client holds one and renews it as soon as the last renewal is answered.

use crate::hpack::Outcome;
use crate::stats::Stats;
use crate::wire::{ConnError, Event, GrpcConn, StreamId};
use prost::Message;
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
/// Long enough not to expire within a run, short enough not to stay for long after it.
const TTL_SECONDS: i64 = 600;

struct LeaseHolder {
    lease: i64,
    sent: Instant,
}

pub async fn run(mut wire: GrpcConn, clients: usize, stats: Rc<RefCell<Stats>>) -> Result<(), ConnError> {
    let leases = grant(&mut wire, clients).await?;
    let mut tenants: BTreeMap<StreamId, LeaseHolder> = BTreeMap::new();
    for lease in leases {
        if stats.borrow_mut().begin(Instant::now()) {
            let stream = wire.open(KEEP_ALIVE);
            wire.send(stream, &LeaseKeepAliveRequest { id: lease });
            tenants.insert(stream, LeaseHolder { lease, sent: Instant::now() });
        }
    }
    while !tenants.is_empty() {
        wire.turn(&mut |wire, event| match event {
            Event::Message { stream, message } => {
                let Some(tenant) = tenants.get_mut(&stream) else { return };
                let mut stats = stats.borrow_mut();
                stats.end(tenant.sent.elapsed(), &renewed(message));
                if stats.begin(Instant::now()) {
                    tenant.sent = Instant::now();
                    wire.send(stream, &LeaseKeepAliveRequest { id: tenant.lease });
                } else {
                    tenants.remove(&stream);
                }
            }
            Event::End { stream, outcome } => {
                if let Some(tenant) = tenants.remove(&stream) {
                    stats.borrow_mut().end(tenant.sent.elapsed(), &Outcome { status: None, ..outcome });
                }
            }
        })
        .await?;
    }
    Ok(())
}

/// A lease that is gone is answered too, with no time left.
fn renewed(message: bytes::Bytes) -> Outcome {
    match LeaseKeepAliveResponse::decode(message) {
        Ok(response) if response.ttl > 0 => Outcome { status: Some(0), message: None },
        _ => Outcome { status: None, message: Some("the lease is gone".into()) },
    }
}

/// Leases that outlast the run.
pub async fn grant(wire: &mut GrpcConn, count: usize) -> Result<Vec<i64>, ConnError> {
    for _ in 0..count {
        wire.call(GRANT, &LeaseGrantRequest { ttl: TTL_SECONDS, id: 0 });
    }
    let (mut leases, mut answered) = (Vec::new(), 0);
    while answered < count {
        wire.turn(&mut |_, event| match event {
            Event::Message { message, .. } => {
                leases.extend(LeaseGrantResponse::decode(message).map(|response| response.id));
            }
            Event::End { .. } => answered += 1,
        })
        .await?;
    }
    Ok(leases)
}
