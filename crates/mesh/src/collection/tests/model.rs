//! The model: whole states as the papers define them, with a set of dots that was seen and all writes that are alive. An amount is
//! the sum of additions that are each a write of their own.

use super::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelValue {
    Value(CellValue),
    Added(i128),
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    seen: BTreeSet<Dot>,
    elements: BTreeMap<Bytes, BTreeMap<Dot, ModelValue>>,
}

impl Model {
    /// What an operation does, whose dots the delta of the rows tells. The delta of the model is returned.
    pub fn write(&mut self, op: &CollectionOp, delta: &CollectionDelta) -> Model {
        let mut made = Model::default();
        if *op == CollectionOp::Clear {
            made.seen = self.seen.clone();
        }
        for ElementDelta { name, state } in &delta.elements {
            let live = self.elements.get(name).cloned().unwrap_or_default();
            let mut left = BTreeMap::new();
            let new = state.cells.first().map(|cell| (cell.dot, cell.value.clone()));
            match (op, new) {
                (CollectionOp::Increment { by, .. }, Some((dot, _))) => {
                    let is_mine = |other: &Dot, value: &ModelValue| {
                        other.actor == dot.actor && matches!(value, ModelValue::Added(_))
                    };
                    left.extend(live.into_iter().filter(|(other, value)| is_mine(other, value)));
                    made.seen.extend(left.keys());
                    left.insert(dot, ModelValue::Added(by.0));
                    made.seen.insert(dot);
                }
                (_, new) => {
                    made.seen.extend(live.into_keys());
                    if let Some((dot, value)) = new {
                        made.seen.insert(dot);
                        left.insert(dot, ModelValue::Value(value));
                    }
                }
            }
            made.elements.insert(name.clone(), left);
        }
        self.join(&made);
        made
    }

    pub fn join(&mut self, other: &Model) {
        let names: BTreeSet<Bytes> = self.elements.keys().chain(other.elements.keys()).cloned().collect();
        for name in names {
            let none = BTreeMap::new();
            let theirs = other.elements.get(&name).unwrap_or(&none);
            let mine = self.elements.entry(name.clone()).or_default();
            mine.retain(|dot, _| theirs.contains_key(dot) || !other.seen.contains(dot));
            let new = theirs.iter().filter(|(dot, _)| !self.seen.contains(dot));
            mine.extend(new.map(|(dot, value)| (*dot, value.clone())));
        }
        self.elements.retain(|_, live| !live.is_empty());
        self.seen.extend(&other.seen);
    }

    pub fn names(&self) -> Vec<Bytes> {
        self.elements.keys().cloned().collect()
    }

    pub fn amount(&self, name: &Bytes) -> i128 {
        let added = self.elements[name].values().map(|value| match value {
            ModelValue::Added(by) => *by,
            ModelValue::Value(_) => 0,
        });
        added.sum()
    }

    /// Whether it is there by additions alone.
    pub fn is_amount(&self, name: &Bytes) -> bool {
        self.elements[name].values().all(|value| matches!(value, ModelValue::Added(_)))
    }

    /// The cells, without additions.
    pub fn values(&self, name: &Bytes) -> Vec<(Dot, CellValue)> {
        let values = self.elements[name].iter().filter_map(|(dot, value)| match value {
            ModelValue::Value(value) => Some((*dot, value.clone())),
            ModelValue::Added(_) => None,
        });
        values.collect()
    }
}
