//! Progress: how far a stream or a quiet watch is, said in the same order as the events, so that no event of
//! that revision or an earlier one comes later. On request for a whole stream, if all its watches have been
//! sent everything; in rounds for single watches that asked for it.

use super::hub::Hub;
use super::stream::Watch;
use super::{Response, ResponseKind, StreamId, WatchId};
use crate::mutant::Mutant;
use base::Instant;
use base::mutant::planted;

impl Hub {
    /// Says nothing unless it is true of every watch of the stream.
    pub(super) fn report_progress(&mut self, stream: StreamId, out: &mut Vec<Response>) {
        let Some(state) = self.streams.get(&stream) else { return };
        let ahead = |watch: &Watch| planted(Mutant::WatchProgressAhead) && self.current >= watch.start;
        let synced = state.watches.values().all(|watch| watch.is_synced(self.current) || ahead(watch));
        if synced && !state.watches.is_empty() {
            self.respond(stream, WatchId::NONE, ResponseKind::Progress, out);
        }
    }

    /// The stream has a watch that wants progress notifications.
    pub(super) fn plan_progress(&mut self, stream: StreamId, now: Instant) {
        let due = now.after(self.params.progress_interval);
        let state = self.streams.get_mut(&stream).expect("a watch has a stream");
        if state.progress_due.is_none() {
            state.progress_due = Some(due);
            self.progress_due.insert((due, stream));
        }
    }

    pub(super) fn progress_round(&mut self, now: Instant, out: &mut Vec<Response>) {
        while let Some((due, stream)) = self.progress_due.first().copied().filter(|(due, _)| *due <= now) {
            self.progress_due.remove(&(due, stream));
            self.streams.get_mut(&stream).expect("a stream that ends is no longer due").progress_due = None;
            let notified = self.progress_of(stream, out);
            if notified {
                self.plan_progress(stream, now);
            }
        }
    }

    /// False when no watch of the stream wants progress notifications any more.
    fn progress_of(&mut self, stream: StreamId, out: &mut Vec<Response>) -> bool {
        let Hub { streams, interests, current, .. } = self;
        let state = streams.get_mut(&stream).expect("a stream that is due is there");
        let mut wanting = false;
        let mut quiet = Vec::new();
        for (id, watch) in &mut state.watches {
            if !interests.get(watch.interest).shape.progress_notify {
                continue;
            }
            wanting = true;
            if std::mem::replace(&mut watch.quiet, true) && watch.is_synced(*current) {
                quiet.push(*id);
            }
        }
        for watch in quiet {
            // A watch that does not keep up gets no progress notification.
            if self.streams[&stream].credit.is_positive() {
                self.respond(stream, watch, ResponseKind::Progress, out);
            }
        }
        wanting
    }
}
