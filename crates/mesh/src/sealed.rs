//! Bytes that end with their checksum: of a version on the way between nodes or in the hands of a client.

use base::codec::{Reader, checked_body, put_checksum};
use bytes::Bytes;

/// Ends what was written with its checksum.
pub fn seal(mut out: Vec<u8>) -> Bytes {
    put_checksum(&mut out);
    out.into()
}

/// What stands behind the version; none if the bytes were damaged, or are of another version.
pub fn unseal(bytes: &Bytes, version: u8) -> Option<Reader> {
    let mut reader = Reader::new(checked_body(bytes.clone())?);
    reader.u8().filter(|found| *found == version)?;
    Some(reader)
}
