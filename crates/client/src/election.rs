//! Elections: the holder of the lock of an election's name leads, and the value of its key is what it proclaims.
//! A candidate goes in; a leadership comes out when it leads, which knows like any hold when it is over. Observers
//! receive every leader and what it proclaims, in order and none twice, also across a broken connection.

use crate::connection::ROUND_PAUSE;
use crate::held_lease::{HeldLease, Lease};
use crate::{AuthedChannel, Client, Error, Fence, Hold, Kind};
use proto::etcdserverpb::ResponseHeader;
use proto::mvccpb::KeyValue;
use proto::v3electionpb::election_client::ElectionClient;
use proto::v3electionpb::{
    CampaignRequest, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest, ResignRequest,
};
use std::ops::Deref;
use tokio::time::sleep;
use tonic::Streaming;

/// A leadership. It ends by `resign`; dropping it resigns as well as can be done without waiting (`Client::wait_for_releases` waits
/// for that).
#[derive(Debug)]
pub struct Leadership {
    hold: Hold,
    leader: LeaderKey,
}

impl Deref for Leadership {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}

impl Client {
    /// Waits until the candidate leads. Dropping this future withdraws the candidate.
    pub async fn campaign(&self, name: &[u8], value: &[u8], lease: Lease) -> Result<Leadership, Error> {
        let held_lease = HeldLease::begin(self, lease).await?;
        let request = CampaignRequest {
            name: name.to_vec().into(),
            lease: held_lease.lease(),
            value: value.to_vec().into(),
        };
        // Under one lease there is one candidate, however often the call is repeated.
        let call = |channel| {
            let request = request.clone();
            async move { ElectionClient::new(channel).campaign(request).await }
        };
        match held_lease.unless_lost(self.retry_until(None, call)).await {
            Ok(elected) => {
                let leader = elected.leader.unwrap_or_default();
                let fence = Fence { lock: name.to_vec(), token: leader.rev };
                Ok(Leadership { hold: Hold::new(self, held_lease, leader.key.to_vec(), fence), leader })
            }
            Err(error) => {
                // The reason is what matters; the lease would expire.
                let _ = held_lease.end().await;
                Err(error)
            }
        }
    }

    /// The key and value of the leader, if there is one.
    pub async fn leader(&self, name: &[u8]) -> Result<Option<KeyValue>, Error> {
        let call = |channel| {
            let request = LeaderRequest { name: name.to_vec().into() };
            async move { service(channel).leader(request).await }
        };
        match self.call(Kind::Read, call).await {
            Ok(response) => Ok(response.kv),
            Err(error) if error.is_refusal(base::Code::NoElectedLeader) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Connects with the first `next`.
    pub fn observe(&self, name: &[u8]) -> Observer {
        Observer { client: self.clone(), name: name.to_vec(), stream: None, told: 0, begun: false }
    }
}

impl Leadership {
    /// Changes the value. Refused when another candidate leads.
    pub async fn proclaim(&self, value: &[u8]) -> Result<Option<ResponseHeader>, Error> {
        self.check()?;
        let request = ProclaimRequest { leader: Some(self.leader.clone()), value: value.to_vec().into() };
        let call = |channel| {
            let request = request.clone();
            async move { service(channel).proclaim(request).await }
        };
        Ok(self.client().call(Kind::Write, call).await?.header)
    }

    /// Lets the next candidate lead, and ends the lease if that is its own.
    pub async fn resign(self) -> Result<(), Error> {
        let request = ResignRequest { leader: Some(self.leader.clone()) };
        let call = |channel| {
            let request = request.clone();
            async move { service(channel).resign(request).await }
        };
        let resigned = self.client().call(Kind::Write, call).await;
        let has_own_lease = self.has_own_lease();
        let ended = self.hold.end().await;
        match resigned {
            // The end of the lease was the resignation.
            Err(_) if has_own_lease && ended.is_ok() => Ok(()),
            resigned => resigned.map(drop).and(ended),
        }
    }
}

/// Receives every leader.
#[derive(Debug)]
pub struct Observer {
    client: Client,
    name: Vec<u8>,
    /// With the index of its endpoint.
    stream: Option<(usize, Streaming<LeaderResponse>)>,
    /// The revision of the last value that was handed out: a new stream begins with what is there.
    told: i64,
    /// A stream was open before, so errors are retried.
    begun: bool,
}

impl Observer {
    /// The next leader, or the next value of the same. May be cancelled and called again.
    pub async fn next(&mut self) -> Result<LeaderResponse, Error> {
        loop {
            match self.read().await {
                Ok(response) => {
                    let revision = response.kv.as_ref().map_or(0, |kv| kv.mod_revision);
                    if revision > self.told {
                        self.told = revision;
                        return Ok(response);
                    }
                }
                Err(error) if self.begun && !error.is_final() => {
                    if let Some((place, _)) = self.stream.take() {
                        self.client.move_on(place);
                    }
                    sleep(ROUND_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn read(&mut self) -> Result<LeaderResponse, Error> {
        if self.stream.is_none() {
            let (place, channel) = self.client.channel().await?;
            let request = LeaderRequest { name: self.name.clone().into() };
            let opened = service(channel).observe(request).await?;
            self.stream = Some((place, opened.into_inner()));
            self.begun = true;
        }
        let (_, stream) = self.stream.as_mut().expect("it was opened above");
        let ended = || tonic::Status::unavailable("the stream ended");
        Ok(stream.message().await?.ok_or_else(ended)?)
    }
}

/// The server bounds the size of its answers.
fn service(line: AuthedChannel) -> ElectionClient<AuthedChannel> {
    ElectionClient::new(line).max_decoding_message_size(usize::MAX)
}
