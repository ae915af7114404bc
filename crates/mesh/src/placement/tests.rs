use super::*;
use base::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn nodes(ids: &[u64]) -> Vec<RingNode> {
    ids.iter().map(|id| RingNode { node: NodeId(*id), zone: *id as u32, points: 64 }).collect()
}

fn random_ids(rng: &mut Rng, n: usize) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..n).map(|_| rng.next_u64()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn loads(lists: &PreferenceLists, copies: usize) -> BTreeMap<NodeId, usize> {
    let mut loads = BTreeMap::new();
    for partition in Partition::all() {
        for node in lists.of(partition, copies) {
            *loads.entry(*node).or_default() += 1;
        }
    }
    loads
}

#[test]
fn no_node_of_five_has_more_than_its_share_and_a_quarter() {
    let mut rng = Rng::new(1);
    let mut crooked = 0;
    for _ in 0..100 {
        let lists = PreferenceLists::build(&nodes(&random_ids(&mut rng, 5)));
        for copies in 1..=5 {
            let share = (PARTITIONS * copies) as f64 / 5.0;
            let most = loads(&lists, copies).into_values().max().unwrap();
            crooked += usize::from(most as f64 > share * 1.25);
        }
    }
    assert!(crooked <= 1, "{crooked} of 100 rings");
}

#[test]
fn a_node_that_joins_moves_little_more_than_its_share() {
    let mut rng = Rng::new(2);
    let (mut moved, mut needed) = (0, 0);
    for _ in 0..50 {
        let six = random_ids(&mut rng, 6);
        let (before, after) =
            (PreferenceLists::build(&nodes(&six[..5])), PreferenceLists::build(&nodes(&six)));
        for partition in Partition::all() {
            let old = before.of(partition, 3);
            moved += after.of(partition, 3).iter().filter(|node| !old.contains(node)).count();
        }
        needed += PARTITIONS * 3 / 6;
    }
    assert!(moved < needed * 18 / 10, "{moved} replicas moved where {needed} would do");
}

#[test]
fn a_single_point_per_node_walks_the_ring_as_the_first_design_has_it() {
    let mut three = nodes(&[1, 2, 3]);
    three.iter_mut().for_each(|node| node.points = 1);
    let lists = PreferenceLists::build(&three);
    assert!(Partition::all().all(|partition| lists.of(partition, 3).len() == 3));
}

#[test]
fn without_nodes_there_are_no_lists() {
    assert!(PreferenceLists::build(&[]).of(Partition(9), 3).is_empty());
    assert_eq!(PreferenceLists::build(&nodes(&[4])).of(Partition(9), 3), [NodeId(4)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn lists_are_distinct_full_and_spread_over_zones(seed: u64, n in 1usize..12, zones in 1u32..5) {
        let mut rng = Rng::new(seed);
        let mut nodes = nodes(&random_ids(&mut rng, n));
        for node in &mut nodes {
            node.zone = rng.between(0, u64::from(zones)) as u32;
        }
        let lists = PreferenceLists::build(&nodes);
        let zone = |id: &NodeId| nodes.iter().find(|node| node.node == *id).unwrap().zone;
        let all = nodes.iter().map(|node| node.zone).collect::<std::collections::BTreeSet<_>>().len();
        for partition in Partition::all() {
            for copies in 1..=3 {
                let list = lists.of(partition, copies);
                prop_assert_eq!(list.len(), copies.min(n));
                let nodes = list.iter().collect::<std::collections::BTreeSet<_>>();
                prop_assert_eq!(nodes.len(), list.len());
                let apart = list.iter().map(zone).collect::<std::collections::BTreeSet<_>>().len();
                prop_assert_eq!(apart, list.len().min(all));
            }
        }
        nodes.reverse();
        prop_assert_eq!(lists, PreferenceLists::build(&nodes), "the order in which nodes are named is no matter");
    }
}
