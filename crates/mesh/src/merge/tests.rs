use super::*;
use crate::actor::{Actor, Dot, RegionId};
use crate::hlc::Stamp;
use crate::op::{self, Attributes, BoundedChange, BoundedOp, Op, WriteEvent, Written};
use crate::record::{Fence, Kind};
use base::{Code, NodeId, Rng};
use bytes::Bytes;
use proptest::prelude::*;

/// One replica of one key, with a clock of its own.
struct Replica {
    actor: Actor,
    counter: u64,
    clock_ms: u64,
    record: Option<Record>,
}

impl Replica {
    fn new(node: u64, clock_ms: u64) -> Replica {
        let actor = Actor { region: RegionId(node as u32 % 2), node: NodeId(node), incarnation: 1 };
        Replica { actor, counter: 0, clock_ms, record: None }
    }

    fn write(&mut self, kind: Kind, op: Op, attributes: &Attributes) -> Result<Written, Code> {
        // Other keys take numbers too.
        self.counter += 3;
        let dot = Dot { actor: self.actor, counter: self.counter };
        let event = WriteEvent { dot, stamp: Stamp::at_ms(self.clock_ms), wall_ms: self.clock_ms };
        let written = op::apply(self.record.as_ref(), kind, &op, attributes, event)?;
        self.record = Some(written.full.clone());
        Ok(written)
    }

    fn does(&mut self, kind: Kind, op: Op) -> Written {
        self.write(kind, op, &Attributes::default()).unwrap()
    }

    fn hears(&mut self, other: &Record) {
        self.record = Some(match &self.record {
            Some(mine) => join(mine, other),
            None => other.clone(),
        });
    }

    fn hears_of(&mut self, other: &Replica) {
        other.record.iter().for_each(|record| self.hears(record));
    }

    fn holds(&self, element: &str) -> bool {
        match &self.record.as_ref().unwrap().body {
            Body::Set(set) => set.contains(element.as_bytes()),
            _ => panic!("not a set"),
        }
    }
}

fn join(left: &Record, right: &Record) -> Record {
    merge(left, right).record
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn random_op(rng: &mut Rng, kind: Kind) -> Op {
    let letter = Bytes::from(vec![b'a' + rng.between(0, 4) as u8]);
    if rng.chance(100_000) {
        return Op::Delete;
    }
    match kind {
        Kind::Register | Kind::Siblings | Kind::Custom => Op::Put(letter),
        Kind::GrowingCounter => Op::Add(rng.between(0, 9) as i128),
        Kind::Counter => Op::Add(rng.between(0, 9) as i128 - 4),
        Kind::Numeric if rng.chance(200_000) => Op::Assign(rng.between(0, 100) as i128),
        Kind::Numeric => Op::Add(rng.between(0, 9) as i128 - 4),
        Kind::Set if rng.chance(400_000) => Op::Remove(letter),
        Kind::Set => Op::Insert(letter),
        Kind::BoundedCounter => {
            let (amount, node) = (rng.between(0, 9), NodeId(rng.between(1, 5)));
            let to = Actor { region: RegionId(0), node, incarnation: 0 };
            let change = match rng.between(0, 5) {
                0 | 1 => BoundedChange::Add(amount),
                2 => BoundedChange::Subtract(amount),
                3 => BoundedChange::Give { to, amount },
                _ => BoundedChange::Want(amount),
            };
            Op::Bounded(BoundedOp { change, bound: None })
        }
        Kind::Flag | Kind::Map | Kind::SortedSet | Kind::List | Kind::HyperLogLog | Kind::BigSet => {
            unreachable!("its elements are merged below the key")
        }
    }
}

/// What a few replicas come to that write and now and then hear of each other, and everything they sent.
struct Story {
    replicas: Vec<Replica>,
    deltas: Vec<Record>,
    states: Vec<Record>,
    losers: usize,
}

fn tell(seed: u64, kind: Kind) -> Story {
    let mut rng = Rng::new(seed);
    let mut replicas: Vec<Replica> = (1..5).map(|node| Replica::new(node, rng.between(1, 50))).collect();
    let (mut deltas, mut states, mut losers) = (Vec::<Record>::new(), Vec::<Record>::new(), 0);
    for _ in 0..rng.between(1, 24) {
        let nth = rng.between(0, replicas.len() as u64) as usize;
        let me = &mut replicas[nth];
        me.clock_ms += rng.between(0, 3);
        if rng.chance(500_000) || states.is_empty() {
            let kind = if rng.chance(30_000) { *rng.pick(&Kind::ALL[..7]) } else { kind };
            let mut attributes = Attributes::default();
            if rng.chance(300_000) {
                attributes.context = me.record.as_ref().map(|record| record.context.clone());
            }
            if rng.chance(100_000) {
                attributes.request = Some(rng.between(0, 20));
                attributes.expires_ms = Some(me.clock_ms + rng.between(0, 6));
            }
            let op = random_op(&mut rng, kind);
            if let Ok(Written { full, delta }) = me.write(kind, op, &attributes) {
                deltas.push(delta.unwrap_or_else(|| full.clone()));
                states.push(full);
            }
        } else {
            let other = if rng.chance(500_000) { rng.pick(&states) } else { rng.pick(&deltas) }.clone();
            losers += me.record.as_ref().map_or(0, |mine| usize::from(merge(mine, &other).loser.is_some()));
            me.hears(&other);
            states.extend(me.record.clone());
        }
    }
    Story { replicas, deltas, states, losers }
}

fn laws(seed: u64, kind: Kind) -> Result<(), TestCaseError> {
    let story = tell(seed, kind);
    let mut rng = Rng::new(!seed);
    let all = [&story.states[..], &story.deltas[..]].concat();
    if all.is_empty() {
        return Ok(());
    }
    for _ in 0..4 {
        let (a, b, c) = (rng.pick(&all), rng.pick(&all), rng.pick(&all));
        prop_assert_eq!(join(a, b), join(b, a), "commutative");
        prop_assert_eq!(join(&join(a, b), c), join(a, &join(b, c)), "associative");
        prop_assert_eq!(&join(a, a), a, "idempotent");
        prop_assert_eq!(Record::decode(a.encode()), Some(a.clone()), "round trip");
    }
    converge(&story, &mut rng)
}

/// A replica that got every delta, in any order and any number of times, has the state of a replica that got every full state.
fn converge(story: &Story, rng: &mut Rng) -> Result<(), TestCaseError> {
    let mut by_states = Replica::new(9, 0);
    story.replicas.iter().for_each(|replica| by_states.hears_of(replica));
    story.states.iter().for_each(|state| by_states.hears(state));
    let mut deltas = story.deltas.clone();
    for _ in 0..3 {
        deltas.push(rng.pick(&story.deltas).clone());
    }
    for nth in 0..deltas.len() {
        deltas.swap(nth, rng.between(0, (nth + 1) as u64) as usize);
    }
    let mut by_deltas = Replica::new(8, 0);
    deltas.iter().for_each(|delta| by_deltas.hears(delta));
    prop_assert_eq!(by_deltas.record, by_states.record, "delta equals full state");
    Ok(())
}

proptest! {
    #[test]
    fn registers_obey_the_laws(seed: u64) { laws(seed, Kind::Register)?; }
    #[test]
    fn growing_counters_obey_the_laws(seed: u64) { laws(seed, Kind::GrowingCounter)?; }
    #[test]
    fn counters_obey_the_laws(seed: u64) { laws(seed, Kind::Counter)?; }
    #[test]
    fn numerics_obey_the_laws(seed: u64) { laws(seed, Kind::Numeric)?; }
    #[test]
    fn sets_obey_the_laws(seed: u64) { laws(seed, Kind::Set)?; }
    #[test]
    fn siblings_obey_the_laws(seed: u64) { laws(seed, Kind::Siblings)?; }
    #[test]
    fn custom_values_obey_the_laws(seed: u64) { laws(seed, Kind::Custom)?; }

    #[test]
    fn bounded_counters_obey_the_laws(seed: u64) { laws(seed, Kind::BoundedCounter)?; }

    #[test]
    fn whatever_bytes_come_reading_a_record_does_not_panic(bytes: Vec<u8>) {
        let read = Record::decode(Bytes::from([&[1][..], &bytes].concat()));
        if let Some(record) = read {
            prop_assert_eq!(Record::decode(record.encode()), Some(record));
        }
    }
}

/// How many merges of each type are tried: a few, or as many as `MESH_CASES` says.
#[expect(clippy::disallowed_methods, reason = "a test may be told to take its time")]
fn n_cases() -> u64 {
    std::env::var("MESH_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(4_000)
}

/// Triples of states and deltas out of one story, and then the next story.
fn try_many(kind: Kind) {
    let (mut tried, mut seed, cases) = (0, 0, n_cases());
    while tried < cases {
        seed += 1;
        let story = tell(seed, kind);
        let all = [&story.states[..], &story.deltas[..]].concat();
        let mut rng = Rng::new(!seed);
        for _ in 0..if all.is_empty() { 0 } else { 32 } {
            let (a, b, c) = (rng.pick(&all), rng.pick(&all), rng.pick(&all));
            let ab = join(a, b);
            assert_eq!(ab, join(b, a), "{kind:?} seed {seed}: commutative");
            assert_eq!(join(&ab, c), join(a, &join(b, c)), "{kind:?} seed {seed}: associative");
            assert_eq!(join(&ab, &ab), ab, "{kind:?} seed {seed}: idempotent");
            assert_eq!(join(&ab, a), ab, "{kind:?} seed {seed}: absorbs what it is made of");
            tried += 1;
        }
        if !story.deltas.is_empty() {
            converge(&story, &mut rng).unwrap();
        }
    }
}

#[test]
fn many_merges_of_bounded_counters_obey_the_laws() {
    try_many(Kind::BoundedCounter);
}

#[test]
fn many_merges_of_registers_obey_the_laws() {
    try_many(Kind::Register);
}

#[test]
fn many_merges_of_growing_counters_obey_the_laws() {
    try_many(Kind::GrowingCounter);
}

#[test]
fn many_merges_of_counters_obey_the_laws() {
    try_many(Kind::Counter);
}

#[test]
fn many_merges_of_numerics_obey_the_laws() {
    try_many(Kind::Numeric);
}

#[test]
fn many_merges_of_sets_obey_the_laws() {
    try_many(Kind::Set);
}

#[test]
fn many_merges_of_siblings_obey_the_laws() {
    try_many(Kind::Siblings);
}

#[test]
fn many_merges_of_custom_values_obey_the_laws() {
    try_many(Kind::Custom);
}

/// riak_dt #82: `add x@a; add x@b; a->c; rem x@a; b->a; rem x@b; merge(b, merge(a, c))`.
#[test]
fn a_set_forgets_what_every_adder_has_removed() {
    let (mut a, mut b, mut c) = (Replica::new(1, 0), Replica::new(2, 0), Replica::new(3, 0));
    a.does(Kind::Set, Op::Insert(text("x")));
    b.does(Kind::Set, Op::Insert(text("x")));
    c.hears_of(&a);
    a.does(Kind::Set, Op::Remove(text("x")));
    a.hears_of(&b);
    b.does(Kind::Set, Op::Remove(text("x")));
    a.hears_of(&c);
    b.hears_of(&a);
    assert!(!b.holds("x"));
}

/// riak_dt #53: two replicas agree on a removal while a third writes the same element again.
#[test]
fn two_removals_do_not_undo_a_write_that_they_did_not_see() {
    let (mut a, mut b, mut c) = (Replica::new(1, 0), Replica::new(2, 0), Replica::new(3, 0));
    a.does(Kind::Set, Op::Insert(text("x")));
    b.hears_of(&a);
    c.hears_of(&a);
    a.does(Kind::Set, Op::Remove(text("x")));
    b.does(Kind::Set, Op::Remove(text("x")));
    c.does(Kind::Set, Op::Insert(text("x")));
    a.hears_of(&b);
    assert!(!a.holds("x"));
    c.hears_of(&a);
    a.hears_of(&c);
    b.hears_of(&c);
    assert!(a.holds("x") && b.holds("x") && c.holds("x"));
    a.does(Kind::Set, Op::Remove(text("x")));
    c.hears_of(&a);
    b.hears_of(&c);
    assert!(!b.holds("x"), "and the next removal holds");
}

#[test]
fn a_later_write_wins_over_what_it_has_seen_whatever_the_clocks() {
    let (mut ahead, mut behind) = (Replica::new(1, 31_536_000_000), Replica::new(2, 1_000));
    let poison = ahead.does(Kind::Register, Op::Put(text("poison"))).full;
    behind.hears(&poison);
    let cure = behind.does(Kind::Register, Op::Put(text("cure"))).full;
    let merged = merge(&poison, &cure);
    assert_eq!((merged.record.body, merged.loser), (Body::Register(text("cure")), None));
}

#[test]
fn the_loser_of_a_conflict_is_handed_out() {
    let (mut a, mut b) = (Replica::new(1, 10), Replica::new(2, 20));
    let first = a.does(Kind::Register, Op::Put(text("first"))).full;
    let second = b.does(Kind::Register, Op::Put(text("second"))).full;
    let merged = merge(&first, &second);
    assert_eq!(merged.record.body, Body::Register(text("second")));
    assert_eq!(merged.loser, Some(first.clone()));
    assert_eq!(merge(&merged.record, &first).loser, None, "once");
    assert!((0..200).any(|seed| tell(seed, Kind::Register).losers > 0));
}

#[test]
fn a_tombstone_is_a_write_like_any_other() {
    let (mut a, mut b) = (Replica::new(1, 10), Replica::new(2, 5));
    let value = b.does(Kind::Register, Op::Put(text("v"))).full;
    a.does(Kind::Register, Op::Put(text("u")));
    let gone = a.does(Kind::Register, Op::Delete).full;
    assert!(join(&value, &gone).is_tombstone());
    b.clock_ms = 99;
    let later = b.does(Kind::Register, Op::Put(text("w"))).full;
    assert!(!join(&gone, &later).is_tombstone());
}

#[test]
fn a_deleted_set_comes_back_with_what_the_delete_has_not_seen() {
    let (mut a, mut b) = (Replica::new(1, 10), Replica::new(2, 5));
    a.does(Kind::Set, Op::Insert(text("x")));
    b.hears_of(&a);
    b.does(Kind::Set, Op::Insert(text("y")));
    let gone = a.does(Kind::Set, Op::Delete).full;
    assert!(gone.is_tombstone());
    a.hears_of(&b);
    assert!(!a.record.as_ref().unwrap().is_tombstone() && a.holds("y") && !a.holds("x"));
}

#[test]
fn siblings_stay_flat_collapse_with_a_context_and_are_bounded() {
    let (mut a, mut b) = (Replica::new(1, 10), Replica::new(2, 10));
    a.does(Kind::Siblings, Op::Put(text("1")));
    b.does(Kind::Siblings, Op::Put(text("2")));
    a.hears_of(&b);
    b.hears_of(&a);
    let values = |replica: &Replica| match &replica.record.as_ref().unwrap().body {
        Body::Siblings(siblings) => {
            let values = siblings.values().iter().map(|sibling| sibling.value.clone());
            values.collect::<std::collections::BTreeSet<_>>()
        }
        _ => panic!("not siblings"),
    };
    assert_eq!(values(&a), [text("1"), text("2")].into());
    assert_eq!(values(&b), values(&a));
    let context = a.record.as_ref().map(|record| record.context.clone());
    a.write(Kind::Siblings, Op::Put(text("3")), &Attributes { context, ..Attributes::default() }).unwrap();
    b.hears_of(&a);
    assert_eq!(values(&b), [text("3")].into());
    for n in 1..32 {
        a.does(Kind::Siblings, Op::Put(text(&n.to_string())));
    }
    let more = a.write(Kind::Siblings, Op::Put(text("more")), &Attributes::default());
    assert_eq!(more, Err(Code::TooManySiblings));
}

#[test]
fn a_fence_that_was_passed_is_refused_and_loses_against_the_later_stamp() {
    let (mut a, mut b) = (Replica::new(1, 10), Replica::new(2, 1_000));
    let under = |token| Attributes { fence: Some(Fence { lock: text("l"), token }), ..Attributes::default() };
    let new_holder = a.write(Kind::Register, Op::Put(text("new")), &under(8)).unwrap().full;
    let old_holder = b.write(Kind::Register, Op::Put(text("old")), &under(7)).unwrap().full;
    assert_eq!(join(&new_holder, &old_holder).body, Body::Register(text("new")));
    b.hears(&new_holder);
    assert_eq!(b.write(Kind::Register, Op::Put(text("x")), &under(7)), Err(Code::FencePassed));
    assert_eq!(b.write(Kind::Register, Op::Put(text("x")), &Attributes::default()), Err(Code::FencePassed));
    b.write(Kind::Register, Op::Put(text("again")), &under(8)).unwrap();
}

#[test]
fn a_key_of_one_type_refuses_another_until_it_is_deleted() {
    let mut a = Replica::new(1, 10);
    a.does(Kind::Set, Op::Insert(text("x")));
    let put = a.write(Kind::Register, Op::Put(text("v")), &Attributes::default());
    assert_eq!(put, Err(Code::WrongType));
    let set = a.record.clone().unwrap();
    a.does(Kind::Register, Op::Delete);
    let register = a.does(Kind::Register, Op::Put(text("v"))).full;
    assert_eq!(join(&set, &register), register);
}

#[test]
fn what_has_expired_counts_no_more_and_starts_afresh() {
    let mut a = Replica::new(1, 10);
    let short = Attributes { expires_ms: Some(20), ..Attributes::default() };
    let first = a.write(Kind::Counter, Op::Add(5), &short).unwrap().full;
    assert!(first.is_live(19) && !first.is_live(20));
    a.clock_ms = 30;
    let Written { full, delta } = a.does(Kind::Counter, Op::Add(2));
    assert_eq!(full.header.expires_ms, None);
    let delta = delta.expect("a counter has deltas");
    for state in [full.clone(), join(&first, &delta)] {
        assert!(matches!(&state.body, Body::Counter(tally) if tally.value() == 2));
    }
}
