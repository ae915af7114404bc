//! An object: content, compressed, sealed if there is a key, with a digest of all that behind it. The name of an object is the
//! digest of its content, so that the same content has the same name, and a reader can tell whether it is what was
//! asked for.

use crate::error::Error;
use crate::key::BackupKey;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN as DIGEST_BYTES, digest};

const MAGIC: &[u8; 7] = b"ALTHOBJ";
const VERSION: u8 = 1;
const HEAD_BYTES: usize = MAGIC.len() + 2;
const SEALED: u8 = 1;
/// The level at which zstd is quick.
const LEVEL: i32 = 3;
/// More than any object holds; a frame that says more is not one of ours.
pub(crate) const CONTENT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// In hexadecimal.
pub(crate) fn name_of(content: &[u8], key: Option<&BackupKey>) -> String {
    let digest = key.map_or_else(|| sha256(content), |key| key.digest(content));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut out = [0; DIGEST_BYTES];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

pub(crate) fn encode(content: &[u8], key: Option<&BackupKey>) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(content.len() / 2 + HEAD_BYTES + DIGEST_BYTES);
    out.extend_from_slice(MAGIC);
    out.extend([VERSION, if key.is_some() { SEALED } else { 0 }]);
    let failed = |error: std::io::Error| Error::Target(format!("compressing failed: {error}"));
    let packed = zstd::bulk::compress(content, LEVEL).map_err(failed)?;
    match key {
        Some(key) => {
            let sealed = key.seal(&out, packed)?;
            out.extend(sealed);
        }
        None => out.extend(packed),
    }
    let digest = sha256(&out);
    out.extend(digest);
    Ok(out)
}

/// Whether the stored bytes are whole, which can be told without a key. The bytes between head and digest.
pub(crate) fn check<'a>(name: &str, stored: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Error> {
    let damaged = |what| Error::Damaged { name: name.to_owned(), what };
    if stored.len() < HEAD_BYTES + DIGEST_BYTES {
        return Err(damaged("it is too short"));
    }
    let (whole, digest) = stored.split_at(stored.len() - DIGEST_BYTES);
    if !whole.starts_with(MAGIC) {
        return Err(damaged("it does not begin as an object does"));
    }
    if sha256(whole) != digest {
        return Err(damaged("the SHA-256 at its end is another"));
    }
    if whole[MAGIC.len()] != VERSION {
        return Err(damaged("it is of a later release"));
    }
    Ok(whole.split_at(HEAD_BYTES))
}

/// The content of what is stored under any name.
pub(crate) fn decode(name: &str, stored: &[u8], key: Option<&BackupKey>) -> Result<Vec<u8>, Error> {
    let (head, body) = check(name, stored)?;
    let damaged = |what| Error::Damaged { name: name.to_owned(), what };
    let packed = match (head[HEAD_BYTES - 1], key) {
        (0, _) => body.to_vec(),
        (SEALED, None) => return Err(Error::KeyNeeded(name.to_owned())),
        (SEALED, Some(key)) => key.open(head, body).ok_or_else(|| Error::WrongKey(name.to_owned()))?,
        _ => return Err(damaged("it is of a later release")),
    };
    let length = zstd::bulk::Decompressor::upper_bound(&packed).unwrap_or(CONTENT_BYTES_MAX);
    if length > CONTENT_BYTES_MAX {
        return Err(damaged("it claims to be larger than objects are"));
    }
    zstd::bulk::decompress(&packed, length).map_err(|_| damaged("it cannot be decompressed"))
}

/// The content of the object of this name.
pub(crate) fn decode_named(name: &str, stored: &[u8], key: Option<&BackupKey>) -> Result<Vec<u8>, Error> {
    let content = decode(name, stored, key)?;
    let key = key.filter(|_| stored[HEAD_BYTES - 1] == SEALED);
    if name_of(&content, key) == name {
        Ok(content)
    } else {
        Err(Error::Damaged { name: name.to_owned(), what: "it holds the content of another" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_gives_its_content_back_with_and_without_a_key() {
        let key = BackupKey::new(&[3; 32]);
        for content in [&b""[..], b"x", &[5; 100_000]] {
            for key in [None, Some(&key)] {
                let (name, stored) = (name_of(content, key), encode(content, key).unwrap());
                assert_eq!(decode_named(&name, &stored, key).unwrap(), content);
            }
        }
    }

    #[test]
    fn every_damaged_byte_and_every_cut_is_found() {
        let content: Vec<u8> = (0..2_000_u32).map(|n| (n * 7) as u8).collect();
        let (name, stored) = (name_of(&content, None), encode(&content, None).unwrap());
        for at in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[at] ^= 1;
            assert!(matches!(decode_named(&name, &damaged, None), Err(Error::Damaged { .. })), "{at}");
            assert!(matches!(decode_named(&name, &stored[..at], None), Err(Error::Damaged { .. })), "{at}");
        }
    }

    #[test]
    fn an_object_in_the_place_of_another_is_found() {
        let stored = encode(b"other", None).unwrap();
        let found = decode_named(&name_of(b"content", None), &stored, None);
        assert!(matches!(found, Err(Error::Damaged { what: "it holds the content of another", .. })));
    }

    #[test]
    fn without_its_key_an_object_says_so() {
        let (key, other) = (BackupKey::new(&[3; 32]), BackupKey::new(&[4; 32]));
        let (name, stored) = (name_of(b"content", Some(&key)), encode(b"content", Some(&key)).unwrap());
        assert!(matches!(decode_named(&name, &stored, None), Err(Error::KeyNeeded(_))));
        assert!(matches!(decode_named(&name, &stored, Some(&other)), Err(Error::WrongKey(_))));
        assert!(!stored.windows(7).any(|window| window == b"content"));
    }
}
