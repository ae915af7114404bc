//! A counter that never goes below its bound, in any order of events (Balegas and others 2015, "Extending eventually
//! consistent cloud databases for enforcing numeric invariants").
//! What is above the bound is split into rights, and each actor owns some: an addition gives rights to its actor, a
//! subtraction takes them from its actor alone, and actors hand them to each other. An actor always knows what it has given and
//! spent, and knows at most late what it was given, so what it believes to own it owns. Every number only grows and is
//! changed by one actor alone; a merge takes the larger. An actor that needs more than it owns says so in the state, and
//! whichever owners hear of it give: no question has to arrive anywhere, and none is answered twice for nothing.

use crate::actor::Actor;
use crate::mutant::Mutant;
use base::Code;
use base::codec::{Reader, put_signed, put_varint};
use base::mutant::planted;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BoundedCounter {
    bound: i64,
    /// How much the first actor has given to the second; to itself, what it has added.
    given: BTreeMap<(Actor, Actor), u64>,
    spent: BTreeMap<Actor, u64>,
    /// As much as an actor wants to have been given by the others, in all.
    wanted: BTreeMap<Actor, u64>,
}

/// More than this is added by no actor, so that a thousand of them cannot make a sum overflow.
const ENTRY_MAX: u64 = 1 << 60;

impl BoundedCounter {
    /// Begins at its bound.
    pub fn new(bound: i64) -> BoundedCounter {
        BoundedCounter { bound, ..BoundedCounter::default() }
    }

    /// Before its first operation: any bound is higher than its own.
    pub fn vacant() -> BoundedCounter {
        BoundedCounter::new(i64::MIN)
    }

    /// Nothing was ever done to it.
    pub fn is_vacant(&self) -> bool {
        *self == BoundedCounter::vacant()
    }

    pub fn bound(&self) -> i64 {
        self.bound
    }

    pub fn value(&self) -> i128 {
        let added = self.given.iter().filter(|((from, to), _)| from == to).map(|(_, n)| i128::from(*n));
        let spent = self.spent.values().map(|n| i128::from(*n));
        i128::from(self.bound) + added.sum::<i128>() - spent.sum::<i128>()
    }

    /// What may be subtracted before it is at its bound, by all actors together.
    pub fn above(&self) -> u64 {
        u64::try_from((self.value() - i128::from(self.bound)).max(0)).unwrap_or(u64::MAX)
    }

    /// Every actor that owns something or did, and what it owns.
    pub fn owners(&self) -> impl Iterator<Item = (Actor, u64)> {
        let owners: BTreeSet<Actor> = self.given.keys().map(|(_, to)| *to).collect();
        owners.into_iter().map(|owner| (owner, self.rights(owner)))
    }

    /// What an actor may subtract, as far as this state knows.
    pub fn rights(&self, actor: Actor) -> u64 {
        let mut rights = -i128::from(self.spent.get(&actor).copied().unwrap_or(0));
        for ((from, to), n) in &self.given {
            if *to == actor {
                rights += i128::from(*n);
            } else if *from == actor && !planted(Mutant::RightsGivenTwice) {
                rights -= i128::from(*n);
            }
        }
        u64::try_from(rights.max(0)).unwrap_or(u64::MAX)
    }

    /// The actor that owns most, to ask for some.
    pub fn richest(&self, but: Actor) -> Option<Actor> {
        let owners = self.given.keys().map(|(_, to)| *to).filter(|owner| *owner != but);
        owners.max_by_key(|owner| (self.rights(*owner), *owner)).filter(|owner| self.rights(*owner) > 0)
    }

    /// Adds on behalf of an actor, and returns the delta.
    pub fn add(&mut self, actor: Actor, amount: u64) -> Result<BoundedCounter, Code> {
        let entry = raised(self.given.get(&(actor, actor)), amount)?;
        self.given.insert((actor, actor), entry);
        Ok(BoundedCounter { given: [((actor, actor), entry)].into(), ..BoundedCounter::new(self.bound) })
    }

    /// Subtracts what an actor has rights to; none if it has too few.
    pub fn subtract(&mut self, actor: Actor, amount: u64) -> Result<Option<BoundedCounter>, Code> {
        if self.rights(actor) < amount && !planted(Mutant::RightsUnchecked) {
            return Ok(None);
        }
        let entry = raised(self.spent.get(&actor), amount)?;
        self.spent.insert(actor, entry);
        Ok(Some(BoundedCounter { spent: [(actor, entry)].into(), ..BoundedCounter::new(self.bound) }))
    }

    /// Hands rights over; none if the giver has too few. Only the giver may do it.
    pub fn give(&mut self, from: Actor, to: Actor, amount: u64) -> Result<Option<BoundedCounter>, Code> {
        if from == to || self.rights(from) < amount {
            return Ok(None);
        }
        let entry = raised(self.given.get(&(from, to)), amount)?;
        self.given.insert((from, to), entry);
        Ok(Some(BoundedCounter { given: [((from, to), entry)].into(), ..BoundedCounter::new(self.bound) }))
    }

    /// Says that an actor needs so much more than it was given so far.
    pub fn want(&mut self, actor: Actor, amount: u64) -> Result<BoundedCounter, Code> {
        let entry = raised(Some(&self.received(actor)), amount)?.max(self.wanted(actor));
        self.wanted.insert(actor, entry);
        Ok(BoundedCounter { wanted: [(actor, entry)].into(), ..BoundedCounter::new(self.bound) })
    }

    /// What an actor wants and was not given yet.
    pub fn unmet(&self, actor: Actor) -> u64 {
        self.wanted(actor).saturating_sub(self.received(actor))
    }

    /// The actors that want more than they were given, and how much.
    pub fn wants(&self) -> impl Iterator<Item = (Actor, u64)> {
        self.wanted.keys().map(|actor| (*actor, self.unmet(*actor))).filter(|(_, unmet)| *unmet > 0)
    }

    fn wanted(&self, actor: Actor) -> u64 {
        self.wanted.get(&actor).copied().unwrap_or(0)
    }

    /// What others have given to an actor.
    fn received(&self, actor: Actor) -> u64 {
        let gifts = self.given.iter().filter(|((from, to), _)| *to == actor && *from != actor);
        gifts.fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// The higher of two bounds counts: rights are never less than none, so the value is not below either.
    pub fn join(&mut self, other: &BoundedCounter) {
        self.bound = self.bound.max(other.bound);
        for (pair, n) in &other.given {
            let mine = self.given.entry(*pair).or_default();
            *mine = (*mine).max(*n);
        }
        for (actor, n) in &other.spent {
            let mine = self.spent.entry(*actor).or_default();
            *mine = (*mine).max(*n);
        }
        for (actor, n) in &other.wanted {
            let mine = self.wanted.entry(*actor).or_default();
            *mine = (*mine).max(*n);
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_signed(out, self.bound);
        put_varint(out, self.given.len() as u64);
        for ((from, to), n) in &self.given {
            from.encode(out);
            to.encode(out);
            put_varint(out, *n);
        }
        for amounts in [&self.spent, &self.wanted] {
            put_varint(out, amounts.len() as u64);
            for (actor, n) in amounts {
                actor.encode(out);
                put_varint(out, *n);
            }
        }
    }

    pub fn decode(reader: &mut Reader) -> Option<BoundedCounter> {
        let mut counter = BoundedCounter::new(reader.signed()?);
        for _ in 0..reader.count()? {
            let pair = (Actor::decode(reader)?, Actor::decode(reader)?);
            counter.given.insert(pair, amount(reader)?);
        }
        for amounts in [&mut counter.spent, &mut counter.wanted] {
            for _ in 0..reader.count()? {
                amounts.insert(Actor::decode(reader)?, amount(reader)?);
            }
        }
        Some(counter)
    }
}

fn amount(reader: &mut Reader) -> Option<u64> {
    reader.varint().filter(|amount| *amount <= ENTRY_MAX)
}

fn raised(entry: Option<&u64>, amount: u64) -> Result<u64, Code> {
    let sum = entry.copied().unwrap_or(0).checked_add(amount);
    sum.filter(|sum| *sum <= ENTRY_MAX).ok_or(Code::NumberTooLarge)
}
