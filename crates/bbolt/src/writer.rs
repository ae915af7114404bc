//! A file of rows in order. Pages leave as they are full, from the fourth on; the first three are known at the end, and are
//! returned by `finish`. A tree is built from its leaves upwards: a page that leaves becomes an element of the level above.

use crate::layout::{
    BUCKET_BYTES, ELEMENT_BYTES, FIRST_PAGE, FREELIST_PAGE, Meta, PAGE_BYTES, PAGE_HEADER_BYTES, PageHeader,
    flag, put_u32, put_u64,
};

/// Elements of a page that is being filled.
#[derive(Default)]
struct Level {
    elements: Vec<Element>,
    bytes: usize,
}

struct Element {
    /// Whether the value of a leaf is a bucket.
    is_bucket: bool,
    key: Vec<u8>,
    value: Value,
}

enum Value {
    Bytes(Vec<u8>),
    /// A page of the level below.
    Page(u64),
}

impl Element {
    fn bytes(&self) -> usize {
        let value = match &self.value {
            Value::Bytes(value) => value.len(),
            Value::Page(_) => 0,
        };
        ELEMENT_BYTES + self.key.len() + value
    }
}

/// Pages gather until they are taken.
pub struct Writer {
    /// Whole pages in the order of the file; the first that there are begin at `HEAD_BYTES`.
    pages: Vec<u8>,
    next_page: u64,
    /// The levels of the bucket that is being written, leaves first.
    levels: Vec<Level>,
    bucket: Option<Vec<u8>>,
    buckets: Vec<(Vec<u8>, u64)>,
}

impl Default for Writer {
    fn default() -> Writer {
        let (pages, levels, buckets) = (Vec::new(), Vec::new(), Vec::new());
        Writer { pages, next_page: FIRST_PAGE, levels, bucket: None, buckets }
    }
}

impl Writer {
    /// How many bytes wait to be taken.
    pub fn waiting(&self) -> usize {
        self.pages.len()
    }

    /// The pages that were filled since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pages)
    }

    /// Begins a bucket, or goes on with the one that was begun last. Names come in ascending order.
    pub fn bucket(&mut self, name: &[u8]) {
        if self.bucket.as_deref() == Some(name) {
            return;
        }
        self.end_bucket();
        let last = self.buckets.last().map(|(name, _)| name.as_slice());
        assert!(last.is_none_or(|last| last < name) && !name.is_empty(), "buckets come in order");
        self.bucket = Some(name.to_vec());
    }

    /// Adds a row to the bucket. Keys come in ascending order and are not empty.
    pub fn row(&mut self, key: &[u8], value: &[u8]) {
        assert!(self.bucket.is_some() && !key.is_empty(), "a row is part of a bucket");
        let last = self.levels.first().and_then(|leaf| leaf.elements.last());
        assert!(last.is_none_or(|last| last.key.as_slice() < key), "rows come in order");
        let value = Value::Bytes(value.to_vec());
        self.add(0, Element { is_bucket: false, key: key.to_vec(), value });
    }

    /// The last pages, and the first ones of the file, which go to its beginning.
    pub fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        self.end_bucket();
        let buckets = std::mem::take(&mut self.buckets);
        for (key, root) in buckets {
            let value = Value::Bytes(bucket_value(root));
            self.add(0, Element { is_bucket: true, key, value });
        }
        let root = self.root();
        let root = root.unwrap_or_else(|| self.emit(flag::LEAF, &[]));
        let head = self.head(root);
        (self.pages, head)
    }

    fn head(&self, root: u64) -> Vec<u8> {
        let mut head = Vec::new();
        for transaction in 0..2 {
            let (page_bytes, freelist, pages) = (PAGE_BYTES as u32, FREELIST_PAGE, self.next_page);
            let header = PageHeader { id: transaction, flags: flag::META, count: 0, overflow: 0 };
            head.extend(header.encode());
            head.extend(Meta { page_bytes, root, freelist, pages, transaction }.encode());
            head.resize(PAGE_BYTES * (transaction as usize + 1), 0);
        }
        head.extend(PageHeader { id: FREELIST_PAGE, flags: flag::FREELIST, count: 0, overflow: 0 }.encode());
        head.resize(PAGE_BYTES * 3, 0);
        head
    }

    fn end_bucket(&mut self) {
        let Some(name) = self.bucket.take() else { return };
        let root = self.root().unwrap_or(0);
        self.buckets.push((name, root));
    }

    fn add(&mut self, level: usize, element: Element) {
        if self.levels.len() == level {
            self.levels.push(Level::default());
        }
        let bytes = element.bytes();
        let filling = &self.levels[level];
        if !filling.elements.is_empty() && PAGE_HEADER_BYTES + filling.bytes + bytes > PAGE_BYTES {
            self.end_page(level);
        }
        let filling = &mut self.levels[level];
        filling.bytes += bytes;
        filling.elements.push(element);
    }

    /// Emits the page of a level, and adds it to the level above.
    fn end_page(&mut self, level: usize) {
        let Level { elements, .. } = std::mem::take(&mut self.levels[level]);
        let first = elements.first().map(|element| element.key.clone());
        let page = self.emit(if level == 0 { flag::LEAF } else { flag::BRANCH }, &elements);
        let key = first.expect("a page that leaves has elements");
        self.add(level + 1, Element { is_bucket: false, key, value: Value::Page(page) });
    }

    /// Ends the tree that is being built; its root, if there is anything in it.
    fn root(&mut self) -> Option<u64> {
        let mut level = 0;
        while level < self.levels.len() {
            let is_top = level + 1 == self.levels.len();
            match self.levels[level].elements.as_slice() {
                [Element { value: Value::Page(page), .. }] if is_top => {
                    let page = *page;
                    self.levels.clear();
                    return Some(page);
                }
                _ => self.end_page(level),
            }
            level += 1;
        }
        None
    }

    fn emit(&mut self, flags: u16, elements: &[Element]) -> u64 {
        let bytes = PAGE_HEADER_BYTES + elements.iter().map(Element::bytes).sum::<usize>();
        let n_pages = bytes.div_ceil(PAGE_BYTES);
        let id = self.next_page;
        self.next_page += n_pages as u64;
        let (count, overflow) = (elements.len() as u16, n_pages as u32 - 1);
        let mut page = Vec::with_capacity(n_pages * PAGE_BYTES);
        page.extend(PageHeader { id, flags, count, overflow }.encode());
        page.resize(PAGE_HEADER_BYTES + elements.len() * ELEMENT_BYTES, 0);
        for (nth, element) in elements.iter().enumerate() {
            put_element(&mut page, nth, element);
        }
        page.resize(n_pages * PAGE_BYTES, 0);
        self.pages.append(&mut page);
        id
    }
}

/// Writes an element in its place, and what it names behind everything that is there.
fn put_element(page: &mut Vec<u8>, nth: usize, element: &Element) {
    let at = PAGE_HEADER_BYTES + nth * ELEMENT_BYTES;
    let (position, key_bytes) = ((page.len() - at) as u32, element.key.len() as u32);
    page.extend_from_slice(&element.key);
    match &element.value {
        Value::Bytes(value) => {
            page.extend_from_slice(value);
            let flags = if element.is_bucket { flag::BUCKET } else { 0 };
            let numbers = [flags, position, key_bytes, value.len() as u32];
            numbers.iter().enumerate().for_each(|(n, number)| put_u32(page, at + n * 4, *number));
        }
        Value::Page(below) => {
            put_u32(page, at, position);
            put_u32(page, at + 4, key_bytes);
            put_u64(page, at + 8, *below);
        }
    }
}

/// What the bucket of buckets holds of a bucket: its root, and its sequence, which etcd does not use. An empty one lies
/// in there itself, as a page without elements.
fn bucket_value(root: u64) -> Vec<u8> {
    let mut value = vec![0; BUCKET_BYTES];
    put_u64(&mut value, 0, root);
    if root == 0 {
        value.extend(PageHeader { id: 0, flags: flag::LEAF, count: 0, overflow: 0 }.encode());
    }
    value
}
