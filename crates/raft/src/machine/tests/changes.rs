//! Changes of the configuration, stepped by hand: one at a time, counted from when they are applied.

use super::*;

const FOURTH: NodeId = NodeId(4);

fn config(voters: &[u64], learners: &[u64]) -> Config {
    let ids = |ids: &[u64]| ids.iter().copied().map(NodeId).collect();
    Config { voters: ids(voters), learners: ids(learners), outgoing: Vec::new() }
}

impl Cluster {
    /// Everything committed here is applied, with this configuration if any.
    fn apply(&mut self, id: NodeId, config: Option<Config>) {
        if let Some(config) = config {
            self.step(id, Input::Configure(config));
        }
        let last = self.committed[&id].last().unwrap().at.index;
        self.step(id, Input::Applied(last));
    }

    /// A new leader has applied what it found in its log.
    fn ready(&mut self) {
        MEMBERS.iter().for_each(|id| self.apply(*id, None));
    }

    fn join(&mut self, id: NodeId) {
        self.members.insert(id, member(id, &[], Doubt::None));
        self.prompt.push(id);
    }
}

#[test]
fn a_change_waits_for_a_new_leaders_own_entry_and_for_the_one_before_it() {
    let mut cluster = Cluster::new();
    cluster.step(NodeId(1), Input::Campaign);
    while !cluster.members[&NodeId(1)].is_leader() {
        for message in std::mem::take(&mut cluster.in_flight) {
            cluster.step(message.to(), Input::Received(message));
        }
    }
    assert!(
        !cluster.step(NodeId(1), Input::ProposeChange(data("early"))),
        "nothing of its term is committed"
    );
    cluster.settle();
    cluster.ready();
    assert!(cluster.step(NodeId(1), Input::ProposeChange(data("add 4"))));
    assert!(!cluster.step(NodeId(1), Input::ProposeChange(data("add 5"))));
    assert!(cluster.step(NodeId(1), Input::Propose(data("x"))), "anything else goes on");
    cluster.settle();
    assert!(cluster.committed[&NodeId(2)].iter().any(|entry| entry.data == "add 4" && entry.reconfigures));
    cluster.ready();
    assert!(cluster.step(NodeId(1), Input::ProposeChange(data("add 5"))), "refused or not, it is applied");
}

#[test]
fn a_configuration_counts_from_when_it_is_applied() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.ready();
    cluster.step(NodeId(1), Input::ProposeChange(data("add 4")));
    cluster.settle();
    assert_eq!(cluster.members[&NodeId(1)].config(), config(&[1, 2, 3], &[]));
    cluster.join(FOURTH);
    MEMBERS.iter().for_each(|id| cluster.apply(*id, Some(config(&[1, 2, 3, 4], &[]))));
    cluster.settle();
    assert!(cluster.committed[&FOURTH].iter().any(|entry| entry.data == "add 4"), "it is sent the log");
    let before = cluster.committed[&NodeId(1)].len();
    cluster.step(NodeId(1), Input::Propose(data("x")));
    cluster.settle_among(&[NodeId(1), NodeId(2)]);
    assert_eq!(cluster.committed[&NodeId(1)].len(), before, "two of four are no majority");
}

#[test]
fn a_learner_is_sent_the_log_and_counts_for_nothing() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.ready();
    cluster.join(FOURTH);
    cluster.step(NodeId(1), Input::Configure(config(&[1, 2, 3], &[4])));
    cluster.settle();
    cluster.step(NodeId(1), Input::Propose(data("x")));
    cluster.settle_among(&[NodeId(1), FOURTH]);
    assert!(!cluster.committed[&NodeId(1)].iter().any(|entry| entry.data == "x"));
    assert!(cluster.members[&NodeId(1)].has_caught_up(FOURTH));
}

#[test]
fn a_leader_that_is_removed_steps_down_and_does_not_stand_again() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.ready();
    cluster.step(NodeId(1), Input::Configure(config(&[2, 3], &[])));
    assert!(!cluster.members[&NodeId(1)].is_leader());
    cluster.in_flight.clear();
    cluster.tick_all(&[NodeId(1)], 5 * ELECTION_TICKS);
    assert_eq!(cluster.kinds_sent_by(NodeId(1)), []);
}

#[test]
fn a_member_with_a_change_to_apply_does_not_stand() {
    let mut cluster = Cluster::led_by(NodeId(1));
    cluster.ready();
    cluster.step(NodeId(1), Input::ProposeChange(data("add 4")));
    cluster.settle();
    let others = [NodeId(2), NodeId(3)];
    cluster.tick_all(&others, 5 * ELECTION_TICKS);
    assert!(
        others.iter().all(|id| !cluster.members[id].is_leader()),
        "what they would count by is not applied"
    );
    others.iter().for_each(|id| cluster.apply(*id, None));
    cluster.tick_all(&others, 5 * ELECTION_TICKS);
    assert!(others.iter().any(|id| cluster.members[id].is_leader()));
}
