//! Bounded counters as clients of `/v1/crdt` see them: their operations, and what is shown of them.

use super::refusal::Refusal;
use super::request_head::parse_json;
use mesh::collection::BoundedCounter;
use mesh::{BoundedChange, BoundedOp, Op, RegionId};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub const WORDS: &str = "increment, decrement, reserve and delete";
const RIGHT: &str = r#"{"amount": 5, "bound": 0}, both optional"#;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundedArgument {
    amount: Option<u64>,
    bound: Option<i64>,
}

/// None for a word that is no operation of it.
pub fn parse(word: &str, body: &[u8]) -> Result<Option<Op>, Refusal> {
    let change = match word {
        "increment" => BoundedChange::Add,
        "decrement" => BoundedChange::Subtract,
        "reserve" => BoundedChange::Reserve,
        _ => return Ok(None),
    };
    let argument: BoundedArgument =
        if body.is_empty() { BoundedArgument::default() } else { parse_json(body, RIGHT)? };
    if argument.bound == Some(i64::MIN) {
        return Err(Refusal::bad(format!("a bound is {} at least", i64::MIN + 1)));
    }
    let change = change(argument.amount.unwrap_or(1));
    Ok(Some(Op::Bounded(BoundedOp { change, bound: argument.bound })))
}

/// Its value and its bound, and how much of what is between them each region may subtract by itself.
pub fn show(counter: &BoundedCounter, name: impl Fn(RegionId) -> String) -> Map<String, Value> {
    let mut rights: BTreeMap<String, u64> = BTreeMap::new();
    for (owner, amount) in counter.owners() {
        let region = rights.entry(name(owner.region)).or_default();
        *region = region.saturating_add(amount);
    }
    let rights: Map<String, Value> =
        rights.into_iter().map(|(region, amount)| (region, amount.into())).collect();
    Map::from_iter([
        ("value".to_owned(), super::crdt::whole(counter.value())),
        ("bound".to_owned(), counter.bound().into()),
        ("rights".to_owned(), rights.into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_has_an_amount_and_a_bound() {
        let parsed = |word, body: &str| parse(word, body.as_bytes()).ok().flatten();
        let op = |change, bound| Some(Op::Bounded(BoundedOp { change, bound }));
        assert_eq!(parsed("increment", ""), op(BoundedChange::Add(1), None));
        assert_eq!(
            parsed("decrement", r#"{"amount": 3, "bound": -5}"#),
            op(BoundedChange::Subtract(3), Some(-5))
        );
        assert_eq!(parsed("reserve", r#"{"amount": 0}"#), op(BoundedChange::Reserve(0), None));
        for (word, body) in [
            ("give", ""),
            ("increment", r#"{"amount": -1}"#),
            ("increment", r#"{"amount": 1.5}"#),
            ("increment", r#"{"by": 1}"#),
            ("increment", r#"{"bound": -9223372036854775808}"#),
        ] {
            assert_eq!(parsed(word, body), None, "{word} {body}");
        }
    }
}
