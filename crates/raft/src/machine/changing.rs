//! Members that come back in the midst of changes of the cluster: what they have of them, and who may stand for election.
//! Configurations that are one change apart have majorities that meet; two changes apart they need not. So nobody should
//! count by one that is older than the last but one that anybody counts by.

use super::{InFlight, Output, Persist, Raft, vote_of};
use crate::record::Record;
use base::mutant::{Mutant, planted};
use base::{Index, Term};

/// Elections that a member sits out whose log holds a change of the cluster that it has not applied.
pub(super) const CHANGE_ELECTIONS: usize = 5;

impl Raft {
    /// Whether the log holds a change of the cluster that is not applied here. It may be committed, and with it another
    /// one after it: then this member would count by a configuration that is two behind that of others, whose
    /// majorities need not meet.
    fn has_unapplied_change(&self) -> bool {
        let log = &self.node.raft.raft_log;
        !planted(Mutant::StandsOnOldConfig) && log.store.change_behind(log.applied).is_some()
    }

    pub(super) fn may_stand_now(&self) -> bool {
        self.may_stand() && (self.sat_out > CHANGE_ELECTIONS || !self.has_unapplied_change())
    }

    /// Somebody who knows that the change is committed will lead and say so. If nobody does for long, nobody knows.
    pub(super) fn waits_for_change(&mut self) -> bool {
        if !self.has_unapplied_change() {
            self.sat_out = 0;
            return false;
        }
        self.sat_out += 1;
        self.sat_out <= CHANGE_ELECTIONS
    }

    /// What the only voter has on its disk is committed, up to the next change of the cluster, for there is nobody else
    /// whom it could wait for. It counts by that change before it stands for election.
    pub(super) fn commit_alone(&mut self) {
        let config = self.config();
        if self.is_leader() || config.is_joint() || config.voters != [self.params.id] {
            return;
        }
        let log = &mut self.node.raft.raft_log;
        let change = log.store.change_behind(log.applied).filter(|index| *index <= log.persisted);
        if let Some(index) = change.filter(|index| *index > log.committed) {
            log.commit_to(index);
        }
    }

    /// A member that comes back knows that the change is committed, and counts by it.
    pub(super) fn record_commit(&mut self, out: &mut Output) {
        let raft = &self.node.raft;
        let (term, commit) = (Term(raft.term), Index(raft.raft_log.committed));
        let vote = vote_of(&raft.hard_state());
        self.persist_seq += 1;
        out.persist.push(Persist {
            seq: self.persist_seq,
            install: None,
            records: vec![Record::Vote { term, vote, commit }],
        });
        let ready_number = self.last_ready;
        let flight =
            InFlight { seq: self.persist_seq, ready_number, term, installs: false, then_send: Vec::new() };
        self.in_flight.push_back(flight);
    }
}
