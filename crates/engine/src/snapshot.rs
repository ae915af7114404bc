//! Sends a snapshot: the announcement, the rows of a pinned view in chunks, the end. The view may be further along
//! than raft's announcement; the announcement that is sent has the position of the rows.

use base::{NodeId, Position};
use disk::store::chunk::Chunks;
use node::{Frame, SnapshotPart, SnapshotRequest};
use raft::Config;

pub struct SnapshotStream {
    order: SnapshotRequest,
    at: Position,
    /// The configuration by its table of members.
    config: Option<Config>,
    chunks: Chunks,
    number: u32,
    ended: bool,
}

impl SnapshotStream {
    pub(crate) fn new(
        order: SnapshotRequest,
        at: Position,
        config: Option<Config>,
        chunks: Chunks,
    ) -> SnapshotStream {
        SnapshotStream { order, at, config, chunks, number: 0, ended: false }
    }

    pub fn to(&self) -> NodeId {
        self.order.to
    }

    fn part(&mut self) -> SnapshotPart {
        if self.number == 0 {
            return SnapshotPart::Begin(
                self.order.message.clone().with_snapshot_at(self.at, self.config.as_ref()),
            );
        }
        self.chunks.next().map_or(SnapshotPart::End, SnapshotPart::Rows)
    }
}

impl Iterator for SnapshotStream {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if self.ended {
            return None;
        }
        let part = self.part();
        self.ended = part == SnapshotPart::End;
        let frame = Frame::Snapshot { id: self.order.id, number: self.number, part };
        self.number += 1;
        Some(frame)
    }
}
