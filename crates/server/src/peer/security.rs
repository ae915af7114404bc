//! How the peer port authenticates now: how connections are encrypted, and what the other side must prove.
//! It may change while the member runs, when an open cluster is closed; the next connection uses the new state.

use super::wire::PeerConn;
use std::sync::{Arc, RwLock};
use tls::{DialTls, PeerClaim, PeerTls, Secret};

/// How far a cluster is on its way from open peer ports to closed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAuthStage {
    /// Members do not authenticate to each other.
    Open,
    /// Members with the secret prove it; those that do not have it yet are still accepted.
    Both,
    Closed,
}

#[derive(Clone)]
pub struct PeerAuth {
    /// None if connections are never encrypted.
    pub tls: Option<Arc<PeerTls>>,
    pub stage: PeerAuthStage,
    /// The secret that a node receives which joins with a token.
    pub secret: Option<Secret>,
}

impl PeerAuth {
    pub fn open() -> PeerAuth {
        PeerAuth { tls: None, stage: PeerAuthStage::Open, secret: None }
    }

    /// Members encrypt what they send to each other.
    pub fn is_encrypted(&self) -> bool {
        self.dial(PeerClaim::Peer, "localhost:1").is_some()
    }

    /// A node without proof is accepted as a member.
    pub fn is_open(&self) -> bool {
        let demanded = self.tls.as_ref().is_some_and(|tls| tls.demands(PeerClaim::Peer));
        !demanded || self.stage == PeerAuthStage::Both
    }

    /// How a connection to the other side is encrypted, if it is.
    pub fn dial(&self, claim: PeerClaim<'_>, address: &str) -> Option<DialTls> {
        self.tls.as_ref()?.dial(claim, address)
    }

    /// A closed cluster refuses regions that share no secret with it.
    pub fn is_barred(&self, claim: PeerClaim<'_>) -> bool {
        let demanded = self.tls.as_ref().is_some_and(|tls| tls.demands(claim));
        matches!(claim, PeerClaim::Region { .. }) && self.stage == PeerAuthStage::Closed && !demanded
    }

    /// Whether the other side has proven what it claims.
    pub(super) fn proves(&self, wire: &PeerConn, claim: PeerClaim<'_>) -> bool {
        let Some(tls) = &self.tls else { return false };
        wire.certificates(|certificates| tls.proves(certificates, claim))
    }

    /// Whether the other side is accepted as what it claims: it has proven it, or no proof is demanded.
    pub(super) fn admits(&self, wire: &PeerConn, claim: PeerClaim<'_>) -> bool {
        let demanded = self.tls.as_ref().is_some_and(|tls| tls.demands(claim));
        let is_member = !matches!(claim, PeerClaim::Region { .. });
        let may_be_clear = self.stage == PeerAuthStage::Both && is_member && wire.seal().is_none();
        !self.is_barred(claim) && (!demanded || may_be_clear || self.proves(wire, claim))
    }
}

/// Shared by all connections.
pub struct SharedPeerAuth(RwLock<PeerAuth>);

impl SharedPeerAuth {
    pub fn new(guard: PeerAuth) -> SharedPeerAuth {
        SharedPeerAuth(RwLock::new(guard))
    }

    pub fn now(&self) -> PeerAuth {
        self.0.read().expect("no thread panics while it holds the guard").clone()
    }

    pub fn set(&self, guard: PeerAuth) {
        *self.0.write().expect("no thread panics while it holds the guard") = guard;
    }
}
