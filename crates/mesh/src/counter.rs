//! Counters that merge: the state of `gcounter`, `pncounter` and `delta_numeric`.
//! Each actor keeps its own two sums, which only grow and which only the actor itself changes; a merge takes the larger of
//! each. A delete records how much of each entry it has seen, so that this part counts no more and later additions still do.

use crate::actor::Actor;
use crate::mutant::Mutant;
use base::Code;
use base::codec::{Reader, put_varint};
use base::mutant::planted;

/// Up to here an entry may grow: even a thousand actors cannot make the sum overflow.
const ENTRY_MAX: u128 = 1 << 116;

/// The sums of additions and of subtractions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterSums {
    pub added: u128,
    pub subtracted: u128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterEntry {
    pub sums: CounterSums,
    /// As much of the sums as a delete has seen.
    pub cleared: CounterSums,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterState {
    /// By actor.
    entries: Vec<(Actor, CounterEntry)>,
}

impl CounterSums {
    /// Whether both sums are at least those of `other`, and one is larger.
    pub fn exceeds(self, other: CounterSums) -> bool {
        self.added >= other.added && self.subtracted >= other.subtracted && self != other
    }

    pub fn encode(self, out: &mut Vec<u8>) {
        for sum in [self.added, self.subtracted] {
            put_varint(out, (sum >> 64) as u64);
            put_varint(out, sum as u64);
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<CounterSums> {
        let mut sum = || {
            let sum = u128::from(reader.varint()?) << 64 | u128::from(reader.varint()?);
            (sum <= ENTRY_MAX).then_some(sum)
        };
        Some(CounterSums { added: sum()?, subtracted: sum()? })
    }

    fn join(&mut self, other: CounterSums) {
        self.added = self.added.max(other.added);
        self.subtracted = self.subtracted.max(other.subtracted);
    }
}

impl CounterEntry {
    fn join(&mut self, other: CounterEntry) {
        self.sums.join(other.sums);
        self.cleared.join(other.cleared);
    }

    fn value(&self) -> i128 {
        let live = |sum: u128, cleared: u128| sum.saturating_sub(cleared) as i128;
        live(self.sums.added, self.cleared.added) - live(self.sums.subtracted, self.cleared.subtracted)
    }
}

impl CounterState {
    pub fn value(&self) -> i128 {
        self.entries.iter().map(|(_, entry)| entry.value()).fold(0, i128::saturating_add)
    }

    /// What each actor contributes.
    pub fn parts(&self) -> impl Iterator<Item = (Actor, i128)> {
        self.entries.iter().map(|(actor, entry)| (*actor, entry.value()))
    }

    /// One entry alone.
    pub fn of_entry(actor: Actor, sums: CounterSums, cleared: CounterSums) -> CounterState {
        CounterState { entries: vec![(actor, CounterEntry { sums, cleared })] }
    }

    fn find(&self, actor: Actor) -> CounterEntry {
        let found = self.entries.binary_search_by_key(&actor, |(other, _)| *other);
        found.map_or(CounterEntry::default(), |at| self.entries[at].1)
    }

    /// What an actor has added and taken.
    pub fn sums_by(&self, actor: Actor) -> CounterSums {
        self.find(actor).sums
    }

    /// The part of the sums that a delete has seen.
    pub fn cleared_of(&self, actor: Actor) -> CounterSums {
        self.find(actor).cleared
    }

    /// No actor has counted anything, ever.
    pub fn is_vacant(&self) -> bool {
        self.entries.is_empty()
    }

    /// Nothing is left that a delete has not seen.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(|(_, entry)| entry.sums == entry.cleared)
    }

    /// Adds on behalf of an actor, and returns the delta.
    pub fn add(&mut self, actor: Actor, amount: i128) -> Result<CounterState, Code> {
        let entry = self.entry(actor);
        let side = if amount < 0 { &mut entry.sums.subtracted } else { &mut entry.sums.added };
        let sum = side.checked_add(amount.unsigned_abs()).filter(|sum| *sum <= ENTRY_MAX);
        *side = sum.ok_or(Code::NumberTooLarge)?;
        Ok(CounterState { entries: vec![(actor, *entry)] })
    }

    /// Forgets everything that is here now, and returns the delta.
    pub fn clear(&mut self) -> CounterState {
        self.entries.iter_mut().for_each(|(_, entry)| entry.cleared = entry.sums);
        self.clone()
    }

    /// Forgets what an actor had counted when its sums were these.
    pub fn clear_upto(&mut self, actor: Actor, sums: CounterSums) {
        self.entry(actor).join(CounterEntry { sums, cleared: sums });
    }

    /// How much a delete has seen of each entry, and nothing else.
    pub fn cleared_part(&self) -> CounterState {
        let cleared = |(actor, entry): &(Actor, CounterEntry)| {
            let CounterEntry { cleared, .. } = *entry;
            (cleared != CounterSums::default()).then_some((*actor, CounterEntry { sums: cleared, cleared }))
        };
        CounterState { entries: self.entries.iter().filter_map(cleared).collect() }
    }

    pub fn join(&mut self, other: &CounterState) {
        for (actor, entry) in &other.entries {
            let mine = self.entry(*actor);
            if planted(Mutant::DeltasAddedUp) && entry.sums.added < mine.sums.added {
                mine.sums.added += 1;
            }
            mine.join(*entry);
        }
    }

    fn entry(&mut self, actor: Actor) -> &mut CounterEntry {
        let at = match self.entries.binary_search_by_key(&actor, |(other, _)| *other) {
            Ok(at) => at,
            Err(at) => {
                self.entries.insert(at, (actor, CounterEntry::default()));
                at
            }
        };
        &mut self.entries[at].1
    }

    /// The same sums under other names of their actors.
    pub fn renamed(&self, name: impl Fn(Actor) -> Actor) -> CounterState {
        let mut renamed = CounterState::default();
        self.entries.iter().for_each(|(actor, entry)| renamed.entry(name(*actor)).join(*entry));
        renamed
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.entries.len() as u64);
        for (actor, CounterEntry { sums, cleared }) in &self.entries {
            actor.encode(out);
            sums.encode(out);
            cleared.encode(out);
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<CounterState> {
        let mut counter = CounterState::default();
        for _ in 0..reader.count()? {
            let actor = Actor::decode(reader)?;
            let (sums, cleared) = (CounterSums::decode(reader)?, CounterSums::decode(reader)?);
            counter.entry(actor).join(CounterEntry { sums, cleared });
        }
        Some(counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::RegionId;
    use crate::decimal::Decimal;
    use base::NodeId;

    fn actor(node: u64) -> Actor {
        Actor { region: RegionId(0), node: NodeId(node), incarnation: 0 }
    }

    #[test]
    fn the_worked_example_of_a_growing_counter_gives_twenty() {
        let counter = |parts: &[(u64, i128)]| {
            let mut counter = CounterState::default();
            parts.iter().for_each(|(node, n)| drop(counter.add(actor(*node), *n).unwrap()));
            counter
        };
        let mut merged = counter(&[(1, 10), (2, 5)]);
        merged.join(&counter(&[(1, 8), (2, 7), (3, 3)]));
        assert_eq!(merged.value(), 20);
    }

    #[test]
    fn both_withdrawals_from_an_account_count() {
        let amount = |text: &str| Decimal::parse(text).unwrap().0;
        let mut here = CounterState::default();
        here.add(actor(1), amount("100")).unwrap();
        let mut there = here.clone();
        here.add(actor(1), amount("-20.00")).unwrap();
        there.add(actor(2), amount("-30")).unwrap();
        here.join(&there);
        assert_eq!(Decimal(here.value()).to_string(), "50");
    }

    #[test]
    fn a_delete_spares_what_it_has_not_seen() {
        let mut here = CounterState::default();
        here.add(actor(1), 5).unwrap();
        let mut there = here.clone();
        there.add(actor(1), 2).unwrap();
        here.clear();
        assert!(here.is_empty());
        here.join(&there);
        assert_eq!((here.value(), here.is_empty()), (2, false));
    }

    #[test]
    fn a_sum_that_would_not_fit_is_refused() {
        let mut counter = CounterState::default();
        counter.add(actor(1), 1 << 115).unwrap();
        counter.add(actor(1), 1 << 115).unwrap();
        assert_eq!(counter.add(actor(1), 1), Err(Code::NumberTooLarge));
        assert_eq!(counter.value(), 1 << 116);
    }
}
