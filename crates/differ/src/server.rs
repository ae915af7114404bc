//! A server of its own for a round: a process on free ports with a directory that is removed with it.
//! etcd and `althing etcd` take the same flags.

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

pub struct Server {
    child: Child,
    pub endpoint: String,
    _dir: TempDir,
}

impl Server {
    pub fn etcd(binary: &Path) -> io::Result<Server> {
        Server::start(Command::new(binary), &["--unsafe-no-fsync"])
    }

    /// The same with other flags.
    pub fn etcd_with(binary: &Path, flags: &[&str]) -> io::Result<Server> {
        Server::start(Command::new(binary), &[&["--unsafe-no-fsync"], flags].concat())
    }

    pub fn althing(binary: &Path) -> io::Result<Server> {
        let mut command = Command::new(binary);
        command.arg("etcd");
        Server::start(command, &[])
    }

    /// It listens a moment later; a client connects until it does.
    fn start(mut command: Command, extra: &[&str]) -> io::Result<Server> {
        let dir = TempDir::new()?;
        let (client, peer) = (url(free_port()?), url(free_port()?));
        let child = command
            .args(["--data-dir".as_ref(), dir.path()])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            // Passwords are hashed cheaply: they protect nothing.
            .args(["--bcrypt-cost", "4"])
            .args(extra)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Server { child, endpoint: client, _dir: dir })
    }
}

impl Server {
    /// It did not start: another process may have taken a port meanwhile.
    pub fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Its address as a socket address.
    pub fn address(&self) -> std::net::SocketAddr {
        let address = self.endpoint.strip_prefix("http://").and_then(|address| address.parse().ok());
        address.expect("it was made of an address and a port")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
