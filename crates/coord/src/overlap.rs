//! Whether a transaction would write one key twice.
//! Each operation is reduced to the keys it may put and the intervals it may delete; a put that another
//! operation of the same branch may also put or delete is refused, while deletes may overlap each other and
//! the two branches of one transaction exclude each other. One sweep over the sorted borders decides, so the
//! cost is n·log(n) in each level of nesting however the intervals lie.

use crate::request::{Request, Txn};
use base::{Code, KeyRange, RangeEnd};
use std::cmp::Ordering;

/// No branch of `txn` writes a key twice, whichever way its compares go.
pub fn check(txn: &Txn) -> Result<(), Code> {
    txn_writes(txn).map(drop)
}

/// A place between keys. `After(k)` lies behind `k` and before every longer key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Border<'a> {
    Before(&'a [u8]),
    After(&'a [u8]),
    End,
}

impl<'a> Border<'a> {
    fn rank(&self) -> (bool, &'a [u8], bool) {
        match self {
            Border::Before(key) => (false, key, false),
            Border::After(key) => (false, key, true),
            Border::End => (true, &[], false),
        }
    }
}

impl Ord for Border<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Border<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// From a border up to a later one.
type KeyInterval<'a> = (Border<'a>, Border<'a>);

/// What an operation, or one branch of a transaction, may write.
#[derive(Debug, Default)]
struct Writes<'a> {
    /// Sorted, each key once.
    puts: Vec<&'a [u8]>,
    /// Sorted; no two touch.
    deletes: Vec<KeyInterval<'a>>,
}

impl<'a> Writes<'a> {
    fn of(request: &'a Request) -> Result<Writes<'a>, Code> {
        Ok(match request {
            Request::Range(_) => Writes::default(),
            Request::Put(put) => Writes { puts: vec![put.key.as_ref()], deletes: Vec::new() },
            Request::Delete(delete) => {
                Writes { puts: Vec::new(), deletes: interval(&delete.keys).into_iter().collect() }
            }
            Request::Txn(txn) => txn_writes(txn)?,
        })
    }

    /// Everything that any of the parts may write.
    fn union(parts: impl IntoIterator<Item = Writes<'a>>) -> Writes<'a> {
        let mut all = Writes::default();
        for part in parts {
            all.puts.extend(part.puts);
            all.deletes.extend(part.deletes);
        }
        all.puts.sort_unstable();
        all.puts.dedup();
        all.deletes.sort_unstable();
        all.deletes.dedup_by(|next, kept| {
            let joined = next.0 <= kept.1;
            if joined {
                kept.1 = kept.1.max(next.1);
            }
            joined
        });
        all
    }
}

fn interval(keys: &KeyRange) -> Option<KeyInterval<'_>> {
    let start = keys.start.as_ref();
    let end = match &keys.end {
        RangeEnd::Single => Border::After(start),
        RangeEnd::Before(end) => Border::Before(end),
        RangeEnd::Open => Border::End,
    };
    (!keys.is_empty()).then_some((Border::Before(start), end))
}

fn txn_writes(txn: &Txn) -> Result<Writes<'_>, Code> {
    Ok(Writes::union([branch_writes(&txn.success)?, branch_writes(&txn.failure)?]))
}

fn branch_writes(branch: &[Request]) -> Result<Writes<'_>, Code> {
    let operations = branch.iter().map(Writes::of).collect::<Result<Vec<_>, Code>>()?;
    if clash(&operations) { Err(Code::DuplicateKey) } else { Ok(Writes::union(operations)) }
}

/// At one border, what ends is reported before what starts, and both before a put that lies behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SweepEvent {
    DeleteEnds,
    DeleteStarts,
    Put,
}

/// Some key may be put by one operation and put or deleted by another.
fn clash(operations: &[Writes<'_>]) -> bool {
    let mut deleting = vec![false; operations.len()];
    let mut deleting_count = 0usize;
    let mut last_put = None;
    for (border, event, operation) in sorted_events(operations) {
        match event {
            SweepEvent::DeleteStarts => {
                deleting[operation] = true;
                deleting_count += 1;
            }
            SweepEvent::DeleteEnds => {
                deleting[operation] = false;
                deleting_count -= 1;
            }
            SweepEvent::Put => {
                let deleted_by_others = deleting_count - usize::from(deleting[operation]);
                if deleted_by_others > 0 || last_put == Some(border) {
                    return true;
                }
                last_put = Some(border);
            }
        }
    }
    false
}

fn sorted_events<'a>(operations: &[Writes<'a>]) -> Vec<(Border<'a>, SweepEvent, usize)> {
    let mut events = Vec::new();
    for (operation, writes) in operations.iter().enumerate() {
        for key in &writes.puts {
            events.push((Border::Before(key), SweepEvent::Put, operation));
        }
        for (start, end) in &writes.deletes {
            events.push((*start, SweepEvent::DeleteStarts, operation));
            events.push((*end, SweepEvent::DeleteEnds, operation));
        }
    }
    events.sort_unstable();
    events
}
