//! A thread of the core: it has a name, ends when its queue is closed, and takes the process with it if it panics.

use crate::fatal::AbortOnPanic;
use std::io;
use std::thread::{self, JoinHandle};

/// A thread that ends by itself once its queue is closed.
pub(crate) struct Thread {
    handle: JoinHandle<()>,
}

impl Thread {
    pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
        let guarded = || {
            let _guard = AbortOnPanic;
            body();
        };
        Ok(Thread { handle: thread::Builder::new().name(name.to_owned()).spawn(guarded)? })
    }

    pub fn join(self) {
        self.handle.join().expect("a thread of the core that panics ends the process");
    }
}
