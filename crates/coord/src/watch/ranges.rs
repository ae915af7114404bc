//! Ranges of keys, to find those that hold a key: a tree ordered by where ranges start, in which every node
//! knows how far the ranges below it reach. Ranges go in and out by their id; finding takes the depth of the
//! tree and the number found. The shape follows from the ids alone, so it is the same on every run.

use base::rng::mix;
use base::{KeyRange, RangeEnd};
use std::cmp::Ordering;

#[derive(Debug, Default)]
pub struct Ranges {
    root: Tree,
}

type Tree = Option<Box<Node>>;

#[derive(Debug)]
struct Node {
    range: KeyRange,
    id: usize,
    /// Parents weigh more than their children.
    weight: u64,
    /// The furthest end of this range and all below.
    reach: RangeEnd,
    left: Tree,
    right: Tree,
}

impl Ranges {
    pub fn insert(&mut self, range: KeyRange, id: usize) {
        assert_ne!(range.end, RangeEnd::Single, "single keys are looked up elsewhere");
        let (before, behind) = split(self.root.take(), &range, id);
        let reach = range.end.clone();
        let node = Node { range, id, weight: mix(id as u64), reach, left: None, right: None };
        self.root = merge(merge(before, Some(Box::new(node))), behind);
    }

    pub fn remove(&mut self, range: &KeyRange, id: usize) {
        remove(&mut self.root, range, id);
    }

    /// Visits the ids of all ranges that hold the key.
    pub fn find(&self, key: &[u8], visit: &mut impl FnMut(usize)) {
        find(&self.root, key, visit);
    }
}

impl Node {
    fn place(&self, range: &KeyRange, id: usize) -> Ordering {
        (&self.range.start, self.id).cmp(&(&range.start, id))
    }

    fn update(mut self: Box<Self>) -> Tree {
        let below = [&self.left, &self.right].into_iter().flatten().map(|child| &child.reach).max();
        self.reach = below.map_or(&self.range.end, |reach| reach.max(&self.range.end)).clone();
        Some(self)
    }
}

/// What stands before a place, and the rest.
fn split(tree: Tree, range: &KeyRange, id: usize) -> (Tree, Tree) {
    let Some(mut node) = tree else { return (None, None) };
    if node.place(range, id) == Ordering::Less {
        let (before, behind) = split(node.right.take(), range, id);
        node.right = before;
        (node.update(), behind)
    } else {
        let (before, behind) = split(node.left.take(), range, id);
        node.left = behind;
        (before, node.update())
    }
}

/// Joins two trees, of which the first stands wholly before the second.
fn merge(first: Tree, second: Tree) -> Tree {
    match (first, second) {
        (None, tree) | (tree, None) => tree,
        (Some(mut a), Some(mut b)) => {
            if a.weight > b.weight {
                a.right = merge(a.right.take(), Some(b));
                a.update()
            } else {
                b.left = merge(Some(a), b.left.take());
                b.update()
            }
        }
    }
}

fn remove(tree: &mut Tree, range: &KeyRange, id: usize) {
    let Some(mut node) = tree.take() else { return };
    *tree = match node.place(range, id) {
        Ordering::Equal => merge(node.left.take(), node.right.take()),
        Ordering::Less => {
            remove(&mut node.right, range, id);
            node.update()
        }
        Ordering::Greater => {
            remove(&mut node.left, range, id);
            node.update()
        }
    };
}

fn find(tree: &Tree, key: &[u8], visit: &mut impl FnMut(usize)) {
    let Some(node) = tree else { return };
    if matches!(&node.reach, RangeEnd::Before(end) if end.as_ref() <= key) {
        return;
    }
    find(&node.left, key, visit);
    if node.range.start.as_ref() <= key {
        if node.range.contains(key) {
            visit(node.id);
        }
        find(&node.right, key, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use bytes::Bytes;

    fn key(rng: &mut Rng) -> Bytes {
        Bytes::from(format!("{:02}", rng.between(0, 40)))
    }

    #[test]
    fn the_tree_finds_what_a_walk_over_all_ranges_finds() {
        let mut rng = Rng::new(7);
        let mut tree = Ranges::default();
        let mut all: Vec<(KeyRange, usize)> = Vec::new();
        for id in 0..2_000 {
            if rng.chance(400_000) && !all.is_empty() {
                let (range, id) = all.swap_remove(rng.between(0, all.len() as u64) as usize);
                tree.remove(&range, id);
            } else {
                let end = if rng.chance(100_000) { RangeEnd::Open } else { RangeEnd::Before(key(&mut rng)) };
                let range = KeyRange { start: key(&mut rng), end };
                tree.insert(range.clone(), id);
                all.push((range, id));
            }
            let wanted = key(&mut rng);
            let mut found = Vec::new();
            tree.find(&wanted, &mut |id| found.push(id));
            found.sort();
            let mut expected: Vec<_> =
                all.iter().filter(|(range, _)| range.contains(&wanted)).map(|(_, id)| *id).collect();
            expected.sort();
            assert_eq!(found, expected);
        }
    }
}
