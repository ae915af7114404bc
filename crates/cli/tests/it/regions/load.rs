//! Writes of every type to keys that all regions write, and what must be true of them in the end.
//! Each client is the only one of its region that writes its registers and elements, so it knows what its region knew
//! last. What was not acknowledged may have happened once, or not at all.

use crate::rest::{Answer, Rest};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

pub const REGISTERS: u64 = 12;
/// A set is rewritten whole with every element, so there are several.
const SETS: u64 = 16;

/// What one region has done, as far as its client knows.
#[derive(Default)]
pub struct Ledger {
    /// By key: the last value that was acknowledged, and those behind it of unknown fate.
    pub registers: BTreeMap<String, (String, Vec<String>)>,
    pub counter: Sum,
    pub growing: Sum,
    /// In quarters.
    pub numeric: Sum,
    pub kept: BTreeSet<String>,
    pub removed: BTreeSet<String>,
    pub uncertain: BTreeSet<String>,
    /// The largest number that a custom value was acknowledged to be.
    pub highest: u64,
    pub written: u64,
    pub failed: u64,
}

/// What was acknowledged, and what may have happened beside it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sum {
    pub least: i64,
    pub most: i64,
}

impl Sum {
    fn add(&mut self, amount: i64, acknowledged: bool) {
        if acknowledged || amount < 0 {
            self.least += amount;
        }
        if acknowledged || amount > 0 {
            self.most += amount;
        }
    }

    pub fn join(self, other: Sum) -> Sum {
        Sum { least: self.least + other.least, most: self.most + other.most }
    }

    pub fn holds(self, value: i64) -> bool {
        (self.least..=self.most).contains(&value)
    }
}

/// The client of one region.
pub struct Client<'a> {
    pub region: &'a str,
    pub nodes: Vec<Rest>,
    pub ledger: Ledger,
    pub n: u64,
}

impl Client<'_> {
    /// Writes until it is told to stop, and at least so much that it has written everything once.
    pub fn run(&mut self, done: &AtomicBool) {
        let enough = self.n + 8 * REGISTERS;
        while !done.load(Ordering::Relaxed) || self.n < enough {
            self.n += 1;
            match self.n % 8 {
                0 | 1 => self.put(),
                2 => self.count("counter", "c", self.n % 5 + 1, self.n.is_multiple_of(16)),
                3 => self.count("gcounter", "g", self.n % 3 + 1, false),
                4 => self.add_element(),
                5 => self.remove_element(),
                6 => self.add_numeric(),
                _ => self.put_sibling_or_delete(),
            }
        }
    }

    fn node(&self) -> Rest {
        self.nodes[self.n as usize % self.nodes.len()]
    }

    fn done(&mut self, answer: &Answer) -> bool {
        let done = answer.status == 200;
        if done {
            self.ledger.written += 1;
        } else {
            self.ledger.failed += 1;
        }
        done
    }

    fn put(&mut self) {
        let key = format!("reg-{}", self.n / 8 % REGISTERS);
        let value = format!("{}-{}", self.region, self.n);
        let answer = self.node().put(&format!("/v1/data/{key}"), &format!(r#"{{"value":"{value}"}}"#));
        let acknowledged = self.done(&answer);
        let known = self.ledger.registers.entry(key).or_default();
        if acknowledged {
            *known = (value, Vec::new());
        } else {
            known.1.push(value);
        }
    }

    fn count(&mut self, kind: &str, key: &str, amount: u64, down: bool) {
        let word = if down { "decrement" } else { "increment" };
        let answer =
            self.node().post(&format!("/v1/crdt/{kind}:{key}/{word}"), &format!(r#"{{"amount":{amount}}}"#));
        let acknowledged = self.done(&answer);
        let signed = if down { -(amount as i64) } else { amount as i64 };
        let sum = if kind == "counter" { &mut self.ledger.counter } else { &mut self.ledger.growing };
        sum.add(signed, acknowledged);
    }

    fn add_element(&mut self) {
        let element = format!("{}-{}", self.region, self.n);
        let answer = self.node().post(&of_set(&element, "add"), &format!(r#"{{"element":"{element}"}}"#));
        let place = if self.done(&answer) { &mut self.ledger.kept } else { &mut self.ledger.uncertain };
        place.insert(element);
    }

    /// Every other element goes again.
    fn remove_element(&mut self) {
        if !self.n.is_multiple_of(2) && self.n % 16 == 5 {
            return;
        }
        let Some(element) = self.ledger.kept.pop_first() else { return };
        let answer = self.node().post(&of_set(&element, "remove"), &format!(r#"{{"element":"{element}"}}"#));
        let place = if self.done(&answer) { &mut self.ledger.removed } else { &mut self.ledger.uncertain };
        place.insert(element);
    }

    fn add_numeric(&mut self) {
        let (word, quarters) = if self.n % 16 == 6 { ("add", 3) } else { ("subtract", -1) };
        let delta = if word == "add" { "0.75" } else { "0.25" };
        let answer = self
            .node()
            .post(&format!("/v1/crdt/delta_numeric:n/{word}"), &format!(r#"{{"delta":"{delta}"}}"#));
        let acknowledged = self.done(&answer);
        self.ledger.numeric.add(quarters, acknowledged);
    }

    fn put_sibling_or_delete(&mut self) {
        let node = self.node();
        let answer = match self.n / 8 % 4 {
            0 => node.delete(&format!("/v1/data/gone-{}", self.n % 5)),
            1 => node.put(&format!("/v1/data/gone-{}", self.n % 5), r#"{"value":"here"}"#),
            2 => return self.put_custom(),
            _ => {
                let body = format!(r#"{{"value":"{}-{}","type":"siblings"}}"#, self.region, self.n);
                put_over(node, "sib", &node.get("/v1/data/sib"), &body)
            }
        };
        self.done(&answer);
    }

    /// A number that is never lower than what was seen, so that it only grows.
    fn put_custom(&mut self) {
        let node = self.node();
        let seen = node.get("/v1/data/highest");
        let shown = if seen.status == 200 { seen.json()["value"].as_u64().unwrap() } else { 0 };
        let highest = self.n.max(shown);
        let body = format!(r#"{{"value":{highest},"type":"custom","handler":"max"}}"#);
        let answer = put_over(node, "highest", &seen, &body);
        if self.done(&answer) {
            self.ledger.highest = highest;
        }
    }
}

/// Handing back the version that was seen replaces what stood side by side.
fn put_over(node: Rest, key: &str, seen: &Answer, body: &str) -> Answer {
    let seen = seen.header("x-vector-clock").unwrap_or_default().to_owned();
    let headers = [("content-type", "application/json"), ("x-vector-clock", seen.as_str())];
    let headers = if seen.is_empty() { &headers[..1] } else { &headers[..] };
    node.call("PUT", &format!("/v1/data/{key}"), headers, body.as_bytes())
}

/// What all regions together must show, once they hold the same.
pub fn check(ledgers: &[Ledger], node: Rest, conflicts: &[Value]) {
    let sum = |of: fn(&Ledger) -> Sum| ledgers.iter().map(of).fold(Sum::default(), Sum::join);
    let value = |path: &str| node.get(path).json()["value"].clone();
    let (counter, growing) = (sum(|ledger| ledger.counter), sum(|ledger| ledger.growing));
    let shown = value("/v1/crdt/counter:c").as_i64().unwrap();
    assert!(counter.holds(shown), "the counter shows {shown}, acknowledged were {counter:?}");
    let shown = value("/v1/crdt/gcounter:g").as_i64().unwrap();
    assert!(growing.holds(shown), "the growing counter shows {shown}, acknowledged were {growing:?}");
    let numeric = sum(|ledger| ledger.numeric);
    let shown: f64 = value("/v1/crdt/delta_numeric:n").as_str().unwrap().parse().unwrap();
    assert!(
        numeric.holds((shown * 4.0) as i64),
        "the number is {shown}, acknowledged were quarters {numeric:?}"
    );
    check_sets(ledgers, node);
    let (shown, highest) = (value("/v1/data/highest"), ledgers.iter().map(|ledger| ledger.highest).max());
    assert!(shown.as_u64() >= highest, "the custom value is {shown}, acknowledged was {highest:?}");
    for n in 0..REGISTERS {
        check_register(ledgers, &format!("reg-{n}"), node, conflicts);
    }
}

/// The set that an element belongs to.
fn of_set(element: &str, word: &str) -> String {
    let n: u64 = element.rsplit('-').next().unwrap().parse().unwrap();
    format!("/v1/crdt/set:s{}/{word}", n / 8 % SETS)
}

fn check_sets(ledgers: &[Ledger], node: Rest) {
    let mut shown = BTreeSet::new();
    for n in 0..SETS {
        let set = node.get(&format!("/v1/crdt/set:s{n}")).json();
        let elements = set["elements"].as_array().cloned().unwrap_or_default();
        shown.extend(elements.iter().map(|element| element.as_str().unwrap().to_owned()));
    }
    for ledger in ledgers {
        let back = ledger.removed.iter().find(|element| shown.contains(element.as_str()));
        assert_eq!(back, None, "was removed and is back");
        let lost = ledger.kept.iter().find(|element| !shown.contains(element.as_str()));
        assert_eq!(lost, None, "was added and is not there");
    }
}

/// The last write of each region has won, or is in the log of conflicts with its value.
fn check_register(ledgers: &[Ledger], key: &str, node: Rest, conflicts: &[Value]) {
    let shown = node.get(&format!("/v1/data/{key}")).json()["value"].as_str().unwrap().to_owned();
    let known: Vec<&(String, Vec<String>)> =
        ledgers.iter().filter_map(|ledger| ledger.registers.get(key)).collect();
    let tried = known.iter().any(|(last, maybe)| *last == shown || maybe.contains(&shown));
    assert!(tried, "{key} shows {shown}, which is no client's last write: {known:?}");
    for (last, maybe) in known {
        let lost = |value: &String| {
            let is_it = |one: &&Value| one["key"] == key && one["losing_value"] == value.as_str();
            conflicts.iter().find(is_it).is_some()
        };
        // A write of unknown fate may have gone over it.
        let kept = *last == shown || lost(last) || maybe.iter().any(|value| *value == shown || lost(value));
        assert!(kept, "{key} shows {shown}; {last} was acknowledged and is in no log of conflicts");
    }
}
