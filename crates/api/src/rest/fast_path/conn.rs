//! One connection on the fast path: input that is not consumed, output that is not written, and a timeout.
//! A stream goes in, whatever it is made of, and comes out again with what was read and not used. Output is
//! gathered and written when no complete request is left in the input; no timer is made for a request.

use bytes::{Bytes, BytesMut};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};

const READ_BYTES: usize = 4 * 1024;
/// With so much unwritten output, it is written before more is read.
const OUT_BYTES_MAX: usize = 64 * 1024;
/// A buffer that has grown larger is given back when it is empty.
const OUT_BYTES_KEPT: usize = 16 * 1024;

pub struct FastConn<S> {
    stream: S,
    pub input: BytesMut,
    pub out: Vec<u8>,
    /// Resolves when the process stops.
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    timeout: ConnTimeout,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FastConn<S> {
    pub fn new(stream: S, stop: impl Future<Output = ()> + Send + 'static) -> FastConn<S> {
        FastConn {
            stream,
            input: BytesMut::new(),
            out: Vec::new(),
            stop: Box::pin(stop),
            timeout: ConnTimeout::default(),
        }
    }

    /// The stream, and the input that is not consumed.
    pub fn into_parts(self) -> (S, Bytes) {
        (self.stream, self.input.freeze())
    }

    /// Writes the output, and waits for input. Between requests, `idle`, it also ends when the process stops.
    pub async fn read_more(&mut self, idle: bool, limit: Duration) -> io::Result<()> {
        self.flush_output(limit).await?;
        self.timeout.set(limit);
        poll_fn(|context| self.poll_read_more(context, idle)).await
    }

    fn poll_read_more(&mut self, context: &mut Context<'_>, idle: bool) -> Poll<io::Result<()>> {
        self.input.reserve(READ_BYTES);
        match pin!(self.stream.read_buf(&mut self.input)).poll(context)? {
            Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(_) => return Poll::Ready(Ok(())),
            Poll::Pending => {}
        }
        if idle && self.stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        self.timeout.poll(context)
    }

    pub fn must_flush(&self) -> bool {
        self.out.len() > OUT_BYTES_MAX
    }

    /// Writes what has gathered.
    pub async fn flush_output(&mut self, limit: Duration) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.timeout.set(limit);
        let mut said = 0;
        poll_fn(|context| {
            while said < self.out.len() {
                match Pin::new(&mut self.stream).poll_write(context, &self.out[said..])? {
                    Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(written) => said += written,
                    Poll::Pending => return self.timeout.poll(context),
                }
            }
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Pending => self.timeout.poll(context),
                flushed => flushed,
            }
        })
        .await?;
        self.out.clear();
        self.out.shrink_to(OUT_BYTES_KEPT);
        Ok(())
    }
}

/// Fires when something takes too long. It is reset only if it would fire too early, or much too late.
#[derive(Default)]
struct ConnTimeout {
    deadline: Option<Instant>,
    limit: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl ConnTimeout {
    /// From the next poll on, which is when the waiting begins.
    fn set(&mut self, limit: Duration) {
        (self.deadline, self.limit) = (None, limit);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.limit);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        while sleep.as_mut().poll(context).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncWriteExt, duplex};

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn what_is_said_and_heard_is_what_was_heard_and_said() {
        let (mut other, stream) = duplex(16);
        let mut line = FastConn::new(stream, std::future::pending());
        line.out.extend_from_slice(&[b'x'; 100]);
        let listener = async {
            let mut got = vec![0; 100];
            other.read_exact(&mut got).await.unwrap();
            assert_eq!(got, [b'x'; 100]);
            other.write_all(b"hello").await.unwrap();
        };
        let (input, ()) = tokio::join!(line.read_more(false, PATIENCE), listener);
        input.unwrap();
        let (_, rest) = line.into_parts();
        assert_eq!(rest, b"hello"[..]);
    }

    #[tokio::test]
    async fn a_silent_line_ends_after_its_patience_also_when_it_was_longer_before() {
        let (mut other, stream) = duplex(16);
        let mut line = FastConn::new(stream, std::future::pending());
        let input = async { tokio::join!(line.read_more(true, PATIENCE), other.write_all(b"a")).0 };
        input.await.unwrap();
        for millis in [20, 10, 40] {
            let (began, limit) = (Instant::now(), Duration::from_millis(millis));
            assert_eq!(line.read_more(true, limit).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert!((limit..PATIENCE).contains(&began.elapsed()));
        }
    }

    #[tokio::test]
    async fn a_line_between_requests_ends_when_it_is_time() {
        let (_other, stream) = duplex(16);
        let mut line = FastConn::new(stream, std::future::ready(()));
        assert_eq!(
            line.read_more(true, PATIENCE).await.unwrap_err().kind(),
            io::ErrorKind::ConnectionAborted
        );
    }
}
