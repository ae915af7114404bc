//! Resolves a local and a remote record of a key: their causality, the merged record, and the conflict if there is one.
//! The records are always merged, whatever the clocks say, so the result does not depend on the order; the outcome is for
//! people, for counters, and for the conflict log.

use crate::context::Causality;
use crate::merge::{Merged, merge};
use crate::record::Record;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The local record has seen the remote one.
    KeptLocal,
    /// The remote record has seen the local one.
    TookRemote,
    /// Both records are the same.
    Same,
    /// Neither has seen the other, and both went into one state.
    Joined,
    /// Neither has seen the other, and one of them lost.
    Conflict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    pub causality: Causality,
    pub verdict: MergeOutcome,
    pub record: Record,
    /// The write that lost, and the one that it lost against.
    pub conflict: Option<LostWrite>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostWrite {
    pub winner: Record,
    pub loser: Record,
}

/// The record that is here meets one that comes.
pub fn resolve(local: &Record, remote: &Record) -> Resolution {
    let causality = local.context.compare(&remote.context);
    let Merged { record, loser } = merge(local, remote);
    let loss = |loser: Record| {
        let winner = if loser == *local { remote.clone() } else { local.clone() };
        LostWrite { winner, loser }
    };
    let conflict = loser.map(loss);
    let verdict = match causality {
        _ if conflict.is_some() => MergeOutcome::Conflict,
        Causality::Equal if record == *local => MergeOutcome::Same,
        _ if record == *local => MergeOutcome::KeptLocal,
        _ if record == *remote => MergeOutcome::TookRemote,
        _ => MergeOutcome::Joined,
    };
    Resolution { causality, verdict, record, conflict }
}

#[cfg(test)]
mod tests;
