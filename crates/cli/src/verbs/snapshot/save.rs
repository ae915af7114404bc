//! Writes the pieces of a backup into a file that gets its name when it is complete, synced, and has the SHA-256
//! of its last bytes. Works with etcd's servers as well, whose backups end alike.

use super::super::Client;
use super::{Error, trouble};
use crate::progress::Progress;
use ring::digest;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How many bytes wait for the disk at most. One sync at the end would delay the log of a member that writes to the
/// same disk.
const UNSYNCED_BYTES_MAX: u64 = 8 << 20;
/// As `nice` counts: on a member's own machine its requests go first.
pub const NICENESS: i32 = 10;

pub async fn save(client: &Client, to: &Path) -> Result<(), Error> {
    // The backup works without it.
    let _ = rustix::process::nice(NICENESS);
    let part = to.with_added_extension("part");
    let options = || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part);
    let file = options().map_err(trouble(&part))?;
    let outcome = match receive(client, &part, file).await {
        Ok(()) => std::fs::rename(&part, to).map_err(trouble(to)),
        Err(error) => Err(error),
    };
    if outcome.is_err() {
        // The first error matters more than the file left behind.
        let _ = std::fs::remove_file(&part);
    }
    outcome
}

async fn receive(client: &Client, part: &Path, mut file: File) -> Result<(), Error> {
    let mut pieces = client.snapshot().await?;
    let mut digest = TrailingDigest::default();
    let mut progress = None;
    let mut done = 0;
    let mut synced = 0;
    while let Some(piece) = pieces.message().await.map_err(client::Error::from)? {
        file.write_all(&piece.blob).map_err(trouble(part))?;
        digest.add(&piece.blob);
        done += piece.blob.len() as u64;
        if done - synced > UNSYNCED_BYTES_MAX {
            file.sync_data().map_err(trouble(part))?;
            synced = done;
        }
        progress
            .get_or_insert_with(|| Progress::new("saving", "bytes", done + piece.remaining_bytes))
            .update(done);
    }
    if let Some(progress) = progress {
        progress.end();
    }
    file.sync_all().map_err(trouble(part))?;
    if digest.matches_the_end() { Ok(()) } else { Err(Error::Digest) }
}

/// A digest of everything but the last bytes, which are to be that digest.
pub struct TrailingDigest {
    digest: digest::Context,
    held_back: Vec<u8>,
}

impl Default for TrailingDigest {
    fn default() -> TrailingDigest {
        TrailingDigest { digest: digest::Context::new(&digest::SHA256), held_back: Vec::new() }
    }
}

impl TrailingDigest {
    pub fn add(&mut self, bytes: &[u8]) {
        self.held_back.extend_from_slice(bytes);
        let sure = self.held_back.len().saturating_sub(digest::SHA256_OUTPUT_LEN);
        self.digest.update(&self.held_back[..sure]);
        self.held_back.drain(..sure);
    }

    pub fn matches_the_end(self) -> bool {
        self.held_back == self.digest.finish().as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_that_end_in_their_own_digest_pass() {
        let body: Vec<u8> = (0..200u8).collect();
        let whole = [&body[..], digest::digest(&digest::SHA256, &body).as_ref()].concat();
        let passes = |bytes: &[u8], size| {
            let mut tail = TrailingDigest::default();
            bytes.chunks(size).for_each(|piece| tail.add(piece));
            tail.matches_the_end()
        };
        for size in [1, 7, 31, 32, 33, 500] {
            assert!(passes(&whole, size), "{size}");
            assert!(!passes(&whole[..whole.len() - 1], size), "{size}");
        }
        assert!(!passes(b"", 1) && !passes(&body, 9));
    }
}
