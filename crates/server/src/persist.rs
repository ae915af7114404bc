//! The thread that writes to the log while its disk is slow, so that the consensus machine can continue meanwhile.
//! It makes writes durable in order; then it reports the last durable one to the consensus machine.

use crate::consensus;
use crate::core::Core;
use crate::log::Log;
use base::Index;
use node::Input;
use raft::Persist;
use std::sync::{Arc, Mutex, MutexGuard};

/// The writes of one turn of the consensus machine.
pub(crate) struct Mail {
    pub persists: Vec<Persist>,
    pub released: Option<Index>,
}

pub(crate) struct Loop {
    core: Arc<Core>,
    log: Arc<Mutex<Log>>,
}

impl Loop {
    pub fn new(core: Arc<Core>, log: Arc<Mutex<Log>>) -> Loop {
        Loop { core, log }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no thread panics while it holds the log")
    }

    pub fn run(self) {
        let mut mail = Vec::new();
        while self.core.persist.take(&mut mail, None) {
            let released = mail.iter().filter_map(|item: &Mail| item.released).max();
            let mut log = self.lock();
            let durable = log.write(mail.drain(..).flat_map(|item| item.persists));
            // The turn that follows may write more.
            drop(log);
            if let Some(seq) = durable {
                self.core.consult(consensus::Mail::Input(Input::Persisted(seq)), 0);
            }
            if let Some(index) = released {
                self.lock().release(index);
            }
        }
    }
}
