//! The manifest of a backup: what it holds, as of when, and the objects that it is made of. It is JSON in an object of its own,
//! and written when everything that it names is there.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The format. Backups of the first one have no elements of collections.
pub const VERSION: u32 = 2;
const FIRST_VERSION: u32 = 1;

/// The moment in which a backup began, in UTC, as its name: `20250122T103000.000Z`. Names sort as the moments do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BackupId(String);

impl BackupId {
    pub fn at_ms(ms: u64) -> BackupId {
        BackupId(base::date::rfc3339(ms).chars().filter(|letter| !"-:".contains(*letter)).collect())
    }

    /// None for what is not the name of a backup.
    pub fn parse(text: &str) -> Option<BackupId> {
        let shape = b"00000000T000000.000Z";
        let fits = |(letter, wanted): (u8, &u8)| match wanted {
            b'0' => letter.is_ascii_digit(),
            other => letter == *other,
        };
        let lawful = text.len() == shape.len() && text.bytes().zip(shape).all(fits);
        lawful.then(|| BackupId(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub version: u32,
    pub id: BackupId,
    /// The release that wrote it.
    pub release: String,
    /// In hexadecimal.
    pub cluster: String,
    /// Everything that was acknowledged before this moment, in milliseconds since 1970, is in the backup.
    pub cut_ms: u64,
    pub finished_ms: u64,
    pub coord: Option<CoordPart>,
    pub mesh: Option<MeshPart>,
    /// Bytes that were written for this backup: what earlier ones had sent is not among them.
    pub sent_bytes: u64,
}

/// The coordination store as of one entry of its log, as `Maintenance.Snapshot` sends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordPart {
    /// The member that sent it, in hexadecimal.
    pub member: String,
    /// At least; what came while the snapshot began is in it as well.
    pub revision: i64,
    pub bytes: u64,
    pub objects: Vec<ObjectRef>,
}

/// The rows of the data plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshPart {
    /// The ring's epoch while all rows were read.
    pub epoch: u64,
    pub nodes: Vec<NodeEntry>,
    pub namespaces: Vec<NamespaceEntry>,
    pub partitions: Vec<PartitionPart>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// In hexadecimal.
    pub node: String,
    /// Whether its rows are in the backup. Each partition has those of a majority of its replicas.
    pub was_read: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceEntry {
    pub name: String,
    /// With which its keys begin.
    pub id: u32,
    pub copies: u32,
    /// Numbers, as docs/formats/namespaces.md has them.
    pub kind: u32,
    pub policy: u32,
}

/// Rows that lie together: those of a partition, or those that lie in none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionPart {
    pub partition: Option<u8>,
    pub rows: u64,
    /// Of these rows, elements of collections.
    #[serde(default)]
    pub elements: u64,
    pub objects: Vec<ObjectRef>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    pub name: String,
    /// The bytes of its content.
    pub bytes: u64,
    /// The length with which it was stored; 0 in manifests that do not tell it.
    #[serde(default)]
    pub stored_bytes: u64,
}

impl Manifest {
    pub(crate) fn is_readable(version: u32) -> bool {
        (FIRST_VERSION..=VERSION).contains(&version)
    }

    /// Whether elements of collections are in it.
    pub fn has_elements(&self) -> bool {
        self.version > FIRST_VERSION
    }

    pub fn objects(&self) -> impl Iterator<Item = &ObjectRef> {
        let coord = self.coord.iter().flat_map(|coord| &coord.objects);
        let partitions = self.mesh.iter().flat_map(|mesh| &mesh.partitions);
        coord.chain(partitions.flat_map(|part| &part.objects))
    }

    /// The bytes of all contents.
    pub fn content_bytes(&self) -> u64 {
        self.objects().map(|object| object.bytes).sum()
    }

    pub fn elements(&self) -> u64 {
        self.mesh.iter().flat_map(|mesh| &mesh.partitions).map(|part| part.elements).sum()
    }

    pub fn rows(&self) -> u64 {
        self.mesh.iter().flat_map(|mesh| &mesh.partitions).map(|part| part.rows).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_moments_and_sort_as_they_do() {
        let (early, late) = (BackupId::at_ms(1_737_541_800_000), BackupId::at_ms(1_737_541_800_001));
        assert_eq!(early.as_str(), "20250122T103000.000Z");
        assert!(early < late && BackupId::parse(early.as_str()) == Some(early));
        for bad in ["", "latest", "20250122T103000.000", "../../etc/passwd....", "20250122X103000.000Z"] {
            assert_eq!(BackupId::parse(bad), None, "{bad}");
        }
    }
}
