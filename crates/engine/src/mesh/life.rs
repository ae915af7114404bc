//! The incarnation of a node on one disk: a small file that is written whole at every start and is durable before it
//! is used. A new disk has no such file, so it gets another incarnation; the file counts the starts on this disk, so
//! that answers to an earlier start are not taken for its own.

use crate::error::Error;
pub use ::mesh::life::{Life, Standing};
use base::checksum::crc32;
use base::codec::Reader;
use base::mutant::{Mutant, planted};
use bytes::Bytes;
use disk::Disk;
use std::io;
use std::sync::Arc;

const FILE: &str = "life";
/// The temporary name under which it is written before the rename, so that it is whole or absent.
const FRESH: &str = "life.fresh";
const VERSION: u8 = 1;
const LEN: usize = 18;

pub struct LifeFile {
    disk: Arc<dyn Disk>,
    life: Life,
}

impl LifeFile {
    /// Counts a start, of this incarnation or of a new one.
    pub(super) fn begin(disk: Arc<dyn Disk>, known: Option<Life>, fresh: u32) -> Result<LifeFile, Error> {
        let incarnation = if planted(Mutant::LifeNameRepeated) { 1 } else { fresh };
        let new = Life { incarnation, boot: 0, standing: Standing::Unknown };
        let life = known.unwrap_or(new);
        let file = LifeFile { disk, life: Life { boot: life.boot + 1, ..life } };
        file.write()?;
        Ok(file)
    }

    pub fn life(&self) -> Life {
        self.life
    }

    /// Durable when this returns.
    pub fn set_standing(&mut self, standing: Standing) -> Result<(), Error> {
        if self.life.standing != standing {
            self.life.standing = standing;
            self.write()?;
        }
        Ok(())
    }

    fn write(&self) -> Result<(), Error> {
        self.replace().map_err(trouble("write", FILE))
    }

    fn replace(&self) -> io::Result<()> {
        if self.disk.exists(FRESH)? {
            self.disk.remove(FRESH)?;
        }
        let file = self.disk.create(FRESH)?;
        file.write_at(0, &encode(self.life))?;
        if !planted(Mutant::LifeNotSynced) {
            file.sync()?;
        }
        self.disk.rename(FRESH, FILE)?;
        self.disk.sync_dir()
    }
}

/// None if there is no file; one that cannot be read is damage, not absence.
pub(super) fn read(disk: &dyn Disk) -> Result<Option<Life>, Error> {
    if !disk.exists(FILE).map_err(trouble("look for", FILE))? {
        return Ok(None);
    }
    let read = || {
        let file = disk.open(FILE)?;
        let mut bytes = vec![0; file.len()?.min(4 * LEN as u64) as usize];
        file.read_at(0, &mut bytes)?;
        io::Result::Ok(bytes)
    };
    let bytes = read().map_err(trouble("read", FILE))?;
    decode(bytes.into()).map(Some).ok_or(Error::LifeIllegible)
}

pub(super) fn trouble(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error {
    let file = file.to_owned();
    move |source| Error::Disk(disk::Error::Io { action, file, source })
}

fn encode(life: Life) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(life.incarnation.to_le_bytes());
    out.extend(life.boot.to_le_bytes());
    out.push(life.standing as u8);
    let crc = crc32(&[&out]);
    out.extend(crc.to_le_bytes());
    out
}

fn decode(bytes: Bytes) -> Option<Life> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    if bytes.len() != LEN || crc32(&[body]) != u32::from_le_bytes(*crc) {
        return None;
    }
    let mut reader = Reader::new(bytes);
    if reader.u8()? != VERSION {
        return None;
    }
    let (incarnation, boot) = (reader.u32()?, reader.u64()?);
    let standing = match reader.u8()? {
        0 => Standing::Unknown,
        1 => Standing::Behind,
        2 => Standing::Whole,
        _ => return None,
    };
    Some(Life { incarnation, boot, standing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_survives_a_round_trip_and_damage_is_noticed() {
        let life = Life { incarnation: 7, boot: 9, standing: Standing::Behind };
        let bytes = encode(life);
        assert_eq!(decode(bytes.clone().into()), Some(life));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(damaged.into()), None, "byte {at}");
            assert_eq!(decode(Bytes::copy_from_slice(&bytes[..at])), None, "cut at {at}");
        }
    }
}
