//! Nodes that are not enrolled and only forward requests, writes that no node can take for a moment, and lists that several
//! nodes contribute to.

use super::*;
use crate::call::ListConflicts;
use crate::conflict::{ConflictOrder, ConflictRule};
use crate::request::ConflictPage;
use crate::ring::Partition;
use std::collections::BTreeSet;

fn listed(world: &mut World, node: u64, list: ListConflicts) -> ConflictPage {
    match world.call(node, Request::Conflicts(list)) {
        Reply::Listed(listed) => *listed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unenrolled_node_forwards_requests_and_keeps_nothing_until_it_is_enrolled() {
    let mut world = awake(31, 3);
    for n in 0..30 {
        world.call(1, Request::write(put(&format!("k{n}"), "old")));
    }
    world.wipe(NodeId(3));
    world.hosts.get_mut(&NodeId(3)).unwrap().unenrolled = true;
    world.start(NodeId(3));
    for n in 0..30 {
        let name = format!("k{n}");
        assert_eq!(value(&world.call(3, read(&name))).as_deref(), Some("old"));
        assert_eq!(value(&world.call(3, Request::write(put(&name, "new")))).as_deref(), Some("new"));
        assert_eq!(value(&world.call(3, read(&name))).as_deref(), Some("new"));
    }
    world.run(3 * SECOND);
    let kept = |world: &World| Partition::all().map(|one| world.records(NodeId(3), one).len()).sum::<usize>();
    assert_eq!(kept(&world), 0);
    assert_eq!(world.hosts[&NodeId(3)].rows.0.len(), 0, "nor anything else");
    world.step(NodeId(3), Input::Enrolled { wiped: true });
    assert!(!world.hosts[&NodeId(3)].mesh.as_ref().unwrap().membership.is_serving(), "it has nothing yet");
    world.run(5 * SECOND);
    assert!(world.hosts[&NodeId(3)].mesh.as_ref().unwrap().membership.is_serving());
    assert_eq!((kept(&world), world.differences().len()), (30, 0));
}

#[test]
fn a_write_that_no_node_can_take_yet_waits_and_is_refused_in_the_end() {
    let mut world = World::new(32, 3);
    // No node has heard from a majority yet, so none assigns dots.
    let token = world.ask(NodeId(1), Request::write(put("k", "v")));
    assert!(!world.replies.contains_key(&token));
    world.run(SECOND);
    assert_eq!(value(&world.replies[&token]).as_deref(), Some("v"));
    (1..=3).for_each(|node| world.crash(NodeId(node)));
    world.start(NodeId(1));
    let refused = world.call(1, Request::write(put("k", "w")));
    assert!(matches!(refused, Reply::Refused(Code::NotInStep) | Reply::Indeterminate { .. }), "{refused:?}");
}

#[test]
fn conflicts_of_all_nodes_are_one_list_that_names_missing_nodes() {
    let mut world = awake(33, 5);
    let names: Vec<String> = (0..12).map(|n| format!("k{n}")).collect();
    for name in &names {
        let list = world.topology.placement().now.of(key(name).partition(), 3).to_vec();
        // Two replicas take a write each before they hear of the other's.
        let asked =
            [list[0], list[1]].map(|node| world.ask(node, Request::write(put(name, &node.0.to_string()))));
        world.run(SECOND);
        assert!(asked.iter().all(|token| world.replies.contains_key(token)));
    }
    let whole = listed(&mut world, 4, ListConflicts { limit: 100, ..ListConflicts::default() });
    assert_eq!((whole.next.clone(), whole.missing.len()), (None, 0));
    let places: Vec<Bytes> = whole.conflicts.iter().map(crate::conflict::Conflict::cursor).collect();
    assert!(places.is_sorted() && places.len() == places.iter().collect::<BTreeSet<_>>().len(), "each once");
    let about: BTreeSet<Key> = whole.conflicts.iter().map(|conflict| conflict.key.clone()).collect();
    assert_eq!(
        about,
        names.iter().map(|name| key(name)).collect(),
        "each conflict once, whichever node noticed it"
    );
    assert_eq!(paged(&mut world, ConflictOrder::Oldest), places);
    let newest_first: Vec<Bytes> = places.into_iter().rev().collect();
    assert_eq!(paged(&mut world, ConflictOrder::Newest), newest_first);
    world.crash(NodeId(5));
    let all = ListConflicts { limit: 100, ..ListConflicts::default() };
    assert_eq!(listed(&mut world, 1, all).missing, [NodeId(5)]);
}

/// The places of all conflicts, by pages of five.
fn paged(world: &mut World, order: ConflictOrder) -> Vec<Bytes> {
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = listed(world, 2, ListConflicts { after, limit: 5, order });
        assert!(page.conflicts.len() <= 5);
        paged.extend(page.conflicts.iter().map(crate::conflict::Conflict::cursor));
        match page.next {
            Some(next) => after = Some(next),
            None => return paged,
        }
    }
}

#[test]
fn values_that_a_write_replaces_unmerged_are_conflicts_at_every_replica() {
    let mut world = awake(34, 3);
    let custom = |op: Op, context: Option<Context>| {
        let attributes = Attributes { context, ..Attributes::default() };
        Request::write(Write { attributes, ..write("c", Kind::Custom, op) })
    };
    let put = |value: &'static str| custom(Op::Put(Bytes::from_static(value.as_bytes())), None);
    // Each is taken before the other is heard of.
    let asked = [(1, "one"), (2, "two")].map(|(node, value)| world.ask(NodeId(node), put(value)));
    world.run(SECOND);
    assert!(asked.iter().all(|token| world.replies.contains_key(token)));
    let Reply::Found(Some(apart)) = world.call(3, read("c")) else { panic!("it was written") };
    let replaced = custom(Op::Replace(Bytes::from_static(b"three")), Some(apart.context.clone()));
    assert!(matches!(world.call(3, replaced), Reply::Written(_)));
    world.run(SECOND);
    let mut ids = BTreeSet::new();
    for node in 1..=3 {
        let found = world.conflicts(NodeId(node));
        let [conflict] = &found[..] else { panic!("{found:?}") };
        let (Body::Siblings(winner), Body::Siblings(loser)) = (&conflict.winner.body, &conflict.loser.body)
        else {
            panic!("{conflict:?}")
        };
        assert_eq!((conflict.rule, loser.values().len()), (ConflictRule::Replaced, 2));
        assert!(winner.values().iter().all(|sibling| sibling.value == "three"));
        assert_eq!(conflict.restore(), Err(Code::WrongType), "it is not one value");
        ids.insert(conflict.id());
    }
    assert_eq!((ids.len(), world.differences()), (1, vec![]), "it is the same one");
    // A later write has merged what it finds, and says nothing of what was replaced before it.
    let Reply::Found(Some(seen)) = world.call(1, read("c")) else { panic!("it was written") };
    let merged = custom(Op::Put(Bytes::from_static(b"four")), Some(seen.context.clone()));
    assert!(matches!(world.call(1, merged), Reply::Written(_)));
    world.run(SECOND);
    assert_eq!(world.conflicts(NodeId(2)).len(), 1);
}
