//! Repair: what brings replicas together again that have missed something. Exchanges compare the trees of shards and go on
//! always, hints are kept for replicas that did not answer, and what every replica has seen deleted is purged.

pub mod exchange;
pub mod hints;
mod purge;
pub mod walk;

use crate::hlc::Stamp;
use exchange::Exchanges;
use hints::Hints;
use walk::Walks;

pub(in crate::mesh) struct Repair {
    pub hints: Hints,
    exchanges: Exchanges,
    walks: Walks,
    /// Nothing later than this is forgotten.
    pub purge_bound: Stamp,
}

impl Repair {
    pub fn new(hints: Hints) -> Repair {
        Repair { hints, exchanges: Exchanges::default(), walks: Walks::new(), purge_bound: Stamp::MAX }
    }
}
