//! Closes the peer port of a running member in three steps, one request each: it takes the secret and
//! accepts members with and without it; it dials those members again that it still speaks to unencrypted;
//! it accepts only members with the secret. Neighbouring steps are compatible, so members go through them one by one,
//! in any order, and an interrupted command is repeated. Nothing of it is replicated: a member follows its own
//! data directory.

use crate::cluster_secret::StoredSecret;
use crate::handle::Handle;
use crate::peer::{PeerAuth, PeerAuthStage};
use base::NodeId;
use tls::{Fingerprint, PeerTls, Secret};

/// How far a member has closed its peer port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPortStatus {
    pub stage: PeerAuthStage,
    /// Of the secret that it has.
    pub authority: Option<Fingerprint>,
    /// Members with which it exchanges frames unencrypted now.
    pub in_the_clear: Vec<NodeId>,
}

#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    #[error(
        "the peer port of this member has certificates of its own, or is the port of its clients: it is closed by how the \
         member is started"
    )]
    NotBySecret,
    #[error("this member has another secret already")]
    OtherSecret,
    #[error("this member has no secret yet")]
    NoSecret,
    #[error("these members still exchange unencrypted frames with this one, and would be cut off: {0}")]
    InTheClear(String),
    #[error(transparent)]
    Failed(#[from] Box<crate::Error>),
}

impl Handle {
    pub fn peer_port(&self) -> PeerPortStatus {
        let PeerAuth { stage, secret, .. } = self.core().security.now();
        let peers = self.shared.peers.upgrade();
        PeerPortStatus {
            stage,
            authority: secret.as_ref().map(PeerTls::authority_of),
            in_the_clear: peers.map(|peers| peers.in_the_clear()).unwrap_or_default(),
        }
    }

    /// Takes the secret; members without it are still accepted. A member that has it already stays as closed as it is.
    pub fn take_secret(&self, secret: Secret) -> Result<PeerPortStatus, SecureError> {
        let now = self.core().security.now();
        if !self.core().secret_store.is_usable() {
            return Err(SecureError::NotBySecret);
        }
        match now.secret {
            Some(known) if known != secret => return Err(SecureError::OtherSecret),
            Some(_) => {}
            None => {
                self.keep(StoredSecret { secret, stage: PeerAuthStage::Both })?;
                tracing::info!("took the cluster secret; members without it are still accepted");
            }
        }
        Ok(self.peer_port())
    }

    /// Dials one unencrypted member again.
    pub fn redial_in_the_clear(&self) -> PeerPortStatus {
        if let Some(peers) = self.shared.peers.upgrade()
            && self.core().security.now().secret.is_some()
        {
            peers.redial_one_unencrypted();
        }
        self.peer_port()
    }

    /// Accepts only members with the secret from now on.
    pub fn close_peer_port(&self) -> Result<PeerPortStatus, SecureError> {
        let now = self.core().security.now();
        let secret = now.secret.ok_or(SecureError::NoSecret)?;
        let port = self.peer_port();
        if now.stage == PeerAuthStage::Closed {
            return Ok(port);
        }
        if !port.in_the_clear.is_empty() {
            let ids: Vec<String> = port.in_the_clear.iter().map(|id| format!("{:x}", id.0)).collect();
            return Err(SecureError::InTheClear(ids.join(", ")));
        }
        self.keep(StoredSecret { secret, stage: PeerAuthStage::Closed })?;
        tracing::info!("peer port closed to nodes without the cluster secret");
        if let Some(peers) = self.shared.peers.upgrade() {
            peers.cut_unencrypted();
        }
        Ok(self.peer_port())
    }

    fn keep(&self, kept: StoredSecret) -> Result<(), SecureError> {
        let changed = self.core().secret_store.change(kept, self.identity().member);
        self.core().security.set(changed.map_err(Box::new)?);
        Ok(())
    }
}
