//! History: the rows that remain of compacted changes, and the time of day of revisions. The leader proposes the time
//! now and then while something changes. While there is no space, nothing is kept.

use super::{Apply, ApplyOutput};
use base::Instant;
use coord::{Command, HistoryWindow};
use std::time::Duration;

/// Between two time marks: the resolution of the time of a revision.
const MARK_INTERVAL: Duration = Duration::from_secs(1);

impl Apply {
    pub(super) fn window(&self) -> HistoryWindow {
        if self.has_no_space() { HistoryWindow::NONE } else { self.params.history }
    }

    pub(super) fn mark_time(&mut self, now: Instant, millis: i64, out: &mut ApplyOutput) {
        self.state.note_compaction_time(millis);
        if !self.leader.is_leading() {
            return;
        }
        let recent = self.leader.marked.is_some_and(|at| now.since(at) < MARK_INTERVAL);
        if recent || self.params.history.is_none() || !self.state.needs_time_mark() {
            return;
        }
        self.leader.marked = Some(now);
        self.leader.propose([Command::TimeMark { millis }], out);
    }

    /// Rows without values that are kept of the past.
    pub fn history_rows(&self) -> u64 {
        self.state.history_rows()
    }

    /// What may be stored, by the rows of changes; zero sets no bound.
    pub fn quota_bytes(&self) -> u64 {
        self.state.quota().unwrap_or(self.params.quota_bytes)
    }
}
