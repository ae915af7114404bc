//! Rows that were read lately, in front of the mesh's store: to find one here costs a tenth of what it costs the engine
//! to walk down its tree.
//! They are those of one flush, and whoever has a view of another is neither told nor heard. What a flush writes
//! replaces what is here before a view of it exists. So much and no more is kept; a row that was asked for since its
//! turn to go came last gets another turn.

use base::mutant::{Mutant, planted};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Larger rows are left to the engine: few of them would drive out many others.
const ROW_BYTES_MAX: usize = 16 * 1024;
/// What a row costs in memory beside its bytes.
const OVERHEAD_BYTES: usize = 160;
/// So many rows are replaced before somebody else may look.
const REPLACED_AT_ONCE: usize = 64;

pub struct Recent {
    bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The number of the flush that all this goes by.
    flush: u64,
    rows: HashMap<Bytes, Kept>,
    /// Whose turn it is to go; every row once.
    turns: VecDeque<Bytes>,
    bytes: usize,
}

struct Kept {
    /// Nothing, if it has been removed since.
    value: Option<Bytes>,
    asked_for: bool,
}

impl Recent {
    pub fn new(bytes_max: usize) -> Recent {
        Recent { bytes_max, inner: Mutex::default() }
    }

    /// What is known of a row, for whoever sees the store as of a flush.
    pub fn get(&self, flush: u64, key: &[u8]) -> Option<Option<Bytes>> {
        let mut inner = self.lock();
        if inner.flush != flush {
            return None;
        }
        let kept = inner.rows.get_mut(key)?;
        kept.asked_for = true;
        Some(kept.value.clone())
    }

    /// Keeps a row that was found in a view of a flush.
    pub fn keep(&self, flush: u64, key: &[u8], value: &Bytes) {
        let mut inner = self.lock();
        if inner.flush != flush || key.len() + value.len() > ROW_BYTES_MAX || inner.rows.contains_key(key) {
            return;
        }
        let key = Bytes::copy_from_slice(key);
        inner.bytes += OVERHEAD_BYTES + key.len() + value.len();
        inner.turns.push_back(key.clone());
        inner.rows.insert(key, Kept { value: Some(value.clone()), asked_for: false });
        inner.let_go(self.bytes_max);
    }

    /// Goes by another flush from now on, which has written these rows.
    pub fn flushed<'a>(&self, flush: u64, written: impl Iterator<Item = (&'a Bytes, Option<&'a Bytes>)>) {
        self.lock().flush = flush;
        let mut written = written.filter(|_| !planted(Mutant::RecentRowsStale)).peekable();
        while written.peek().is_some() {
            let mut inner = self.lock();
            written.by_ref().take(REPLACED_AT_ONCE).for_each(|(key, value)| inner.replace(key, value));
            inner.let_go(self.bytes_max);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn replace(&mut self, key: &Bytes, value: Option<&Bytes>) {
        let Some(kept) = self.rows.get_mut(key) else { return };
        // What was written may be a small part of a large message, which must not be kept for it.
        let new = value.map(|value| Bytes::copy_from_slice(value));
        self.bytes += new.as_ref().map_or(0, Bytes::len);
        self.bytes -= std::mem::replace(&mut kept.value, new).map_or(0, |old| old.len());
    }

    fn let_go(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let key = self.turns.pop_front().expect("what takes space has a turn");
            let asked_for = self.rows.get_mut(&key).is_some_and(|kept| std::mem::take(&mut kept.asked_for));
            match asked_for {
                true => self.turns.push_back(key),
                false => self.forget(&key),
            }
        }
    }

    fn forget(&mut self, key: &Bytes) {
        if let Some(kept) = self.rows.remove(key) {
            self.bytes -= OVERHEAD_BYTES + key.len() + kept.value.map_or(0, |value| value.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &'static str, value: &'static str) -> (Bytes, Bytes) {
        (Bytes::from_static(key.as_bytes()), Bytes::from_static(value.as_bytes()))
    }

    fn keep(recent: &Recent, flush: u64, key: &'static str, value: &'static str) {
        let (key, value) = row(key, value);
        recent.keep(flush, &key, &value);
    }

    #[test]
    fn a_row_is_known_until_a_flush_replaces_or_removes_it() {
        let recent = Recent::new(10_000);
        keep(&recent, 0, "a", "1");
        keep(&recent, 0, "b", "1");
        assert_eq!(recent.get(0, b"a"), Some(Some("1".into())));
        let (key, value) = row("a", "2");
        let gone = Bytes::from_static(b"b");
        recent.flushed(1, [(&key, Some(&value)), (&gone, None)].into_iter());
        assert_eq!(recent.get(1, b"a"), Some(Some("2".into())));
        assert_eq!(recent.get(1, b"b"), Some(None));
        assert_eq!(recent.get(1, b"c"), None);
    }

    #[test]
    fn who_sees_another_flush_is_neither_told_nor_heard() {
        let recent = Recent::new(10_000);
        keep(&recent, 0, "a", "1");
        let (key, value) = row("a", "2");
        recent.flushed(1, [(&key, Some(&value))].into_iter());
        assert_eq!(recent.get(0, b"a"), None);
        keep(&recent, 0, "b", "1");
        assert_eq!(recent.get(1, b"b"), None);
    }

    #[test]
    fn what_was_asked_for_stays_longest() {
        let recent = Recent::new(3 * (OVERHEAD_BYTES + 2));
        for key in ["a", "b", "c"] {
            keep(&recent, 0, key, "1");
        }
        assert!(recent.get(0, b"a").is_some());
        keep(&recent, 0, "d", "1");
        assert_eq!(recent.get(0, b"b"), None);
        for key in [b"a", b"c", b"d"] {
            assert!(recent.get(0, key).is_some());
        }
        let large = Bytes::from(vec![0; 3 * OVERHEAD_BYTES]);
        recent.flushed(1, [(&Bytes::from_static(b"d"), Some(&large))].into_iter());
        let inner = recent.lock();
        assert!(inner.bytes <= recent.bytes_max);
        assert_eq!(inner.rows.len(), inner.turns.len());
    }
}
