use super::*;
use crate::moves::{MoveReport, newcomers};
use crate::ring::Partition;
use crate::topology::MovePhase;

const START: Instant = Instant(1_000_000);

fn ids(nodes: impl IntoIterator<Item = u64>) -> BTreeSet<NodeId> {
    nodes.into_iter().map(NodeId).collect()
}

fn desired(members: impl IntoIterator<Item = u64>) -> DesiredMembers {
    DesiredMembers { members: ids(members), ..DesiredMembers::default() }
}

fn report(node: u64, incarnation: u32) -> NodeReport {
    NodeReport { incarnation, zone: node as u32, points: 64, ..NodeReport::default() }
}

/// A leader that has heard these.
fn leader(nodes: impl IntoIterator<Item = u64>) -> Controller {
    let mut controller = Controller::new(RegionId::of("here"));
    controller.set_leading(START, true);
    nodes.into_iter().for_each(|node| controller.record_report(START, NodeId(node), report(node, 7)));
    controller
}

fn founded(members: impl IntoIterator<Item = u64> + Clone) -> (Controller, MeshPlan) {
    let controller = leader(members.clone());
    let plan = controller.decide(START, None, &desired(members)).expect("all were heard");
    (controller, plan)
}

/// Lets every node follow and fill what it should, until nothing more is decided.
fn settle(
    controller: &mut Controller,
    mut plan: MeshPlan,
    desired: &DesiredMembers,
    answers: impl Fn(NodeId) -> bool,
) -> MeshPlan {
    for _ in 0..20 {
        let placement = plan.topology.placement();
        for node in controller.reports.keys().copied().filter(|node| answers(*node)).collect::<Vec<_>>() {
            let mut told = controller.report(node).expect("it was heard").clone();
            told.add(MoveReport::At(plan.epoch()), &plan.topology);
            for partition in Partition::all() {
                if newcomers(&placement, partition, 3).any(|newcomer| newcomer == node) {
                    told.add(MoveReport::Filled { partition, copies: 3 }, &plan.topology);
                }
            }
            controller.record_report(START, node, told);
        }
        match controller.decide(START, Some(&plan), desired) {
            Some(next) => {
                assert_eq!(next.epoch(), plan.next_epoch(), "the epoch is the document's version");
                plan = next;
            }
            None => return plan,
        }
    }
    panic!("it never comes to rest: {plan:?}");
}

fn nodes(plan: &MeshPlan) -> BTreeSet<NodeId> {
    plan.topology.members().iter().map(|member| member.node).collect()
}

#[test]
fn only_the_leader_decides() {
    let mut controller = leader(1..=3);
    controller.set_leading(START, false);
    assert_eq!(controller.decide(START, None, &desired(1..=3)), None);
}

#[test]
fn the_first_topology_waits_a_while_for_zones() {
    let controller = leader(1..=2);
    assert_eq!(controller.decide(START, None, &desired(1..=3)), None, "the third may tell its zone yet");
    let late = START.after(FOUND_PATIENCE);
    let plan = controller.decide(late, None, &desired(1..=3)).expect("it has waited long enough");
    assert_eq!((plan.epoch(), nodes(&plan)), (Epoch(1), ids(1..=3)));
    assert_eq!([1, 3].map(|node| plan.incarnation(NodeId(node))), [Some(7), None]);
    assert_eq!(controller.decide(late, Some(&plan), &desired(1..=3)), None, "all is as it should be");
}

#[test]
fn a_first_incarnation_is_enrolled_and_a_second_one_is_behind() {
    let mut controller = leader(1..=2);
    let plan = controller.decide(START.after(FOUND_PATIENCE), None, &desired(1..=3)).unwrap();
    controller.record_report(START, NodeId(3), report(3, 5));
    let plan =
        controller.decide(START, Some(&plan), &desired(1..=3)).expect("it was heard for the first time");
    assert_eq!(plan.incarnation(NodeId(3)), Some(5));
    assert!(plan.topology.members().iter().all(|member| !member.stale), "it had nothing to lose");

    controller.record_report(START, NodeId(3), report(3, 6));
    let plan = controller.decide(START, Some(&plan), &desired(1..=3)).expect("it has lost its disk");
    assert!(plan.topology.member(NodeId(3)).unwrap().stale);
    assert_eq!(controller.decide(START, Some(&plan), &desired(1..=3)), None, "now it has to catch up");
    let before = NodeReport { caught_up: Epoch(plan.epoch().0 - 1), ..report(3, 6) };
    controller.record_report(START, NodeId(3), before);
    assert_eq!(controller.decide(START, Some(&plan), &desired(1..=3)), None, "that was another time");
    controller.record_report(START, NodeId(3), NodeReport { caught_up: plan.epoch(), ..report(3, 6) });
    let plan = controller.decide(START, Some(&plan), &desired(1..=3)).expect("it has everything again");
    assert!(!plan.topology.member(NodeId(3)).unwrap().stale);
}

#[test]
fn members_that_come_and_go_move_the_ring() {
    let (mut controller, plan) = founded(1..=5);
    controller.record_report(START, NodeId(6), report(6, 9));
    let plan = settle(&mut controller, plan, &desired(1..=6), |_| true);
    assert_eq!(nodes(&plan), ids(1..=6));
    assert!(!plan.topology.is_moving() && plan.incarnation(NodeId(6)) == Some(9));
    let fewer =
        DesiredMembers { members: ids([1, 2, 4, 5, 6]), removed: ids([3]), ..DesiredMembers::default() };
    let plan = settle(&mut controller, plan, &fewer, |node| node.0 != 3);
    let fewer =
        DesiredMembers { members: ids([1, 2, 5, 6]), removed: ids([3, 4]), ..DesiredMembers::default() };
    let plan = settle(&mut controller, plan, &fewer, |node| ![3, 4].contains(&node.0));
    assert_eq!(nodes(&plan), ids([1, 2, 5, 6]));
}

#[test]
fn a_leaving_node_hands_over_before_it_goes() {
    let (mut controller, mut plan) = founded(1..=4);
    plan.nodes.get_mut(&NodeId(2)).unwrap().leaving = true;
    let plan = settle(&mut controller, plan, &desired(1..=4), |_| true);
    assert_eq!(nodes(&plan), ids([1, 3, 4]), "although it is a member still");
}

#[test]
fn a_newcomer_that_is_removed_again_does_not_hold_up_its_move() {
    let (mut controller, plan) = founded(1..=3);
    controller.record_report(START, NodeId(4), report(4, 9));
    let plan = settle(&mut controller, plan, &desired(1..=4), |node| node != NodeId(4));
    assert!(plan.topology.is_moving(), "the newcomer fills nothing");
    assert!(Partition::all().any(|partition| plan.topology.phase(partition) == MovePhase::Pending));
    let gone = DesiredMembers { members: ids(1..=3), removed: ids([4]), ..DesiredMembers::default() };
    let plan = settle(&mut controller, plan, &gone, |node| node != NodeId(4));
    assert_eq!(nodes(&plan), ids(1..=3));
    assert!(!plan.topology.is_moving());
}

#[test]
fn a_node_that_is_away_for_too_long_is_waited_for_no_more() {
    let (mut controller, plan) = founded(1..=3);
    let late = START.after(AWAY_MAX + Duration::from_secs(1));
    [1, 2].into_iter().for_each(|node| controller.record_report(late, NodeId(node), report(node, 7)));
    let plan = controller.decide(late, Some(&plan), &desired(1..=3)).expect("one is away");
    assert!(plan.topology.member(NodeId(3)).unwrap().stale);
    assert_eq!(controller.decide(late, Some(&plan), &desired(1..=3)), None);
}

#[test]
fn a_node_without_coords_data_comes_with_its_address_and_stays() {
    let (mut controller, plan) = founded(1..=3);
    controller.record_report(START, NodeId(9), NodeReport { address: "h:1".to_owned(), ..report(9, 4) });
    controller.record_report(START, NodeId(10), report(10, 4));
    let plan = settle(&mut controller, plan, &desired(1..=3), |_| true);
    assert_eq!(nodes(&plan), ids([1, 2, 3, 9]), "one that is neither does not come in");
    assert_eq!(plan.nodes[&NodeId(9)].address, "h:1");
}

#[test]
fn a_new_namespace_gets_its_place_and_waits_while_partitions_move() {
    let (mut controller, plan) = founded(1..=3);
    let namespace_copies =
        vec![DEFAULT_NAMESPACE, NamespaceCopies { id: 7, copies: 2 }, NamespaceCopies { id: 9, copies: 5 }];
    let three = DesiredMembers { namespace_copies: namespace_copies.clone(), ..desired(1..=3) };
    let plan = settle(&mut controller, plan, &desired(1..=3), |_| true);
    let next = controller.decide(START, Some(&plan), &three).expect("both are missing");
    assert_eq!((next.topology.copies(7), next.topology.copies(9)), (Some(2), Some(5)));
    assert_eq!(controller.decide(START, Some(&next), &three), None);

    controller.record_report(START, NodeId(4), report(4, 7));
    let moving = controller.decide(START, Some(&plan), &desired(1..=4)).expect("one comes");
    assert!(moving.topology.is_moving());
    let four = DesiredMembers { namespace_copies, ..desired(1..=4) };
    if let Some(next) = controller.decide(START, Some(&moving), &four) {
        assert_eq!(next.topology.copies(7), None);
    }
}
