//! A value built from files, and built again when one of them has changed. Each use checks the files now and then;
//! values returned before stay as they were. Files that cannot be used, as while they are being replaced, leave the
//! last good value in place.

use crate::Error;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The shortest time between two checks of the files.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(2);

type Loader<T> = Box<dyn Fn() -> Result<T, Error> + Send + Sync>;

pub(crate) struct Reloading<T> {
    paths: Vec<PathBuf>,
    check_every: Duration,
    make: Loader<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    made: Arc<T>,
    /// How the files were before they were read.
    stamps: Vec<Option<FileStamp>>,
    looked: Instant,
    /// The last error that was logged.
    trouble: String,
}

/// A file that was written or exchanged has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl<T> Reloading<T> {
    pub fn new(paths: Vec<PathBuf>, check_every: Duration, make: Loader<T>) -> Result<Reloading<T>, Error> {
        let stamps = stamps(&paths);
        let made = Arc::new(make()?);
        let state = State { made, stamps, looked: Instant::now(), trouble: String::new() };
        Ok(Reloading { paths, check_every, make, state: Mutex::new(state) })
    }

    pub fn get(&self) -> Arc<T> {
        let mut state = self.state.lock().expect("nothing panics while certificates are read");
        if state.looked.elapsed() >= self.check_every {
            self.look(&mut state);
            state.looked = Instant::now();
        }
        state.made.clone()
    }

    fn look(&self, state: &mut State<T>) {
        let stamps = stamps(&self.paths);
        if stamps == state.stamps {
            return;
        }
        match (self.make)() {
            Ok(made) => {
                tracing::info!(file = %self.paths[0].display(), "certificates reloaded");
                *state = State { made: Arc::new(made), stamps, looked: state.looked, trouble: String::new() };
            }
            Err(error) => {
                let trouble = error.to_string();
                if trouble != state.trouble {
                    tracing::warn!(
                        error = trouble,
                        "changed certificates cannot be used; keeping the last good ones"
                    );
                    state.trouble = trouble;
                }
            }
        }
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<FileStamp>> {
    let stamp = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        Some(FileStamp { inode: file.ino(), len: file.len(), modified: (file.mtime(), file.mtime_nsec()) })
    };
    paths.iter().map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::read;
    use std::fs;

    #[test]
    fn what_is_made_follows_the_files_and_survives_those_that_cannot_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "one").unwrap();
        let make = {
            let path = path.clone();
            move || match read(&path)? {
                bytes if bytes == b"torn" => Err(Error::NoSystemRoots),
                bytes => Ok(bytes),
            }
        };
        let reloading = Reloading::new(vec![path.clone()], Duration::ZERO, Box::new(make)).unwrap();
        assert_eq!(*reloading.get(), b"one");
        let kept = reloading.get();
        fs::write(&path, "torn").unwrap();
        assert_eq!(*reloading.get(), b"one");
        fs::remove_file(&path).unwrap();
        assert_eq!(*reloading.get(), b"one");
        fs::write(&path, "three").unwrap();
        assert_eq!(*reloading.get(), b"three");
        assert_eq!(*kept, b"one", "a value that was returned stays");
    }
}
