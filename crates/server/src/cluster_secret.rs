//! The secret of the cluster as the data directory keeps it, and how far the cluster is with closing its peer ports.
//! The configured and the stored secret go in; the one that is valid comes out, durable. A directory that holds another
//! secret than the configured one is not opened.

use crate::config::{Config, PeerSecurity};
use crate::error::Error;
use crate::peer::{Guard, Stage};
use crate::small_file;
use base::NodeId;
use disk::Disk;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::{MemberProof, Secret};

const FILE: &str = "cluster-secret";
/// Join tokens that were used while no other member could record it, one line for each; rarely more than one.
const USED_TOKENS: &str = "used-join-tokens";
const HEAD: &str = "althing cluster secret 1";
const CLOSED: &str = "closed";
const BOTH: &str = "both";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub secret: Secret,
    pub stage: Stage,
}

/// Decides which secret is valid. `is_alone` says that the node founds a cluster of its own with this start.
pub(crate) fn settle(
    disk: &dyn Disk,
    path: &Path,
    config: &PeerSecurity,
    is_alone: bool,
) -> Result<Option<Kept>, Error> {
    match (read(disk, path)?, &config.secret) {
        (Some(kept), Some(given)) if kept.secret != *given => {
            Err(Error::OtherSecret { path: path.to_owned() })
        }
        (Some(kept), _) => Ok(Some(kept)),
        (None, Some(given)) => {
            keep(disk, path, Kept { secret: given.clone(), stage: Stage::Closed }).map(Some)
        }
        (None, None) if config.makes_secret && is_alone => {
            let secret = Secret::generate().ok_or(tls::Error::NoRandomness)?;
            keep(disk, path, Kept { secret, stage: Stage::Closed }).map(Some)
        }
        (None, None) => Ok(None),
    }
}

/// Replaces the stored secret.
pub(crate) fn keep(disk: &dyn Disk, path: &Path, kept: Kept) -> Result<Kept, Error> {
    let trouble =
        |source| Error::DataDir { action: "write the cluster secret", path: path.to_owned(), source };
    small_file::write(disk, FILE, &render(&kept)).map_err(trouble)?;
    Ok(kept)
}

/// How the peer port is guarded: by certificates of an operator, by the secret of the cluster, or not at all.
pub(crate) fn guard(config: &PeerSecurity, kept: Option<&Kept>, me: Option<NodeId>) -> Result<Guard, Error> {
    let PeerSecurity { files, self_signed, regions, .. } = config;
    let (proof, stage) = match (files, kept, self_signed) {
        (Some(files), ..) => (MemberProof::Files(files.clone()), Stage::Closed),
        (None, Some(kept), _) => (MemberProof::Secret(kept.secret.clone()), kept.stage),
        (None, None, Some(made)) => (MemberProof::SelfSigned(made.clone()), Stage::Open),
        (None, None, None) if regions.is_empty() => return Ok(Guard::open()),
        (None, None, None) => (MemberProof::Open, Stage::Open),
    };
    let tls = tls::Peers::new(proof, me.map(|me| me.0), regions)?;
    Ok(Guard { tls: Some(Arc::new(tls)), stage, secret: kept.map(|kept| kept.secret.clone()) })
}

/// Replaces the stored stage or secret while the member runs.
pub(crate) struct Keeper {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    config: PeerSecurity,
    shares_a_port: bool,
}

impl Keeper {
    pub fn new(disk: Arc<dyn Disk>, config: &Config) -> Keeper {
        Keeper {
            disk,
            path: config.data_dir.clone(),
            config: config.peer_security.clone(),
            shares_a_port: config.shares_a_port(),
        }
    }

    /// Members can authenticate by a secret here.
    pub fn is_usable(&self) -> bool {
        self.config.files.is_none() && self.config.self_signed.is_none() && !self.shares_a_port
    }

    /// The node that has used a join token, if this member recorded it.
    pub fn noted_use(&self, token: &str) -> io::Result<Option<String>> {
        let text = small_file::read(&*self.disk, USED_TOKENS)?.unwrap_or_default();
        let node = text.lines().find_map(|line| line.strip_prefix(token)?.strip_prefix(' '));
        Ok(node.map(str::to_owned))
    }

    /// Records which node has used a join token, and returns the node that was recorded first.
    pub fn note_use(&self, token: &str, node: &str) -> io::Result<String> {
        if let Some(first) = self.noted_use(token)? {
            return Ok(first);
        }
        let mut text = small_file::read(&*self.disk, USED_TOKENS)?.unwrap_or_default();
        text.push_str(&format!("{token} {node}\n"));
        small_file::write(&*self.disk, USED_TOKENS, &text)?;
        Ok(node.to_owned())
    }

    pub fn change(&self, kept: Kept, me: NodeId) -> Result<Guard, Error> {
        let guard = guard(&self.config, Some(&kept), Some(me))?;
        keep(&*self.disk, &self.path, kept)?;
        Ok(guard)
    }
}

fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Kept>, Error> {
    let trouble =
        |source| Error::DataDir { action: "read the cluster secret", path: path.to_owned(), source };
    let Some(text) = small_file::read(disk, FILE).map_err(trouble)? else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| Error::SecretIllegible { path: path.to_owned(), file: FILE })
}

fn render(kept: &Kept) -> String {
    let stage = if kept.stage == Stage::Both { BOTH } else { CLOSED };
    format!("{HEAD}\npeers {stage}\nsecret {}\n", kept.secret.text())
}

fn parse(text: &str) -> Option<Kept> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let mut field = |label: &str| lines.next()?.strip_prefix(label);
    field(HEAD).filter(|rest| rest.is_empty())?;
    let stage = match field("peers ")? {
        CLOSED => Stage::Closed,
        BOTH => Stage::Both,
        _ => return None,
    };
    Some(Kept { secret: Secret::parse(field("secret ")?)?, stage })
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

    fn given(letter: &str) -> PeerSecurity {
        PeerSecurity { secret: Secret::parse(&letter.repeat(32)), ..PeerSecurity::default() }
    }

    #[test]
    fn a_secret_is_kept_and_another_one_is_refused() {
        let (disk, path) = (SimDisk::new(1), Path::new("d"));
        assert_eq!(settle(&disk, path, &PeerSecurity::default(), true).unwrap(), None);
        let first = settle(&disk, path, &given("a"), false).unwrap().unwrap();
        assert_eq!(first.stage, Stage::Closed);
        assert_eq!(settle(&disk, path, &PeerSecurity::default(), false).unwrap(), Some(first.clone()));
        assert_eq!(settle(&disk, path, &given("a"), false).unwrap(), Some(first));
        assert!(matches!(settle(&disk, path, &given("b"), false), Err(Error::OtherSecret { .. })));
    }

    #[test]
    fn a_single_node_makes_one_at_its_first_start_alone() {
        let config = PeerSecurity { makes_secret: true, ..PeerSecurity::default() };
        let (disk, path) = (SimDisk::new(1), Path::new("d"));
        assert_eq!(settle(&disk, path, &config, false).unwrap(), None);
        let made = settle(&disk, path, &config, true).unwrap();
        assert!(made.is_some());
        assert_eq!(settle(&disk, path, &config, false).unwrap(), made);
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_a_missing_one() {
        let (disk, path) = (SimDisk::new(1), Path::new("d"));
        let kept = Kept { secret: Secret::parse(&"a".repeat(32)).unwrap(), stage: Stage::Both };
        keep(&disk, path, kept.clone()).unwrap();
        assert_eq!(read(&disk, path).unwrap(), Some(kept));
        disk.open(FILE).unwrap().write_at(0, b"X").unwrap();
        assert!(matches!(read(&disk, path), Err(Error::SecretIllegible { .. })));
    }
}
