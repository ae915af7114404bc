//! A command with the identity under which it went through the log. The log may deliver the same proposal
//! twice, and only the state machine can tell.

use crate::command::Command;
use base::ProposalId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub id: ProposalId,
    /// Every seq of this origin and boot below it is finished and will not come again.
    pub low: u64,
    pub command: Command,
}
