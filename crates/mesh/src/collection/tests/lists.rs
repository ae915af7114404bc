//! Positions: they sort, runs stay together, and they stay short.

use super::*;
use base::Rng;
use base::mutant::plant;

fn push(values: &[&str]) -> CollectionOp {
    let values = values.iter().map(|value| text(value)).collect();
    CollectionOp::Insert { place: InsertPosition::Last, values }
}

/// Two nodes insert a run each at the same place without hearing of each other.
pub(super) fn runs_stay_together(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let (mut a, mut b) = (Replica::new(1, CollectionKind::List), Replica::new(2, CollectionKind::List));
    let begin = a.writes(push(&["<", ">"]));
    b.hears(&begin);
    let names = a.names();
    let anchor = if rng.chance(500_000) {
        InsertPosition::After(names[0].clone())
    } else {
        InsertPosition::Before(names[1].clone())
    };
    let is_forward = rng.chance(500_000);
    let mut sent = Vec::new();
    for (replica, letter) in [(&mut a, "a"), (&mut b, "b")] {
        let mut place = anchor.clone();
        for _ in 0..rng.between(2, 8) {
            let before = replica.names();
            sent.push(replica.writes(CollectionOp::Insert { place, values: vec![text(letter)] }));
            let new = replica.names().into_iter().find(|name| !before.contains(name)).unwrap();
            place = if is_forward { InsertPosition::After(new) } else { InsertPosition::Before(new) };
        }
    }
    sent.iter().for_each(|delta| {
        a.hears(delta);
        b.hears(delta);
    });
    let shown: String = a.values().iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
    let changes = shown.as_bytes().windows(2).filter(|pair| pair[0] != pair[1]).count();
    if a.values() != b.values() || changes != 3 || !shown.starts_with('<') || !shown.ends_with('>') {
        return Err(format!("two runs between two ends were mixed: {shown}"));
    }
    Ok(())
}

#[test]
fn runs_that_are_inserted_at_once_are_not_mixed() {
    plant(None);
    for seed in 0..200 {
        assert_eq!(runs_stay_together(seed), Ok(()), "seed {seed}");
    }
}

#[test]
fn a_list_is_in_the_order_in_which_it_was_written() {
    plant(None);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut replicas: Vec<Replica> =
            (1..4).map(|node| Replica::new(node, CollectionKind::List)).collect();
        let mut expected: Vec<Bytes> = Vec::new();
        for n in 0..120 {
            let at = rng.between(0, expected.len() as u64 + 1) as usize;
            let writer = rng.between(0, 3) as usize;
            let names = replicas[writer].names();
            let place = match at {
                0 => InsertPosition::First,
                at if at == expected.len() => InsertPosition::Last,
                at if rng.chance(500_000) => InsertPosition::After(names[at - 1].clone()),
                at => InsertPosition::Before(names[at].clone()),
            };
            let value = text(&n.to_string());
            expected.insert(at, value.clone());
            let delta = replicas[writer].writes(CollectionOp::Insert { place, values: vec![value] });
            replicas.iter_mut().for_each(|replica| replica.hears(&delta));
        }
        for replica in &replicas {
            assert_eq!(replica.values(), expected, "seed {seed}");
            check_derived(replica).unwrap();
        }
    }
}

#[test]
fn positions_stay_short_where_many_append_prepend_or_insert() {
    plant(None);
    let longest = |n_items: u64, choose: &dyn Fn(&mut Rng, u64) -> u64| {
        let (mut rng, mut list) = (Rng::new(7), Vec::<Position>::new());
        for n in 0..n_items {
            let at = choose(&mut rng, list.len() as u64) as usize;
            let left = at.checked_sub(1).map(|left| &list[left]);
            let dot = Dot { actor: actor(rng.between(1, 4)), counter: n + 1 };
            let made = Position::between(left, list.get(at), dot).unwrap();
            list.insert(at, made);
        }
        assert!(list.is_sorted_by(|left, right| left < right && left.encode() < right.encode()));
        for position in &list {
            assert_eq!(Position::decode(&position.encode()).as_ref(), Some(position));
        }
        list.iter().map(|position| position.encode().len()).max().unwrap()
    };
    let append = |n| longest(n, &|_, len| len);
    let prepend = |n| longest(n, &|_, _| 0);
    let anywhere = |n| longest(n, &|rng, len| rng.between(0, len + 1));
    assert!(append(10_000) <= 200 && prepend(10_000) <= 200, "{} {}", append(10_000), prepend(10_000));
    let (few, many) = (anywhere(300), anywhere(10_000));
    assert!(many <= 2 * few.max(150), "{few} bytes at 300 items, {many} at 10,000");
}

#[test]
fn bytes_that_are_no_position_are_refused() {
    for bytes in [&b""[..], b"x", b"\x80\x00\x00\x00\x00\x80", b"\x81\x00\x00\x00\x00\x00\x81\x01"] {
        assert_eq!(Position::decode(bytes), None, "{bytes:?}");
    }
}

#[test]
fn an_item_that_is_gone_still_has_a_place() {
    plant(None);
    let mut a = Replica::new(1, CollectionKind::List);
    a.writes(push(&["1", "2", "3"]));
    let names = a.names();
    a.writes(CollectionOp::Remove(vec![names[1].clone()]));
    a.writes(CollectionOp::Insert {
        place: InsertPosition::After(names[1].clone()),
        values: vec![text("new")],
    });
    assert_eq!(a.values(), [text("1"), text("new"), text("3")]);
    let gone = CollectionOp::Replace { position: names[1].clone(), value: text("v") };
    assert_eq!(a.try_write(&[gone]), Err(Code::KeyAbsent));
}
