//! Closes the peer port of a running member in three steps, one request each: it takes the secret and
//! accepts members with and without it; it dials those members again that it still speaks to unencrypted;
//! it accepts only members with the secret. Neighbouring steps are compatible, so members go through them one by one,
//! in any order, and an interrupted command is repeated. Nothing of it is replicated: a member follows its own
//! data directory.

use crate::cluster_secret::{SecretObstacle, StoredSecret};
use crate::handle::Handle;
use crate::peer::{PeerAuth, PeerAuthStage};
use base::{Code, FormatLevel, NodeId};
use std::net::TcpStream;
use tls::{Fingerprint, PeerTls, Secret};

/// How far a member has closed its peer port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPortStatus {
    pub stage: PeerAuthStage,
    /// The fingerprint of the secret's authority, if the node has a secret.
    pub authority: Option<Fingerprint>,
    /// Members with which it exchanges frames unencrypted now.
    pub in_the_clear: Vec<NodeId>,
}

#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    #[error("the peer port of this member is closed by how the member is started: {0}")]
    NotBySecret(SecretObstacle),
    #[error("this member has another secret already")]
    OtherSecret,
    #[error("{0}")]
    Refused(Code),
    #[error("this member has no secret yet")]
    NoSecret,
    #[error("these members still exchange unencrypted frames with this one, and would be cut off: {0}")]
    InTheClear(String),
    #[error(transparent)]
    Failed(#[from] Box<crate::Error>),
}

/// The peer port of this member.
#[derive(Clone, Copy)]
pub struct PeerPortHandle<'a> {
    pub(crate) handle: &'a Handle,
}

impl PeerPortHandle<'_> {
    pub fn status(self) -> PeerPortStatus {
        let PeerAuth { stage, secret, .. } = self.handle.core().security.peers.now();
        let peers = self.handle.shared.peers.upgrade();
        PeerPortStatus {
            stage,
            authority: secret.as_ref().map(PeerTls::authority_of),
            in_the_clear: peers.map(|peers| peers.in_the_clear()).unwrap_or_default(),
        }
    }

    /// Members do not authenticate to each other, and other machines can connect to the peer port.
    pub fn is_open(self) -> bool {
        let core = self.handle.core();
        core.security.is_peer_port_exposed && core.security.peers.now().is_open()
    }

    /// When the certificate that this member shows to others expires, in seconds since 1970.
    pub fn certificate_expiry(self) -> Option<u64> {
        self.handle.core().security.peers.now().tls.as_ref()?.expiry()
    }

    /// Takes over a peer's connection that was accepted on the client port. If that fails, it is closed.
    pub fn adopt(self, stream: TcpStream) {
        let Some(peers) = self.handle.shared.peers.upgrade() else { return };
        if let Err(error) = peers.adopt(stream) {
            tracing::warn!(%error, "cannot take over a peer's connection");
        }
    }

    /// Takes the secret; members without it are still accepted. A member that has it already stays as closed as it is.
    pub fn take_secret(self, secret: Secret) -> Result<PeerPortStatus, SecureError> {
        let now = self.handle.core().security.peers.now();
        if let Some(obstacle) = self.handle.core().security.secret_store.obstacle() {
            return Err(SecureError::NotBySecret(obstacle));
        }
        match now.secret {
            Some(known) if known != secret => return Err(SecureError::OtherSecret),
            Some(_) => {}
            None => {
                // Release 0.1.0 speaks with open clusters alone.
                self.handle.formats().require(FormatLevel(1)).map_err(SecureError::Refused)?;
                self.keep(StoredSecret { secret, stage: PeerAuthStage::Both })?;
                tracing::info!("cluster secret installed; members without it are still accepted");
            }
        }
        Ok(self.status())
    }

    /// Dials one unencrypted member again.
    pub fn redial_one(self) -> PeerPortStatus {
        if let Some(peers) = self.handle.shared.peers.upgrade()
            && self.handle.core().security.peers.now().secret.is_some()
        {
            peers.redial_one_unencrypted();
        }
        self.status()
    }

    /// Accepts only members with the secret from now on.
    pub fn close(self) -> Result<PeerPortStatus, SecureError> {
        let now = self.handle.core().security.peers.now();
        let secret = now.secret.ok_or(SecureError::NoSecret)?;
        let port = self.status();
        if now.stage == PeerAuthStage::Closed {
            return Ok(port);
        }
        if !port.in_the_clear.is_empty() {
            let ids: Vec<String> = port.in_the_clear.iter().map(|id| format!("{:x}", id.0)).collect();
            return Err(SecureError::InTheClear(ids.join(", ")));
        }
        self.keep(StoredSecret { secret, stage: PeerAuthStage::Closed })?;
        tracing::info!("peer port closed to nodes without the cluster secret");
        if let Some(peers) = self.handle.shared.peers.upgrade() {
            peers.cut_unencrypted();
        }
        Ok(self.status())
    }

    fn keep(self, kept: StoredSecret) -> Result<(), SecureError> {
        let changed = self.handle.core().security.secret_store.change(kept, self.handle.identity().member);
        self.handle.core().security.peers.set(changed.map_err(Box::new)?);
        Ok(())
    }
}
