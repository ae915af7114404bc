use super::*;
use base::{NodeId, Rng};
use bytes::Bytes;
use proptest::prelude::*;

fn actor(node: u64) -> Actor {
    Actor { region: RegionId(node as u32 % 2), node: NodeId(node), incarnation: 0 }
}

fn dot(node: u64, counter: u64) -> Dot {
    Dot { actor: actor(node), counter }
}

fn random(seed: u64) -> Context {
    let mut rng = Rng::new(seed);
    let mut context = Context::default();
    for _ in 0..rng.between(0, 8) {
        let after = rng.between(0, 20);
        let span = Span { after, upto: after + rng.between(1, 6) };
        context.add(actor(rng.between(1, 4)), span);
    }
    context
}

fn dots(context: &Context) -> Vec<(u64, u64)> {
    let all = (1..4).flat_map(|node| (1..30).map(move |counter| (node, counter)));
    all.filter(|(node, counter)| context.covers(dot(*node, *counter))).collect()
}

#[test]
fn a_write_reaches_back_to_the_actors_last_one() {
    let mut context = Context::default();
    assert_eq!(context.extend(dot(1, 7)), Span { after: 0, upto: 7 });
    assert_eq!(context.extend(dot(1, 90)), Span { after: 7, upto: 90 });
    assert_eq!(context.spans().len(), 1);
    assert!(context.covers(dot(1, 90)) && context.covers(dot(1, 3)) && !context.covers(dot(2, 3)));
}

#[test]
fn a_gap_is_neither_claimed_nor_lost() {
    let mut context = Context::default();
    context.add(actor(1), Span { after: 0, upto: 3 });
    context.add(actor(1), Span { after: 8, upto: 12 });
    assert!(!context.covers(dot(1, 5)));
    context.add(actor(1), Span { after: 3, upto: 8 });
    assert_eq!(context.spans(), [(actor(1), Span { after: 0, upto: 12 })]);
}

#[test]
fn a_write_that_was_not_seen_makes_versions_concurrent() {
    let (mut left, mut right) = (Context::default(), Context::default());
    left.extend(dot(1, 1));
    right.extend(dot(1, 1));
    assert_eq!(left.compare(&right), Causality::Equal);
    left.extend(dot(1, 2));
    assert_eq!(left.compare(&right), Causality::After);
    right.extend(dot(2, 9));
    assert_eq!(left.compare(&right), Causality::Concurrent);
    right.join(&left);
    assert_eq!(left.compare(&right), Causality::Before);
}

proptest! {
    #[test]
    fn joining_is_the_union_of_what_was_seen(a: u64, b: u64, c: u64) {
        let (a, b, c) = (random(a), random(b), random(c));
        let join = |left: &Context, right: &Context| { let mut joined = left.clone(); joined.join(right); joined };
        prop_assert_eq!(join(&a, &b), join(&b, &a));
        prop_assert_eq!(join(&join(&a, &b), &c), join(&a, &join(&b, &c)));
        prop_assert_eq!(join(&a, &a), a.clone());
        let mut union = [dots(&a), dots(&b)].concat();
        union.sort_unstable();
        union.dedup();
        prop_assert_eq!(dots(&join(&a, &b)), union);
        let dominated = dots(&b).iter().all(|dot| dots(&a).contains(dot));
        prop_assert_eq!(a.dominates(&b), dominated);
    }

    #[test]
    fn contexts_survive_a_round_trip(seed: u64) {
        let context = random(seed);
        let mut out = Vec::new();
        context.encode(&mut out);
        prop_assert_eq!(Context::decode(&mut Reader::new(out.into())), Some(context));
    }

    #[test]
    fn whatever_is_read_is_in_order(bytes: Vec<u8>) {
        if let Some(context) = Context::decode(&mut Reader::new(Bytes::from(bytes))) {
            let mut again = Context::default();
            context.spans().iter().for_each(|(actor, span)| again.add(*actor, *span));
            prop_assert_eq!(again, context);
        }
    }
}

#[test]
fn what_was_never_given_out_is_left_out() {
    let mut context = Context::default();
    context.add(dot(1, 0).actor, Span { after: 0, upto: 7 });
    context.add(dot(1, 0).actor, Span { after: 9, upto: 90 });
    context.add(dot(2, 0).actor, Span { after: 0, upto: 50 });
    assert!(!context.clip(dot(1, 0).actor, 90));
    assert!(context.clip(dot(1, 0).actor, 12));
    assert_eq!((context.newest(dot(1, 0).actor), context.newest(dot(2, 0).actor)), (12, 50));
    assert!(context.clip(dot(1, 0).actor, 7));
    assert_eq!(context.spans().len(), 2);
    let seen = Context::of_dot(dot(2, 60));
    assert_eq!(seen.beyond(&context).collect::<Vec<_>>(), [dot(2, 60).actor]);
}
