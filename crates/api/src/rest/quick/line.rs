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

pub struct Line<S> {
    stream: S,
    pub heard: BytesMut,
    pub out: Vec<u8>,
    /// Resolves when the process stops.
    stay: Pin<Box<dyn Future<Output = ()> + Send>>,
    alarm: Alarm,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    pub fn new(stream: S, stay: impl Future<Output = ()> + Send + 'static) -> Line<S> {
        Line {
            stream,
            heard: BytesMut::new(),
            out: Vec::new(),
            stay: Box::pin(stay),
            alarm: Alarm::default(),
        }
    }

    /// The stream, and the input that is not consumed.
    pub fn into_parts(self) -> (S, Bytes) {
        (self.stream, self.heard.freeze())
    }

    /// Writes the output, and waits for input. Between requests, `idle`, it also ends when the process stops.
    pub async fn hear(&mut self, idle: bool, patience: Duration) -> io::Result<()> {
        self.say(patience).await?;
        self.alarm.set(patience);
        poll_fn(|context| self.poll_hear(context, idle)).await
    }

    fn poll_hear(&mut self, context: &mut Context<'_>, idle: bool) -> Poll<io::Result<()>> {
        self.heard.reserve(READ_BYTES);
        match pin!(self.stream.read_buf(&mut self.heard)).poll(context)? {
            Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(_) => return Poll::Ready(Ok(())),
            Poll::Pending => {}
        }
        if idle && self.stay.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        self.alarm.poll(context)
    }

    pub fn must_say(&self) -> bool {
        self.out.len() > OUT_BYTES_MAX
    }

    /// Writes what has gathered.
    pub async fn say(&mut self, patience: Duration) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.alarm.set(patience);
        let mut said = 0;
        poll_fn(|context| {
            while said < self.out.len() {
                match Pin::new(&mut self.stream).poll_write(context, &self.out[said..])? {
                    Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(written) => said += written,
                    Poll::Pending => return self.alarm.poll(context),
                }
            }
            match Pin::new(&mut self.stream).poll_flush(context) {
                Poll::Pending => self.alarm.poll(context),
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
struct Alarm {
    deadline: Option<Instant>,
    patience: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// From the next poll on, which is when the waiting begins.
    fn set(&mut self, patience: Duration) {
        (self.deadline, self.patience) = (None, patience);
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.patience);
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
        let mut line = Line::new(stream, std::future::pending());
        line.out.extend_from_slice(&[b'x'; 100]);
        let listener = async {
            let mut got = vec![0; 100];
            other.read_exact(&mut got).await.unwrap();
            assert_eq!(got, [b'x'; 100]);
            other.write_all(b"hello").await.unwrap();
        };
        let (heard, ()) = tokio::join!(line.hear(false, PATIENCE), listener);
        heard.unwrap();
        let (_, rest) = line.into_parts();
        assert_eq!(rest, b"hello"[..]);
    }

    #[tokio::test]
    async fn a_silent_line_ends_after_its_patience_also_when_it_was_longer_before() {
        let (mut other, stream) = duplex(16);
        let mut line = Line::new(stream, std::future::pending());
        let heard = async { tokio::join!(line.hear(true, PATIENCE), other.write_all(b"a")).0 };
        heard.await.unwrap();
        for millis in [20, 10, 40] {
            let (began, patience) = (Instant::now(), Duration::from_millis(millis));
            assert_eq!(line.hear(true, patience).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            assert!((patience..PATIENCE).contains(&began.elapsed()));
        }
    }

    #[tokio::test]
    async fn a_line_between_requests_ends_when_it_is_time() {
        let (_other, stream) = duplex(16);
        let mut line = Line::new(stream, std::future::ready(()));
        assert_eq!(line.hear(true, PATIENCE).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
