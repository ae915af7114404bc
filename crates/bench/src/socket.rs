//! One connection to a server, plain TCP or TLS.
//! An endpoint goes in (`https://` for TLS); a stream comes out.

use clap::Args;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tls::ClientFiles;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

/// The authorities and the certificate for endpoints that are `https://`.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsOptions {
    /// Trust servers by these authorities (PEM); the system's if not given
    #[arg(long, value_name = "FILE", env = "ALTHING_CACERT", global = true)]
    cacert: Option<PathBuf>,
    /// Present this certificate (PEM) to servers that ask for one
    #[arg(long, value_name = "FILE", env = "ALTHING_CERT", requires = "key", global = true)]
    cert: Option<PathBuf>,
    /// The private key of --cert
    #[arg(long, value_name = "FILE", env = "ALTHING_KEY", requires = "cert", global = true)]
    key: Option<PathBuf>,
}

impl TlsOptions {
    fn config(&self, protocol: &[u8]) -> io::Result<Arc<ClientConfig>> {
        let identity = self.cert.clone().zip(self.key.clone());
        let files = ClientFiles { ca: self.cacert.clone(), identity };
        files.config(&[protocol]).map_err(io::Error::other)
    }
}

pub enum Socket {
    Plain(TcpStream),
    Sealed(Box<TlsStream<TcpStream>>),
}

impl Socket {
    pub async fn connect(endpoint: &str, protocol: &[u8], tls: &TlsOptions) -> io::Result<Socket> {
        let address = address_of(endpoint);
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        if !endpoint.starts_with("https://") {
            return Ok(Socket::Plain(stream));
        }
        let name = ClientFiles::name_of(address).ok_or(io::ErrorKind::InvalidInput)?;
        let sealed = TlsConnector::from(tls.config(protocol)?).connect(name, stream).await?;
        Ok(Socket::Sealed(Box::new(sealed)))
    }
}

/// The host and port of an endpoint.
pub fn address_of(endpoint: &str) -> &str {
    endpoint.split_once("://").map_or(endpoint, |(_, address)| address).trim_end_matches('/')
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            Socket::Sealed(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Sealed(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Sealed(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Sealed(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
