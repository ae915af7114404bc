//! Operators that change the cluster during the run: they add members with and without a vote, promote, remove, and replace
//! members whose machine is lost.
//! The table that the first member applies is the truth; every member's raft must stand on the configuration of the
//! index that it has applied, whatever happened to it meanwhile.

use crate::host::Host;
use crate::lease_holders::{SideRequest, propose};
use crate::nemesis::ProcessEnd;
use crate::oracle::{Checker, Violation};
use crate::world::{Checked, Event, World, new_host};
use base::{Index, NodeId};
use coord::{Command, Member, MemberChange, Members};
use node::ConsensusInput;
use node::member::config_of;
use raft::Config;
use std::collections::BTreeMap;

/// Hosts that a world ever has.
pub const HOSTS_MAX: usize = 16;
/// No more are asked for; an addition whose fate is unknown may come on top.
const MEMBERS_MAX: usize = 6;
/// How often a member that was removed is told so.
const RETIRE_DELAY_US: (u64, u64) = (1_000, 500_000);

#[derive(Default)]
pub struct Operators {
    table: Members,
    configs: BTreeMap<Index, Config>,
    /// A change that was asked for may still happen.
    unsettled: bool,
    /// A member whose machine is gone for ever, and that is still in the table.
    lost: Option<NodeId>,
    pub changes: u64,
    /// Of these, decided while a member was down.
    pub changes_short: u64,
}

impl Operators {
    /// The operator heard what became of the change, or not.
    pub fn answered(&mut self, settled: bool) {
        self.unsettled = !settled;
    }

    pub fn voters(&self) -> Vec<NodeId> {
        self.table.voters()
    }

    fn config_at(&self, index: Index) -> Option<&Config> {
        self.configs.range(..=index).next_back().map(|(_, config)| config)
    }
}

impl World {
    /// An operator looks in, and comes back.
    pub fn operate(&mut self) -> Checked {
        if self.calm {
            return Ok(());
        }
        let (shortest, longest) = self.settings.bias.change_pause;
        let pause = self.rng.between(shortest, longest);
        self.events.after(pause, Event::Operate);
        let Some(change) = self.next_change() else { return Ok(()) };
        let running: Vec<usize> =
            (0..self.hosts.len()).filter(|host| self.hosts[*host].process.is_some()).collect();
        if running.is_empty() {
            return Ok(());
        }
        let host = *self.rng.pick(&running);
        self.operators.unsettled = true;
        let side_request = SideRequest::of_operator(self.events.now());
        let pid = self.hosts[host].pid;
        let work = propose(&Command::Members(change));
        self.events.after(100, Event::SideRequest { host, pid, side_request, work });
        Ok(())
    }

    fn next_change(&mut self) -> Option<MemberChange> {
        let members: Vec<Member> = self.operators.table.iter().cloned().collect();
        if members.is_empty() {
            return None;
        }
        if let Some(lost) = self.operators.lost {
            return Some(MemberChange::Remove(lost));
        }
        let voters = self.operators.table.voters().len();
        let learner = members.iter().find(|member| member.learner);
        match self.rng.between(0, 10) {
            0..3 if members.len() < MEMBERS_MAX && self.hosts.len() < HOSTS_MAX => Some(self.addition()),
            3 if voters > 2 && self.hosts.len() < HOSTS_MAX => Some(self.replacement()),
            4..6 if learner.is_some() => Some(MemberChange::Promote { id: learner?.id, caught_up: false }),
            6 if voters > 3 && !self.operators.unsettled => self.lose_one(),
            7.. if voters > self.settings.bias.fewest_voters => {
                Some(MemberChange::Remove(self.rng.pick(&members).id))
            }
            _ => None,
        }
    }

    /// A new machine in the place of an old one, in one step.
    fn replacement(&mut self) -> MemberChange {
        let voters = self.operators.table.voters();
        let old = *self.rng.pick(&voters);
        let host = new_host(self.hosts.len(), &mut self.rng);
        let new = member_of(&host);
        self.hosts.push(host);
        self.network.grow();
        MemberChange::Replace { old, new }
    }

    /// A new machine, which starts when the table knows it.
    fn addition(&mut self) -> MemberChange {
        let number = self.hosts.len();
        let host = new_host(number, &mut self.rng);
        let learner = self.rng.chance(self.settings.bias.learners);
        let member = Member { learner, ..member_of(&host) };
        self.hosts.push(host);
        self.network.grow();
        MemberChange::Add(member)
    }

    /// A machine is lost with its disk. Nothing of it comes back; the operator removes it and adds another.
    fn lose_one(&mut self) -> Option<MemberChange> {
        let voters = self.operators.table.voters();
        let lost = *self.rng.pick(&voters);
        let host = self.hosts.iter().position(|host| host.id == lost)?;
        self.retire(host);
        self.operators.lost = Some(lost);
        Some(MemberChange::Remove(lost))
    }

    /// A member has applied a change of the table.
    pub fn members_changed(&mut self, index: Index, members: &Members) -> Checked {
        let config = config_of(members);
        let first = self.operators.configs.entry(index).or_insert_with(|| config.clone());
        if *first != config {
            let what = format!("another configuration at index {index} than was seen before: {config:?}");
            return Err(Violation { checker: Checker::Config, what });
        }
        if self.operators.configs.last_key_value().is_some_and(|(newest, _)| *newest > index)
            || self.operators.table == *members
        {
            return Ok(());
        }
        let is_down = |host: usize| self.hosts[host].process.is_none();
        self.operators.changes_short += u64::from(self.member_hosts().into_iter().any(is_down));
        self.operators.table = members.clone();
        self.operators.changes += 1;
        self.operators.lost = self.operators.lost.filter(|lost| members.get(*lost).is_some());
        for host in 0..self.hosts.len() {
            let id = self.hosts[host].id;
            if members.is_removed(id) && !self.hosts[host].retired {
                let delay = self.rng.between(RETIRE_DELAY_US.0, RETIRE_DELAY_US.1);
                self.events.after(delay, Event::Retire { host });
            }
            if members.get(id).is_some() && self.hosts[host].pid == 0 && host >= self.settings.members {
                let delay = self.rng.between(1_000, 2_000_000);
                self.events.after(delay, Event::Restart { host });
            }
        }
        Ok(())
    }

    /// A member that was removed goes when enough of the others have told it.
    pub fn retire_when_told(&mut self, host: usize) {
        let id = self.hosts[host].id;
        let knows = |other: &&Host| other.flushed_members.is_removed(id);
        let know = self.hosts.iter().filter(knows).map(|other| other.id).collect();
        if self.operators.table.can_release_removed(id, &know) {
            return self.retire(host);
        }
        let delay = self.rng.between(RETIRE_DELAY_US.0, RETIRE_DELAY_US.1);
        self.events.after(delay, Event::Retire { host });
    }

    /// The process of a host ends and never starts again.
    pub fn retire(&mut self, host: usize) {
        self.stop(host, ProcessEnd::PowerCut);
        self.hosts[host].retired = true;
    }

    /// A machine that was brought for a change starts once the table knows it.
    pub fn may_start(&self, host: usize) -> bool {
        let machine = &self.hosts[host];
        let table = &self.operators.table;
        let is_known = table.get(machine.id).is_some() || table.is_removed(machine.id);
        (host < self.settings.members || is_known) && !machine.retired
    }

    /// In the end one configuration counts, even if the leader that began a replacement is gone.
    pub fn check_settled(&self) -> Checked {
        match self.operators.table.replacement() {
            None => Ok(()),
            Some(replacement) => {
                let what = format!("no leader finishes {replacement:?} although faults have stopped");
                Err(Violation { checker: Checker::Live, what })
            }
        }
    }

    /// One that runs or will run again.
    pub fn any_host(&mut self) -> usize {
        let hosts: Vec<usize> = (0..self.hosts.len()).filter(|host| self.may_start(*host)).collect();
        *self.rng.pick(&hosts)
    }

    /// A member whose machine is gone is still in the table.
    pub fn has_lost_machine(&self) -> bool {
        self.operators.lost.is_some()
    }

    /// Those who belong to the cluster; before it is founded, its first members.
    pub fn member_hosts(&self) -> Vec<usize> {
        let table = &self.operators.table;
        let belongs = |host: &usize| {
            if table.is_empty() {
                *host < self.settings.members
            } else {
                table.get(self.hosts[*host].id).is_some()
            }
        };
        let lost = |host: &usize| self.operators.lost == Some(self.hosts[*host].id);
        (0..self.hosts.len()).filter(|host| belongs(host) && !lost(host)).collect()
    }

    /// A member whose disk might be new does not vote for a candidate with a log, for some time.
    pub fn has_doubting_member(&self) -> bool {
        let doubts = |host: usize| {
            let process = self.hosts[host].process.as_ref();
            process.is_some_and(|process| process.member.consensus.is_in_doubt())
        };
        self.member_hosts().into_iter().any(doubts)
    }

    /// An operator tells all members not to wait for the machine that is gone.
    pub fn accept_loss(&mut self) -> Checked {
        let Some(lost) = self.operators.lost else { return Ok(()) };
        for host in self.member_hosts() {
            if self.hosts[host].process.is_some() {
                self.drive(host, ConsensusInput::AcceptLoss(lost))?;
            }
        }
        Ok(())
    }

    /// Every member runs and has all that any member knows to be committed.
    pub fn are_all_disks_up_to_date(&self) -> bool {
        let statuses: Option<Vec<_>> = self
            .member_hosts()
            .into_iter()
            .map(|host| Some(self.hosts[host].process.as_ref()?.member.consensus.status()))
            .collect();
        let Some(statuses) = statuses.filter(|_| !self.has_lost_machine()) else { return false };
        let committed = statuses.iter().map(|status| status.committed).max();
        statuses.iter().all(|status| Some(status.committed) == committed)
    }

    /// Where a host stands, in a few words.
    pub fn standing(&self, host: usize) -> String {
        let id = self.hosts[host].id;
        let Some(process) = self.hosts[host].process.as_ref() else { return format!("{id} is down") };
        let consensus = &process.member.consensus;
        format!("{id} {:?} applied {} {:?}", consensus.status(), process.applied(), consensus.config())
    }

    /// A member's raft stands on the configuration of what it has applied.
    pub fn check_config(&self, host: usize) -> Checked {
        let Some(process) = self.hosts[host].process.as_ref() else { return Ok(()) };
        let consensus = &process.member.consensus;
        let initial_members = || Config {
            voters: sorted(self.hosts[..self.settings.members].iter().map(|host| host.id).collect()),
            learners: Vec::new(),
            outgoing: Vec::new(),
        };
        // Before the table of members exists, a joining member has what its leader sent it.
        let known = self.operators.config_at(consensus.configured()).cloned();
        let first = (host < self.settings.members).then(initial_members);
        let Some(expected) = known.or(first) else { return Ok(()) };
        let found = consensus.config();
        if found == expected {
            return Ok(());
        }
        let what = format!("{} stands on {found:?} instead of {expected:?}", self.hosts[host].id);
        Err(Violation { checker: Checker::Config, what })
    }
}

fn sorted(mut ids: Vec<NodeId>) -> Vec<NodeId> {
    ids.sort_unstable();
    ids
}

/// As it stands in the table.
pub fn member_of(host: &Host) -> Member {
    Member {
        id: host.id,
        name: format!("m{}", host.id),
        peer_urls: vec![format!("http://{}:2380", host.id)],
        client_urls: Vec::new(),
        learner: false,
    }
}
