//! The incarnation of a node on one disk: a small file that is written whole at every start and is durable before it
//! is used. A new disk has no such file, so it gets another incarnation; the file counts the starts on this disk, so
//! that answers to an earlier start are not taken for its own.

use crate::error::Error;
use crate::mutant::Mutant;
pub use ::mesh::{CatchUp, Incarnation};
use base::codec::{Reader, checked_body, put_checksum};
use base::mutant::planted;
use bytes::Bytes;
use disk::Disk;
use std::io;
use std::sync::Arc;

const FILE: &str = "life";
/// The temporary name under which it is written before the rename, so that it is whole or absent.
const FRESH: &str = "life.fresh";
const VERSION: u8 = 1;
const LEN: usize = 18;

pub struct IncarnationFile {
    disk: Arc<dyn Disk>,
    incarnation: Incarnation,
}

impl IncarnationFile {
    /// Counts a start, of this incarnation or of a new one.
    pub(super) fn begin(
        disk: Arc<dyn Disk>,
        known: Option<Incarnation>,
        fresh: u32,
    ) -> Result<IncarnationFile, Error> {
        let incarnation = if planted(Mutant::IncarnationNameRepeated) { 1 } else { fresh };
        let new = Incarnation { number: incarnation, boot: 0, catch_up: CatchUp::Unknown };
        let incarnation = known.unwrap_or(new);
        let file =
            IncarnationFile { disk, incarnation: Incarnation { boot: incarnation.boot + 1, ..incarnation } };
        file.write()?;
        Ok(file)
    }

    pub fn get(&self) -> Incarnation {
        self.incarnation
    }

    /// Durable when this returns.
    pub fn set_catch_up(&mut self, catch_up: CatchUp) -> Result<(), Error> {
        if self.incarnation.catch_up != catch_up {
            self.incarnation.catch_up = catch_up;
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
        file.write_at(0, &encode(self.incarnation))?;
        if !planted(Mutant::IncarnationNotSynced) {
            file.sync()?;
        }
        self.disk.rename(FRESH, FILE)?;
        self.disk.sync_dir()
    }
}

/// None if there is no file; one that cannot be read is damage, not absence.
pub(super) fn read(disk: &dyn Disk) -> Result<Option<Incarnation>, Error> {
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
    decode(bytes.into()).map(Some).ok_or(Error::IncarnationIllegible)
}

pub(super) fn trouble(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> Error {
    let file = file.to_owned();
    move |source| Error::Disk(disk::Error::Io { action, file, source })
}

fn encode(incarnation: Incarnation) -> Vec<u8> {
    let mut out = vec![VERSION];
    out.extend(incarnation.number.to_le_bytes());
    out.extend(incarnation.boot.to_le_bytes());
    out.push(incarnation.catch_up as u8);
    put_checksum(&mut out);
    out
}

fn decode(bytes: Bytes) -> Option<Incarnation> {
    if bytes.len() != LEN {
        return None;
    }
    let mut reader = Reader::new(checked_body(bytes)?);
    if reader.u8()? != VERSION {
        return None;
    }
    let (incarnation, boot) = (reader.u32()?, reader.u64()?);
    let catch_up = match reader.u8()? {
        0 => CatchUp::Unknown,
        1 => CatchUp::Behind,
        2 => CatchUp::Complete,
        _ => return None,
    };
    Some(Incarnation { number: incarnation, boot, catch_up })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incarnation_survives_a_round_trip_and_damage_is_noticed() {
        let incarnation = Incarnation { number: 7, boot: 9, catch_up: CatchUp::Behind };
        let bytes = encode(incarnation);
        assert_eq!(decode(bytes.clone().into()), Some(incarnation));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(damaged.into()), None, "byte {at}");
            assert_eq!(decode(Bytes::copy_from_slice(&bytes[..at])), None, "cut at {at}");
        }
    }
}
