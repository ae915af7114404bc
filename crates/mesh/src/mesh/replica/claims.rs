//! Checks what clients and peers claim to have seen.
//! A client returns a context as it received it, so some replica of the key knows every dot in it; a context with other dots
//! is forged, foreign, or older than anything that replicas remember. A node knows its own counter, so a peer that claims
//! more of it lies. Such a claim, once in a record, would cover writes that do not exist yet.

use crate::context::Context;
use crate::mesh::replica::Replica;
use crate::mesh::{MeshEvent, Turn};
use crate::mutant::Mutant;
use crate::record::Record;
use crate::request::Write;
use base::Code;
use base::mutant::planted;

impl Replica {
    /// Why a write cannot be carried out, if it claims to have seen what is not here. One that was carried out before is told
    /// what came of it.
    pub(in crate::mesh) fn unknown_claim(&self, t: &Turn<'_>, write: &Write) -> Option<Code> {
        claims_of(write).next()?;
        let known = self.load(t, &write.key).record;
        let request = write.attributes.request;
        if known.as_ref().zip(request).is_some_and(|(record, request)| record.has_taken(request)) {
            return None;
        }
        self.unknown_in(known.as_ref(), write)
    }

    /// The same, judged by this record instead of the stored one.
    pub(in crate::mesh) fn unknown_in(&self, known: Option<&Record>, write: &Write) -> Option<Code> {
        if planted(Mutant::ForgedContextJoined) {
            return None;
        }
        let nothing = Context::default();
        let known = known.map_or(&nothing, |record| &record.context);
        let mut unknown = claims_of(write).flat_map(|claim| claim.beyond(known)).peekable();
        unknown.peek()?;
        // What another region has written may be on its way.
        let here = self.actor.region;
        let all_remote = unknown.all(|actor| actor.region != here);
        Some(if all_remote { Code::NotSeenHere } else { Code::UnknownContext })
    }

    /// Leaves out of a record what it claims of this node's own counting and was never counted.
    pub(in crate::mesh) fn clip_claims(&self, record: &mut Record) -> bool {
        // A node that counts from the beginning again does not know what it has counted.
        let blind = planted(Mutant::ForgedContextJoined) || planted(Mutant::DotsReused);
        !blind && record.context.clip(self.actor, self.dots.last())
    }

    /// The same for a record that others hold as well, if there is something to leave out.
    pub(in crate::mesh) fn clipped(&self, record: &Record) -> Option<Record> {
        if record.context.newest(self.actor) <= self.dots.last() {
            return None;
        }
        let mut record = record.clone();
        self.clip_claims(&mut record).then_some(record)
    }

    /// The same for a peer's record; the peer is reported.
    pub(in crate::mesh) fn clip_incoming(&self, t: &mut Turn<'_>, record: &Record) -> Option<Record> {
        let clipped = self.clipped(record)?;
        t.out.events.push(MeshEvent::ForgedClaim { actor: clipped.header.dot.actor });
        Some(clipped)
    }
}

/// What a write says that its client has seen.
fn claims_of(write: &Write) -> impl Iterator<Item = &Context> {
    let claims = [write.attributes.context.as_ref(), write.expect.as_ref()];
    claims.into_iter().flatten().filter(|claim| !claim.is_empty())
}
