//! Where an item stands in a list: bytes that sort as the items do, made once and never changed.
//! A position is a path of steps. A step stands in a run: the run's name is the write that began it, and its items are numbered by
//! odd numbers, in both directions. Even numbers are the gaps between items, into which further steps lead. The writer of a run
//! goes on with the next number, so a run that is typed forwards or backwards stays together whatever is inserted beside it
//! at the same time (after Fugue, Weidner and Kleppmann 2023). Runs of others begin in the gap beside their neighbour, like
//! children in Fugue's tree; deeper than `NESTED_MAX` they begin as far up as there is a place, so that a list to which many
//! nodes append in turn does not make its positions longer and longer.

use crate::actor::{Actor, Dot, RegionId};
use crate::mutant::Mutant;
use base::NodeId;
use base::mutant::planted;
use bytes::Bytes;

/// A run, as its neighbours at the same depth are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    place: i64,
    name: Dot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    run: Run,
    number: i64,
}

/// A path of steps, the last of which is an item and all others are gaps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    steps: Vec<Step>,
}

/// Begins of runs within the gaps of others, before a place further up is looked for.
const NESTED_MAX: usize = 8;
/// Numbers beyond this are not ours, and nothing is counted beyond them.
const NUMBER_MAX: i64 = 1 << 62;
/// A longer position is not made, and not taken from a peer.
const BYTES_MAX: usize = 2_048;

impl Step {
    fn begin(place: i64, name: Dot) -> Step {
        Step { run: Run { place, name }, number: 1 }
    }

    fn gap_behind(self) -> Step {
        Step { number: self.number + 1, ..self }
    }

    fn gap_before(self) -> Step {
        Step { number: self.number - 1, ..self }
    }
}

impl Position {
    /// A position between two neighbours; none stands for the beginning and the end. None if there is none that is short enough.
    pub fn between(left: Option<&Position>, right: Option<&Position>, dot: Dot) -> Option<Position> {
        let is_inside =
            |made: &Position| left.is_none_or(|left| left < made) && right.is_none_or(|right| made < right);
        let of_left = || left.and_then(|left| left.next_in_run(2, dot.actor)).filter(is_inside);
        let of_right = || right.and_then(|right| right.next_in_run(-2, dot.actor)).filter(is_inside);
        let nested = || Some(nest(left, right, dot)).filter(|made| made.steps.len() <= NESTED_MAX);
        let flat = || {
            let steps = |side: Option<&Position>| side.map_or(Vec::new(), |side| side.steps.clone());
            Position { steps: shallowest(&steps(left), &steps(right), dot) }
        };
        let made = if planted(Mutant::RunsMixed) {
            flat()
        } else {
            of_left().or_else(of_right).or_else(nested).unwrap_or_else(flat)
        };
        (is_inside(&made) && made.encode().len() <= BYTES_MAX).then_some(made)
    }

    /// The next item of the run that this one ends in, if the run is this actor's own.
    fn next_in_run(&self, by: i64, actor: Actor) -> Option<Position> {
        let mut next = self.clone();
        let last = next.steps.last_mut().filter(|last| last.run.name.actor == actor)?;
        last.number += by;
        (last.number.abs() < NUMBER_MAX).then_some(next)
    }

    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        for Step { run: Run { place, name }, number } in &self.steps {
            put_signed(&mut out, *place);
            let Dot { actor: Actor { region, node, incarnation }, counter } = *name;
            for part in [u64::from(region.0), node.0, u64::from(incarnation), counter] {
                put_unsigned(&mut out, part);
            }
            put_signed(&mut out, *number);
        }
        out.into()
    }

    /// None for bytes that no node makes.
    pub fn decode(bytes: &[u8]) -> Option<Position> {
        let (mut steps, mut rest) = (Vec::new(), bytes);
        while !rest.is_empty() && bytes.len() <= BYTES_MAX {
            steps.push(take_step(&mut rest)?);
        }
        let (last, gaps) = steps.split_last()?;
        let is_lawful = rest.is_empty() && is_item(last) && !gaps.iter().any(is_item);
        is_lawful.then_some(Position { steps })
    }
}

pub(super) fn is_lawful(name: &[u8]) -> bool {
    Position::decode(name).is_some()
}

fn is_item(step: &Step) -> bool {
    step.number % 2 != 0
}

/// In the gap behind the left neighbour; or before the right one, if that stands in this gap itself or there is no left one.
fn nest(left: Option<&Position>, right: Option<&Position>, dot: Dot) -> Position {
    let within = |mut steps: Vec<Step>, gap: fn(Step) -> Step| {
        if let Some(last) = steps.last_mut() {
            *last = gap(*last);
        }
        steps.push(Step::begin(0, dot));
        Position { steps }
    };
    match (left, right) {
        (None, None) => Position { steps: vec![Step::begin(0, dot)] },
        (Some(left), right) => {
            let made = within(left.steps.clone(), Step::gap_behind);
            match right {
                Some(right) if right.steps.starts_with(&made.steps[..left.steps.len()]) => {
                    within(right.steps.clone(), Step::gap_before)
                }
                _ => made,
            }
        }
        (None, Some(right)) => within(right.steps.clone(), Step::gap_before),
    }
}

/// The shortest path between two; an empty one stands for the beginning, or the end.
fn shallowest(left: &[Step], right: &[Step], dot: Dot) -> Vec<Step> {
    let ([l, left_rest @ ..], [r, right_rest @ ..]) = (left, right) else {
        return beside(left.first(), right.first(), dot);
    };
    let deeper = |gap: Step, left: &[Step], right: &[Step]| {
        let mut steps = vec![gap];
        steps.extend(shallowest(left, right, dot));
        steps
    };
    if l == r {
        return deeper(*l, left_rest, right_rest);
    }
    let places = [l.run.place.saturating_add(1), l.run.place, r.run.place];
    let mut begins = places.into_iter().map(|place| Step::begin(place, dot));
    if let Some(step) = begins.find(|step| l.run < step.run && step.run < r.run) {
        return vec![step];
    }
    if !left_rest.is_empty() {
        return deeper(*l, left_rest, &[]);
    }
    let gap = l.gap_behind();
    deeper(gap, &[], if gap == *r { right_rest } else { &[] })
}

/// A position before the first element, or behind the last.
fn beside(last: Option<&Step>, first: Option<&Step>, dot: Dot) -> Vec<Step> {
    let place = match (last, first) {
        (Some(last), _) => last.run.place + 1,
        (None, Some(first)) => first.run.place - 1,
        (None, None) => 0,
    };
    let gap = last.map(|last| if is_item(last) { last.gap_behind() } else { *last });
    let gap = gap.or(first.map(|first| if is_item(first) { first.gap_before() } else { *first }));
    match gap {
        Some(gap) if place.abs() >= NUMBER_MAX => vec![gap, Step::begin(0, dot)],
        _ => vec![Step::begin(place, dot)],
    }
}

/// A length and so many bytes, the highest first: they sort as the numbers do.
fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_be_bytes();
    let skipped = value.leading_zeros() as usize / 8;
    out.push((bytes.len() - skipped) as u8);
    out.extend_from_slice(&bytes[skipped..]);
}

const ZERO: u8 = 0x80;

/// Negative numbers are those of their complement, upside down.
fn put_signed(out: &mut Vec<u8>, value: i64) {
    let begin = out.len();
    put_unsigned(out, if value < 0 { !value } else { value } as u64);
    out[begin] += ZERO;
    if value < 0 {
        out[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn take_unsigned(rest: &mut &[u8]) -> Option<u64> {
    let (len, behind) = rest.split_first()?;
    let (bytes, behind) = behind.split_at_checked(usize::from(*len))?;
    let is_shortest = bytes.first() != Some(&0) && bytes.len() <= size_of::<u64>();
    *rest = behind;
    is_shortest.then(|| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn take_signed(rest: &mut &[u8]) -> Option<i64> {
    let first = *rest.first()?;
    let is_negative = first < ZERO;
    let len = usize::from(if is_negative { !first } else { first } - ZERO);
    let (bytes, behind) = rest.split_at_checked(len + 1)?;
    let turned: Vec<u8> = bytes[1..].iter().map(|byte| if is_negative { !*byte } else { *byte }).collect();
    let value = i64::try_from(take_unsigned(&mut &[&[len as u8][..], &turned].concat()[..])?).ok()?;
    *rest = behind;
    (value <= NUMBER_MAX).then_some(if is_negative { !value } else { value })
}

fn take_step(rest: &mut &[u8]) -> Option<Step> {
    let place = take_signed(rest)?;
    let region = RegionId(u32::try_from(take_unsigned(rest)?).ok()?);
    let node = NodeId(take_unsigned(rest)?);
    let incarnation = u32::try_from(take_unsigned(rest)?).ok()?;
    let name = Dot { actor: Actor { region, node, incarnation }, counter: take_unsigned(rest)? };
    Some(Step { run: Run { place, name }, number: take_signed(rest)? })
}
