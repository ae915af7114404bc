//! The secret of the cluster as the data directory keeps it, and how far the cluster is with closing its peer ports.
//! The configured and the stored secret go in; the one that is valid comes out, durable. A directory that holds another
//! secret than the configured one is not opened.

use crate::config::{Config, PeerSecurity};
use crate::error::Error;
use crate::peer::{PeerAuth, PeerAuthStage};
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
pub(crate) struct StoredSecret {
    pub secret: Secret,
    pub stage: PeerAuthStage,
}

/// Decides which secret is valid. `is_alone` says that the node founds a cluster of its own with this start.
pub(crate) fn resolve(
    disk: &dyn Disk,
    path: &Path,
    config: &PeerSecurity,
    is_alone: bool,
) -> Result<Option<StoredSecret>, Error> {
    match (read(disk, path)?, &config.secret) {
        (Some(stored), Some(given)) if stored.secret != *given => {
            Err(Error::OtherSecret { path: path.to_owned() })
        }
        (Some(stored), _) => Ok(Some(stored)),
        (None, Some(given)) => {
            store(disk, path, StoredSecret { secret: given.clone(), stage: PeerAuthStage::Closed }).map(Some)
        }
        (None, None) if config.makes_secret && is_alone => {
            let secret = Secret::generate().ok_or(tls::Error::NoRandomness)?;
            store(disk, path, StoredSecret { secret, stage: PeerAuthStage::Closed }).map(Some)
        }
        (None, None) => Ok(None),
    }
}

/// Replaces the stored secret.
pub(crate) fn store(disk: &dyn Disk, path: &Path, stored: StoredSecret) -> Result<StoredSecret, Error> {
    let trouble =
        |source| Error::DataDir { action: "write the cluster secret", path: path.to_owned(), source };
    small_file::write(disk, FILE, &render(&stored)).map_err(trouble)?;
    Ok(stored)
}

/// How the peer port is guarded: by certificates of an operator, by the secret of the cluster, or not at all.
pub(crate) fn guard(
    config: &PeerSecurity,
    stored: Option<&StoredSecret>,
    me: Option<NodeId>,
) -> Result<PeerAuth, Error> {
    let PeerSecurity { files, self_signed, regions, .. } = config;
    let (proof, stage) = match (files, stored, self_signed) {
        (Some(files), ..) => (MemberProof::Files(files.clone()), PeerAuthStage::Closed),
        (None, Some(stored), _) => (MemberProof::Secret(stored.secret.clone()), stored.stage),
        (None, None, Some(made)) => (MemberProof::SelfSigned(made.clone()), PeerAuthStage::Open),
        (None, None, None) if regions.is_empty() => return Ok(PeerAuth::open()),
        (None, None, None) => (MemberProof::Open, PeerAuthStage::Open),
    };
    let tls = tls::PeerTls::new(proof, me.map(|me| me.0), regions)?;
    Ok(PeerAuth { tls: Some(Arc::new(tls)), stage, secret: stored.map(|stored| stored.secret.clone()) })
}

/// Why the peers of a running member cannot be closed by a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretObstacle {
    #[error(
        "members prove themselves by certificates here (--peer-cert-file, --peer-trusted-ca-file), and need no secret"
    )]
    Certificates,
    #[error(
        "its members make certificates by themselves (--peer-auto-tls), which members with a secret do not take: stop all members, and start \
         them without --peer-auto-tls, each with the same --cluster-secret-file"
    )]
    SelfSigned,
    #[error(
        "its peers use the port of its clients: stop all members, and start them with a --peer-addr of its own (and not by GRPC_PORT), \
         each with the same --cluster-secret-file; `althing member update` tells the cluster each new peer address first"
    )]
    SharedPort,
}

/// Replaces the stored stage or secret while the member runs.
pub(crate) struct SecretStore {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    config: PeerSecurity,
    shares_a_port: bool,
}

impl SecretStore {
    pub fn new(disk: Arc<dyn Disk>, config: &Config) -> SecretStore {
        SecretStore {
            disk,
            path: config.data_dir.clone(),
            config: config.peer_security.clone(),
            shares_a_port: config.shares_a_port(),
        }
    }

    /// Why a running member cannot take a secret, and what does instead; none if it can.
    pub fn obstacle(&self) -> Option<SecretObstacle> {
        match () {
            () if self.config.files.is_some() => Some(SecretObstacle::Certificates),
            () if self.config.self_signed.is_some() => Some(SecretObstacle::SelfSigned),
            () if self.shares_a_port => Some(SecretObstacle::SharedPort),
            () => None,
        }
    }

    /// The node that has used a join token, if this member recorded it.
    pub fn recorded_use(&self, token: &str) -> io::Result<Option<String>> {
        let text = small_file::read(&*self.disk, USED_TOKENS)?.unwrap_or_default();
        let node = text.lines().find_map(|line| line.strip_prefix(token)?.strip_prefix(' '));
        Ok(node.map(str::to_owned))
    }

    /// Records which node has used a join token, and returns the node that was recorded first.
    pub fn record_use(&self, token: &str, node: &str) -> io::Result<String> {
        if let Some(first) = self.recorded_use(token)? {
            return Ok(first);
        }
        let mut text = small_file::read(&*self.disk, USED_TOKENS)?.unwrap_or_default();
        text.push_str(&format!("{token} {node}\n"));
        small_file::write(&*self.disk, USED_TOKENS, &text)?;
        Ok(node.to_owned())
    }

    pub fn change(&self, stored: StoredSecret, me: NodeId) -> Result<PeerAuth, Error> {
        let guard = guard(&self.config, Some(&stored), Some(me))?;
        store(&*self.disk, &self.path, stored)?;
        Ok(guard)
    }
}

fn read(disk: &dyn Disk, path: &Path) -> Result<Option<StoredSecret>, Error> {
    let trouble =
        |source| Error::DataDir { action: "read the cluster secret", path: path.to_owned(), source };
    let Some(text) = small_file::read(disk, FILE).map_err(trouble)? else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| Error::SecretIllegible { path: path.to_owned(), file: FILE })
}

fn render(stored: &StoredSecret) -> String {
    let stage = if stored.stage == PeerAuthStage::Both { BOTH } else { CLOSED };
    format!("{HEAD}\npeers {stage}\nsecret {}\n", stored.secret.text())
}

fn parse(text: &str) -> Option<StoredSecret> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let mut field = |label: &str| lines.next()?.strip_prefix(label);
    field(HEAD).filter(|rest| rest.is_empty())?;
    let stage = match field("peers ")? {
        CLOSED => PeerAuthStage::Closed,
        BOTH => PeerAuthStage::Both,
        _ => return None,
    };
    Some(StoredSecret { secret: Secret::parse(field("secret ")?)?, stage })
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
        assert_eq!(resolve(&disk, path, &PeerSecurity::default(), true).unwrap(), None);
        let first = resolve(&disk, path, &given("a"), false).unwrap().unwrap();
        assert_eq!(first.stage, PeerAuthStage::Closed);
        assert_eq!(resolve(&disk, path, &PeerSecurity::default(), false).unwrap(), Some(first.clone()));
        assert_eq!(resolve(&disk, path, &given("a"), false).unwrap(), Some(first));
        assert!(matches!(resolve(&disk, path, &given("b"), false), Err(Error::OtherSecret { .. })));
    }

    #[test]
    fn a_single_node_makes_one_at_its_first_start_alone() {
        let config = PeerSecurity { makes_secret: true, ..PeerSecurity::default() };
        let (disk, path) = (SimDisk::new(1), Path::new("d"));
        assert_eq!(resolve(&disk, path, &config, false).unwrap(), None);
        let made = resolve(&disk, path, &config, true).unwrap();
        assert!(made.is_some());
        assert_eq!(resolve(&disk, path, &config, false).unwrap(), made);
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_a_missing_one() {
        let (disk, path) = (SimDisk::new(1), Path::new("d"));
        let stored =
            StoredSecret { secret: Secret::parse(&"a".repeat(32)).unwrap(), stage: PeerAuthStage::Both };
        store(&disk, path, stored.clone()).unwrap();
        assert_eq!(read(&disk, path).unwrap(), Some(stored));
        disk.open(FILE).unwrap().write_at(0, b"X").unwrap();
        assert!(matches!(read(&disk, path), Err(Error::SecretIllegible { .. })));
    }
}
