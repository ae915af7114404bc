//! Writes to a disk that may be full: an operation is retried until there is space. The caller waits on its own
//! thread, as long as the disk's `await_space` allows another attempt. The operation must be idempotent.

use crate::disk::File;
use crate::mutant::Mutant;
use base::mutant::planted;
use std::io;

/// Runs an operation that may find the disk of `file` full, and then waits for space. `ignored` is the planted bug of
/// ignoring the error.
pub fn retry_when_full(file: &dyn File, ignored: Mutant, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let mut tried = 0;
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                if planted(ignored) {
                    return Ok(());
                }
                tried += 1;
                if !file.await_space(tried) {
                    return Err(error);
                }
            }
            done => return done,
        }
    }
}
