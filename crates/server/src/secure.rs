//! Closes the peer port of a running member in three steps, each of which an operator asks for: it takes the secret and
//! speaks with members that have it and with those that do not; it dials members again that it still speaks to in the clear;
//! it hears members with the secret alone. Neighbouring steps understand each other, so members go through them one by one,
//! in any order, and a command that was broken off is repeated. Nothing of it is replicated: a member goes by what its own
//! data directory keeps.

use crate::cluster_secret::Kept;
use crate::handle::Handle;
use crate::peer::{Guard, Stage};
use base::NodeId;
use tls::{Fingerprint, Peers, Secret};

/// How far a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPort {
    pub stage: Stage,
    /// Of the secret that it has.
    pub authority: Option<Fingerprint>,
    /// Members with which it exchanges frames in the clear now.
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
    #[error("members speak in the clear with this one, and would be cut off: {0}")]
    InTheClear(String),
    #[error(transparent)]
    Failed(#[from] Box<crate::Error>),
}

impl Handle {
    pub fn peer_port(&self) -> PeerPort {
        let Guard { stage, secret, .. } = self.core().security.now();
        let peers = self.shared.peers.upgrade();
        PeerPort {
            stage,
            authority: secret.as_ref().map(Peers::authority_of),
            in_the_clear: peers.map(|peers| peers.in_the_clear()).unwrap_or_default(),
        }
    }

    /// Takes the secret; members without it are still heard. A member that has it already stays as closed as it is.
    pub fn take_secret(&self, secret: Secret) -> Result<PeerPort, SecureError> {
        let now = self.core().security.now();
        if !self.core().secret_keeper.is_usable() {
            return Err(SecureError::NotBySecret);
        }
        match now.secret {
            Some(known) if known != secret => return Err(SecureError::OtherSecret),
            Some(_) => {}
            None => {
                self.keep(Kept { secret, stage: Stage::Both })?;
                tracing::info!("took the secret of the cluster; members without it are still heard");
            }
        }
        Ok(self.peer_port())
    }

    /// Dials a member again that it speaks to in the clear.
    pub fn redial_in_the_clear(&self) -> PeerPort {
        if let Some(peers) = self.shared.peers.upgrade()
            && self.core().security.now().secret.is_some()
        {
            peers.redial_one_in_the_clear();
        }
        self.peer_port()
    }

    /// Hears members with the secret alone from now on.
    pub fn close_peer_port(&self) -> Result<PeerPort, SecureError> {
        let now = self.core().security.now();
        let secret = now.secret.ok_or(SecureError::NoSecret)?;
        let port = self.peer_port();
        if now.stage == Stage::Closed {
            return Ok(port);
        }
        if !port.in_the_clear.is_empty() {
            let ids: Vec<String> = port.in_the_clear.iter().map(|id| format!("{:x}", id.0)).collect();
            return Err(SecureError::InTheClear(ids.join(", ")));
        }
        self.keep(Kept { secret, stage: Stage::Closed })?;
        tracing::info!("the peer port is closed to nodes without the secret of the cluster");
        if let Some(peers) = self.shared.peers.upgrade() {
            peers.cut_what_is_clear();
        }
        Ok(self.peer_port())
    }

    fn keep(&self, kept: Kept) -> Result<(), SecureError> {
        let changed = self.core().secret_keeper.change(kept, self.identity().member);
        self.core().security.set(changed.map_err(Box::new)?);
        Ok(())
    }
}
