//! Counts the elements of a collection whose headers differ among the replicas. Ranges in which all of them have the same count
//! as they are; the others are asked for on the next finer level, and in the end row by row. So the cost follows from what
//! differs and from the logarithm of the size. A count that would take too many questions is given up, and is not told.

use crate::collection::{
    CollectionKind, ElementEntry, ElementRange, ElementSpan, compare_ranges, differing_spans, estimate,
};
use crate::frame::{CollectionQuestion, ELEMENTS_MAX, RANGES_MAX};
use bytes::Bytes;

/// The coarsest ranges.
const TOP_LEVEL: u8 = 3;
/// Each question is a round of a quorum, and the client waits for all.
const QUESTIONS_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Counting {
    n: u64,
    /// How many registers of a HyperLogLog have which rank.
    ranks: Vec<u64>,
    /// What is still to be counted, the next span last; level zero are the rows.
    rest: Vec<(u8, ElementSpan)>,
    n_questions: usize,
}

/// What a count has come to; nothing if it was given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Total {
    pub count: Option<u64>,
    pub estimate: Option<u64>,
}

impl Counting {
    pub fn new(kind: CollectionKind) -> Counting {
        let has_ranges = !matches!(kind, CollectionKind::Flag | CollectionKind::HyperLogLog);
        let level = if has_ranges { TOP_LEVEL } else { 0 };
        let rest = vec![(level, ElementSpan { from: None, to: None })];
        Counting { n: 0, ranks: Vec::new(), rest, n_questions: 0 }
    }

    /// Whether the next question is about ranges, and not about rows.
    pub fn asks_ranges(&self) -> bool {
        self.rest.last().is_some_and(|(level, _)| *level > 0)
    }

    pub fn question(&self) -> CollectionQuestion {
        match self.rest.last().cloned() {
            None => CollectionQuestion::Names(Vec::new()),
            Some((0, span)) => CollectionQuestion::Page { span, limit: ELEMENTS_MAX as u16 },
            // With the range behind the span, if one begins there.
            Some((level, ElementSpan { from, to })) => {
                let to = to.map(|to| [to.as_ref(), b"\0"].concat().into());
                CollectionQuestion::Ranges { level, span: ElementSpan { from, to } }
            }
        }
    }

    /// Takes the replicas' ranges into account; none if one of them cannot tell.
    pub fn take_ranges(&mut self, lists: Option<Vec<Vec<ElementRange>>>) {
        self.n_questions += 1;
        let Some((level, span)) = self.rest.pop() else { return };
        let lists = lists.into_iter().flatten().map(|list| within(list, &span)).collect::<Option<Vec<_>>>();
        let Some(lists) = lists.filter(|lists| !lists.is_empty()) else {
            return self.rest.push((0, span));
        };
        let lists: Vec<&[ElementRange]> = lists.iter().map(Vec::as_slice).collect();
        let compared = compare_ranges(&lists, &span);
        self.n += compared.iter().filter_map(|part| part.same).map(|same| same.count).sum::<u64>();
        self.rest.extend(differing_spans(compared).into_iter().rev().map(|span| (level - 1, span)));
    }

    /// Takes a page of rows into account, and where the next begins.
    pub fn take_page(&mut self, entries: &[ElementEntry], upto: Option<Bytes>) {
        self.n_questions += 1;
        let Some((_, span)) = self.rest.pop() else { return };
        self.n += entries.len() as u64;
        for entry in entries {
            let rank = usize::from(entry.state.rank());
            self.ranks.resize(self.ranks.len().max(rank + 1), 0);
            self.ranks[rank] += 1;
        }
        if let Some(upto) = upto {
            let from = Some([upto.as_ref(), b"\0"].concat().into());
            self.rest.push((0, ElementSpan { from, ..span }));
        }
    }

    /// The total, if it is known or given up.
    pub fn total(&self) -> Option<Total> {
        if self.rest.is_empty() {
            return Some(Total { count: Some(self.n), estimate: Some(estimate(&self.ranks)) });
        }
        (self.n_questions >= QUESTIONS_MAX).then(Total::default)
    }
}

/// The ranges that lie in a span. None if they do not tell what is in it: where no range begins at its end any more, the last
/// one goes on behind it.
fn within(mut list: Vec<ElementRange>, span: &ElementSpan) -> Option<Vec<ElementRange>> {
    if list.len() >= RANGES_MAX {
        return None;
    }
    if span.to.is_some() {
        list.pop().filter(|last| last.from == span.to)?;
    }
    Some(list)
}
