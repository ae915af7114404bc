//! Small text files of the data directory: each is written whole, under another name first, so that it is whole or absent
//! after a power cut, and durable when the writer returns. The directory and its files are readable by their owner alone.

use disk::Disk;
use std::io;

const BYTES_MAX: u64 = 16 * 1024;

pub(crate) fn read(disk: &dyn Disk, name: &str) -> io::Result<Option<String>> {
    if !disk.exists(name)? {
        return Ok(None);
    }
    let file = disk.open(name)?;
    let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
    file.read_at(0, &mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

pub(crate) fn write(disk: &dyn Disk, name: &str, text: &str) -> io::Result<()> {
    let fresh = format!("{name}.fresh");
    if disk.exists(&fresh)? {
        disk.remove(&fresh)?;
    }
    let file = disk.create(&fresh)?;
    file.write_at(0, text.as_bytes())?;
    file.sync()?;
    disk.rename(&fresh, name)?;
    disk.sync_dir()
}
