//! A connection to the member, in clear or inside TLS, from an address of this machine: honest and hostile clients have
//! addresses of their own, as they would on a network.

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tls::ClientFiles;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

/// How connections are made.
#[derive(Clone)]
pub struct Dialler {
    pub from: IpAddr,
    pub patience: Duration,
    /// With it, inside TLS.
    pub config: Option<Arc<ClientConfig>>,
}

pub enum Wire {
    Plain(TcpStream),
    Sealed(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Dialler {
    pub fn new(from: [u8; 4], patience: Duration, authority: Option<&Path>) -> Result<Dialler, String> {
        let config = authority.map(|path| {
            let files = ClientFiles { ca: Some(path.to_owned()), identity: None };
            files.config(&[]).map_err(|error| error.to_string())
        });
        Ok(Dialler { from: from.into(), patience, config: config.transpose()? })
    }

    pub fn dial(&self, address: SocketAddr) -> io::Result<Wire> {
        let stream = self.dial_in_clear(address)?;
        let Some(config) = &self.config else { return Ok(Wire::Plain(stream)) };
        let name = ClientFiles::name_of(&address.to_string()).ok_or(io::ErrorKind::InvalidInput)?;
        let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        let mut sealed = StreamOwned::new(session, stream);
        while sealed.conn.is_handshaking() {
            sealed.conn.complete_io(&mut sealed.sock)?;
        }
        Ok(Wire::Sealed(Box::new(sealed)))
    }

    /// Each wait on the connection has a bound.
    pub fn dial_in_clear(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let descriptor = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&descriptor, &SocketAddr::new(self.from, 0))?;
        // Also of the connect.
        set_socket_timeout(&descriptor, Timeout::Send, Some(self.patience))?;
        connect(&descriptor, &address)?;
        let stream = TcpStream::from(descriptor);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.patience))?;
        Ok(stream)
    }
}

impl Wire {
    /// From here on nothing waits.
    pub fn stop_waiting(&self) -> io::Result<()> {
        match self {
            Wire::Plain(stream) => stream.set_nonblocking(true),
            Wire::Sealed(sealed) => sealed.sock.set_nonblocking(true),
        }
    }
}

impl Read for Wire {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.read(bytes),
            Wire::Sealed(sealed) => sealed.read(bytes),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => stream.write(bytes),
            Wire::Sealed(sealed) => sealed.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Plain(stream) => stream.flush(),
            Wire::Sealed(sealed) => sealed.flush(),
        }
    }
}
