use super::*;
use std::convert::Infallible;
use std::ops::ControlFlow;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn write(buckets: &[(&str, Rows)]) -> Vec<u8> {
    let mut pages = Vec::new();
    let mut writer = Writer::default();
    for (name, rows) in buckets {
        writer.bucket(name.as_bytes());
        for (key, value) in rows {
            writer.row(key, value);
            if writer.waiting() > 100_000 {
                pages.extend(writer.take());
            }
        }
    }
    let (rest, head) = writer.finish();
    [head, pages, rest].concat()
}

type Opened<'a> = Reader<Box<dyn FnMut(u64, usize) -> Result<Vec<u8>, Infallible> + 'a>>;

fn open(file: &[u8]) -> Result<Opened<'_>, ReadError<Infallible>> {
    Reader::open(Box::new(move |offset, len| {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(file.len());
        Ok(file[start..start.saturating_add(len).min(file.len())].to_vec())
    }))
}

fn read(file: &[u8], bucket: &str) -> Result<Rows, ReadError<Infallible>> {
    let mut rows = Rows::new();
    open(file)?.rows(bucket.as_bytes(), &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

fn rows(n: u64, value_bytes: usize) -> Rows {
    (0..n).map(|key| (key.to_be_bytes().to_vec(), vec![key as u8; value_bytes + key as usize % 7])).collect()
}

#[test]
fn what_is_written_is_read() {
    let buckets = [
        ("empty", Rows::new()),
        ("few", rows(3, 10)),
        ("large", rows(5, 1_000_000)),
        ("many", rows(200_000, 20)),
        ("mixed", [rows(100, 3_000), vec![(vec![255; 9], vec![7; 40_000])]].concat()),
    ];
    let file = write(&buckets);
    assert_eq!(file.len() % PAGE_BYTES, 0);
    for (name, rows) in &buckets {
        assert!(open(&file).unwrap().has_bucket(name.as_bytes()), "{name}");
        assert_eq!(read(&file, name).as_ref(), Ok(rows), "{name}");
    }
    assert_eq!(read(&file, "none"), Ok(Rows::new()));
    assert!(!open(&file).unwrap().has_bucket(b"none"));
}

#[test]
fn a_file_without_buckets_is_one() {
    let file = write(&[]);
    assert_eq!(read(&file, "any"), Ok(Rows::new()));
}

#[test]
fn reading_ends_when_it_is_told_to() {
    let file = write(&[("many", rows(10_000, 20))]);
    let mut n = 0;
    let mut each = |_: &[u8], _: &[u8]| {
        n += 1;
        if n == 700 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    open(&file).unwrap().rows(b"many", &mut each).unwrap();
    assert_eq!(n, 700);
}

#[test]
fn one_damaged_meta_page_does_no_harm_and_two_are_told() {
    let mut file = write(&[("few", rows(3, 10))]);
    file[PAGE_BYTES + 30] ^= 1;
    assert_eq!(read(&file, "few"), Ok(rows(3, 10)));
    file[30] ^= 1;
    assert_eq!(read(&file, "few"), Err(Damage::NotBbolt.into()));
    assert_eq!(read(b"", "few"), Err(Damage::NotBbolt.into()));
}

#[test]
fn a_file_that_is_cut_off_is_told() {
    let whole = write(&[("many", rows(10_000, 20))]);
    for pages in 3..whole.len() / PAGE_BYTES {
        assert!(read(&whole[..pages * PAGE_BYTES], "many").is_err(), "{pages} pages");
    }
}

/// Whatever a flipped bit makes of a file, reading it ends and panics nowhere.
#[test]
fn flipped_bits_are_told_or_change_a_row() {
    let whole = write(&[("few", rows(20, 10)), ("many", rows(400, 20))]);
    for at in (0..whole.len()).step_by(13) {
        let mut file = whole.clone();
        file[at] ^= 1 << (at % 8);
        let _ = read(&file, "few");
        let _ = read(&file, "many");
    }
}
