//! Brings together the rows that several nodes have. Each node's rows come in the order of their keys; what comes out is each
//! row with every value that a node has for it, equal ones once. Which of them stays is decided when they are restored, by the
//! code that merges replicas.

use crate::rows::DataRow;
use bytes::Bytes;
use std::collections::VecDeque;

/// A key, and the different values that nodes have for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedRow {
    pub key: Bytes,
    pub values: Vec<Bytes>,
}

#[derive(Debug, Default)]
struct NodeRows {
    waiting: VecDeque<DataRow>,
    at_end: bool,
}

#[derive(Debug)]
pub struct Copies {
    nodes: Vec<NodeRows>,
}

impl Copies {
    pub fn of(n_nodes: usize) -> Copies {
        Copies { nodes: (0..n_nodes).map(|_| NodeRows::default()).collect() }
    }

    /// The nodes whose next rows must be added before there is more to take.
    pub fn lacking(&self) -> impl Iterator<Item = usize> {
        let lacks = |node: &NodeRows| node.waiting.is_empty() && !node.at_end;
        self.nodes.iter().enumerate().filter(move |(_, node)| lacks(node)).map(|(nth, _)| nth)
    }

    pub fn add(&mut self, nth: usize, rows: Vec<DataRow>, at_end: bool) {
        self.nodes[nth].waiting.extend(rows);
        self.nodes[nth].at_end = at_end;
    }

    /// The row with the least key; none while a node lacks rows, and at the end.
    pub fn take_next(&mut self) -> Option<MergedRow> {
        if self.lacking().next().is_some() {
            return None;
        }
        let key =
            self.nodes.iter().filter_map(|node| node.waiting.front()).map(|row| &row.key).min()?.clone();
        let mut values: Vec<Bytes> = Vec::new();
        for node in &mut self.nodes {
            while let Some(row) = node.waiting.pop_front_if(|row| row.key == key) {
                if !values.contains(&row.value) {
                    values.push(row.value);
                }
            }
        }
        // The same order whichever node was asked first.
        values.sort_unstable();
        Some(MergedRow { key, values })
    }
}

impl MergedRow {
    pub fn rows(&self) -> impl Iterator<Item = DataRow> {
        self.values.iter().map(|value| DataRow { key: self.key.clone(), value: value.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(pairs: &[(&'static str, &'static str)]) -> Vec<DataRow> {
        let row = |(key, value): &(&'static str, &'static str)| DataRow {
            key: (*key).into(),
            value: (*value).into(),
        };
        pairs.iter().map(row).collect()
    }

    #[test]
    fn a_key_has_every_value_that_a_node_has_and_equal_ones_once() {
        let mut copies = Copies::of(3);
        copies.add(0, rows(&[("a", "1"), ("b", "2")]), true);
        copies.add(1, rows(&[("a", "1")]), false);
        assert_eq!(copies.take_next(), None, "a node was not heard");
        copies.add(2, Vec::new(), true);
        let merged = |key: &'static str, values: &[&'static str]| MergedRow {
            key: key.into(),
            values: values.iter().map(|value| Bytes::from_static(value.as_bytes())).collect(),
        };
        assert_eq!(copies.take_next(), Some(merged("a", &["1"])));
        assert_eq!(copies.take_next(), None, "the second node may have more");
        assert_eq!(copies.lacking().collect::<Vec<_>>(), [1]);
        copies.add(1, rows(&[("b", "1"), ("c", "3")]), true);
        assert_eq!(copies.take_next(), Some(merged("b", &["1", "2"])));
        assert_eq!(copies.take_next(), Some(merged("c", &["3"])));
        assert_eq!(copies.take_next(), None);
        assert_eq!(copies.lacking().count(), 0);
    }
}
