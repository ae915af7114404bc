use super::*;
use base::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Rows that were flushed, in memory.
#[derive(Clone, Default)]
pub(crate) struct MemoryRows(pub BTreeMap<Bytes, Bytes>);

impl MemoryRows {
    pub(crate) fn flush(&mut self, flush: &Flush) {
        for (key, value) in flush.rows() {
            match value {
                Some(value) => self.0.insert(key.clone(), value.clone()),
                None => self.0.remove(key),
            };
        }
    }
}

impl Rows for MemoryRows {
    fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.0.get(key).cloned()
    }

    fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        for (key, value) in self.0.range::<[u8], _>((from, to)) {
            if !visit(key, value) {
                return;
            }
        }
    }

    fn scan_down(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, visit: &mut dyn FnMut(&[u8], &Bytes) -> bool) {
        let mut rows = self.0.range::<[u8], _>((from, to));
        while rows.next_back().is_some_and(|(key, value)| visit(key, value)) {}
    }
}

/// Short ones, so that they meet, over several shelves.
fn any_key(rng: &mut Rng) -> Vec<u8> {
    let len = rng.between(1, 4);
    (0..len).map(|_| rng.between(0, 4) as u8).collect()
}

/// What a scan sees, up to so many rows.
fn scanned(
    overlay: &Overlay,
    rows: &MemoryRows,
    from: &[u8],
    to: &[u8],
    most: usize,
) -> Vec<(Vec<u8>, Bytes)> {
    let mut seen = Vec::new();
    overlay.scan(rows, from, to, &mut |key, value| {
        seen.push((key.to_vec(), value.clone()));
        seen.len() < most
    });
    seen
}

fn scanned_down(
    overlay: &Overlay,
    rows: &MemoryRows,
    from: &[u8],
    to: &[u8],
    most: usize,
) -> Vec<(Vec<u8>, Bytes)> {
    let mut seen = Vec::new();
    overlay.scan_down(rows, from, to, &mut |key, value| {
        seen.push((key.to_vec(), value.clone()));
        seen.len() < most
    });
    seen
}

proptest! {
    #[test]
    fn memory_and_store_together_read_as_one_table(seed: u64) {
        let mut rng = Rng::new(seed);
        let (mut overlay, mut rows, mut model) = (Overlay::new(seed), MemoryRows::default(), BTreeMap::new());
        let mut flush = None;
        for n in 1..200 {
            match rng.between(0, 16) {
                0 if flush.is_none() => flush = Some(overlay.freeze(Seq(n))),
                1 => {
                    if let Some(done) = flush.take() {
                        rows.flush(&done);
                        prop_assert!(overlay.flushed(done.number + 1).is_none(), "another flush");
                        prop_assert!(overlay.flushed(done.number).is_some());
                    }
                }
                2 => {
                    let (from, to, most) = (any_key(&mut rng), any_key(&mut rng), rng.between(1, 20) as usize);
                    let inside = model.iter().filter(|(key, _): &(&Bytes, &Bytes)| from <= **key && **key < to);
                    let inside: Vec<_> =
                        inside.map(|(key, value)| (key.to_vec(), value.clone())).collect();
                    let expected: Vec<_> = inside.iter().take(most).cloned().collect();
                    prop_assert_eq!(scanned(&overlay, &rows, &from, &to, most), expected);
                    let expected: Vec<_> = inside.into_iter().rev().take(most).collect();
                    prop_assert_eq!(scanned_down(&overlay, &rows, &from, &to, most), expected);
                }
                _ => {
                    let key = Bytes::from(any_key(&mut rng));
                    let value = (!rng.chance(300_000)).then(|| Bytes::from(vec![n as u8]));
                    overlay.put(Row { key: key.clone(), value: value.clone() }, Seq(n));
                    prop_assert_eq!(overlay.get(&rows, &key), (value.clone(), Seq(n)));
                    match value {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
            }
        }
        for _ in 0..50 {
            let key = any_key(&mut rng);
            prop_assert_eq!(overlay.get(&rows, &key).0, model.get(&key[..]).cloned());
        }
        let all: Vec<_> = model.iter().map(|(key, value)| (key.to_vec(), value.clone())).collect();
        prop_assert_eq!(scanned(&overlay, &rows, &[], &[9], usize::MAX), all);
    }
}

#[test]
fn a_row_that_is_written_again_takes_memory_once() {
    let mut overlay = Overlay::new(1);
    let mut put = |value: Option<&'static [u8]>| {
        let row = Row { key: Bytes::from_static(b"key"), value: value.map(Bytes::from_static) };
        overlay.put(row, Seq(1));
        overlay.bytes()
    };
    let once = put(Some(b"long value"));
    assert_eq!(put(Some(b"LONG VALUE")), once);
    assert_eq!(put(None), once - 10);
    assert_eq!(put(Some(b"long value")), once);
}
