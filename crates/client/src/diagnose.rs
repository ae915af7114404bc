//! Why an endpoint that takes connections does not answer calls: it is another port, or speaks with TLS where the client
//! does not, or the other way round. One plain request of HTTP goes to it; what comes back says what it is, and the error
//! that it becomes says what would be right. An endpoint that is what it should be changes no error.

use crate::Error;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::Code;

/// For the answers, and before them for a connection; to most endpoints that are wrong there is one at once.
const PATIENCE: Duration = Duration::from_secs(10);
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
const ANSWER_BYTES_MAX: u64 = 4 * 1024;
/// What a member of the cluster answers to HTTP on the port for its peers.
const PEER_PORT: &str = "this is the port for members of the cluster";

/// What listens at an endpoint, as far as one request can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listener {
    Tls,
    PeerPort,
    RestPort,
    /// The client port of this store or of etcd.
    ClientPort,
    OtherHttp,
    NotHttp,
}

/// The error, or a better one.
pub(crate) async fn improve(error: Error, endpoint: &str) -> Error {
    if !may_be_misdirected(&error) {
        return error;
    }
    let (is_tls, address) = match endpoint.split_once("://") {
        Some((scheme, address)) => (scheme == "https", address),
        None => (false, endpoint),
    };
    match timeout(PATIENCE, listener_at(address)).await {
        Ok(Some(found)) => explain(found, is_tls, address)
            .map_or(error, |reason| Error::WrongEndpoint { endpoint: endpoint.to_owned(), reason }),
        _ => error,
    }
}

/// No member answers a call so, unless something has gone wrong within it.
fn may_be_misdirected(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } => true,
        // A cause is one of the connection.
        Error::Refused(status) => {
            let codes = [Code::Internal, Code::Unknown, Code::Cancelled, Code::Unimplemented];
            codes.contains(&status.code()) || std::error::Error::source(status).is_some()
        }
        _ => false,
    }
}

async fn listener_at(address: &str) -> Option<Listener> {
    let answer = ask(address, "/version").await?;
    let found = recognise(&answer);
    if found != Listener::OtherHttp {
        return Some(found);
    }
    if !String::from_utf8_lossy(&answer).contains("\"etcdserver\"") {
        return Some(Listener::OtherHttp);
    }
    // The port of the REST API tells its version as well.
    let described = ask(address, "/openapi.json").await?;
    Some(if described.starts_with(b"HTTP/1.1 200") { Listener::RestPort } else { Listener::ClientPort })
}

/// The beginning of what is answered; empty if that is nothing, none if there is no connection.
async fn ask(address: &str, path: &str) -> Option<Vec<u8>> {
    let mut stream = timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await.ok()?.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    // A connection that breaks off has answered what has come.
    let _ = stream.write_all(request.as_bytes()).await;
    let _ = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
    Some(answer)
}

fn recognise(answer: &[u8]) -> Listener {
    let text = String::from_utf8_lossy(answer);
    match answer {
        // An alert, and what Go's servers say.
        [0x15, 0x03, ..] => Listener::Tls,
        _ if text.contains("HTTP request to an HTTPS server") => Listener::Tls,
        _ if text.contains(PEER_PORT) => Listener::PeerPort,
        _ if text.starts_with("HTTP/") => Listener::OtherHttp,
        _ => Listener::NotHttp,
    }
}

fn explain(found: Listener, is_tls: bool, address: &str) -> Option<String> {
    let reason = match found {
        Listener::Tls if is_tls => return None,
        Listener::Tls => format!(
            "it speaks TLS alone; write https://{address} and name the authority that signed its certificate (--cacert FILE)"
        ),
        Listener::ClientPort if !is_tls => return None,
        Listener::PeerPort => {
            "this is a member's port for other members (2380 by default); clients connect to its \
            client-addr (2379 by default)"
                .to_owned()
        }
        Listener::RestPort => {
            "this is the port of the REST API (8080 by default); clients of the coordination store connect \
            to client-addr (2379 by default)"
                .to_owned()
        }
        Listener::ClientPort => format!("it speaks HTTP without TLS; write http://{address}"),
        Listener::OtherHttp => {
            "something else that speaks HTTP listens there; members listen on client-addr (2379 by \
            default)"
                .to_owned()
        }
        Listener::NotHttp => {
            "what listens there does not speak HTTP; members listen on client-addr (2379 by default)"
                .to_owned()
        }
    };
    Some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_answers_is_recognised() {
        assert_eq!(recognise(&[0x15, 0x03, 0x03, 0, 2, 2, 50]), Listener::Tls);
        assert_eq!(
            recognise(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"),
            Listener::Tls
        );
        assert_eq!(recognise(b"HTTP/1.1 200 OK\r\n\r\n{}"), Listener::OtherHttp);
        assert_eq!(recognise(b"SSH-2.0-OpenSSH_9.2"), Listener::NotHttp);
        assert_eq!(recognise(b""), Listener::NotHttp);
        let peer = format!("HTTP/1.1 421 Misdirected Request\r\n\r\n{PEER_PORT}");
        assert_eq!(recognise(peer.as_bytes()), Listener::PeerPort);
    }

    #[test]
    fn an_endpoint_that_is_right_changes_no_error() {
        assert_eq!(explain(Listener::ClientPort, false, "a:1"), None);
        assert_eq!(explain(Listener::Tls, true, "a:1"), None);
        assert!(explain(Listener::ClientPort, true, "a:1").unwrap().contains("http://a:1"));
        assert!(explain(Listener::Tls, false, "a:1").unwrap().contains("https://a:1"));
        assert!(!may_be_misdirected(&Error::TimedOut));
    }
}
