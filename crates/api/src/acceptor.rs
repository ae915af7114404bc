//! The acceptor of the client port: accepts connections as the table of connections allows, and closes those that send
//! nothing. Listening sockets go in, connections come out. However many clients connect, and whatever errors the kernel
//! reports, it neither spins nor ends.

mod maybe_tls;
mod socket;

use socket::tcp_of;
pub use socket::{AsyncListener, Listener, Socket};

use crate::connections::{Connections, SlotGuard};
use crate::metrics::Traffic;
use bytes::Bytes;
use maybe_tls::MaybeTls;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_rustls::rustls::ServerConfig;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::Connected;

/// How long a connection may take to show which protocol it speaks.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a connection is polled that has sent less than a preface.
const GREETING_POLL: Duration = Duration::from_millis(5);
/// The length of the HTTP/2 preface; a request of HTTP/1 is not shorter, and has a timeout of its own after it.
const GREETING_BYTES: usize = 24;
/// The first byte of a TLS handshake; no other protocol that is served begins so.
const TLS_HANDSHAKE: u8 = 0x16;
/// A pause after the kernel refuses to accept, as when file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

pub struct Acceptor {
    listener: AsyncListener,
    connections: Arc<Connections>,
    traffic: Traffic,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Acceptor {
    pub fn open(listener: AsyncListener, connections: Arc<Connections>, traffic: Traffic) -> Acceptor {
        Acceptor { listener, connections, traffic, pause: None }
    }

    /// A connection that is not admitted is closed by dropping it.
    fn admit(&self, stream: Socket, address: IpAddr) -> Option<ClientConn> {
        let slot_guard = self.connections.admit(address)?;
        if let Some(address) = tcp_of(&stream).and_then(|tcp| tcp.peer_addr().ok()) {
            slot_guard.client().set_address(address);
        }
        let deadline = Box::pin(sleep_until(Instant::now() + GREETING_TIMEOUT));
        let greeting_timer = Some(GreetingTimer { received: 0, deadline });
        let stream = MaybeTls::Left(stream);
        Some(ClientConn {
            stream,
            pushed_back: Bytes::new(),
            greeting_timer,
            traffic: self.traffic.clone(),
            slot_guard: Arc::new(slot_guard),
        })
    }
}

impl Stream for Acceptor {
    type Item = io::Result<ClientConn>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<ClientConn>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(cx)) {
                Ok((stream, address)) => {
                    if let Some(conn) = self.admit(stream, address) {
                        return Poll::Ready(Some(Ok(conn)));
                    }
                }
                Err(_) => self.pause = Some(Box::pin(sleep(ACCEPT_PAUSE))),
            }
        }
    }
}

/// An admitted connection. Dropping it frees its slot.
pub struct ClientConn {
    stream: MaybeTls,
    /// Bytes that were read to detect the protocol, and are read again.
    pushed_back: Bytes,
    greeting_timer: Option<GreetingTimer>,
    traffic: Traffic,
    slot_guard: Arc<SlotGuard>,
}

impl ClientConn {
    pub fn slot_guard(&self) -> &Arc<SlotGuard> {
        &self.slot_guard
    }

    /// Continues inside TLS; an error closes the connection.
    pub async fn with_tls(self, config: Arc<ServerConfig>) -> io::Result<ClientConn> {
        let MaybeTls::Left(stream) = self.stream else { return Ok(self) };
        Ok(ClientConn { stream: MaybeTls::Right(maybe_tls::accept_tls(stream, config).await?), ..self })
    }

    /// The name on the client's certificate, if one was requested.
    pub fn certified_name(&self) -> Option<String> {
        maybe_tls::certified_name(&self.stream)
    }

    /// Puts bytes back; they are read first, before those that were put back earlier.
    pub fn unread(&mut self, pushed_back: Bytes) {
        self.pushed_back = if self.pushed_back.is_empty() {
            pushed_back
        } else {
            [pushed_back, std::mem::take(&mut self.pushed_back)].concat().into()
        };
    }

    /// Whether the first bytes are one of these; they stay readable. Waits for more while they may become one.
    pub async fn begins_with(&self, greetings: &[&[u8; 8]]) -> io::Result<bool> {
        let deadline = Instant::now() + GREETING_TIMEOUT;
        let mut received = [0; 8];
        loop {
            // Only TCP can be peeked at, and peers use nothing else.
            let Some(socket) = tcp_of(maybe_tls::socket_of(&self.stream)) else { return Ok(false) };
            let peeked = tokio::time::timeout_at(deadline, socket.peek(&mut received)).await;
            let len = peeked.map_err(|_| io::ErrorKind::TimedOut)??;
            let possible =
                greetings.iter().any(|greeting_timer| greeting_timer.starts_with(&received[..len]));
            match len {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                8 => return Ok(possible),
                _ if !possible => return Ok(false),
                // The bytes that are there already would wake the task at once.
                _ => tokio::time::timeout_at(deadline, sleep(GREETING_POLL))
                    .await
                    .map_err(|_| io::ErrorKind::TimedOut)?,
            }
        }
    }

    /// Whether the client begins a TLS handshake; what it has sent stays readable.
    pub async fn begins_tls(&self) -> io::Result<bool> {
        let Some(socket) = tcp_of(maybe_tls::socket_of(&self.stream)) else { return Ok(false) };
        let mut first = [0];
        let peeked = tokio::time::timeout(GREETING_TIMEOUT, socket.peek(&mut first)).await;
        match peeked.map_err(|_| io::ErrorKind::TimedOut)?? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(first[0] == TLS_HANDSHAKE),
        }
    }

    /// For a reader with a thread of its own.
    pub fn into_blocking(self) -> io::Result<std::net::TcpStream> {
        let MaybeTls::Left(Socket::Left(stream)) = self.stream else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    fn count_sent(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(sent)) = &outcome {
            self.traffic.sent.inc_by(*sent as u64);
        }
        outcome
    }
}

struct GreetingTimer {
    received: usize,
    deadline: Pin<Box<Sleep>>,
}

impl AsyncRead for ClientConn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.pushed_back.is_empty() {
            let len = self.pushed_back.len().min(into.remaining());
            into.put_slice(&self.pushed_back.split_to(len));
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, into);
        let read = into.filled().len() - before;
        self.traffic.received.inc_by(read as u64);
        let Some(greeting_timer) = &mut self.greeting_timer else { return outcome };
        match outcome {
            Poll::Ready(outcome) => {
                greeting_timer.received += read;
                if greeting_timer.received >= GREETING_BYTES {
                    self.greeting_timer = None;
                }
                Poll::Ready(outcome)
            }
            Poll::Pending => {
                ready!(greeting_timer.deadline.as_mut().poll(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl AsyncWrite for ClientConn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.count_sent(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.count_sent(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Connected for ClientConn {
    /// The address of the other end, while it has one.
    type ConnectInfo = Option<SocketAddr>;

    fn connect_info(&self) -> Option<SocketAddr> {
        tcp_of(maybe_tls::socket_of(&self.stream))?.peer_addr().ok()
    }
}

#[cfg(test)]
mod tests;
