//! What lies where in a page, and in the first pages of a file. Numbers are little-endian.

/// The size of a page that we write. Files with others are read.
pub const PAGE_BYTES: usize = 4_096;
/// The first pages, which are known last: two of meta, and the list of free pages.
pub const HEAD_BYTES: usize = 3 * PAGE_BYTES;

/// The first page that holds rows.
pub(crate) const FIRST_PAGE: u64 = 3;
pub(crate) const FREELIST_PAGE: u64 = 2;

pub(crate) const PAGE_HEADER_BYTES: usize = 16;
pub(crate) const ELEMENT_BYTES: usize = 16;
/// A bucket's root page and its sequence.
pub(crate) const BUCKET_BYTES: usize = 16;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Where the checksum of a meta page lies, behind the page's header.
const CHECKSUM_AT: usize = 56;
pub(crate) const META_BYTES: usize = CHECKSUM_AT + 8;

pub(crate) mod flag {
    pub const BRANCH: u16 = 0x01;
    pub const LEAF: u16 = 0x02;
    pub const META: u16 = 0x04;
    pub const FREELIST: u16 = 0x10;
    /// The flag of an element whose value is a bucket.
    pub const BUCKET: u32 = 0x01;
}

/// What a meta page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub page_bytes: u32,
    /// The page of the bucket of buckets.
    pub root: u64,
    pub freelist: u64,
    /// How many pages there are.
    pub pages: u64,
    /// The meta page with the later transaction counts.
    pub transaction: u64,
}

impl Meta {
    pub fn encode(&self) -> [u8; META_BYTES] {
        let mut out = [0; META_BYTES];
        let numbers = [MAGIC, VERSION, self.page_bytes, 0];
        numbers.iter().enumerate().for_each(|(at, n)| put_u32(&mut out, at * 4, *n));
        let numbers = [self.root, 0, self.freelist, self.pages, self.transaction];
        numbers.iter().enumerate().for_each(|(at, n)| put_u64(&mut out, 16 + at * 8, *n));
        let checksum = fnv64(&out[..CHECKSUM_AT]);
        put_u64(&mut out, CHECKSUM_AT, checksum);
        out
    }

    /// None if it is not one, or is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Meta> {
        let is_meta = get_u32(bytes, 0)? == MAGIC && get_u32(bytes, 4)? == VERSION;
        let checksum = get_u64(bytes, CHECKSUM_AT)?;
        if !is_meta || fnv64(bytes.get(..CHECKSUM_AT)?) != checksum {
            return None;
        }
        Some(Meta {
            page_bytes: get_u32(bytes, 8)?,
            root: get_u64(bytes, 16)?,
            freelist: get_u64(bytes, 32)?,
            pages: get_u64(bytes, 40)?,
            transaction: get_u64(bytes, 48)?,
        })
    }
}

/// The header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub id: u64,
    pub flags: u16,
    pub count: u16,
    /// How many more pages it takes.
    pub overflow: u32,
}

impl PageHeader {
    pub fn encode(&self) -> [u8; PAGE_HEADER_BYTES] {
        let mut out = [0; PAGE_HEADER_BYTES];
        put_u64(&mut out, 0, self.id);
        out[8..10].copy_from_slice(&self.flags.to_le_bytes());
        out[10..12].copy_from_slice(&self.count.to_le_bytes());
        put_u32(&mut out, 12, self.overflow);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<PageHeader> {
        let u16_at = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let overflow = get_u32(bytes, 12)?;
        Some(PageHeader { id: get_u64(bytes, 0)?, flags: u16_at(8)?, count: u16_at(10)?, overflow })
    }
}

pub(crate) fn put_u32(out: &mut [u8], at: usize, number: u32) {
    out[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut [u8], at: usize, number: u64) {
    out[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// FNV-1a of 64 bits.
fn fnv64(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
