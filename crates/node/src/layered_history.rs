//! Reads applied versions and log lines: unflushed ones from memory, the rest from the store. Versions and lines of
//! the log come out; a line that both places hold comes out once. What cannot be read was damaged after it was
//! written, and stops the process.

use crate::overlay::Overlay;
use base::{ReadView, Revision, Table};
use bytes::Bytes;
use coord::rows::{self, CorruptRow, LoggedChange};
use coord::watch::ChangeLog;
use coord::{Record, Records};
use std::ops::Bound::{Excluded, Included};

pub(crate) struct LayeredHistory<'a> {
    pub overlay: &'a Overlay,
    pub view: &'a dyn ReadView,
}

impl Records for LayeredHistory<'_> {
    fn record(&self, key: &[u8], revision: Revision) -> Option<Record> {
        let stored =
            || rows::read_record(self.view, key, revision).unwrap_or_else(|corrupt| panic!("{corrupt}"));
        self.overlay.find(key, revision).or_else(stored)
    }
}

impl ChangeLog for LayeredHistory<'_> {
    fn log(&self, from: Revision, upto: Revision, visit: &mut dyn FnMut(Revision, LoggedChange)) {
        let in_memory = self.overlay.first_revision().unwrap_or(upto.next());
        if from < in_memory {
            let stored_upto = Revision(upto.0.min(in_memory.0 - 1));
            visit_stored(self.view, from, stored_upto, visit).unwrap_or_else(|corrupt| panic!("{corrupt}"));
        }
        self.overlay.log(from, upto, visit);
    }
}

fn visit_stored(
    view: &dyn ReadView,
    from: Revision,
    upto: Revision,
    visit: &mut dyn FnMut(Revision, LoggedChange),
) -> Result<(), CorruptRow> {
    let (mut first, mut end) = (Vec::new(), Vec::new());
    rows::log_key(from, 0, &mut first);
    rows::log_key(upto.next(), 0, &mut end);
    let mut outcome = Ok(());
    view.scan(Table::Log, Included(&first), Excluded(&end), &mut |key, value| {
        let place = rows::parse_log_key(key);
        match place.zip(LoggedChange::from_row(Bytes::copy_from_slice(value))) {
            Some(((revision, _), logged)) => visit(revision, logged),
            None => outcome = Err(CorruptRow::malformed(Table::Log, key)),
        }
        outcome.is_ok()
    });
    outcome
}
