//! Replicas write, hear deltas in any order, again and again, and sweep: what they show is what the model shows.

use super::model::Model;
use super::*;
use base::Rng;
use base::mutant::plant;
use proptest::prelude::*;

struct Story {
    kind: CollectionKind,
    replicas: Vec<(Replica, Model)>,
    /// The clears that each replica has made or heard of.
    clears: Vec<Model>,
    sent: Vec<(CollectionDelta, Model)>,
}

fn random_op(rng: &mut Rng, kind: CollectionKind, replica: &Replica) -> CollectionOp {
    let name = Bytes::from(vec![b'a' + rng.between(0, 6) as u8]);
    let letter = Bytes::from(vec![b'A' + rng.between(0, 6) as u8]);
    let number = Decimal(*rng.pick(&[-3, -2, -1, 1, 2, 3, 4]));
    if rng.chance(80_000) {
        return CollectionOp::Clear;
    }
    let removes = rng.chance(300_000);
    match kind {
        CollectionKind::Set if removes => CollectionOp::Remove(vec![name, letter]),
        CollectionKind::Set => CollectionOp::Add(vec![name, letter]),
        CollectionKind::Flag if removes => CollectionOp::Disable,
        CollectionKind::Flag => CollectionOp::Enable,
        CollectionKind::Map | CollectionKind::SortedSet if removes => CollectionOp::Remove(vec![name]),
        CollectionKind::Map if rng.chance(500_000) => CollectionOp::Increment { name, by: number },
        CollectionKind::Map => CollectionOp::SetField { field: letter, value: name, expires_ms: None },
        CollectionKind::SortedSet if rng.chance(500_000) => CollectionOp::Increment { name, by: number },
        CollectionKind::SortedSet => CollectionOp::SetScore { member: name, score: number },
        CollectionKind::List => {
            let here = replica.names();
            match (here.is_empty(), rng.between(0, 5)) {
                (true, _) | (_, 0) => {
                    CollectionOp::Insert { place: InsertPosition::Last, values: vec![name, letter] }
                }
                (_, 1) => CollectionOp::Insert { place: InsertPosition::First, values: vec![name] },
                (_, 2) => CollectionOp::Remove(vec![rng.pick(&here).clone()]),
                (_, 3) => CollectionOp::Replace { position: rng.pick(&here).clone(), value: letter },
                _ => {
                    let place = InsertPosition::After(rng.pick(&here).clone());
                    CollectionOp::Insert { place, values: vec![letter, name] }
                }
            }
        }
        CollectionKind::HyperLogLog => CollectionOp::Observe(vec![name]),
    }
}

impl Story {
    fn new(kind: CollectionKind) -> Story {
        let replicas = (1..5).map(|node| (Replica::new(node, kind), Model::default()));
        Story { kind, replicas: replicas.collect(), clears: vec![Model::default(); 4], sent: Vec::new() }
    }

    fn step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let nth = rng.between(0, self.replicas.len() as u64) as usize;
        let (replica, model) = &mut self.replicas[nth];
        if rng.chance(400_000) || self.sent.is_empty() {
            let op = random_op(rng, self.kind, replica);
            if let Ok(delta) = replica.try_write(std::slice::from_ref(&op)) {
                let travelled = CollectionDelta::decode(delta.encode());
                if travelled.as_ref() != Some(&delta) {
                    return Err("a delta survives a round trip".to_owned());
                }
                let by_model = model.write(&op, &delta);
                if op == CollectionOp::Clear {
                    self.clears[nth].join(&by_model);
                }
                self.sent.push((delta, by_model));
            }
        } else if rng.chance(200_000) {
            let told = replica.sweeps(rng.between(1, 4) as usize);
            self.sent.extend(told.map(|delta| (delta, self.clears[nth].clone())));
        } else {
            let (delta, by_model) = rng.pick(&self.sent).clone();
            replica.hears(&delta);
            model.join(&by_model);
            if !delta.cleared.is_empty() {
                self.clears[nth].join(&by_model);
            }
        }
        let (replica, model) = &self.replicas[nth];
        let (shown, right) = (replica.names(), model.names());
        // A removal that has seen later additions of an actor takes earlier ones away before the later ones have come.
        let is_missing = |name: &Bytes| !shown.contains(name) && !model.is_amount(name);
        if shown.iter().any(|name| !right.contains(name)) || right.iter().any(is_missing) {
            return Err(format!("shown {shown:?}, and the model {right:?}"));
        }
        check_derived(replica)
    }

    /// Everything arrives everywhere, in some order, and is swept.
    fn end(&mut self, rng: &mut Rng) -> Result<(), String> {
        let mut at = 0;
        while at < self.sent.len() {
            let mut deltas = self.sent[at..].to_vec();
            at = self.sent.len();
            for (replica, model) in &mut self.replicas {
                for nth in 0..deltas.len() {
                    deltas.swap(nth, rng.between(0, (nth + 1) as u64) as usize);
                }
                for (delta, by_model) in &deltas {
                    replica.hears(delta);
                    model.join(by_model);
                }
                while replica.header.sweep.is_some() {
                    let told = replica.sweeps(2);
                    self.sent.extend(told.map(|delta| (delta, Model::default())));
                }
                check_derived(replica)?;
            }
        }
        self.compare()
    }

    fn compare(&self) -> Result<(), String> {
        let (first, _) = &self.replicas[0];
        for (replica, model) in &self.replicas {
            if !replica.header.is_same(&first.header) {
                return Err("replicas that have heard the same are the same".to_owned());
            }
            if replica.names() != model.names() {
                return Err("in the end the elements are those of the model".to_owned());
            }
            for entry in replica.visible() {
                if entry.state.amount().0 != model.amount(&entry.name) {
                    let (shown, right) = (entry.state.amount().0, model.amount(&entry.name));
                    return Err(format!("{:?} counts {shown}, and the model {right}", entry.name));
                }
                let cells = entry.state.cells.iter().filter(|cell| !cell.value.is_increment());
                let values: Vec<_> = cells.map(|cell| (cell.dot, cell.value.clone())).collect();
                if values != model.values(&entry.name) {
                    return Err("an element holds what the model holds".to_owned());
                }
            }
        }
        Ok(())
    }
}

pub(super) fn tell(seed: u64, kind: CollectionKind) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut story = Story::new(kind);
    for _ in 0..rng.between(4, 48) {
        story.step(&mut rng)?;
    }
    story.end(&mut rng)
}

fn laws(seed: u64, kind: CollectionKind) -> Result<(), TestCaseError> {
    plant(None);
    tell(seed, kind).map_err(|what| TestCaseError::fail(format!("{kind:?}, seed {seed}: {what}")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn sets_as_rows_equal_the_model(seed: u64) { laws(seed, CollectionKind::Set)?; }
    #[test]
    fn flags_as_rows_equal_the_model(seed: u64) { laws(seed, CollectionKind::Flag)?; }
    #[test]
    fn maps_as_rows_equal_the_model(seed: u64) { laws(seed, CollectionKind::Map)?; }
    #[test]
    fn sorted_sets_as_rows_equal_the_model(seed: u64) { laws(seed, CollectionKind::SortedSet)?; }
    #[test]
    fn lists_as_rows_equal_the_model(seed: u64) { laws(seed, CollectionKind::List)?; }
    #[test]
    fn hyper_log_logs_as_rows_equal_the_model(seed: u64) { laws(seed, CollectionKind::HyperLogLog)?; }

    #[test]
    fn whatever_bytes_come_reading_a_delta_does_not_panic(bytes: Vec<u8>) {
        for bytes in [bytes.clone(), [&[1, 0, 4][..], &bytes].concat(), [&[1, 0, 10][..], &bytes].concat()] {
            if let Some(delta) = CollectionDelta::decode(Bytes::from(bytes)) {
                prop_assert_eq!(CollectionDelta::decode(delta.encode()), Some(delta));
            }
        }
    }
}

/// As many stories as `MESH_CASES` says, of every type.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test may be told to take its time")]
fn many_stories_of_collections_equal_the_model() {
    plant(None);
    let cases = std::env::var("MESH_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100);
    for seed in 0..cases {
        for kind in CollectionKind::ALL {
            assert_eq!(tell(seed, kind), Ok(()), "{kind:?}, seed {seed}");
        }
    }
}

#[test]
fn an_add_that_a_removal_has_not_seen_survives_it() {
    let (mut a, mut b) = (Replica::new(1, CollectionKind::Set), Replica::new(2, CollectionKind::Set));
    let added = a.writes(CollectionOp::Add(vec![text("x")]));
    b.hears(&added);
    let removed = b.writes(CollectionOp::Remove(vec![text("x")]));
    let again = a.writes(CollectionOp::Add(vec![text("x")]));
    a.hears(&removed);
    b.hears(&again);
    b.hears(&added);
    assert!(a.holds("x") && b.holds("x"));
    assert!(a.header.is_same(&b.header));
}

#[test]
fn a_flag_that_is_enabled_and_disabled_at_once_is_enabled() {
    let (mut a, mut b) = (Replica::new(1, CollectionKind::Flag), Replica::new(2, CollectionKind::Flag));
    let first = a.writes(CollectionOp::Enable);
    b.hears(&first);
    let (off, on) = (b.writes(CollectionOp::Disable), a.writes(CollectionOp::Enable));
    a.hears(&off);
    b.hears(&on);
    assert_eq!((a.header.count, b.header.count), (1, 1));
    let off = a.writes(CollectionOp::Disable);
    b.hears(&off);
    assert_eq!((a.header.count, b.header.count), (0, 0));
}

#[test]
fn of_two_expiries_that_have_not_seen_each_other_the_longer_one_counts() {
    let (mut a, mut b) = (Replica::new(1, CollectionKind::Set), Replica::new(2, CollectionKind::Set));
    let (short, long) =
        (a.writes(CollectionOp::Expire(Some(100))), b.writes(CollectionOp::Expire(Some(200))));
    a.hears(&long);
    b.hears(&short);
    assert_eq!((a.header.expires_ms(), b.header.expires_ms()), (Some(200), Some(200)));
    let shorter = a.writes(CollectionOp::Expire(Some(150)));
    b.hears(&shorter);
    assert_eq!(b.header.expires_ms(), Some(150), "one that has seen the other replaces it");
    b.writes(CollectionOp::Expire(None));
    assert_eq!(b.header.expires_ms(), None);
}

#[test]
fn a_write_to_what_has_expired_begins_afresh() {
    let mut a = Replica::new(1, CollectionKind::Set);
    a.writes(CollectionOp::Add(vec![text("old")]));
    a.writes(CollectionOp::Expire(Some(50)));
    a.clock_ms = 60;
    a.writes(CollectionOp::Add(vec![text("new")]));
    assert_eq!((a.names(), a.header.count), (vec![text("new")], 1));
    assert_eq!(a.header.expires_ms(), None);
}

#[test]
fn a_field_expires_with_the_longest_of_what_was_written_at_once() {
    let (mut a, mut b) = (Replica::new(1, CollectionKind::Map), Replica::new(2, CollectionKind::Map));
    let put = |expires_ms| CollectionOp::SetField { field: text("f"), value: text("v"), expires_ms };
    let (short, long) = (a.writes(put(Some(100))), b.writes(put(Some(200))));
    a.hears(&long);
    b.hears(&short);
    assert_eq!(expire_fields(&a.header, &a.rows, 199, 10), None);
    let change = expire_fields(&a.header, &a.rows, 200, 10).unwrap();
    a.take(change);
    assert_eq!((a.header.count, a.rows.rows.len()), (0, 0));
    a.hears(&long);
    assert!(!a.holds("f"), "what has expired does not come back");
}

#[test]
fn of_two_types_the_larger_one_stays_on_every_replica() {
    let (mut a, mut b) = (Replica::new(1, CollectionKind::Map), Replica::new(2, CollectionKind::Set));
    let field = a.writes(CollectionOp::SetField { field: text("x"), value: text("v"), expires_ms: None });
    let element = b.writes(CollectionOp::Add(vec![text("x")]));
    let change = merge(&a.header, &a.rows, &element).unwrap();
    assert_eq!(change.verdict, TypeVerdict::CollectionLost);
    a.take(change);
    let change = merge(&b.header, &b.rows, &field).unwrap();
    assert_eq!(change.verdict, TypeVerdict::DeltaLost);
    b.take(change);
    while a.header.sweep.is_some() {
        a.sweeps(1);
    }
    assert_eq!((a.names(), a.values()), (b.names(), b.values()));
    assert_eq!(a.header.context, b.header.context);
    check_derived(&a).unwrap();
}

#[test]
fn pages_of_replicas_that_differ_are_merged_row_by_row() {
    let (mut a, mut b) = (Replica::new(1, CollectionKind::Set), Replica::new(2, CollectionKind::Set));
    for n in 0..20 {
        let delta = a.writes(CollectionOp::Add(vec![text(&format!("e{n:02}"))]));
        if n % 3 != 0 {
            b.hears(&delta);
        }
    }
    b.writes(CollectionOp::Remove(vec![text("e01")]));
    let (mut after, mut names) = (None::<Bytes>, Vec::new());
    loop {
        let pages = [&a, &b].map(|one| page(&one.header, &one.rows, after.as_deref(), 4));
        let merged = merge_pages(&pages);
        names.extend(merged.entries.into_iter().map(|entry| entry.name));
        after = merged.upto;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<Bytes> = (0..20).filter(|n| *n != 1).map(|n| text(&format!("e{n:02}"))).collect();
    assert_eq!(names, expected);
    let whole = [&a, &b].map(|one| page(&one.header, &one.rows, None, 100));
    let stale = merge_pages(&whole).stale;
    assert!(stale.contains(&StaleEntry { page: 0, name: text("e01") }));
    assert_eq!(stale.len(), 8, "one that was removed, seven that have not come");
}
