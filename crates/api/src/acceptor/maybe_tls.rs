//! The bytes of a connection: as they are, or inside TLS.
//! Which of the two is decided once, before anything is read; plain ones cost one branch.

use crate::acceptor::socket::Socket;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// For the whole handshake, however slowly its bytes come.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Plain on the left, TLS on the right. Boxed, so that connections without TLS do not pay for its size.
pub type MaybeTls = Either<Socket, Box<TlsStream<Socket>>>;

/// Runs the TLS handshake as the server.
pub async fn accept_tls(stream: Socket, config: Arc<ServerConfig>) -> io::Result<Box<TlsStream<Socket>>> {
    let handshake = Box::pin(TlsAcceptor::from(config).accept(stream));
    let sealed = timeout(HANDSHAKE_TIMEOUT, handshake).await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(Box::new(sealed))
}

pub fn socket_of(stream: &MaybeTls) -> &Socket {
    match stream {
        Either::Left(stream) => stream,
        Either::Right(stream) => stream.get_ref().0,
    }
}

/// The name on the client's certificate, if one was requested.
pub fn certified_name(stream: &MaybeTls) -> Option<String> {
    match stream {
        Either::Left(_) => None,
        Either::Right(stream) => {
            let certificates = stream.get_ref().1.peer_certificates()?;
            tls::common_name(certificates.first()?)
        }
    }
}
