//! A gRPC client that sends bytes as they are, so that a test can say what no honest client would.

use bytes::Bytes;
use differ::RawCodec;
use tonic::Status;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

pub struct RawClient(Grpc<Channel>);

impl RawClient {
    pub async fn connect(endpoint: &str) -> RawClient {
        let channel = Endpoint::from_shared(endpoint.to_owned()).unwrap().connect().await.unwrap();
        RawClient(Grpc::new(channel).max_encoding_message_size(usize::MAX))
    }

    /// Calls a method of the KV service with this message.
    pub async fn kv(&mut self, method: &str, message: impl Into<Bytes>) -> Result<Bytes, Status> {
        self.call(&format!("/etcdserverpb.KV/{method}"), message.into()).await
    }

    pub async fn call(&mut self, path: &str, message: Bytes) -> Result<Bytes, Status> {
        self.0.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path: PathAndQuery = path.parse().unwrap();
        self.0.unary(tonic::Request::new(message), path, RawCodec).await.map(tonic::Response::into_inner)
    }
}
