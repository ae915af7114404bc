//! Keys that every client compares and sets: each write has a value of its own and names the value that it replaces. Of
//! the writes that replace the same value at most one is acknowledged, and every acknowledged one is among those that
//! led to the last value. A linearizable read shows what was acknowledged or shown by such a read last when it began, or something
//! that came of it.

use std::collections::{BTreeMap, BTreeSet};

/// None where nothing was written yet.
pub type CasValue = Option<u64>;

#[derive(Debug)]
struct Change {
    key: String,
    replaces: CasValue,
}

#[derive(Debug, Default)]
pub struct CasHistory {
    /// By the value that it writes.
    changes: BTreeMap<u64, Change>,
    acknowledged: BTreeSet<u64>,
    /// By key: the last value that a linearizable read that begins now may show.
    floors: BTreeMap<String, u64>,
}

impl CasHistory {
    /// The value that a new write of this key is to set.
    pub fn add(&mut self, key: &str, replaces: CasValue) -> u64 {
        let value = self.changes.len() as u64 + 1;
        self.changes.insert(value, Change { key: key.to_owned(), replaces });
        value
    }

    pub fn acknowledge(&mut self, value: u64) -> Result<(), String> {
        self.acknowledged.insert(value);
        let change = &self.changes[&value];
        let rival = |other: &&u64| {
            let rival = &self.changes[other];
            **other != value && rival.key == change.key && rival.replaces == change.replaces
        };
        match self.acknowledged.iter().find(rival) {
            Some(other) => Err(format!(
                "compare-and-set: {value} and {other} were both acknowledged to replace {:?} of {}",
                change.replaces, change.key
            )),
            None => {
                let key = change.key.clone();
                self.raise_floor(&key, value);
                Ok(())
            }
        }
    }

    pub fn floor(&self, key: &str) -> CasValue {
        self.floors.get(key).copied()
    }

    fn raise_floor(&mut self, key: &str, value: u64) {
        if self.leads(self.floor(key), Some(value)) {
            self.floors.insert(key.to_owned(), value);
        }
    }

    /// Whether the second value is the first, or came of it.
    fn leads(&self, first: CasValue, second: CasValue) -> bool {
        let mut next = second;
        while next != first {
            let Some(change) = next.and_then(|value| self.changes.get(&value)) else { return false };
            next = change.replaces;
        }
        true
    }

    /// What a linearizable read shows that began when `floor` was the last value.
    pub fn show(&mut self, key: &str, floor: CasValue, shown: CasValue) -> Result<(), String> {
        if !self.leads(floor, shown) {
            return Err(format!("linearizable: {key} shows {shown:?}, which did not come of {floor:?}"));
        }
        shown.into_iter().for_each(|value| self.raise_floor(key, value));
        Ok(())
    }

    pub fn keys(&self) -> BTreeSet<String> {
        self.changes.values().map(|change| change.key.clone()).collect()
    }

    /// Whether what a key shows in the end follows from everything that was acknowledged.
    pub fn judge(&self, key: &str, shown: CasValue) -> Result<(), String> {
        let mut led_here = BTreeSet::new();
        let mut next = shown;
        while let Some(value) = next {
            let Some(change) = self.changes.get(&value).filter(|change| change.key == key) else {
                return Err(format!("compare-and-set: {key} shows {value}, which no client has written"));
            };
            led_here.insert(value);
            next = change.replaces;
        }
        let mut of_key = self.acknowledged.iter().filter(|value| self.changes[value].key == key);
        match of_key.find(|value| !led_here.contains(value)) {
            Some(lost) => Err(format!(
                "compare-and-set: {key} shows {shown:?}, and {lost} was acknowledged and did not lead to it"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_wins_and_the_last_value_follows_from_all_that_did() {
        let mut cas_history = CasHistory::default();
        let (first, rival) = (cas_history.add("k", None), cas_history.add("k", None));
        let second = cas_history.add("k", Some(first));
        assert_eq!(cas_history.acknowledge(first), Ok(()));
        assert_eq!(cas_history.acknowledge(second), Ok(()));
        assert_eq!(cas_history.judge("k", Some(second)), Ok(()));
        assert!(cas_history.judge("k", Some(first)).is_err(), "the second is lost");
        assert!(cas_history.judge("k", Some(rival)).is_err(), "both are lost");
        assert!(cas_history.judge("other", Some(first)).is_err());
        assert!(cas_history.acknowledge(rival).is_err(), "the first replaced it already");
    }
    #[test]
    fn a_linearizable_read_shows_nothing_older_than_the_last_one() {
        let mut cas_history = CasHistory::default();
        let (first, rival) = (cas_history.add("k", None), cas_history.add("k", None));
        let second = cas_history.add("k", Some(first));
        assert_eq!(cas_history.show("k", None, None), Ok(()));
        assert_eq!(cas_history.acknowledge(first), Ok(()));
        assert_eq!(cas_history.floor("k"), Some(first));
        assert!(cas_history.show("k", Some(first), None).is_err(), "it forgets what was acknowledged");
        assert!(cas_history.show("k", Some(first), Some(rival)).is_err(), "another history");
        assert_eq!(
            cas_history.show("k", Some(first), Some(second)),
            Ok(()),
            "of unknown fate, and it came through"
        );
        assert_eq!(cas_history.floor("k"), Some(second));
        assert_eq!(cas_history.show("k", Some(first), Some(first)), Ok(()), "it began before");
        assert_eq!(cas_history.floor("k"), Some(second), "and takes nothing back");
    }
}
