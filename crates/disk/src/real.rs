//! A directory of the operating system, private to its owner (mode 0700), files 0600. A lock file, locked by the
//! kernel, keeps a second process out and is released even after SIGKILL. `sync` is fdatasync: it also makes the
//! length durable, which is all that the formats rely on.

use crate::disk::{DirLock, Disk, File};
use base::limits::{STORE_FULL_PAUSE_MILLIS, STORE_FULL_TRIES_MAX};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOCK_NAME: &str = "lock";
/// The unit of `st_blocks`, whatever the block size of the file system is.
const BLOCK_BYTES: u64 = 512;

pub struct RealDisk {
    root: PathBuf,
    /// The directory itself, kept open for `sync_dir`.
    dir: fs::File,
}

impl RealDisk {
    /// Opens the directory, or creates it together with its parents.
    pub fn open(root: PathBuf) -> io::Result<RealDisk> {
        create_dir_durably(&root)?;
        let dir = fs::File::open(&root)?;
        Ok(RealDisk { root, dir })
    }

    /// The size of the whole volume, with what others have on it.
    pub fn volume_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.dir)?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file name"));
        }
        Ok(self.root.join(name))
    }

    fn options() -> fs::OpenOptions {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options
    }
}

/// A member whose directory vanished in a power cut would come back empty and break its promises, so the
/// names of new directories are synced like those of new files.
fn create_dir_durably(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(Path::new(""));
    create_dir_durably(parent)?;
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    fs::File::open(parent)?.sync_all()
}

impl Disk for RealDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(RealFile(Self::options().open(self.path(name)?)?)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(RealFile(Self::options().create_new(true).open(self.path(name)?)?)))
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.path(name)?.try_exists()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name)?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            // Other entries (a subdirectory, a name that is not text) are left alone.
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string())
                && name != LOCK_NAME
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }

    fn lock(&self) -> io::Result<Box<dyn DirLock>> {
        let file = Self::options().create(true).truncate(false).open(self.root.join(LOCK_NAME))?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(Box::new(RealLock { _file: file }))
    }

    /// The space that is available to unprivileged processes.
    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

struct RealFile(fs::File);

impl File for RealFile {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn taken_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.blocks() * BLOCK_BYTES)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, len)?)
    }

    fn await_space(&self, tried: u32) -> bool {
        std::thread::sleep(Duration::from_millis(STORE_FULL_PAUSE_MILLIS));
        tried < STORE_FULL_TRIES_MAX
    }
}

/// The kernel's lock goes with the open file.
struct RealLock {
    _file: fs::File,
}

impl DirLock for RealLock {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn disk() -> (tempfile::TempDir, RealDisk) {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(dir.path().join("a/data")).unwrap();
        (dir, disk)
    }

    #[test]
    fn a_file_is_written_read_renamed_and_removed() {
        let (_dir, disk) = disk();
        let file = disk.create("one").unwrap();
        file.write_at(3, b"abc").unwrap();
        file.sync().unwrap();
        disk.rename("one", "two").unwrap();
        disk.sync_dir().unwrap();
        assert_eq!(disk.list().unwrap(), ["two"]);
        let mut out = [9; 6];
        disk.open("two").unwrap().read_at(0, &mut out).unwrap();
        assert_eq!(&out, b"\0\0\0abc");
        assert_eq!(file.read_at(4, &mut out).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        file.set_len(1).unwrap();
        assert_eq!(file.len().unwrap(), 1);
        disk.remove("two").unwrap();
        assert!(!disk.exists("two").unwrap());
    }

    #[test]
    fn a_name_cannot_leave_the_directory_nor_be_created_twice() {
        let (_dir, disk) = disk();
        for name in ["", ".", "..", "../x", "a/b", "/etc/passwd"] {
            assert_eq!(disk.create(name).err().unwrap().kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        disk.create("x").unwrap();
        assert_eq!(disk.create("x").err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(disk.open("y").err().unwrap().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_directory_is_private_and_has_one_owner() {
        let (dir, disk) = disk();
        let mode = fs::metadata(dir.path().join("a/data")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let lock = disk.lock().unwrap();
        assert_eq!(disk.lock().err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        disk.lock().unwrap();
    }
}
