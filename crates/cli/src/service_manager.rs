//! Tells systemd how far a start or a stop is, by its notification socket (`sd_notify`). Without `NOTIFY_SOCKET`
//! in the environment nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use tracing::warn;

/// What the service manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState {
    /// The ports are open, and the member looks for its cluster.
    Joining,
    Ready,
    Stopping,
}

impl ServiceState {
    fn message(self) -> &'static str {
        match self {
            ServiceState::Joining => "STATUS=Waiting for a leader",
            ServiceState::Ready => "READY=1\nSTATUS=Serving clients",
            ServiceState::Stopping => "STOPPING=1\nSTATUS=Finishing requests under way",
        }
    }
}

/// A service manager that cannot be told does not keep a member from serving.
pub fn notify(state: ServiceState) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        warn!(%error, socket = %socket.to_string_lossy(), "cannot notify the service manager");
    }
}

fn send(socket: &OsStr, state: ServiceState) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.message().as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("a message was sent");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn messages_reach_a_socket_with_a_path_and_one_with_an_abstract_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        send(path.as_os_str(), ServiceState::Ready).expect("it is sent");
        assert_eq!(receive(&socket), "READY=1\nSTATUS=Serving clients");

        let name = format!("althing-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("a socket");
        send(format!("@{name}").as_ref(), ServiceState::Stopping).expect("it is sent");
        assert!(receive(&socket).starts_with("STOPPING=1\n"));
    }

    #[test]
    fn a_socket_that_does_not_exist_is_an_error() {
        assert!(send("/nonexistent/notify".as_ref(), ServiceState::Joining).is_err());
    }
}
