//! What a node says only when its disk has it, seen with a disk that takes for ever.

use super::*;
use crate::moves::MoveReport;

/// Every report of one node within some seconds in which nothing becomes durable.
fn reports(world: &mut World, node: NodeId, input: Input) -> Vec<MoveReport> {
    let host = world.hosts.get_mut(&node).unwrap();
    let mesh = host.mesh.as_mut().unwrap();
    let mut inputs = vec![input];
    inputs.extend((0..200).map(|_| Input::Tick));
    let (mut out, mut at) = (Output::default(), Instant(world.now));
    for input in inputs {
        at = at.after(std::time::Duration::from_millis(20));
        let now = Now { at, wall_ms: 1_000_000_000 + at.0 / MS };
        mesh.step(now, input, &host.rows, &mut out);
        mesh.collect(&mut out);
        out.persist = None;
    }
    out.reports
}

/// Found by the simulator: what is told again with every round was told whether the disk had it or not.
#[test]
fn a_topology_is_reported_when_it_is_durable_and_not_with_the_next_round() {
    let mut world = awake(41, 3);
    let next = world.topology.renewed(Epoch(2));
    let told = reports(&mut world, NodeId(1), Input::Topology(next));
    assert!(!told.contains(&MoveReport::At(Epoch(2))), "{told:?}");
}

#[test]
fn no_dot_is_given_before_the_disk_has_its_block() {
    let mut world = awake(43, 1);
    world.crash(NodeId(1));
    world.sync_max = 3_600 * SECOND;
    world.start(NodeId(1));
    world.run(SECOND);
    let refused = world.call(1, Request::write(put("k", "v")));
    assert_eq!(refused, Reply::Refused(Code::NotInStep));
}
