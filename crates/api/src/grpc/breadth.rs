//! How much a request may return: few keys, or so many that memory for the answer must be reserved first.
//! A request goes in; the ranges of both its branches come out, with those that a delete would return. A range by itself
//! is not one of them: it is read in pieces.

use base::RangeEnd;
use coord::request::{Range, Request, Txn};

/// A request that returns no more keys is answered at once.
const KEYS_MAX: u64 = 8;

/// Whether its answer may be large.
pub fn is_wide(request: &Request) -> bool {
    match request {
        Request::Txn(_) | Request::Delete(_) => keys_of(request) > KEYS_MAX,
        Request::Range(_) | Request::Put(_) => false,
    }
}

/// The ranges that the answer shows.
pub fn shown(request: &Request) -> Vec<Range> {
    let mut ranges = Vec::new();
    gather(request, &mut ranges);
    ranges
}

fn keys_of(request: &Request) -> u64 {
    match request {
        Request::Range(range) => keys_of_range(range),
        Request::Delete(delete) if delete.prev_kv => keys_of_range(&Range::of(delete.keys.clone())),
        Request::Delete(_) | Request::Put(_) => 0,
        Request::Txn(txn) => operations(txn).map(keys_of).fold(0, u64::saturating_add),
    }
}

fn keys_of_range(range: &Range) -> u64 {
    match (&range.keys.end, range.limit) {
        _ if range.count_only => 0,
        (RangeEnd::Single, _) => 1,
        (_, 0) => u64::MAX,
        (_, limit) => limit,
    }
}

fn gather(request: &Request, ranges: &mut Vec<Range>) {
    match request {
        Request::Range(range) if !range.count_only => ranges.push(range.clone()),
        Request::Delete(delete) if delete.prev_kv => ranges.push(Range::of(delete.keys.clone())),
        Request::Range(_) | Request::Delete(_) | Request::Put(_) => {}
        Request::Txn(txn) => operations(txn).for_each(|request| gather(request, ranges)),
    }
}

fn operations(txn: &Txn) -> impl Iterator<Item = &Request> {
    txn.success.iter().chain(&txn.failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::KeyRange;
    use coord::request::Delete;

    fn txn(success: Vec<Request>, failure: Vec<Request>) -> Request {
        Request::Txn(Txn { compares: vec![], success, failure })
    }

    #[test]
    fn few_keys_are_narrow_and_ranges_are_wide_however_deep_they_lie() {
        let key = || Request::Range(Range::of(KeyRange::single("k".into())));
        let all = Range::of(KeyRange::from_wire("a".into(), "z".into()));
        let first = || Request::Range(Range { limit: 1, ..all.clone() });
        let count = Request::Range(Range { count_only: true, ..all.clone() });
        let delete = |prev_kv| Request::Delete(Delete { keys: all.keys.clone(), prev_kv });
        assert!(!is_wide(&txn(vec![key(), first(), count], vec![key(), delete(false)])));
        assert!(!is_wide(&Request::Range(all.clone())), "it is read in pieces");
        let all = || Request::Range(all.clone());
        for wide in [txn(vec![], vec![all()]), txn(vec![txn(vec![all()], vec![])], vec![]), delete(true)] {
            assert!(is_wide(&wide));
            assert_eq!(shown(&wide).len(), 1);
        }
        assert!(is_wide(&txn(vec![key(); 5], vec![first(); 4])), "many keys are as many");
    }
}
