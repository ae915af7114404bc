//! A backup as an operator brings it: a database of bbolt with damaged bytes. It is read as far as it is whole, or refused, and the walk
//! through its pages always ends.

use crate::input::Input;
use bbolt::{HEAD_BYTES, PAGE_BYTES, Reader, Writer};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::LazyLock;

const BUCKETS: [&[u8]; 3] = [b"key", b"lease", b"meta"];
/// Enough for pages of branches.
const ROWS: u32 = 600;
/// More rows than an intact file has: what is damaged may not be read over and over.
const ROWS_MAX: usize = 100_000;

static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut writer = Writer::default();
    for bucket in BUCKETS {
        writer.bucket(bucket);
        (0..ROWS).for_each(|nth| writer.row(&nth.to_be_bytes(), &[nth as u8; 40]));
    }
    let (pages, head) = writer.finish();
    let mut file = head;
    file.resize(HEAD_BYTES, 0);
    file.extend(pages);
    file
});

pub fn bbolt(bytes: &[u8]) {
    let mut file = FILE.clone();
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        let page = input.choice(file.len() / PAGE_BYTES + 1) * PAGE_BYTES;
        // The heads of pages are where the harm is.
        let at = page + usize::from(input.byte()) * if input.flag() { 1 } else { 16 };
        let new = input.byte();
        match file.get_mut(at) {
            Some(byte) => *byte = new,
            None => file.truncate(file.len().saturating_sub(usize::from(new))),
        }
    }
    let read = |offset: u64, len: usize| -> Result<Vec<u8>, Infallible> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(file.len());
        Ok(file[from..file.len().min(from.saturating_add(len))].to_vec())
    };
    let Ok(mut reader) = Reader::open(read) else { return };
    for bucket in BUCKETS {
        let mut count = 0;
        let _ = reader.rows(bucket, &mut |_, _| {
            count += 1;
            assert!(count < ROWS_MAX, "a damaged file is read without an end");
            ControlFlow::Continue(())
        });
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    (0..32u8).map(|nth| vec![nth, 8 + nth % 16, 1, nth]).collect()
}
