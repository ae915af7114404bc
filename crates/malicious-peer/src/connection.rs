//! One connection to a member's peer port: the hello, envelopes with right checksums, and bytes as they are.
//! The layout is that of docs/formats/peer.md, written here a second time so that wrong bytes can be sent too.

use base::checksum::crc32;
use base::codec::put_bytes;
use bytes::{BufMut, Bytes};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

const VERSION: u16 = 1;
const WELCOME: u8 = 1;
const HEADER_BYTES: usize = 12;
/// A member that takes longer to read or to answer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub struct Hello {
    pub cluster: u64,
    pub from: u64,
    pub to: u64,
}

impl Hello {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"ALTHINGP".to_vec();
        out.put_u16_le(VERSION);
        [self.cluster, self.from, self.to].into_iter().for_each(|number| out.put_u64_le(number));
        let crc = crc32(&[&out]);
        out.put_u32_le(crc);
        out
    }
}

pub struct Connection {
    stream: TcpStream,
    /// Bytes of envelopes, which the member acknowledges.
    sent: u64,
}

impl Connection {
    pub fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, sent: 0 })
    }

    /// Whether the member takes this side for the peer that it says to be.
    pub fn greet(&mut self, hello: &Hello) -> io::Result<bool> {
        self.stream.write_all(&hello.encode())?;
        let mut answer = [0; 3];
        self.stream.read_exact(&mut answer)?;
        Ok(answer[0] == WELCOME)
    }

    pub fn send(&mut self, frames: &[Bytes]) -> io::Result<()> {
        self.send_envelope(&envelope(frames))
    }

    pub fn send_envelope(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.sent += bytes.len() as u64;
        Ok(())
    }

    /// Bytes that are no envelope: the member closes, or waits for more.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Waits until the member has read everything. An error: it has closed the connection.
    pub fn wait_until_read(&mut self) -> io::Result<()> {
        self.send(&[])?;
        let mut taken = [0; 8];
        while u64::from_le_bytes(taken) < self.sent {
            self.stream.read_exact(&mut taken)?;
        }
        Ok(())
    }

    /// Says that nothing more comes, and waits until the member closes as well.
    pub fn wait_until_closed(mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        let mut rest = [0; 256];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

pub fn envelope(frames: &[Bytes]) -> Vec<u8> {
    let mut payload = Vec::new();
    frames.iter().for_each(|frame| put_bytes(&mut payload, frame));
    let mut out = header(payload.len() as u32, crc32(&[&payload]));
    out.extend_from_slice(&payload);
    out
}

/// With a checksum that is right, whatever it says.
pub fn header(length: u32, payload_crc: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.put_u32_le(length);
    out.put_u32_le(payload_crc);
    let crc = crc32(&[&out]);
    out.put_u32_le(crc);
    out
}
