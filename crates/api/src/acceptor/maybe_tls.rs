//! The bytes of a connection: as they are, or inside TLS.
//! Which of the two is decided once, before anything is read; plain ones cost one branch.

use crate::acceptor::socket::Socket;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// For the whole handshake, however slowly its bytes come.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

pub enum MaybeTls {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl MaybeTls {
    /// Runs the TLS handshake as the server.
    pub async fn accept_tls(stream: Socket, config: Arc<ServerConfig>) -> io::Result<MaybeTls> {
        // Boxed, so that connections without TLS do not pay for its size.
        let handshake = Box::pin(TlsAcceptor::from(config).accept(stream));
        let sealed = timeout(HANDSHAKE_TIMEOUT, handshake).await.map_err(|_| io::ErrorKind::TimedOut)??;
        Ok(MaybeTls::Tls(Box::new(sealed)))
    }

    pub fn socket(&self) -> &Socket {
        match self {
            MaybeTls::Plain(stream) => stream,
            MaybeTls::Tls(stream) => stream.get_ref().0,
        }
    }

    /// The name on the client's certificate, if one was requested.
    pub fn certified_name(&self) -> Option<String> {
        match self {
            MaybeTls::Plain(_) => None,
            MaybeTls::Tls(stream) => {
                let certificates = stream.get_ref().1.peer_certificates()?;
                tls::common_name(certificates.first()?)
            }
        }
    }
}

impl AsyncRead for MaybeTls {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            MaybeTls::Tls(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for MaybeTls {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            MaybeTls::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            MaybeTls::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            MaybeTls::Plain(stream) => stream.is_write_vectored(),
            MaybeTls::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_flush(cx),
            MaybeTls::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            MaybeTls::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            MaybeTls::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
