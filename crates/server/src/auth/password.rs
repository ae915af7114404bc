//! Passwords and secrets: bcrypt on threads of its own, and letters that nobody can guess.
//! Hashing takes long on purpose. Only a few run at a time, away from everything else, and who waits for its turn waits
//! no longer than for any request.

use base::Code;
use base::limits::PASSWORD_HASH_BYTES_MAX;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// At one time: a machine has other things to do.
const HASHINGS_MAX: usize = 2;
/// Whoever comes while so many wait is told at once that they are too many.
const WAITING_MAX: usize = 256;
/// As many letters as etcd's tokens have.
const SECRET_LETTERS: usize = 16;
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

pub(super) struct Hashing {
    cost: u32,
    seats: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Hashing {
    pub fn new(cost: u32) -> Hashing {
        let seats = |count| Arc::new(Semaphore::new(count));
        Hashing { cost, seats: seats(HASHINGS_MAX), waiting: seats(WAITING_MAX) }
    }

    pub async fn hash(&self, password: String, patience: Duration) -> Result<Bytes, Code> {
        let mut salt = [0; 16];
        fill(&mut salt)?;
        let cost = self.cost;
        let hashed = self.run(patience, move || bcrypt::hash_with_salt(password, cost, salt)).await?;
        let parts = hashed.expect("the cost was checked with the configuration");
        // The version that etcd's library writes.
        let text = parts.format_for_version(bcrypt::Version::TwoA);
        assert!(text.len() <= PASSWORD_HASH_BYTES_MAX, "a hash has one size");
        Ok(text.into())
    }

    /// Whether the hash is that of the password. One that cannot be read is nobody's.
    pub async fn fits(&self, password: String, hash: Bytes, patience: Duration) -> Result<bool, Code> {
        let fits = move || {
            let hash = std::str::from_utf8(&hash).unwrap_or_default();
            bcrypt::verify(password, hash).unwrap_or(false)
        };
        self.run(patience, fits).await
    }

    /// Work that takes long, as hashing does.
    pub async fn run<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Code> {
        let _place = self.waiting.try_acquire().map_err(|_| Code::TooManyRequests)?;
        let seat = tokio::time::timeout(patience, self.seats.clone().acquire_owned());
        let seat = seat.await.map_err(|_| Code::TooManyRequests)?.expect("it is never closed");
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(seat);
            done
        });
        done.await.map_err(|_| Code::Stopped)
    }
}

/// The part of a token that nobody can guess.
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

/// Random bytes of the kernel. Without them nobody is let in.
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
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_password_fits_its_hash_and_no_other() {
        let hashing = Hashing::new(4);
        let hash = hashing.hash("open sesame".into(), PATIENCE).await.unwrap();
        assert!(hash.starts_with(b"$2a$04$"), "{hash:?}");
        assert!(hashing.fits("open sesame".into(), hash.clone(), PATIENCE).await.unwrap());
        assert!(!hashing.fits("open sesam".into(), hash.clone(), PATIENCE).await.unwrap());
        assert_ne!(hashing.hash("open sesame".into(), PATIENCE).await.unwrap(), hash, "the salt is another");
        for damaged in ["", "$2a$04$", "no hash at all"] {
            assert!(!hashing.fits("open sesame".into(), damaged.into(), PATIENCE).await.unwrap());
        }
    }

    #[test]
    fn secrets_are_letters_and_differ() {
        let (one, other) = (secret().unwrap(), secret().unwrap());
        assert!(one.len() == SECRET_LETTERS && one.bytes().all(|byte| byte.is_ascii_alphabetic()), "{one}");
        assert_ne!(one, other);
    }
}
