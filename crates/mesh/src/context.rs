//! What a version has seen: for each actor, the spans of its counting whose writes to this key are included.
//! Counters are node-wide, so the writes to one key are far apart; a span says that between its ends there was
//! nothing else to see. A full state has one span per actor, from zero; a delta may leave a gap behind it, and
//! then neither claims nor loses what lies in the gap. Entries are sorted, disjoint and never touch.

use crate::actor::{Actor, Dot, RegionId};
use base::codec::{Reader, put_varint};

/// A context with more is not one of ours; putting such a one in order would take too long.
const SPANS_MAX: usize = 4_096;

/// Every write counted in `(after, upto]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub after: u64,
    pub upto: u64,
}

impl Span {
    fn touches(self, other: Span) -> bool {
        self.after <= other.upto && other.after <= self.upto
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    spans: Vec<(Actor, Span)>,
}

/// How two versions stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Causality {
    Equal,
    Before,
    After,
    Concurrent,
}

impl Context {
    /// One write, and nothing else.
    pub fn of_dot(dot: Dot) -> Context {
        let span = Span { after: dot.counter.saturating_sub(1), upto: dot.counter };
        Context { spans: vec![(dot.actor, span)] }
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub fn covers(&self, dot: Dot) -> bool {
        let mut spans = self.spans.iter().filter(|(actor, _)| *actor == dot.actor);
        spans.any(|(_, span)| span.after < dot.counter && dot.counter <= span.upto)
    }

    /// The newest write of an actor that is included, zero for none.
    pub fn newest(&self, actor: Actor) -> u64 {
        let spans = self.spans.iter().filter(|(other, _)| *other == actor);
        spans.map(|(_, span)| span.upto).max().unwrap_or(0)
    }

    /// Includes a new write of an actor that has seen all its own earlier writes to the key: the span reaches
    /// back to the newest of them.
    pub fn extend(&mut self, dot: Dot) -> Span {
        let span = Span { after: self.newest(dot.actor), upto: dot.counter };
        assert!(span.after < span.upto, "an actor counts upwards");
        self.add(dot.actor, span);
        span
    }

    /// Includes every write of a span. Those of the actor that it touches lie together, and become one with it.
    pub fn add(&mut self, actor: Actor, mut span: Span) {
        let at = self.spans.partition_point(|(other, end)| (*other, end.upto) < (actor, span.after));
        let touched = self.spans[at..].iter().take_while(|(other, end)| *other == actor && end.touches(span));
        let n_touched = touched.count();
        if n_touched == 0 {
            return self.spans.insert(at, (actor, span));
        }
        let (first, last) = (self.spans[at].1, self.spans[at + n_touched - 1].1);
        span = Span { after: span.after.min(first.after), upto: span.upto.max(last.upto) };
        self.spans[at] = (actor, span);
        self.spans.drain(at + 1..at + n_touched);
    }

    pub fn join(&mut self, other: &Context) {
        if self == other {
            return;
        }
        for (actor, span) in &other.spans {
            if !self.includes(*actor, *span) {
                self.add(*actor, *span);
            }
        }
    }

    fn includes(&self, actor: Actor, span: Span) -> bool {
        let mut spans = self.spans.iter().filter(|(other, _)| *other == actor);
        spans.any(|(_, other)| other.after <= span.after && span.upto <= other.upto)
    }

    pub fn dominates(&self, other: &Context) -> bool {
        other.spans.iter().all(|(actor, span)| self.includes(*actor, *span))
    }

    /// The actors of which this context has a dot that `other` lacks.
    pub fn beyond<'a>(&'a self, other: &'a Context) -> impl Iterator<Item = Actor> + 'a {
        self.spans.iter().filter(|(actor, span)| !other.includes(*actor, *span)).map(|(actor, _)| *actor)
    }

    /// Leaves out what is counted beyond `last` by an actor. Whether there was something.
    pub fn clip(&mut self, actor: Actor, last: u64) -> bool {
        if self.newest(actor) <= last {
            return false;
        }
        self.spans.retain(|(other, span)| *other != actor || span.after < last);
        for (_, span) in self.spans.iter_mut().filter(|(other, _)| *other == actor) {
            span.upto = span.upto.min(last);
        }
        true
    }

    pub fn compare(&self, other: &Context) -> Causality {
        match (self.dominates(other), other.dominates(self)) {
            (true, true) => Causality::Equal,
            (true, false) => Causality::After,
            (false, true) => Causality::Before,
            (false, false) => Causality::Concurrent,
        }
    }

    /// The same writes under other names of their actors.
    pub fn renamed(&self, name: impl Fn(Actor) -> Actor) -> Context {
        let mut context = Context::default();
        self.spans.iter().for_each(|(actor, span)| context.add(name(*actor), *span));
        context
    }

    /// For people: how far each region has counted, summed over its actors.
    pub fn by_region(&self) -> Vec<(RegionId, u64)> {
        let mut sums: Vec<(RegionId, u64)> = Vec::new();
        for (actor, span) in &self.spans {
            match sums.last_mut() {
                Some((region, sum)) if *region == actor.region => *sum += span.upto - span.after,
                _ => sums.push((actor.region, span.upto - span.after)),
            }
        }
        sums
    }

    pub fn spans(&self) -> &[(Actor, Span)] {
        &self.spans
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.spans.len() as u64);
        for (actor, span) in &self.spans {
            actor.encode(out);
            put_varint(out, span.after);
            put_varint(out, span.upto - span.after);
        }
    }

    /// Whatever was written is brought into order, so that a peer cannot hand over what breaks the promise above.
    pub fn decode(reader: &mut Reader) -> Option<Context> {
        let mut context = Context::default();
        let count = Some(reader.count()?).filter(|count| *count <= SPANS_MAX)?;
        for _ in 0..count {
            let actor = Actor::decode(reader)?;
            let after = reader.varint()?;
            let upto = after.checked_add(reader.varint()?)?;
            if after >= upto {
                return None;
            }
            let span = Span { after, upto };
            match context.spans.last() {
                Some((last, end)) if (*last, end.upto) >= (actor, after) => context.add(actor, span),
                _ => context.spans.push((actor, span)),
            }
        }
        Some(context)
    }
}

#[cfg(test)]
mod tests;
