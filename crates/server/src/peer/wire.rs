//! A connection to another node before and while it is a stream: plain TCP, or TLS.
//! Bytes go in and come out on either side, by a thread each: one session encrypts what is written and decrypts what is
//! read; it is locked for that alone and never while a thread waits for the socket. Without TLS nothing lies between the
//! caller and the socket.

use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, Connection, ServerConnection};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tls::{DialTls, PeerTls};

const READ_BYTES: usize = 64 * 1024;
/// How much is encrypted at a time, so that a large envelope is not in memory twice.
const ENCRYPT_BYTES: usize = 64 * 1024;

pub(super) struct PeerConn {
    stream: Arc<TcpStream>,
    seal: Option<TlsSession>,
}

/// The TLS session of a connection, for its reader and its writer.
#[derive(Clone)]
pub(super) struct TlsSession(Arc<TlsState>);

struct TlsState {
    session: Mutex<Connection>,
    /// Only the reader locks it, and may wait while it does.
    sealed: Mutex<ReceivedBytes>,
}

/// Received bytes that are not decrypted yet.
#[derive(Default)]
struct ReceivedBytes {
    bytes: Vec<u8>,
    opened: usize,
}

impl PeerConn {
    /// To a node that must authenticate, if the connection is encrypted.
    pub fn dial(stream: TcpStream, dial: Option<DialTls>, timeout: Duration) -> io::Result<PeerConn> {
        let stream = Arc::new(stream);
        let Some(DialTls { config, name }) = dial else { return Ok(PeerConn { stream, seal: None }) };
        let name = name.ok_or_else(|| io::Error::other("no certificate can name this address"))?;
        let session = ClientConnection::new(config, name).map_err(io::Error::other)?;
        PeerConn::sealed(stream, session.into(), timeout)
    }

    /// Encrypted if the other side begins with TLS. Where certificates are demanded, it must.
    pub fn accept(stream: Arc<TcpStream>, tls: Option<&PeerTls>, timeout: Duration) -> io::Result<PeerConn> {
        let Some(tls) = tls else { return Ok(PeerConn { stream, seal: None }) };
        if !tls.requires_tls() && !begins_with_tls(&stream, timeout)? {
            return Ok(PeerConn { stream, seal: None });
        }
        let session = ServerConnection::new(tls.accept()).map_err(io::Error::other)?;
        PeerConn::sealed(stream, session.into(), timeout)
    }

    fn sealed(stream: Arc<TcpStream>, mut session: Connection, timeout: Duration) -> io::Result<PeerConn> {
        session.set_buffer_limit(None);
        stream.set_write_timeout(Some(timeout))?;
        shake_hands(&mut session, &stream, Instant::now() + timeout)?;
        let session = TlsState { session: Mutex::new(session), sealed: Mutex::default() };
        Ok(PeerConn { stream, seal: Some(TlsSession(Arc::new(session))) })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    pub fn seal(&self) -> Option<&TlsSession> {
        self.seal.as_ref()
    }

    /// Passes the certificates of the other side to `look`; there are none without TLS.
    pub fn certificates<T>(&self, look: impl FnOnce(&[CertificateDer<'_>]) -> T) -> T {
        match &self.seal {
            None => look(&[]),
            Some(seal) => look(seal.lock().peer_certificates().unwrap_or_default()),
        }
    }

    pub fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(seal) = &self.seal else { return (&mut &*self.stream).write_all(bytes) };
        let mut sealed = Vec::new();
        seal.seal(bytes, &mut sealed)?;
        (&mut &*self.stream).write_all(&sealed)
    }

    /// Like `read_exact`, but a sender that drips single bytes does not win more time.
    pub fn read_exact_by(&self, mut into: &mut [u8], deadline: Instant) -> io::Result<()> {
        while !into.is_empty() {
            self.stream.set_read_timeout(Some(left_until(deadline)?))?;
            match (&mut &*self).read(into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => into = &mut into[read..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for &PeerConn {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &self.seal {
            None => (&mut &*self.stream).read(into),
            Some(seal) => seal.read(&self.stream, into),
        }
    }
}

impl TlsSession {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.session.lock().expect("no thread panics while it holds a session")
    }

    /// Appends these bytes encrypted, and other records that the session has to send.
    pub fn seal(&self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut session = self.lock();
        for part in bytes.chunks(ENCRYPT_BYTES) {
            session.writer().write_all(part)?;
            while session.wants_write() {
                session.write_tls(out)?;
            }
        }
        Ok(())
    }

    fn read(&self, mut stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
        let mut sealed = self.0.sealed.lock().expect("no thread panics while it reads");
        loop {
            if let Some(read) = self.open(&mut sealed, into)? {
                return Ok(read);
            }
            sealed.bytes.resize(READ_BYTES, 0);
            sealed.opened = 0;
            let read = stream.read(&mut sealed.bytes);
            sealed.bytes.truncate(*read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// `None` when more must arrive first. The session gets no more input before its decrypted bytes are taken.
    fn open(&self, sealed: &mut ReceivedBytes, into: &mut [u8]) -> io::Result<Option<usize>> {
        let mut session = self.lock();
        loop {
            match session.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(Some),
            }
            let mut rest = &sealed.bytes[sealed.opened..];
            if rest.is_empty() {
                return Ok(None);
            }
            sealed.opened += session.read_tls(&mut rest)?;
            session.process_new_packets().map_err(broken)?;
        }
    }
}

/// How every TLS connection begins: a record of a handshake. No other protocol on this port does.
const HANDSHAKE_RECORD: u8 = 22;

fn begins_with_tls(stream: &TcpStream, timeout: Duration) -> io::Result<bool> {
    stream.set_read_timeout(Some(timeout))?;
    let mut first = [0];
    match stream.peek(&mut first)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0] == HANDSHAKE_RECORD),
    }
}

/// By the deadline, however slowly the other side's bytes come.
fn shake_hands(session: &mut Connection, mut stream: &TcpStream, deadline: Instant) -> io::Result<()> {
    while session.is_handshaking() {
        send(session, stream)?;
        if !session.is_handshaking() {
            break;
        }
        stream.set_read_timeout(Some(left_until(deadline)?))?;
        match session.read_tls(&mut stream) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if let Err(error) = session.process_new_packets() {
            // The alert says why, if the other side reads it.
            let _ = send(session, stream);
            return Err(broken(error));
        }
    }
    send(session, stream)
}

fn send(session: &mut Connection, mut stream: &TcpStream) -> io::Result<()> {
    while session.wants_write() {
        session.write_tls(&mut stream)?;
    }
    Ok(())
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}

#[cfg(test)]
mod tests;
