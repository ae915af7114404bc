//! Keys of a page that some of the replicas have and others that were heard have not: a write on its way, or a key that was
//! deleted while a replica was away. They are read as single keys are, by a quorum that knows of tombstones, before the page is
//! answered.

use crate::frame::OpId;
use crate::key::Key;
use crate::mesh::coordinator::scans::ScanOp;
use crate::mesh::{Client, Mesh, Operation, Turn};
use crate::record::Record;
use crate::request::{Reply, ScanPage};
use base::{Instant, ReplyToken};

/// A page as far as it is known.
#[derive(Debug)]
pub(in crate::mesh) struct PageDraft {
    pub token: ReplyToken,
    pub entries: Vec<PageEntry>,
    pub scanned: ScanPage,
    /// Reads that have not ended.
    pub n_reading: usize,
}

#[derive(Debug)]
pub(in crate::mesh) enum PageEntry {
    Found(Key, Record),
    /// The key that a scan for names alone found.
    Named(Key),
    Doubtful(Key),
    /// Not to be shown.
    Gone,
}

impl PageEntry {
    pub fn key(&self) -> Option<&Key> {
        match self {
            PageEntry::Found(key, _) | PageEntry::Named(key) | PageEntry::Doubtful(key) => Some(key),
            PageEntry::Gone => None,
        }
    }
}

impl Mesh {
    /// Answers a page, after a read of each key that is in doubt.
    pub(in crate::mesh) fn settle_page(
        &mut self,
        t: &mut Turn<'_>,
        scanning: ScanOp,
        mut draft: PageDraft,
        deadline: Instant,
    ) {
        let doubtful = |(at, entry): (usize, &PageEntry)| match entry {
            PageEntry::Doubtful(key) => Some((at, key.clone())),
            _ => None,
        };
        let reads: Vec<(usize, Key)> = draft.entries.iter().enumerate().filter_map(doubtful).collect();
        if reads.is_empty() {
            return self.answer_page(t, draft);
        }
        draft.n_reading = reads.len();
        let r = scanning.scan.r;
        let scanning = ScanOp { draft: Some(draft), ..scanning };
        let id = self.coordinator.begin(t, Operation::Scan(Box::new(scanning)), deadline);
        for (at, key) in reads {
            self.start_read(t, Client::ScanRead(id, at), key, r, deadline);
        }
    }

    pub(in crate::mesh) fn scan_read_done(&mut self, t: &mut Turn<'_>, id: OpId, at: usize, reply: Reply) {
        let Some(scanning) = self.coordinator.scan_op(id) else { return };
        let keys_only = scanning.scan.view.keys_only;
        let Some(draft) = &mut scanning.draft else { return };
        let PageEntry::Doubtful(key) = std::mem::replace(&mut draft.entries[at], PageEntry::Gone) else {
            return;
        };
        draft.n_reading -= 1;
        let is_over = draft.n_reading == 0;
        match reply {
            Reply::Found(record) => {
                if let Some(record) = record.filter(|record| record.is_live(t.now.wall_ms)) {
                    draft.entries[at] =
                        if keys_only { PageEntry::Named(key) } else { PageEntry::Found(key, *record) };
                }
            }
            _ => draft.scanned.n_missing = draft.scanned.n_missing.max(1),
        }
        if is_over
            && let Some(Operation::Scan(scanning)) =
                self.coordinator.finish(id).map(|pending| pending.operation)
            && let Some(draft) = scanning.draft
        {
            self.answer_page(t, draft);
        }
    }

    pub(in crate::mesh) fn answer_page(&mut self, t: &mut Turn<'_>, draft: PageDraft) {
        let PageDraft { token, entries, mut scanned, n_reading } = draft;
        if n_reading > 0 {
            scanned.n_missing = scanned.n_missing.max(1);
        }
        for entry in entries {
            match entry {
                PageEntry::Found(key, record) => {
                    let shown = self.coordinator.show(t, Box::new(record));
                    scanned.records.push((key, *shown));
                }
                PageEntry::Named(key) => scanned.names.push(key),
                PageEntry::Doubtful(_) | PageEntry::Gone => {}
            }
        }
        t.out.replies.push((token, Reply::Scanned(scanned)));
    }
}
