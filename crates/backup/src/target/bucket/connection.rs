//! The connection to a bucket: one request after the other over HTTP/1.1, in the clear or by TLS. It is opened when it is
//! needed, kept while it works, and every request has a deadline.

use crate::error::Error;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::Duration;
use tls::ClientFiles;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// For one object, which is a few megabytes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
const ANSWER_BYTES_MAX: usize = 512 * 1024 * 1024;

pub(super) struct Endpoint {
    /// With its port.
    address: String,
    /// As the header has it.
    host: String,
    is_sealed: bool,
}

impl Endpoint {
    pub fn parse(url: &str) -> Result<Endpoint, Error> {
        let bad =
            || Error::Target(format!("{url} is no endpoint of a bucket: it is http://HOST or https://HOST"));
        let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
        let is_sealed = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(bad()),
        };
        let host = rest.trim_end_matches('/');
        if host.is_empty() || host.contains('/') {
            return Err(bad());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let port = if is_sealed { 443 } else { 80 };
        let address = if has_port { host.to_owned() } else { format!("{host}:{port}") };
        Ok(Endpoint { address, host: host.to_owned(), is_sealed })
    }
}

pub(super) struct BucketAnswer {
    pub status: StatusCode,
    body: Bytes,
}

impl BucketAnswer {
    /// The word for what went wrong.
    pub fn error_code(&self) -> String {
        super::listing::text_of(&String::from_utf8_lossy(&self.body), "Code").unwrap_or_default()
    }

    pub fn expect_success(self, request: impl FnOnce() -> String) -> Result<Bytes, Error> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        let text = String::from_utf8_lossy(&self.body);
        let message = super::listing::text_of(&text, "Message").unwrap_or_default();
        Err(Error::Bucket {
            request: request(),
            status: self.status.as_u16(),
            code: self.error_code(),
            message,
        })
    }
}

pub(super) struct Connection {
    endpoint: Endpoint,
    tls: Option<Arc<ClientConfig>>,
    open: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Connection {
    pub fn new(endpoint: Endpoint) -> Result<Connection, Error> {
        let files = ClientFiles::default();
        let tls = endpoint.is_sealed.then(|| files.config(&[])).transpose();
        let tls = tls.map_err(|error| Error::Target(error.to_string()))?;
        Ok(Connection { endpoint, tls, open: Mutex::new(None) })
    }

    pub fn host(&self) -> &str {
        &self.endpoint.host
    }

    pub async fn send(&self, request: Request<Bytes>) -> Result<BucketAnswer, Error> {
        let mut open = self.open.lock().await;
        let kept = open.take().filter(|sender| !sender.is_closed());
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let exchange = async {
            sender.ready().await.map_err(|error| error.to_string())?;
            let response =
                sender.send_request(request.map(Full::new)).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes();
            Ok(BucketAnswer { status, body })
        };
        let outcome =
            timeout(REQUEST_TIMEOUT, exchange).await.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        let answer = outcome.map_err(|reason| self.unreachable(reason))?;
        *open = Some(sender);
        Ok(answer)
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, Error> {
        let dialed = timeout(DIAL_TIMEOUT, self.dial()).await;
        dialed
            .unwrap_or_else(|_| Err("no connection in time".to_owned()))
            .map_err(|reason| self.unreachable(reason))
    }

    async fn dial(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = TcpStream::connect(&self.endpoint.address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let Some(tls) = &self.tls else { return start_http(TokioIo::new(stream)).await };
        let name = ClientFiles::name_of(&self.endpoint.address).ok_or("not the name of a host")?;
        let sealed = TlsConnector::from(tls.clone()).connect(name, stream).await;
        start_http(TokioIo::new(sealed.map_err(|error| error.to_string())?)).await
    }

    fn unreachable(&self, reason: String) -> Error {
        Error::Unreachable { address: self.endpoint.address.clone(), reason }
    }
}

/// The connection is served by a task of its own, which ends with it.
async fn start_http<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(stream).await.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_a_scheme_and_a_host() {
        let address =
            |url| Endpoint::parse(url).map(|endpoint| (endpoint.address, endpoint.host, endpoint.is_sealed));
        let parsed = |address: &str, host: &str, sealed| (address.to_owned(), host.to_owned(), sealed);
        assert_eq!(
            address("http://127.0.0.1:9000").unwrap(),
            parsed("127.0.0.1:9000", "127.0.0.1:9000", false)
        );
        assert_eq!(address("https://s3.example/").unwrap(), parsed("s3.example:443", "s3.example", true));
        for bad in ["s3.example", "ftp://s3.example", "http://", "http://host/path"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
