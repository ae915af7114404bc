//! Which proposals of the committed log count: each identity once, and none that its origin has done with.
//! The judges that follow the log ask here before they carry a proposal out on their models.

use base::{Boot, NodeId, ProposalId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct SeenProposals {
    seen: BTreeSet<ProposalId>,
    /// The newest start of each member, and the mark below which its proposals are over.
    lows: BTreeMap<NodeId, (Boot, u64)>,
}

impl SeenProposals {
    pub fn is_new(&mut self, id: ProposalId, low: u64) -> bool {
        let mark = self.lows.entry(id.origin).or_insert((id.boot, 0));
        let over = id.boot < mark.0 || id.boot == mark.0 && id.seq < mark.1;
        // A proposal that comes again moves no mark.
        if over || !self.seen.insert(id) {
            return false;
        }
        *mark = if id.boot > mark.0 { (id.boot, low) } else { (mark.0, mark.1.max(low)) };
        true
    }
}
