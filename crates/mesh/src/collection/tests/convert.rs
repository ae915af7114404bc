//! Sets of 0.1.0 become rows.

use super::*;
use crate::merge;
use crate::op::{self, Attributes, Op};
use crate::record::{Kind, Record};
use base::Rng;
use base::mutant::plant;

fn write(local: &mut Option<Record>, node: u64, counter: u64, op: &Op) {
    let dot = Dot { actor: actor(node), counter };
    let event = WriteEvent { dot, stamp: Stamp::at_ms(counter), wall_ms: counter };
    let written = op::apply(local.as_ref(), Kind::Set, op, &Attributes::default(), event).unwrap();
    *local = Some(written.full);
}

fn converted(node: u64, record: &Record) -> Replica {
    let mut replica = Replica::new(node, CollectionKind::Set);
    replica.dots = 1_000;
    replica.take(convert(record).unwrap());
    replica
}

#[test]
fn records_that_are_converted_apart_merge_to_what_is_converted_together() {
    plant(None);
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut records: [Option<Record>; 2] = [None, None];
        for counter in 1..rng.between(4, 60) {
            let nth = rng.between(0, 2) as usize;
            let name = Bytes::from(vec![b'a' + rng.between(0, 6) as u8]);
            let op = match rng.between(0, 12) {
                0 => Op::Delete,
                1..4 => Op::Remove(name),
                _ => Op::Insert(name),
            };
            write(&mut records[nth], nth as u64 + 1, counter, &op);
            if let (true, [Some(left), Some(right)]) = (rng.chance(100_000), &records) {
                records[nth] = Some(merge::merge(left, right).record);
            }
        }
        let [Some(left), Some(right)] = records else { continue };
        let mut together = converted(3, &merge::merge(&left, &right).record);
        let (mut one, mut other) = (converted(1, &left), converted(2, &right));
        check_derived(&one).unwrap();
        one.repair_with(&mut other);
        assert!(
            one.header.is_same(&together.header) && other.header.is_same(&together.header),
            "seed {seed}"
        );
        let delta = one.writes(CollectionOp::Add(vec![text("new")]));
        together.hears(&delta);
        assert!(one.header.is_same(&together.header));
    }
}

#[test]
fn only_sets_are_converted() {
    let event = WriteEvent { dot: Dot { actor: actor(1), counter: 1 }, stamp: Stamp::at_ms(1), wall_ms: 1 };
    let put = Op::Put(text("v"));
    let written = op::apply(None, Kind::Register, &put, &Attributes::default(), event).unwrap();
    assert_eq!(convert(&written.full), None);
}
