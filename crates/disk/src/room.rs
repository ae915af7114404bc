//! Writing to a disk that may be full. Something that needs space goes in, and is done once there is some: the caller waits
//! on its own thread, as long as the disk's `await_room` has it try again.
//! Whatever is tried again must come to the same if a part of it was done before.

use crate::disk::File;
use base::mutant::{Mutant, planted};
use std::io;

/// Does something that may find no room on the disk of `file`, and then waits for room. `ignored` is the bug of not
/// noticing.
pub fn when_there_is_room(
    file: &dyn File,
    ignored: Mutant,
    act: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let mut tried = 0;
    loop {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                if planted(ignored) {
                    return Ok(());
                }
                tried += 1;
                if !file.await_room(tried) {
                    return Err(error);
                }
            }
            done => return done,
        }
    }
}
