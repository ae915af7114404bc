//! Leases: granted, queried, revoked, and kept alive once. `LeaseKeeper` keeps one alive for longer.

use crate::connection::by;
use crate::duplex::Duplex;
use crate::{Client, Error, Kind};
use proto::etcdserverpb::lease_client::LeaseClient;
use proto::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
};
use tokio::time::Instant;
use tonic::Response;

pub(crate) type KeepAlives = Duplex<LeaseKeepAliveRequest, LeaseKeepAliveResponse>;

/// A granted lease, and when the request was sent: its time has not begun earlier.
#[derive(Clone, Debug)]
pub struct GrantedLease {
    pub response: LeaseGrantResponse,
    pub asked_at: Instant,
}

impl Client {
    /// An id of 0 lets the server choose.
    pub async fn grant_lease(&self, ttl_seconds: i64, id: i64) -> Result<GrantedLease, Error> {
        let request = LeaseGrantRequest { ttl: ttl_seconds, id };
        let asked_at = Instant::now();
        let call = |channel| async move { LeaseClient::new(channel).lease_grant(request).await };
        Ok(GrantedLease { response: self.call(Kind::Write, call).await?, asked_at })
    }

    pub async fn revoke_lease(&self, id: i64) -> Result<LeaseRevokeResponse, Error> {
        let request = LeaseRevokeRequest { id };
        self.call(Kind::Write, |channel| async move { LeaseClient::new(channel).lease_revoke(request).await })
            .await
    }

    /// The time that is left, -1 when the lease is gone; with the attached keys, if requested.
    pub async fn time_to_live(&self, id: i64, keys: bool) -> Result<LeaseTimeToLiveResponse, Error> {
        let request = LeaseTimeToLiveRequest { id, keys };
        let call = |channel| async move {
            let mut client = LeaseClient::new(channel).max_decoding_message_size(usize::MAX);
            client.lease_time_to_live(request).await
        };
        self.call(Kind::Read, call).await
    }

    pub async fn leases(&self) -> Result<LeaseLeasesResponse, Error> {
        let call = |channel| async move {
            let mut client = LeaseClient::new(channel).max_decoding_message_size(usize::MAX);
            client.lease_leases(LeaseLeasesRequest {}).await
        };
        self.call(Kind::Read, call).await
    }

    /// Renews the lease. A repetition does no harm, so it is retried like a read.
    pub async fn keep_lease_once(&self, id: i64) -> Result<LeaseKeepAliveResponse, Error> {
        let call = |channel| async move {
            let mut client = LeaseClient::new(channel);
            let mut stream: KeepAlives =
                Duplex::open(|requests| async move { client.lease_keep_alive(requests).await });
            stream.send(LeaseKeepAliveRequest { id }).await?;
            stream.next().await.map(Response::new)
        };
        let kept = self.call(Kind::Read, call).await?;
        if kept.ttl > 0 { Ok(kept) } else { Err(Error::LeaseGone { id }) }
    }

    /// A stream of keep-alives, with the index of its endpoint for `move_on`.
    pub(crate) async fn keep_alives(&self) -> Result<(usize, KeepAlives), Error> {
        let (place, channel) = self.channel().await?;
        let mut client = LeaseClient::new(channel);
        Ok((place, Duplex::open(|requests| async move { client.lease_keep_alive(requests).await })))
    }
}

/// One keep-alive on an open stream.
pub(crate) async fn keep(
    stream: &mut KeepAlives,
    id: i64,
    deadline: Instant,
) -> Result<LeaseKeepAliveResponse, Error> {
    let exchange = async {
        stream.send(LeaseKeepAliveRequest { id }).await?;
        stream.next().await.map(Response::new)
    };
    by(deadline, exchange).await
}
