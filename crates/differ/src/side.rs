//! One of the two servers, from the client's side. A request goes in, the comparable part of its answer comes out.

use crate::PATIENCE;
use crate::auth;
use crate::compare::{ComparableAnswer, code_alone, essence, refusal};
use crate::generator::STREAMS;
use crate::raw_codec::RawCodec;
use crate::test_call::TestCall;
use crate::watching::Watches;
use bytes::Bytes;
use client::duplex::Duplex;
use proto::etcdserverpb::auth_client::AuthClient;
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::lease_client::LeaseClient;
use proto::etcdserverpb::{
    AuthenticateRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseRevokeRequest, RangeRequest,
};
use tokio::time::{Instant, sleep, timeout};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

pub struct Side {
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    auth: AuthClient<Channel>,
    raw: Grpc<Channel>,
    /// The token that is sent with every request.
    pub token: Option<MetadataValue<Ascii>>,
    keep_alives: Duplex<LeaseKeepAliveRequest, LeaseKeepAliveResponse>,
    pub watches: Vec<Watches>,
}

impl Side {
    /// Connects and waits until a linearizable read is answered.
    pub async fn connect(endpoint: &str) -> Result<Side, String> {
        let endpoint = Endpoint::from_shared(endpoint.to_owned()).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Side::try_connect(&endpoint).await {
                Ok(side) => return Ok(side),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => sleep(PATIENCE / 2_000).await,
            }
        }
    }

    async fn try_connect(endpoint: &Endpoint) -> Result<Side, String> {
        let dial = async || endpoint.connect().await.map_err(|error| error.to_string());
        let channel = dial().await?;
        let mut kv = KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
        let read = RangeRequest { key: "ready".into(), ..Default::default() };
        kv.range(read).await.map_err(|status| status.to_string())?;
        let lease = LeaseClient::new(channel.clone());
        let mut keeping = lease.clone();
        let keep_alives = Duplex::open(|requests| async move { keeping.lease_keep_alive(requests).await });
        // Unread events must not delay other answers.
        let events = dial().await?;
        let watches = (0..STREAMS).map(|_| Watches::open(events.clone())).collect();
        let (auth, raw) = (AuthClient::new(channel.clone()), Grpc::new(channel));
        Ok(Side { kv, lease, auth, raw, token: None, keep_alives, watches })
    }

    /// For reads that are sent side by side.
    pub fn reader(&self) -> Reader {
        Reader { kv: self.kv.clone(), lease: self.lease.clone(), token: self.token.clone() }
    }

    pub async fn answer(&mut self, ask: TestCall) -> ComparableAnswer {
        let token = self.token.clone();
        let answered = async {
            match ask {
                TestCall::Put(put) => essence(inner(self.kv.put(with(&token, put)).await)),
                TestCall::Delete(delete) => essence(inner(self.kv.delete_range(with(&token, delete)).await)),
                TestCall::Txn(txn) => essence(inner(self.kv.txn(with(&token, txn)).await)),
                TestCall::Compact(compact) => essence(inner(self.kv.compact(with(&token, compact)).await)),
                TestCall::Grant(grant) => essence(inner(self.lease.lease_grant(with(&token, grant)).await)),
                TestCall::Revoke(id) => {
                    let revoke = with(&token, LeaseRevokeRequest { id });
                    essence(inner(self.lease.lease_revoke(revoke).await))
                }
                TestCall::Auth(ask) => auth::answer(&mut self.auth, &token, ask).await,
                TestCall::KeepAlive(id) => self.keep_alive(id).await,
                TestCall::Malformed { path, message } => self.send_raw(path, message).await,
                read => self.reader().read(read).await,
            }
        };
        in_time(answered).await
    }

    /// The token of the user that logs in.
    pub async fn login(
        &mut self,
        login: AuthenticateRequest,
    ) -> Result<MetadataValue<Ascii>, ComparableAnswer> {
        let late = |_| Status::deadline_exceeded("no answer");
        let answered = timeout(PATIENCE, self.auth.authenticate(login)).await.map_err(late);
        let answer = answered.and_then(inner).map_err(|status| refusal(&status))?;
        answer.token.parse().map_err(|_| ComparableAnswer { text: "no token".to_owned(), revision: None })
    }

    async fn keep_alive(&mut self, id: i64) -> ComparableAnswer {
        match self.keep_alives.send(LeaseKeepAliveRequest { id }).await {
            Ok(()) => essence(self.keep_alives.next().await),
            Err(status) => refusal(&status),
        }
    }

    async fn send_raw(&mut self, path: &'static str, message: Bytes) -> ComparableAnswer {
        if let Err(error) = self.raw.ready().await {
            return refusal(&Status::unavailable(error.to_string()));
        }
        let path = PathAndQuery::from_static(path);
        match self.raw.unary(Request::new(message), path, RawCodec).await {
            Ok(_) => ComparableAnswer { text: "accepted".to_owned(), revision: None },
            Err(status) => code_alone(&status),
        }
    }
}

pub struct Reader {
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
    token: Option<MetadataValue<Ascii>>,
}

impl Reader {
    pub async fn read(mut self, ask: TestCall) -> ComparableAnswer {
        let token = self.token.clone();
        let answered = async {
            match ask {
                TestCall::Range(range) => essence(inner(self.kv.range(with(&token, range)).await)),
                TestCall::TimeToLive(request) => {
                    essence(inner(self.lease.lease_time_to_live(with(&token, request)).await))
                }
                TestCall::Leases => {
                    essence(inner(self.lease.lease_leases(with(&token, LeaseLeasesRequest {})).await))
                }
                other => panic!("not a read: {other:?}"),
            }
        };
        in_time(answered).await
    }
}

/// A request with this token.
pub fn with<T>(token: &Option<MetadataValue<Ascii>>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("token", token.clone());
    }
    request
}

pub fn inner<T>(outcome: Result<Response<T>, Status>) -> Result<T, Status> {
    outcome.map(Response::into_inner)
}

async fn in_time(answer: impl Future<Output = ComparableAnswer>) -> ComparableAnswer {
    let late = ComparableAnswer { text: "no answer".to_owned(), revision: None };
    timeout(PATIENCE, answer).await.unwrap_or(late)
}
