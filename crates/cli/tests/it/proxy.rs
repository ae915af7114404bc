//! A network between members that can be cut: each member is known to the others by the address of a proxy of its own,
//! which hands bytes on in both directions. Who dials whom is read from the first bytes of a connection. What is cut off
//! hears nothing, and its connections end when it is reachable again, as after a long silence.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// Magic, version, cluster; then who dials, and whom.
const FROM_AT: usize = 8 + 2 + 8;
const HELLO_BYTES: usize = FROM_AT + 8 + 8 + 4;
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Default)]
pub struct Network(Arc<Inner>);

#[derive(Default)]
struct Inner {
    cut_off: Mutex<BTreeSet<u64>>,
    changed: Condvar,
}

impl Network {
    /// Connections to this address are forwarded to the other.
    pub fn connect(&self, from: SocketAddr, to: SocketAddr) {
        let (listener, network) = (TcpListener::bind(from).unwrap(), self.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let network = network.clone();
                thread::spawn(move || network.serve(stream, to));
            }
        });
    }

    /// Cuts this member off, in both directions.
    pub fn cut_off(&self, member: u64) {
        self.0.cut_off.lock().unwrap().insert(member);
    }

    pub fn heal(&self) {
        self.0.cut_off.lock().unwrap().clear();
        self.0.changed.notify_all();
    }

    /// Waits until none of them is cut off any more; true if one was.
    fn wait(&self, pair: [u64; 2]) -> bool {
        let is_cut = |cut: &BTreeSet<u64>| pair.iter().any(|member| cut.contains(member));
        let mut cut = self.0.cut_off.lock().unwrap();
        let was_cut = is_cut(&cut);
        while is_cut(&cut) {
            cut = self.0.changed.wait(cut).unwrap();
        }
        was_cut
    }

    fn serve(&self, mut dialler: TcpStream, to: SocketAddr) -> Option<()> {
        let mut hello = [0; HELLO_BYTES];
        dialler.read_exact(&mut hello).ok()?;
        let number = |at: usize| u64::from_le_bytes(hello[at..at + 8].try_into().unwrap());
        let pair = [number(FROM_AT), number(FROM_AT + 8)];
        if self.wait(pair) {
            return None;
        }
        let mut target = TcpStream::connect(to).ok()?;
        target.write_all(&hello).ok()?;
        let (back, forth) = (self.clone(), self.clone());
        let (from, into) = (target.try_clone().ok()?, dialler.try_clone().ok()?);
        thread::spawn(move || back.copy(from, into, pair));
        forth.copy(dialler, target, pair);
        Some(())
    }

    fn copy(&self, mut from: TcpStream, mut into: TcpStream, pair: [u64; 2]) {
        let mut bytes = vec![0; 64 * 1024];
        let _ = from.set_nodelay(true);
        let _ = from.set_read_timeout(Some(LOOK_EVERY));
        loop {
            let n = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
                Err(_) => break,
            };
            if self.wait(pair) || into.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        // The other direction ends with this one.
        let _ = (from.shutdown(Shutdown::Both), into.shutdown(Shutdown::Both));
    }
}
