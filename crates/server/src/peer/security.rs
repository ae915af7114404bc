//! How the peer port is guarded now: what connections are sealed with, and what the other side must prove.
//! It may change while the member runs, when an open cluster is closed; it holds for the next connection then.

use super::wire::Wire;
use std::sync::{Arc, RwLock};
use tls::{Claim, Dial, Peers, Secret};

/// How far a cluster is on its way from open peer ports to closed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Members prove nothing to each other.
    Open,
    /// Those that have the secret prove it; those that do not have it yet are still members.
    Both,
    Closed,
}

#[derive(Clone)]
pub struct Guard {
    /// None if nothing is ever sealed.
    pub tls: Option<Arc<Peers>>,
    pub stage: Stage,
    /// What a node is given that joins with a token.
    pub secret: Option<Secret>,
}

impl Guard {
    pub fn open() -> Guard {
        Guard { tls: None, stage: Stage::Open, secret: None }
    }

    /// What members say to each other is encrypted.
    pub fn is_sealed(&self) -> bool {
        self.dial(Claim::Peer, "localhost:1").is_some()
    }

    /// A node without proof may be a member.
    pub fn is_open(&self) -> bool {
        let demanded = self.tls.as_ref().is_some_and(|tls| tls.demands(Claim::Peer));
        !demanded || self.stage == Stage::Both
    }

    /// How a connection to the other side is sealed, if it is.
    pub fn dial(&self, claim: Claim<'_>, address: &str) -> Option<Dial> {
        self.tls.as_ref()?.dial(claim, address)
    }

    /// A cluster that is closed does not speak with regions that share no secret with it.
    pub fn is_barred(&self, claim: Claim<'_>) -> bool {
        let demanded = self.tls.as_ref().is_some_and(|tls| tls.demands(claim));
        matches!(claim, Claim::Region { .. }) && self.stage == Stage::Closed && !demanded
    }

    /// Whether the other side has proven what it claims.
    pub(super) fn proves(&self, wire: &Wire, claim: Claim<'_>) -> bool {
        let Some(tls) = &self.tls else { return false };
        wire.certificates(|certificates| tls.proves(certificates, claim))
    }

    /// Whether the other side may be what it claims: it has proven it, or needs not.
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
