//! The rows of a file, bucket by bucket. Every field of a page is checked before it is used: a file comes from outside.

use crate::layout::{
    BUCKET_BYTES, ELEMENT_BYTES, META_BYTES, Meta, PAGE_BYTES, PAGE_HEADER_BYTES, PageHeader, flag, get_u32,
    get_u64,
};
use std::fmt;
use std::ops::ControlFlow;

/// No program writes pages of other sizes.
const PAGE_BYTES_RANGE: std::ops::RangeInclusive<u32> = 512..=(1 << 20);
/// No tree of rows is so deep.
const DEPTH_MAX: usize = 32;
/// A page with more is damaged: the largest row that etcd takes is far below.
const PAGES_OF_ONE_MAX: u32 = 1 << 18;

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Neither of the first two pages is one of bbolt's.
    NotBbolt,
    /// The file ends before a page does.
    Short { page: u64 },
    /// A page has invalid fields.
    Page { page: u64 },
    /// Keys are not in order.
    Order { page: u64 },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::NotBbolt => write!(f, "not a database of bbolt: neither of its first two pages is whole"),
            Damage::Short { page } => write!(f, "cut off: page {page} is not all there"),
            Damage::Page { page } => write!(f, "damaged in page {page}"),
            Damage::Order { page } => write!(f, "damaged: keys of page {page} are not in order"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError<E> {
    Damaged(Damage),
    /// The file could not be read.
    Failed(E),
}

impl<E> From<Damage> for ReadError<E> {
    fn from(damage: Damage) -> ReadError<E> {
        ReadError::Damaged(damage)
    }
}

/// Reads through a function that returns as many bytes at an offset as there are, up to a length.
pub struct Reader<F> {
    read: F,
    meta: Meta,
    buckets: Vec<(Vec<u8>, Bucket)>,
}

#[derive(Clone, Debug)]
enum Bucket {
    At(u64),
    /// The page lies in the bucket of buckets.
    Inline(Vec<u8>),
}

/// A page with its overflow pages.
struct Page {
    id: u64,
    header: PageHeader,
    bytes: Vec<u8>,
}

impl<E, F: FnMut(u64, usize) -> Result<Vec<u8>, E>> Reader<F> {
    pub fn open(mut read: F) -> Result<Reader<F>, ReadError<E>> {
        let first = read(0, PAGE_BYTES).map_err(ReadError::Failed)?;
        let page_bytes =
            get_u32(&first, PAGE_HEADER_BYTES + 8).filter(|size| PAGE_BYTES_RANGE.contains(size));
        let page_bytes = page_bytes.unwrap_or(PAGE_BYTES as u32);
        let second =
            read(u64::from(page_bytes), PAGE_HEADER_BYTES + META_BYTES).map_err(ReadError::Failed)?;
        let metas = [first, second].map(|page| Meta::decode(page.get(PAGE_HEADER_BYTES..)?));
        let meta = metas.into_iter().flatten().max_by_key(|meta| meta.transaction);
        let meta = meta.filter(|meta| PAGE_BYTES_RANGE.contains(&meta.page_bytes)).ok_or(Damage::NotBbolt)?;
        let mut reader = Reader { read, meta, buckets: Vec::new() };
        let mut buckets = Vec::new();
        reader.walk(&Bucket::At(meta.root), &mut |page, flags, name, value| {
            if flags & flag::BUCKET != 0 {
                buckets.push((name.to_vec(), bucket(page, value)?));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        reader.buckets = buckets;
        Ok(reader)
    }

    pub fn has_bucket(&self, name: &[u8]) -> bool {
        self.buckets.iter().any(|(other, _)| other == name)
    }

    /// Hands every row of a bucket over, in order, until the function breaks. A bucket that is not there has no rows.
    pub fn rows(&mut self, name: &[u8], each: &mut EachRow<'_>) -> Result<(), ReadError<E>> {
        let Some((_, bucket)) = self.buckets.iter().find(|(other, _)| other == name) else { return Ok(()) };
        self.walk(&bucket.clone(), &mut |_, flags, key, value| {
            Ok(if flags & flag::BUCKET == 0 { each(key, value) } else { ControlFlow::Continue(()) })
        })
    }

    fn walk(&mut self, bucket: &Bucket, each: &mut RowVisitor<'_>) -> Result<(), ReadError<E>> {
        let mut last = None;
        match bucket {
            Bucket::At(root) => self.walk_page(*root, DEPTH_MAX, &mut last, each).map(drop),
            Bucket::Inline(bytes) => {
                let page = decode_page(0, bytes.clone()).ok_or(Damage::Page { page: 0 })?;
                Ok(walk_leaf(&page, &mut last, each).map(drop)?)
            }
        }
    }

    fn walk_page(
        &mut self,
        id: u64,
        depth: usize,
        last: &mut Option<Vec<u8>>,
        each: &mut RowVisitor<'_>,
    ) -> Result<ControlFlow<()>, ReadError<E>> {
        let page = self.page(id)?;
        if page.header.flags & flag::LEAF != 0 {
            return Ok(walk_leaf(&page, last, each)?);
        }
        if page.header.flags & flag::BRANCH == 0 || depth == 0 || page.header.count == 0 {
            return Err(Damage::Page { page: id }.into());
        }
        for nth in 0..usize::from(page.header.count) {
            let below = page.child(nth).ok_or(Damage::Page { page: id })?;
            if self.walk_page(below, depth - 1, last, each)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn page(&mut self, id: u64) -> Result<Page, ReadError<E>> {
        let damaged = Damage::Page { page: id };
        let size = self.meta.page_bytes as usize;
        let offset =
            id.checked_mul(size as u64).filter(|_| id >= 2 && id < self.meta.pages).ok_or(damaged)?;
        let mut bytes = (self.read)(offset, size).map_err(ReadError::Failed)?;
        let header = PageHeader::decode(&bytes).filter(|header| header.id == id).ok_or(damaged)?;
        let last = id.saturating_add(u64::from(header.overflow));
        if header.overflow > PAGES_OF_ONE_MAX || last >= self.meta.pages {
            return Err(damaged.into());
        }
        if header.overflow > 0 {
            let whole = size * (header.overflow as usize + 1);
            bytes = (self.read)(offset, whole).map_err(ReadError::Failed)?;
        }
        if bytes.len() < size * (header.overflow as usize + 1) {
            return Err(Damage::Short { page: id }.into());
        }
        Ok(Page { id, header, bytes })
    }
}

/// Takes the key and the value of a row, and says whether to go on.
pub type EachRow<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// The number of the page, the element's flags, key and value.
type RowVisitor<'a> = dyn FnMut(u64, u32, &[u8], &[u8]) -> Result<ControlFlow<()>, Damage> + 'a;

fn walk_leaf(
    page: &Page,
    last: &mut Option<Vec<u8>>,
    each: &mut RowVisitor<'_>,
) -> Result<ControlFlow<()>, Damage> {
    for nth in 0..usize::from(page.header.count) {
        let (flags, key, value) = page.row(nth).ok_or(Damage::Page { page: page.id })?;
        if last.as_deref().is_some_and(|last| last >= key) {
            return Err(Damage::Order { page: page.id });
        }
        *last = Some(key.to_vec());
        if each(page.id, flags, key, value)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

impl Page {
    fn element(&self, nth: usize) -> usize {
        PAGE_HEADER_BYTES + nth * ELEMENT_BYTES
    }

    fn row(&self, nth: usize) -> Option<(u32, &[u8], &[u8])> {
        let at = self.element(nth);
        let number = |n: usize| get_u32(&self.bytes, at + 4 * n);
        let (flags, position) = (number(0)?, number(1)? as usize);
        let (key_bytes, value_bytes) = (number(2)? as usize, number(3)? as usize);
        let start = at.checked_add(position)?;
        let middle = start.checked_add(key_bytes)?;
        let end = middle.checked_add(value_bytes)?;
        Some((flags, self.bytes.get(start..middle)?, self.bytes.get(middle..end)?))
    }

    fn child(&self, nth: usize) -> Option<u64> {
        get_u64(&self.bytes, self.element(nth) + 8)
    }
}

fn decode_page(id: u64, bytes: Vec<u8>) -> Option<Page> {
    let header = PageHeader::decode(&bytes).filter(|header| header.flags & flag::LEAF != 0)?;
    Some(Page { id, header, bytes })
}

fn bucket(page: u64, value: &[u8]) -> Result<Bucket, Damage> {
    match get_u64(value, 0).filter(|_| value.len() >= BUCKET_BYTES) {
        Some(0) => Ok(Bucket::Inline(value[BUCKET_BYTES..].to_vec())),
        Some(root) => Ok(Bucket::At(root)),
        None => Err(Damage::Page { page }),
    }
}
