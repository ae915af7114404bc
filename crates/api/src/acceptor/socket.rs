//! The sockets of clients: TCP, or a Unix socket of the same machine.
//! A listening socket goes in, connections come out. What only TCP has, as addresses and peeking, is missing for the
//! others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::task::{Context, Poll};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;

/// A socket that listens, before it is served.
#[derive(Debug)]
pub enum Listener {
    Tcp(std::net::TcpListener),
    Unix(StdUnixListener),
}

impl Listener {
    /// None for a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    pub(crate) fn into_async(self) -> io::Result<AsyncListener> {
        match self {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Ok(AsyncListener::Tcp(TcpListener::from_std(listener)?))
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Ok(AsyncListener::Unix(UnixListener::from_std(listener)?))
            }
        }
    }

    /// For servers that take TCP alone.
    pub(crate) fn into_tcp(self) -> io::Result<std::net::TcpListener> {
        match self {
            Listener::Tcp(listener) => Ok(listener),
            Listener::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl From<std::net::TcpListener> for Listener {
    fn from(listener: std::net::TcpListener) -> Listener {
        Listener::Tcp(listener)
    }
}

#[derive(Debug)]
pub enum AsyncListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl AsyncListener {
    /// The next connection, and the address that limits count it by.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Socket, IpAddr)>> {
        match self {
            AsyncListener::Tcp(listener) => listener.poll_accept(cx).map_ok(|(stream, address)| {
                // A connection that cannot be told so is served all the same.
                let _ = stream.set_nodelay(true);
                (Socket::Left(stream), address.ip())
            }),
            AsyncListener::Unix(listener) => listener
                .poll_accept(cx)
                .map_ok(|(stream, _)| (Socket::Right(stream), IpAddr::V4(Ipv4Addr::LOCALHOST))),
        }
    }
}

/// TCP on the left, a Unix socket on the right.
pub type Socket = Either<TcpStream, UnixStream>;

pub fn tcp_of(socket: &Socket) -> Option<&TcpStream> {
    match socket {
        Either::Left(stream) => Some(stream),
        Either::Right(_) => None,
    }
}
