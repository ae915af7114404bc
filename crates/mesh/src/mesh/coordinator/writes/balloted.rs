//! A plain write to a key that ballots decide: the write is decided by a ballot too, because otherwise it would be lost.

use super::{Mesh, Turn, WriteOp};
use crate::frame::OpId;
use crate::mesh::{Operation, Pending};
use crate::record::Kind;
use crate::request::Reply;
use base::Code;

impl Mesh {
    /// Goes on as a change that is decided. What a last write has stored already is recognised by its dot; whether a
    /// mergeable one counts is not known any more. A write that began elsewhere may be with another replica as well, so the
    /// node where it began has it decided, if nothing is stored yet.
    pub(super) fn decide_write(&mut self, t: &mut Turn<'_>, id: OpId) {
        let Some(Pending { operation: Operation::Write(writing), deadline, .. }) =
            self.coordinator.finish(id)
        else {
            return;
        };
        let open = self.remote.shortfall(&writing);
        let WriteOp { client, write, origin, result, .. } = *writing;
        let plain = result.map(|result| result.header.dot);
        if let Some(dot) = plain {
            self.remote.awaited.remove(&dot.counter);
        }
        if plain.is_some() && (origin.is_some() || !write.kind.is_last_write_wins()) {
            return self.reply(t, client, open);
        }
        if write.kind == Kind::BoundedCounter {
            return self.reply(t, client, Reply::Refused(Code::WrongType));
        }
        if origin.is_some() {
            return self.reply(t, client, Reply::Refused(Code::KeyDecided));
        }
        self.decide_by_ballot(t, client, write, plain, deadline);
    }
}
