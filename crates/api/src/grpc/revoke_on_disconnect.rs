//! Leases that are revoked when the connection of their client ends: only for a keep-alive stream that asks for it.
//! The renewals of the stream go in; when it has ended, and the grace has passed without another renewal of a lease,
//! through any member, that lease is revoked. In doubt (no leader, another leader) nothing is revoked:
//! the lease still expires.

use crate::grpc::refusal;
use base::limits::LEASES_HELD_MAX;
use base::{Code, LeaseId};
use coord::reply::LeaseRenewal;
use server::Handle;
use std::collections::BTreeMap;
use std::time::Duration;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// The grace in milliseconds.
const REVOKE_ON_DISCONNECT: &str = "althing-revoke-on-disconnect";
const GRACE_MS_MAX: u64 = 3_600_000;

pub struct RevokeOnDisconnect {
    grace: Duration,
    /// The last renewal that came by this stream.
    held: BTreeMap<LeaseId, LeaseRenewal>,
}

impl RevokeOnDisconnect {
    /// `None` for a stream that did not ask.
    pub fn from_metadata(metadata: &MetadataMap) -> Result<Option<RevokeOnDisconnect>, Status> {
        let Some(value) = metadata.get(REVOKE_ON_DISCONNECT) else { return Ok(None) };
        let grace_ms: Option<u64> = value.to_str().ok().and_then(|text| text.parse().ok());
        let grace_ms = grace_ms.filter(|grace| *grace <= GRACE_MS_MAX).ok_or_else(|| {
            let words = format!("{REVOKE_ON_DISCONNECT} takes milliseconds, at most {GRACE_MS_MAX}");
            Status::invalid_argument(words)
        })?;
        Ok(Some(RevokeOnDisconnect { grace: Duration::from_millis(grace_ms), held: BTreeMap::new() }))
    }

    /// A lease that is gone is removed.
    pub fn renewed(&mut self, id: LeaseId, ttl: i64, renewal: LeaseRenewal) -> Result<(), Status> {
        if ttl <= 0 {
            self.held.remove(&id);
        } else if self.held.len() < LEASES_HELD_MAX || self.held.contains_key(&id) {
            self.held.insert(id, renewal);
        } else {
            return Err(refusal::render(Code::TooManyRequests));
        }
        Ok(())
    }

    /// The stream has ended.
    pub async fn revoke_unrenewed(self, handle: Handle) {
        if self.held.is_empty() {
            return;
        }
        tokio::time::sleep(self.grace).await;
        for (id, renewal) in self.held {
            let Ok(time) = handle.leases().time_to_live(id).await else { continue };
            if time.body.ttl >= 0 && time.body.renewal == renewal {
                // It may have ended meanwhile.
                let _ = handle.leases().revoke(id).await;
            }
        }
    }
}
