//! A client of one connection: calls of any path, fields and body, and answers as they came.

use crate::world::PATIENCE;
use bytes::{BufMut, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Method, Request, Response};
use prost::Message;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::time::timeout;

#[derive(Clone)]
pub struct Client(SendRequest<Bytes>);

#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub trailers: HeaderMap,
}

pub const GRPC: (&str, &str) = ("content-type", "application/grpc");
/// The same to the services, but not on the fast path.
pub const GRPC_ROUTED: (&str, &str) = ("content-type", "application/grpc+proto");

impl Client {
    pub async fn connect(address: SocketAddr) -> Client {
        Client::connect_with(address, &Builder::new()).await
    }

    pub async fn connect_with(address: SocketAddr, builder: &Builder) -> Client {
        let socket = TcpStream::connect(address).await.unwrap();
        let (client, connection) = builder.handshake(socket).await.unwrap();
        tokio::spawn(connection);
        Client(client)
    }

    /// Begins a request whose body follows.
    pub async fn begin(
        &self,
        method: Method,
        path: &str,
        fields: &[(&str, &str)],
        last: bool,
    ) -> (h2::client::ResponseFuture, h2::SendStream<Bytes>) {
        let mut request = Request::builder().method(method).uri(format!("http://localhost{path}"));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut client = self.0.clone().ready().await.unwrap();
        client.send_request(request.body(()).unwrap(), last).unwrap()
    }

    pub async fn get(&self, path: &str) -> Answer {
        let (response, _) = self.begin(Method::GET, path, &[], true).await;
        gather(response).await.unwrap()
    }

    pub async fn post(&self, path: &str, fields: &[(&str, &str)], body: Bytes) -> Result<Answer, h2::Error> {
        let (response, mut stream) = self.begin(Method::POST, path, fields, false).await;
        stream.send_data(body, true)?;
        gather(response).await
    }

    /// A unary call of the KV service.
    pub async fn kv(&self, method: &str, fields: &[(&str, &str)], message: &impl Message) -> Answer {
        self.post(&format!("/etcdserverpb.KV/{method}"), fields, framed(message)).await.unwrap()
    }
}

pub async fn gather(
    response: impl Future<Output = Result<Response<RecvStream>, h2::Error>>,
) -> Result<Answer, h2::Error> {
    let (head, mut incoming) = timeout(PATIENCE, response).await.expect("an answer comes")?.into_parts();
    let mut body = BytesMut::new();
    while let Some(data) = timeout(PATIENCE, incoming.data()).await.expect("a body comes") {
        let data = data?;
        body.extend_from_slice(&data);
        incoming.flow_control().release_capacity(data.len())?;
    }
    let trailers = incoming.trailers().await?.unwrap_or_default();
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.freeze(), trailers })
}

/// A message as gRPC sends it.
pub fn framed(message: &impl Message) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(message.encoded_len() as u32);
    message.encode(&mut body).unwrap();
    body.freeze()
}

impl Answer {
    /// The message of a call that went well.
    pub fn message<M: Message + Default>(&self) -> M {
        assert_eq!((self.status, &self.headers["content-type"]), (200, &GRPC.1.parse().unwrap()));
        assert_eq!(self.trailers["grpc-status"], "0");
        assert_eq!(self.body[0], 0);
        assert_eq!(self.body.len(), 5 + u32::from_be_bytes(self.body[1..5].try_into().unwrap()) as usize);
        M::decode(&self.body[5..]).unwrap()
    }

    /// The code and the words of a refusal, which is nothing but a head.
    pub fn refusal(&self) -> (&str, &str) {
        assert_eq!((self.status, &self.headers["content-type"]), (200, &GRPC.1.parse().unwrap()));
        assert!(self.body.is_empty() && self.trailers.is_empty());
        (self.headers["grpc-status"].to_str().unwrap(), self.headers["grpc-message"].to_str().unwrap())
    }
}
