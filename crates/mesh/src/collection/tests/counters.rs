//! Amounts in elements, HyperLogLogs, and bounded counters.

use super::*;
use base::Rng;
use base::codec::Reader;
use base::mutant::plant;
use proptest::prelude::*;

#[test]
fn additions_of_all_replicas_count_once() {
    let (mut a, mut b) =
        (Replica::new(1, CollectionKind::SortedSet), Replica::new(2, CollectionKind::SortedSet));
    let by = |n| CollectionOp::Increment { name: text("m"), by: Decimal(n) };
    let set = a.writes(CollectionOp::SetScore { member: text("m"), score: Decimal(100) });
    b.hears(&set);
    let (five, six) = (a.writes(by(5)), b.writes(by(6)));
    a.hears(&six);
    a.hears(&six);
    b.hears(&five);
    assert_eq!((a.state("m").score(), b.state("m").score()), (Decimal(111), Decimal(111)));
    let again = a.writes(CollectionOp::SetScore { member: text("m"), score: Decimal(1) });
    let seven = b.writes(by(7));
    a.hears(&seven);
    b.hears(&again);
    assert_eq!((a.state("m").score(), b.state("m").score()), (Decimal(8), Decimal(8)));
}

#[test]
fn a_field_is_a_register_or_a_counter() {
    let mut a = Replica::new(1, CollectionKind::Map);
    let by = CollectionOp::Increment { name: text("f"), by: Decimal(2) };
    a.writes(CollectionOp::SetField { field: text("f"), value: text("v"), expires_ms: None });
    assert_eq!(a.try_write(std::slice::from_ref(&by)), Err(Code::WrongType));
    a.writes(CollectionOp::Remove(vec![text("f")]));
    a.writes(by);
    assert_eq!((a.state("f").amount(), a.state("f").register()), (Decimal(2), None));
    assert_eq!(a.try_write(&[CollectionOp::Add(vec![text("x")])]), Err(Code::WrongType));
}

#[test]
fn an_estimate_is_within_three_percent() {
    plant(None);
    let mut a = Replica::new(1, CollectionKind::HyperLogLog);
    for n in 0..20_000_u32 {
        a.writes(CollectionOp::Observe(vec![Bytes::copy_from_slice(&n.to_le_bytes())]));
        if [1, 100, 1_000, 20_000].contains(&(n + 1)) {
            let (right, shown) = (f64::from(n + 1), estimate(&a.header.ranks) as f64);
            assert!((shown - right).abs() <= right * 0.03, "{shown} instead of {right}");
        }
    }
    a.writes(CollectionOp::Clear);
    assert_eq!(estimate(&a.header.ranks), 0);
}

fn merged(left: &BoundedCounter, right: &BoundedCounter) -> BoundedCounter {
    let mut joined = left.clone();
    joined.join(right);
    joined
}

/// Actors add, spend and hand over, and hear of each other late or never; nothing falls below the bound.
pub(super) fn bound_holds(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let bound = rng.between(0, 20) as i64 - 10;
    let mut replicas: Vec<BoundedCounter> = (0..3).map(|_| BoundedCounter::new(bound)).collect();
    let mut sent = vec![BoundedCounter::new(bound)];
    let (mut added, mut spent) = (0, 0);
    for _ in 0..60 {
        let nth = rng.between(0, 3) as usize;
        let (me, other) = (actor(nth as u64), actor(rng.between(0, 3)));
        let amount = rng.between(1, 9);
        let replica = &mut replicas[nth];
        let delta = match rng.between(0, 5) {
            0 => {
                added += i128::from(amount);
                Some(replica.add(me, amount).unwrap())
            }
            1 | 2 => {
                let delta = replica.subtract(me, amount).unwrap();
                spent += if delta.is_some() { i128::from(amount) } else { 0 };
                delta
            }
            3 => replica.give(me, other, amount).unwrap(),
            _ => {
                replica.join(rng.pick(&sent));
                None
            }
        };
        sent.extend(delta);
        if i128::from(bound) + added - spent < i128::from(bound) {
            return Err("it fell below its bound".to_owned());
        }
        if let Some(low) = replicas.iter().map(BoundedCounter::value).find(|value| *value < i128::from(bound))
            && spent > added
        {
            return Err(format!("a replica shows {low}, below its bound of {bound}"));
        }
    }
    let all = sent.iter().fold(BoundedCounter::new(bound), |all, delta| merged(&all, delta));
    let back = sent.iter().rev().fold(BoundedCounter::new(bound), |all, delta| merged(&all, delta));
    let rights: u64 = (0..3).map(|node| all.rights(actor(node))).sum();
    let right = i128::from(bound) + added - spent;
    if all != back || all.value() != right || i128::from(rights) != right - i128::from(bound) {
        return Err("all that was done is counted once, and rights are what is above the bound".to_owned());
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_bounded_counter_never_falls_below_its_bound(seed: u64) {
        plant(None);
        prop_assert_eq!(bound_holds(seed), Ok(()));
    }
}

#[test]
fn rights_go_where_they_are_needed() {
    let (rich, poor) = (actor(1), actor(2));
    let mut here = BoundedCounter::new(0);
    here.add(rich, 100).unwrap();
    let mut there = here.clone();
    assert_eq!(there.subtract(poor, 60), Ok(None), "two withdrawals of 60 from 100");
    assert!(here.subtract(rich, 60).unwrap().is_some());
    assert_eq!(there.richest(poor), Some(rich));
    assert_eq!(here.give(rich, poor, 50), Ok(None), "40 are left");
    there.join(&here.give(rich, poor, 30).unwrap().unwrap());
    assert!(there.subtract(poor, 30).unwrap().is_some());
    here.join(&there);
    assert_eq!((here.value(), here.rights(rich), here.rights(poor)), (10, 10, 0));
    let mut bytes = Vec::new();
    here.encode(&mut bytes);
    assert_eq!(BoundedCounter::decode(&mut Reader::new(bytes.into())), Some(here));
}
