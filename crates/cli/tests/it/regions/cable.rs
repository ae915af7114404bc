//! The cables between regions: every node is reached by the others through one of these, and all of them can be cut
//! and mended at once. Bytes pass unchanged or not at all.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// What all cables share.
#[derive(Default)]
pub struct Cables {
    cut: AtomicBool,
    /// Both ends of everything that passes.
    open: Mutex<Vec<TcpStream>>,
}

impl Cables {
    /// A place that leads to this port of ours.
    pub fn lay(self: &Arc<Cables>, port: u16) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, cables) = (listener.local_addr().unwrap(), self.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                cables.join(stream, port);
            }
        });
        address
    }

    fn join(self: &Arc<Cables>, near: TcpStream, port: u16) {
        let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { return };
        let ends = [near.try_clone(), far.try_clone()];
        let mut open = self.open.lock().unwrap();
        // Checked while the cable cannot be cut, so that nothing slips through.
        if self.cut.load(Ordering::SeqCst) {
            return;
        }
        open.extend(ends.into_iter().flatten());
        drop(open);
        for (from, to) in [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))] {
            let (Ok(from), Ok(to)) = (from, to) else { return };
            let _ = to.set_nodelay(true);
            thread::spawn(move || {
                let _ = io::copy(&mut &from, &mut &to);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    }

    pub fn cut(&self) {
        let mut open = self.open.lock().unwrap();
        self.cut.store(true, Ordering::SeqCst);
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}
