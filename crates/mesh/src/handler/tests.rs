use super::*;
use crate::actor::{Actor, Dot, RegionId};
use crate::context::Context;
use crate::hlc::Stamp;
use crate::siblings::Sibling;
use base::NodeId;

/// Scripts of one word.
struct Words;

impl Script for Words {
    fn merge(&self, source: &str, left: &Bytes, right: &Bytes) -> Option<Bytes> {
        match source {
            "larger" => Some(left.max(right).clone()),
            "left" => Some(left.clone()),
            "concat" => Some([left.clone(), right.clone()].concat().into()),
            "average" => Some(Bytes::from(vec![(left.len().midpoint(right.len())) as u8])),
            _ => None,
        }
    }
}

const HERE: RegionId = RegionId(1);

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn siblings(values: &[(u64, &str)]) -> Siblings {
    let mut siblings = Siblings::default();
    for (nth, (ms, value)) in values.iter().enumerate() {
        let actor = Actor { region: RegionId(0), node: NodeId(9 - nth as u64), incarnation: 0 };
        let sibling =
            Sibling { dot: Dot { actor, counter: 1 }, stamp: Stamp::at_ms(*ms), value: bytes(value) };
        siblings.put(sibling, &Context::default(), &mut Context::default()).unwrap();
    }
    siblings
}

fn folded(name: &str, values: &[(u64, &str)]) -> (String, bool) {
    let handlers = Handlers::default().register("mine", "larger", &Words, HERE).unwrap();
    let FoldedValue { value, fell_back } = handlers.fold(name, &siblings(values), &Words).unwrap();
    (String::from_utf8(value.to_vec()).unwrap(), fell_back)
}

#[test]
fn built_in_handlers_keep_the_laws() {
    for handler in [Handler::Max, Handler::Min, Handler::Longest, Handler::JsonMerge] {
        for seed in 0..40 {
            assert_eq!(handler.check(&NoScript, seed), Ok(()), "{handler:?}");
        }
    }
}

#[test]
fn a_script_that_breaks_a_law_is_not_registered() {
    let law = |source: &str| Handler::Script(source.into()).check(&Words, 1).map_err(|breach| breach.law);
    assert_eq!(law("larger"), Ok(()));
    assert_eq!(law("left"), Err(MergeLaw::Commutative));
    assert_eq!(law("concat"), Err(MergeLaw::Commutative));
    assert!(matches!(law("average"), Err(MergeLaw::Associative | MergeLaw::Idempotent)));
    assert_eq!(law("fails"), Err(MergeLaw::Total));
    let handlers = Handlers::default();
    assert_eq!(handlers.register("h", "left", &Words, HERE), Err(Code::LawlessHandler));
    assert_eq!(
        handlers.register("max", "larger", &Words, HERE),
        Err(Code::BadHandler),
        "the handler is built in"
    );
    assert_eq!(handlers.register("", "larger", &Words, HERE), Err(Code::BadHandler));
    assert_eq!(handlers.register("h", &"x".repeat(100_000), &Words, HERE), Err(Code::BadHandler));
    let one = handlers.register("h", "larger", &Words, HERE).unwrap();
    assert_eq!(one.without("h", HERE).map(|left| left.get("h")), Ok(None));
    assert_eq!(one.without("other", HERE), Err(Code::UnknownHandler));
}

#[test]
fn values_side_by_side_come_to_what_their_handler_says() {
    let numbers = [(3, "9"), (1, "10"), (2, "-4.5")];
    assert_eq!(folded("max", &numbers), ("10".into(), false));
    assert_eq!(folded("min", &numbers), ("-4.5".into(), false));
    assert_eq!(folded("longest", &[(1, "abc"), (2, "x")]), ("abc".into(), false));
    let documents = [(1, r#"{"a":1,"o":{"x":1}}"#), (2, r#"{"b":2,"o":{"y":2}}"#)];
    assert_eq!(folded("json_merge", &documents), (r#"{"a":1,"b":2,"o":{"x":1,"y":2}}"#.into(), false));
    assert_eq!(folded("mine", &numbers), ("9".into(), false));
}

#[test]
fn without_its_handler_the_last_write_shows_and_that_is_told() {
    assert_eq!(folded("unknown", &[(5, "new"), (1, "old")]), ("new".into(), true));
    assert_eq!(folded("unknown", &[(5, "only")]), ("only".into(), false));
    let handlers = Handlers::default().register("mine", "larger", &Words, HERE).unwrap();
    let folded = handlers.fold("mine", &siblings(&[(1, "z"), (2, "a")]), &NoScript).unwrap();
    assert_eq!((folded.value, folded.fell_back), (bytes("a"), true));
    assert_eq!(handlers.fold("max", &Siblings::default(), &NoScript), None);
}

#[test]
fn a_registry_survives_a_round_trip_and_cut_bytes_are_refused() {
    let handlers = Handlers::default().register("mine", "larger", &Words, HERE).unwrap();
    let bytes = handlers.encode(FormatLevel::NEWEST);
    assert_eq!(Handlers::decode(bytes.clone()), Some(handlers));
    (0..bytes.len()).for_each(|cut| assert_eq!(Handlers::decode(bytes.slice(..cut)), None));
}
