//! The owner of a data directory: a small text file, written once and durable before anything else is there.
//! It names the member and its cluster; a directory that names others is never opened further.

use crate::error::Error;
use crate::small_file::{read, write};
use crate::status::Identity;
use base::{ClusterId, NodeId};
use disk::Disk;
use std::path::Path;

const FILE: &str = "identity";
const HEAD: &str = "althing identity 1";
const HEAD_WORDS: &str = "althing identity ";

/// Refuses a directory of another member or cluster, and claims one without an owner.
pub(crate) fn claim(disk: &dyn Disk, path: &Path, expected: &Identity) -> Result<(), Error> {
    let trouble = |action| move |source| Error::DataDir { action, path: path.to_owned(), source };
    let Some(text) = read(disk, FILE).map_err(trouble("read the identity file"))? else {
        return write(disk, FILE, &render(expected)).map_err(trouble("write the identity file"));
    };
    match parse(&text) {
        None => Err(refusal(path, &text)),
        Some(found) if found == *expected => Ok(()),
        Some(found) => Err(Error::Stranger {
            path: path.to_owned(),
            found: Box::new(found),
            expected: Box::new(expected.clone()),
        }),
    }
}

/// The owner of the directory, if there is one.
pub(crate) fn owner(disk: &dyn Disk, path: &Path) -> Result<Option<Identity>, Error> {
    let trouble = |source| Error::DataDir { action: "read the identity file", path: path.to_owned(), source };
    let Some(text) = read(disk, FILE).map_err(trouble)? else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| refusal(path, &text))
}

/// Another number in the first line is that of a newer version.
fn refusal(path: &Path, text: &str) -> Error {
    let head = text.lines().next().unwrap_or_default();
    let number = head.strip_prefix(HEAD_WORDS).filter(|number| *number != "1");
    match number.and_then(|number| number.parse::<u32>().ok()) {
        Some(_) => Error::NewerIdentity { path: path.to_owned(), found: head.to_owned() },
        None => Error::Illegible { path: path.to_owned(), file: FILE },
    }
}

fn render(identity: &Identity) -> String {
    let Identity { cluster, member, name } = identity;
    format!("{HEAD}\ncluster {:016x}\nmember {:016x}\nname {name}\n", cluster.0, member.0)
}

fn parse(text: &str) -> Option<Identity> {
    let mut lines = text.strip_suffix('\n')?.splitn(4, '\n');
    let mut field = |label: &str| lines.next()?.strip_prefix(label);
    field(HEAD).filter(|rest| rest.is_empty())?;
    let cluster = ClusterId(u64::from_str_radix(field("cluster ")?, 16).ok()?);
    let member = NodeId(u64::from_str_radix(field("member ")?, 16).ok()?);
    Some(Identity { cluster, member, name: field("name ")?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str, member: u64) -> Identity {
        Identity { cluster: ClusterId(u64::MAX), member: NodeId(member), name: name.to_owned() }
    }

    fn claimed(by: &Identity) -> disk::SimDisk {
        let disk = disk::SimDisk::new(1);
        claim(&disk, Path::new("d"), by).unwrap();
        disk
    }

    #[test]
    fn the_first_to_come_owns_the_directory_for_ever() {
        let disk = claimed(&identity("a b", 7));
        claim(&disk, Path::new("d"), &identity("a b", 7)).unwrap();
        for other in [identity("b", 7), identity("a b", 8)] {
            let refused = claim(&disk, Path::new("d"), &other).unwrap_err();
            assert!(matches!(&refused, Error::Stranger { .. }));
            assert!(refused.to_string().contains("\"a b\""), "{refused}");
        }
    }

    #[test]
    fn a_damaged_identity_is_not_taken_for_a_missing_one() {
        let whole = render(&identity("a", 7));
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), None, "{cut}");
        }
        let disk = claimed(&identity("a", 7));
        disk.open(FILE).unwrap().write_at(0, b"X").unwrap();
        let refused = claim(&disk, Path::new("d"), &identity("a", 7)).unwrap_err();
        assert!(matches!(refused, Error::Illegible { .. }));
    }

    #[test]
    fn an_identity_of_a_newer_version_is_told_from_a_damaged_one() {
        let disk = disk::SimDisk::new(1);
        write(&disk, FILE, "althing identity 2\nanything\n").unwrap();
        for refused in
            [claim(&disk, Path::new("d"), &identity("a", 7)), owner(&disk, Path::new("d")).map(drop)]
        {
            assert!(matches!(refused, Err(Error::NewerIdentity { .. })), "{refused:?}");
        }
    }
}
