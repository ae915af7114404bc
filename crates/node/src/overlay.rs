//! Applied versions that the store has not flushed yet, in two generations: one that grows, and one that is
//! being written. Reads look here before they look in the store.
//! Changes come in revision order, so a version is found by bisection and no map is kept. `mesh` has an overlay of its
//! own, because its rows replace each other, come in no order, and may not be shown before they are durable.

use base::{Position, Revision, Row};
use coord::rows::{self, LoggedChange};
use coord::{Change, ChangeKind, Record};
use std::sync::Arc;

/// One atomic write to the store: the changes and the state's own rows at one position of the log.
#[derive(Clone, Debug)]
pub struct Flush {
    /// Counts flushes, so that the report of an abandoned flush is not taken for that of another.
    pub number: u64,
    pub at: Position,
    /// The rows of the index must be up to date with this flush, because the lines of the log that they come from are
    /// about to be removed.
    pub index: bool,
    changes: Arc<Vec<Change>>,
    state: Vec<Row>,
}

impl Flush {
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Every row but those of the index, later ones replacing earlier ones of the same key.
    pub fn emit(&self, row: &mut rows::Emit<'_>) {
        rows::change_rows(&self.changes, row);
        for Row { table, key, value } in &self.state {
            row(*table, key, value.as_deref());
        }
    }
}

#[derive(Default)]
pub(crate) struct Overlay {
    growing: Vec<Change>,
    growing_bytes: usize,
    flushing: Option<Arc<Vec<Change>>>,
    flushing_bytes: usize,
}

/// The memory that a change costs beside its key and value.
const CHANGE_OVERHEAD_BYTES: usize = 128;

impl Overlay {
    pub fn add(&mut self, changes: Vec<Change>) {
        for change in &changes {
            let value = match &change.kind {
                ChangeKind::Put(record) => record.value.len(),
                ChangeKind::Delete => 0,
            };
            self.growing_bytes += CHANGE_OVERHEAD_BYTES + change.key.len() + value;
        }
        self.growing.extend(changes);
    }

    pub fn bytes(&self) -> usize {
        self.growing_bytes
    }

    pub fn unflushed_bytes(&self) -> usize {
        self.growing_bytes + self.flushing_bytes
    }

    pub fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }

    /// Everything that has grown becomes the content of a flush.
    pub fn freeze(&mut self, number: u64, at: Position, index: bool, state: Vec<Row>) -> Flush {
        assert!(self.flushing.is_none(), "one flush at a time");
        self.flushing_bytes = std::mem::take(&mut self.growing_bytes);
        let changes = Arc::new(std::mem::take(&mut self.growing));
        self.flushing = Some(changes.clone());
        Flush { number, at, index, changes, state }
    }

    pub fn flushed(&mut self) {
        self.flushing = None;
        self.flushing_bytes = 0;
    }

    /// The first revision in memory; everything from it on is. `None` when nothing is.
    pub fn first_revision(&self) -> Option<Revision> {
        self.generations().flatten().next().map(|change| change.revision)
    }

    /// Visits the changes of these revisions that are in memory, in order.
    pub fn log(&self, from: Revision, upto: Revision, visit: &mut dyn FnMut(Revision, LoggedChange)) {
        for changes in self.generations() {
            let first = changes.partition_point(|change| change.revision < from);
            let wanted = changes[first..].iter().take_while(|change| change.revision <= upto);
            wanted.for_each(|change| visit(change.revision, LoggedChange::of(change)));
        }
    }

    /// The older one first.
    fn generations(&self) -> impl Iterator<Item = &Vec<Change>> {
        self.flushing.as_deref().into_iter().chain([&self.growing])
    }

    pub fn find(&self, key: &[u8], revision: Revision) -> Option<Record> {
        let generations = [Some(&self.growing), self.flushing.as_deref()];
        generations.into_iter().flatten().find_map(|changes| find(changes, key, revision))
    }
}

fn find(changes: &[Change], key: &[u8], revision: Revision) -> Option<Record> {
    let first = changes.partition_point(|change| change.revision < revision);
    let in_revision = changes[first..].iter().take_while(|change| change.revision == revision);
    in_revision.filter(|change| change.key.as_ref() == key).find_map(|change| match &change.kind {
        ChangeKind::Put(record) => Some(record.clone()),
        ChangeKind::Delete => None,
    })
}
