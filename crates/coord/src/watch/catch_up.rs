//! Watches that are behind read what they missed from the log, a bounded piece in each turn. One reading of the log
//! serves every watch that needs something from it. A response ends at the end of a revision, and a watch that has
//! come to the end of the log is live: `assign_state` checks that no revision lies between.

use super::event::{Batch, BatchBuilder, Event, EventSource, PreviousVersions};
use super::hub::{Hub, HubContext};
use super::interest::{InterestId, WatchShape};
use super::{Response, StreamId, WatchId};
use crate::mutant::Mutant;
use crate::rows::LoggedChange;
use base::Revision;
use base::mutant::planted;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Watches that are sent something in one turn.
const WATCHES_PER_TURN: usize = 1_024;

/// A piece of the log.
struct LogPiece {
    lines: Vec<(Revision, LoggedChange)>,
    upto: Revision,
}

/// The part of a piece that one interest gets, from some revision on; the same for all its watches there.
#[derive(Clone)]
struct InterestShare {
    /// Nothing, if the piece holds no event for it.
    parts: Vec<Arc<Batch>>,
    next: Revision,
}

impl Hub {
    pub(super) fn catch_up(&mut self, now: &HubContext<'_>, out: &mut Vec<Response>) {
        let Some((from, _, _)) = self.ready.first().copied() else { return };
        let piece = self.read_piece(now, from);
        let within = |it: &&(Revision, StreamId, WatchId)| it.0 <= piece.upto;
        let chosen: Vec<_> = self.ready.iter().take_while(within).take(WATCHES_PER_TURN).copied().collect();
        let mut shares = BTreeMap::new();
        for (next, stream, watch) in chosen {
            self.advance(now, &piece, (next, stream, watch), &mut shares, out);
        }
    }

    fn read_piece(&self, now: &HubContext<'_>, from: Revision) -> LogPiece {
        let furthest = from.0.saturating_add(self.params.batch_revisions as i64 - 1);
        let upto = Revision(furthest.min(self.current.0));
        let mut lines = Vec::new();
        now.change_log.log(from, upto, &mut |revision, logged| lines.push((revision, logged)));
        LogPiece { lines, upto }
    }

    fn advance(
        &mut self,
        now: &HubContext<'_>,
        piece: &LogPiece,
        (next, stream, watch): (Revision, StreamId, WatchId),
        shares: &mut BTreeMap<(InterestId, Revision), InterestShare>,
        out: &mut Vec<Response>,
    ) {
        let state = &self.streams[&stream];
        if !state.credit.is_positive() {
            return;
        }
        let interest = state.watches[&watch].interest;
        let share = shares.entry((interest, next)).or_insert_with(|| {
            let shape = &self.interests.get(interest).shape;
            let (gathered, after) = self.share_of(now, piece, shape, next);
            let parts = gathered.map_or(Vec::new(), |batch| self.params.parts(shape, batch));
            InterestShare { parts, next: after }
        });
        let share = share.clone();
        if !share.parts.is_empty() {
            let sent = self.send_events(stream, watch, &share.parts, self.current, out);
            assert!(sent, "the stream has credit");
            self.note_events(stream, watch);
        }
        let gap = planted(Mutant::WatchHistoryGap);
        self.assign_state(stream, watch, if gap { self.current.next() } else { share.next });
    }

    /// The events of a piece from a revision on, until there are enough, and the revision after them.
    fn share_of(
        &self,
        now: &HubContext<'_>,
        piece: &LogPiece,
        shape: &WatchShape,
        from: Revision,
    ) -> (Option<Batch>, Revision) {
        let mut gathered = BatchBuilder::default();
        let begin = piece.lines.partition_point(|(revision, _)| *revision < from);
        let mut next = piece.upto.next();
        for (revision, logged) in &piece.lines[begin..] {
            if *revision >= next {
                break;
            }
            if !shape.keys.contains(&logged.key) || !shape.wants(logged.put.is_none()) {
                continue;
            }
            let previous = PreviousVersions { records: now.change_log, compacted: now.compacted };
            let line = EventSource::of_logged(logged, *revision, now.change_log);
            gathered.add(Event::new(line, shape.prev_kv.then_some(previous)));
            if gathered.bytes() >= self.params.batch_bytes {
                // The rest of this revision still belongs to it.
                next = revision.next();
            }
        }
        ((!gathered.is_empty()).then(|| gathered.take()), next)
    }
}
