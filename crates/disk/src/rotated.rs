//! A file of lines that is only appended to and never grows beyond a bound: when the next line would not fit, the file is
//! renamed to `NAME.1`, older ones move up by one, and the oldest is removed.
//! Lines go in whole and are never cut in two files. Nothing is synced: a line is safe from the end of the process once it
//! is flushed, and not from the end of the machine.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Its owner reads and writes it, and no other user does.
const MODE: u32 = 0o600;

pub struct RotatedFile {
    path: PathBuf,
    bytes_max: u64,
    /// Renamed files that stay beside the one that is written.
    kept: usize,
    file: BufWriter<File>,
    bytes: u64,
}

impl RotatedFile {
    pub fn open(path: PathBuf, bytes_max: u64, kept: usize) -> io::Result<RotatedFile> {
        let (file, bytes) = open(&path)?;
        Ok(RotatedFile { path, bytes_max, kept, file, bytes })
    }

    /// `line` ends with a line feed.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let len = line.len() as u64;
        if self.bytes > 0 && self.bytes + len > self.bytes_max {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.bytes += len;
        Ok(())
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// After an error: forgets what could not be written and opens the file again, as it may have been removed.
    pub fn reopen(&mut self) -> io::Result<()> {
        let (file, bytes) = open(&self.path)?;
        // What the old one still holds must not be written by its end.
        let old = std::mem::replace(&mut self.file, file);
        drop(old.into_parts());
        self.bytes = bytes;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        match self.kept {
            0 => fs::remove_file(&self.path)?,
            kept => {
                for number in (1..kept).rev() {
                    if let Err(error) = fs::rename(self.numbered(number), self.numbered(number + 1))
                        && error.kind() != io::ErrorKind::NotFound
                    {
                        return Err(error);
                    }
                }
                fs::rename(&self.path, self.numbered(1))?;
            }
        }
        (self.file, self.bytes) = open(&self.path)?;
        Ok(())
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

/// A process that was killed may have left half a line: the next one begins on its own.
fn open(path: &Path) -> io::Result<(BufWriter<File>, u64)> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(MODE).open(path)?;
    let mut bytes = file.metadata()?.len();
    let is_regular = file.metadata()?.is_file();
    if is_regular && bytes > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            bytes += 1;
        }
    }
    Ok((BufWriter::new(file), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn lines_move_to_older_files_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        let mut file = RotatedFile::open(path.clone(), 10, 2).unwrap();
        for line in ["one..\n", "two..\n", "three\n", "four.\n", "far too long for a file\n", "six\n"] {
            file.append(line.as_bytes()).unwrap();
        }
        file.flush().unwrap();
        assert_eq!(text(&path), "six\n");
        assert_eq!(text(&dir.path().join("audit.1")), "far too long for a file\n");
        assert_eq!(text(&dir.path().join("audit.2")), "four.\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
    }

    #[test]
    fn without_older_files_it_begins_again_and_what_was_there_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        fs::write(&path, "half a li").unwrap();
        let mut file = RotatedFile::open(path.clone(), 16, 0).unwrap();
        file.append(b"next\n").unwrap();
        file.flush().unwrap();
        assert_eq!(text(&path), "half a li\nnext\n");
        file.append(b"last\n").unwrap();
        file.flush().unwrap();
        assert_eq!(text(&path), "last\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_was_removed_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit");
        let mut file = RotatedFile::open(path.clone(), 1_000, 1).unwrap();
        file.append(b"lost\n").unwrap();
        fs::remove_file(&path).unwrap();
        file.reopen().unwrap();
        file.append(b"kept\n").unwrap();
        file.flush().unwrap();
        assert_eq!(text(&path), "kept\n");
    }
}
