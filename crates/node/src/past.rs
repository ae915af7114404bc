//! Reads applied versions and log lines: unflushed ones from memory, the rest from the store. Versions and lines of
//! the log come out; a line that both places hold comes out once. What cannot be read was damaged after it was
//! written, and stops the process.

use crate::overlay::Overlay;
use base::{Revision, Table, View};
use bytes::Bytes;
use coord::rows::{self, Corrupt, Logged};
use coord::watch::Past;
use coord::{Record, Records};
use std::ops::Bound::{Excluded, Included};

pub(crate) struct Layered<'a> {
    pub overlay: &'a Overlay,
    pub view: &'a dyn View,
}

impl Records for Layered<'_> {
    fn record(&self, key: &[u8], revision: Revision) -> Option<Record> {
        let stored =
            || rows::read_record(self.view, key, revision).unwrap_or_else(|corrupt| panic!("{corrupt}"));
        self.overlay.find(key, revision).or_else(stored)
    }
}

impl Past for Layered<'_> {
    fn log(&self, from: Revision, upto: Revision, visit: &mut dyn FnMut(Revision, Logged)) {
        let in_memory = self.overlay.first_revision().unwrap_or(upto.next());
        if from < in_memory {
            let stored_upto = Revision(upto.0.min(in_memory.0 - 1));
            visit_stored(self.view, from, stored_upto, visit).unwrap_or_else(|corrupt| panic!("{corrupt}"));
        }
        self.overlay.log(from, upto, visit);
    }
}

fn visit_stored(
    view: &dyn View,
    from: Revision,
    upto: Revision,
    visit: &mut dyn FnMut(Revision, Logged),
) -> Result<(), Corrupt> {
    let (mut first, mut end) = (Vec::new(), Vec::new());
    rows::log_key(from, 0, &mut first);
    rows::log_key(upto.next(), 0, &mut end);
    let mut outcome = Ok(());
    view.scan(Table::Log, Included(&first), Excluded(&end), &mut |key, value| {
        let place = rows::parse_log_key(key);
        match place.zip(Logged::from_row(Bytes::copy_from_slice(value))) {
            Some(((revision, _), logged)) => visit(revision, logged),
            None => outcome = Err(Corrupt::malformed(Table::Log, key)),
        }
        outcome.is_ok()
    });
    outcome
}
