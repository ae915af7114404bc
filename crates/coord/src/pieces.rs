//! Large ranges: told apart from small ones, and walked piece by piece at one revision. A range and a place in it go
//! in, the next keys that it selects come out, as far as the index knows them. All pieces of a revision fit together,
//! whatever is written between two of them; the reader holds the revision so that it is not swept meanwhile.

use crate::change::Records;
use crate::draft::ReadAt;
use crate::range;
use crate::reply::{Body, RangeReply, Reply};
use crate::request::Range;
use crate::state::State;
use base::{Code, KeyRange, RangeEnd, Revision};
use bytes::Bytes;

pub use crate::entry::{Content, Version, VisibleVersion};

/// How a walk through a piece ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// The next piece begins with this key.
    NextKey(Bytes),
    /// All keys of the range have been looked at.
    Finished,
}

impl State {
    /// Answers a range, or says that the answer takes more than `bytes_max`.
    pub fn range_unless_large(
        &self,
        records: &dyn Records,
        range: Range,
        bytes_max: usize,
    ) -> Result<Reply, Code> {
        let draft = self.draft(records);
        let at = draft.at(range.revision)?;
        let body = match range::answer_at(&draft, &range, at, bytes_max) {
            Some(reply) => Body::Range(reply),
            None => Body::Large(Box::new(Range { revision: revision_of(at, self.revision), ..range })),
        };
        Ok(Reply { revision: self.revision, body })
    }

    /// The whole answer to a range at its revision, even if that was compacted but not swept.
    pub fn range_held(&self, records: &dyn Records, range: &Range) -> RangeReply {
        let answer = range::answer_at(&self.draft(records), range, ReadAt::Past(range.revision), usize::MAX);
        answer.expect("an answer may be as large as it likes")
    }

    /// Keys of the range at its revision, whatever its filters and limit.
    pub fn count_held(&self, range: &Range) -> u64 {
        self.index.count_at(&range.keys, range.revision) as u64
    }

    /// Shows the selected keys from `from` on, in key order, until `visit` answers false (that key is left for
    /// the next piece) or `keys_max` keys were looked at.
    pub fn walk(
        &self,
        range: &Range,
        from: &Bytes,
        keys_max: usize,
        visit: &mut dyn FnMut(&[u8], &VisibleVersion) -> bool,
    ) -> WalkEnd {
        let rest = KeyRange { start: from.clone(), end: range.keys.end.clone() };
        if range.keys.end == RangeEnd::Single && *from != range.keys.start {
            return WalkEnd::Finished;
        }
        for (nth, (key, shown)) in self.index.visible_at(&rest, range.revision).enumerate() {
            let selected = shown.filter(|shown| range.selects(&shown.version));
            if nth == keys_max || selected.is_some_and(|shown| !visit(key, &shown)) {
                return WalkEnd::NextKey(Bytes::copy_from_slice(key));
            }
        }
        WalkEnd::Finished
    }
}

fn revision_of(at: ReadAt, now: Revision) -> Revision {
    match at {
        ReadAt::Now => now,
        ReadAt::Past(revision) => revision,
    }
}
