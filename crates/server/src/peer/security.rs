//! How the peer port authenticates now: how connections are encrypted, and what the other side must prove.
//! It may change while the member runs, when an open cluster is closed; the next connection uses the new state.

use super::wire::Wire;
use std::sync::{Arc, RwLock};
use tls::{Claim, Dial, Peers, Secret};

/// How far a cluster is on its way from open peer ports to closed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Members do not authenticate to each other.
    Open,
    /// Members with the secret prove it; those that do not have it yet are still accepted.
    Both,
    Closed,
}

#[derive(Clone)]
pub struct Guard {
    /// None if connections are never encrypted.
    pub tls: Option<Arc<Peers>>,
    pub stage: Stage,
    /// The secret that a node receives which joins with a token.
    pub secret: Option<Secret>,
}

impl Guard {
    pub fn open() -> Guard {
        Guard { tls: None, stage: Stage::Open, secret: None }
    }

    /// Members encrypt what they send to each other.
    pub fn is_sealed(&self) -> bool {
        self.dial(Claim::Peer, "localhost:1").is_some()
    }

    /// A node without proof is accepted as a member.
    pub fn is_open(&self) -> bool {
        let demanded = self.tls.as_ref().is_some_and(|tls| tls.demands(Claim::Peer));
        !demanded || self.stage == Stage::Both
    }

    /// How a connection to the other side is encrypted, if it is.
    pub fn dial(&self, claim: Claim<'_>, address: &str) -> Option<Dial> {
        self.tls.as_ref()?.dial(claim, address)
    }

    /// A closed cluster refuses regions that share no secret with it.
    pub fn is_barred(&self, claim: Claim<'_>) -> bool {
        let demanded = self.tls.as_ref().is_some_and(|tls| tls.demands(claim));
        matches!(claim, Claim::Region { .. }) && self.stage == Stage::Closed && !demanded
    }

    /// Whether the other side has proven what it claims.
    pub(super) fn proves(&self, wire: &Wire, claim: Claim<'_>) -> bool {
        let Some(tls) = &self.tls else { return false };
        wire.certificates(|certificates| tls.proves(certificates, claim))
    }

    /// Whether the other side is accepted as what it claims: it has proven it, or no proof is demanded.
    pub(super) fn admits(&self, wire: &Wire, claim: Claim<'_>) -> bool {
        let demanded = self.tls.as_ref().is_some_and(|tls| tls.demands(claim));
        let is_member = !matches!(claim, Claim::Region { .. });
        let may_be_clear = self.stage == Stage::Both && is_member && wire.seal().is_none();
        !self.is_barred(claim) && (!demanded || may_be_clear || self.proves(wire, claim))
    }
}

/// Shared by all connections.
pub struct Security(RwLock<Guard>);

impl Security {
    pub fn new(guard: Guard) -> Security {
        Security(RwLock::new(guard))
    }

    pub fn now(&self) -> Guard {
        self.0.read().expect("no thread panics while it holds the guard").clone()
    }

    pub fn set(&self, guard: Guard) {
        *self.0.write().expect("no thread panics while it holds the guard") = guard;
    }
}
