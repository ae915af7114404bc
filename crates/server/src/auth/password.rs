//! Passwords and secrets: bcrypt on threads of its own, and random letters for tokens.
//! Hashing is slow on purpose. A few threads do it, which exist while jobs wait; waiting jobs
//! take turns by their source (`fair_queue`), no longer than any request waits.
//! A hash is stored as etcd stores it. A password that bcrypt would cut is hashed by SHA-256 first, and marked so.

use super::fair_queue::{FairQueue, LoginSource};
use super::verified::{KEY_BYTES, VerifiedPasswords};
use crate::thread::Thread;
use base::limits::PASSWORD_HASH_BYTES_MAX;
use base::{Code, Instant};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tokio::sync::oneshot;

/// At one time, so that cores are left for requests.
const THREADS_MAX: usize = 2;
/// As many letters as etcd's tokens have.
const SECRET_LETTERS: usize = 16;
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// How many bytes of a password bcrypt uses, its terminating zero included.
const BCRYPT_BYTES_MAX: usize = 72;
/// The prefix of a hash whose password went through SHA-256 first.
const HASHED_BEFORE: &str = "sha256";

pub(super) struct PasswordHasher {
    cost: u32,
    work: Arc<Mutex<HashQueue>>,
    verified: Mutex<VerifiedPasswords>,
}

struct HashQueue {
    queue: FairQueue<HashJob>,
    threads: usize,
}

struct HashJob {
    run: Box<dyn FnOnce() + Send>,
    /// Dropped when the caller stops waiting.
    caller_waits: Weak<()>,
}

/// What a password is compared with.
pub(super) enum StoredHash {
    Hash(Bytes),
    /// There is no such user, or it has no password. The comparison takes as long and fails.
    Missing,
}

impl PasswordHasher {
    pub fn new(cost: u32) -> PasswordHasher {
        let mut key = [0; KEY_BYTES];
        let key = fill(&mut key).ok().map(|()| key);
        PasswordHasher {
            cost,
            work: Arc::new(Mutex::new(HashQueue { queue: FairQueue::new(), threads: 0 })),
            verified: Mutex::new(VerifiedPasswords::new(key)),
        }
    }

    pub async fn hash(
        &self,
        source: LoginSource,
        password: String,
        patience: Duration,
    ) -> Result<Bytes, Code> {
        let mut salt = [0; 16];
        fill(&mut salt)?;
        let cost = self.cost;
        self.run(source, patience, move || hash_of(&password, cost, salt)).await
    }

    /// Whether the password matches the hash. A hash that cannot be read matches nothing.
    pub async fn matches_hash(
        &self,
        now: Instant,
        source: LoginSource,
        password: String,
        known: StoredHash,
        patience: Duration,
    ) -> Result<bool, Code> {
        let StoredHash::Hash(hash) = known else {
            let cost = self.cost;
            // The same work for the same time, so that timing does not show which users exist.
            let compare = move || drop(hash_of(&password, cost, [0; 16]));
            return self.run(source, patience, compare).await.map(|()| false);
        };
        if self.verified().contains(now, &hash, &password) {
            return Ok(true);
        }
        let (compared, given) = (hash.clone(), password.clone());
        let matches_hash =
            self.run(source, patience, move || password_matches_hash(&given, &compared)).await?;
        if matches_hash {
            self.verified().insert(now, &hash, &password);
        }
        Ok(matches_hash)
    }

    /// Runs work that takes long, as hashing does, in its turn.
    pub async fn run<T: Send + 'static>(
        &self,
        source: LoginSource,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Code> {
        let (sender, done) = oneshot::channel();
        let waits = Arc::new(());
        // The caller may have stopped waiting.
        let run = Box::new(move || drop(sender.send(work())));
        self.queue(source, HashJob { run, caller_waits: Arc::downgrade(&waits) })?;
        match tokio::time::timeout(patience, done).await {
            Ok(Ok(result)) => Ok(result),
            // It waited too long, or the queue was full.
            Ok(Err(_)) | Err(_) => Err(Code::TooManyRequests),
        }
    }

    fn queue(&self, source: LoginSource, job: HashJob) -> Result<(), Code> {
        let mut work = lock(&self.work);
        work.queue.retain(|job| job.caller_waits.strong_count() > 0);
        // Dropping a job tells its caller.
        drop(work.queue.push(source, job));
        if work.threads < THREADS_MAX {
            let shared = self.work.clone();
            match Thread::spawn("hash", move || hash_all(&shared)) {
                Ok(_) => work.threads += 1,
                Err(error) if work.threads == 0 => {
                    tracing::error!(%error, "cannot start a password hashing thread");
                    return Err(Code::TooManyRequests);
                }
                // The threads that run are enough.
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn verified(&self) -> MutexGuard<'_, VerifiedPasswords> {
        self.verified.lock().expect("no thread panics while it holds them")
    }
}

fn lock(work: &Mutex<HashQueue>) -> MutexGuard<'_, HashQueue> {
    work.lock().expect("no thread panics while it holds the queue")
}

/// The body of a hashing thread: runs until no job waits.
fn hash_all(shared: &Mutex<HashQueue>) {
    loop {
        let job = {
            let mut work = lock(shared);
            match work.queue.pop() {
                Some(job) => job,
                None => {
                    work.threads -= 1;
                    return;
                }
            }
        };
        if job.caller_waits.strong_count() > 0 {
            (job.run)();
        }
    }
}

/// Bcrypt would leave out a part of it.
pub(super) fn is_hashed_before(password: &str) -> bool {
    password.len() >= BCRYPT_BYTES_MAX || password.contains('\0')
}

fn hash_of(password: &str, cost: u32, salt: [u8; 16]) -> Bytes {
    let bcrypt = |password: &[u8]| {
        let parts = bcrypt::hash_with_salt(password, cost, salt);
        // The version that etcd's library writes.
        parts.expect("the cost was checked with the configuration").format_for_version(bcrypt::Version::TwoA)
    };
    let text = if is_hashed_before(password) {
        format!("{HASHED_BEFORE}{}", bcrypt(digest_of(password).as_bytes()))
    } else {
        bcrypt(password.as_bytes())
    };
    assert!(text.len() <= PASSWORD_HASH_BYTES_MAX, "a hash has one size");
    text.into()
}

/// A hash without the mark may be of a longer password than bcrypt uses: older releases cut it. To bcrypt, a password
/// and the same with a zero and itself behind it are equal.
fn password_matches_hash(password: &str, hash: &[u8]) -> bool {
    let hash = std::str::from_utf8(hash).unwrap_or_default();
    let matches_hash = match hash.strip_prefix(HASHED_BEFORE) {
        Some(hash) => bcrypt::verify(digest_of(password), hash),
        None => bcrypt::verify(password, hash).map(|matches_hash| matches_hash && !password.contains('\0')),
    };
    matches_hash.unwrap_or(false)
}

/// In letters, because bcrypt ends a password at a zero.
fn digest_of(password: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, password.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The secret part of a token.
pub(super) fn secret() -> Result<String, Code> {
    let mut letters = String::with_capacity(SECRET_LETTERS);
    while letters.len() < SECRET_LETTERS {
        let mut bytes = [0; 2 * SECRET_LETTERS];
        fill(&mut bytes)?;
        // Above the last multiple of 52, some letters would come more often than others.
        let fair = bytes.iter().filter(|byte| **byte < 208);
        let found = fair.map(|byte| LETTERS[usize::from(*byte) % LETTERS.len()] as char);
        letters.extend(found.take(SECRET_LETTERS - letters.len()));
    }
    Ok(letters)
}

/// Random bytes of the kernel. Without them no login succeeds.
fn fill(bytes: &mut [u8]) -> Result<(), Code> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::error!(%error, "the kernel gives no random numbers");
                return Err(Code::Timeout);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
