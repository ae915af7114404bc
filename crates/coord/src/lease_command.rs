//! The commands that grant, end and checkpoint leases: their bytes, and what they do to a draft. The state machine
//! counts no time: a client or the leader says that a lease ends. What the leader says is believed only in the term
//! in which it said so, because in the next term another leader may have renewed the lease.

use crate::change::ChangeKind;
use crate::draft::{Draft, Effect};
use crate::leases::Lease;
use crate::lock_queue;
use crate::mutant::Mutant;
use crate::reply::Body;
use base::codec::{Reader, put_signed, put_varint};
use base::limits::{LEASE_CHECKPOINTS_MAX, LEASE_TTL_SECONDS_MAX};
use base::mutant::planted;
use base::{Code, Index, LeaseId, Position, Revision, Term};
use bytes::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The proposer has chosen one if the client did not; zero only in a command that may be repeated, for which
    /// the state machine chooses.
    pub id: LeaseId,
    /// In seconds; the proposer has raised it to the least that is granted.
    pub ttl: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoke {
    pub id: LeaseId,
    /// `None` for a client's.
    pub guard: Option<Guard>,
}

/// What must hold for the revoke of an expired lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The term of the leader that counted the time.
    pub term: Term,
    /// When the lease that it counted was granted.
    pub granted: Index,
}

/// So many seconds are left of a lease; zero means all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub id: LeaseId,
    /// When the lease that is meant was granted.
    pub granted: Index,
    pub remaining: i64,
}

impl Grant {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_signed(out, self.id.0);
        put_signed(out, self.ttl);
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<Grant> {
        Some(Grant { id: LeaseId(reader.signed()?), ttl: reader.signed()? })
    }
}

impl Revoke {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_signed(out, self.id.0);
        out.push(u8::from(self.guard.is_some()));
        if let Some(guard) = self.guard {
            put_varint(out, guard.term.0);
            put_varint(out, guard.granted.0);
        }
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<Revoke> {
        let id = LeaseId(reader.signed()?);
        let guard = if reader.bool()? {
            Some(Guard { term: Term(reader.varint()?), granted: Index(reader.varint()?) })
        } else {
            None
        };
        Some(Revoke { id, guard })
    }
}

impl Checkpoint {
    pub(crate) fn encode_list(checkpoints: &[Checkpoint], out: &mut Vec<u8>) {
        put_varint(out, checkpoints.len() as u64);
        for checkpoint in checkpoints {
            put_signed(out, checkpoint.id.0);
            put_varint(out, checkpoint.granted.0);
            put_signed(out, checkpoint.remaining);
        }
    }

    pub(crate) fn decode_list(reader: &mut Reader) -> Option<Vec<Checkpoint>> {
        let count = reader.count()?;
        if count > LEASE_CHECKPOINTS_MAX {
            return None;
        }
        let mut checkpoints = Vec::new();
        for _ in 0..count {
            let id = LeaseId(reader.signed()?);
            let granted = Index(reader.varint()?);
            checkpoints.push(Checkpoint { id, granted, remaining: reader.signed()? });
        }
        Some(checkpoints)
    }
}

pub(crate) fn run_grant(draft: &mut Draft<'_>, grant: Grant) -> Result<Body, Code> {
    let Grant { id, ttl } = grant;
    if id == LeaseId::NONE {
        return Err(Code::LeaseNotFound);
    }
    if !(1..=LEASE_TTL_SECONDS_MAX).contains(&ttl) {
        return Err(Code::LeaseTtlTooLarge);
    }
    if draft.leases().get(id).is_some() {
        return Err(Code::LeaseExists);
    }
    draft.add_effect(Effect::Grant { id, ttl });
    Ok(Body::LeaseGranted { id, ttl })
}

/// The keys go in their order and in one revision.
pub(crate) fn run_revoke(draft: &mut Draft<'_>, at: Position, revoke: Revoke) -> Result<Body, Code> {
    let lease = draft.leases().get(revoke.id).ok_or(Code::LeaseNotFound)?;
    let current = Guard { term: at.term, granted: lease.granted };
    if revoke.guard.is_some_and(|guard| guard != current) && !planted(Mutant::RevokeWithoutGuard) {
        return Err(Code::LeaseNotFound);
    }
    for key in lease.keys() {
        if planted(Mutant::EndedLeaseLeavesKeys) || outlives_its_lease(draft, key) {
            continue;
        }
        let modified = draft.current(key).map_or(Revision::ZERO, |current| current.modified);
        draft.change(Bytes::copy_from_slice(key), modified, ChangeKind::Delete)?;
    }
    draft.add_effect(Effect::Revoke(revoke.id));
    Ok(Body::LeaseRevoked)
}

/// The planted bug of a lock whose waiters stay in the queue when their lease ends.
fn outlives_its_lease(draft: &Draft<'_>, key: &[u8]) -> bool {
    if !planted(Mutant::DeadWaiterGranted) || draft.locks().claim(key).is_none() {
        return false;
    }
    let key = Bytes::copy_from_slice(key);
    let token = draft.current(&key).map_or(Revision::ZERO, |current| current.create);
    lock_queue::lock_of(&key).is_some_and(|name| lock_queue::queue_position(draft, &name, token).ahead > 0)
}

/// A lease that has ended meanwhile has nothing left to record.
pub(crate) fn run_checkpoints(draft: &mut Draft<'_>, checkpoints: &[Checkpoint]) -> Body {
    for Checkpoint { id, granted, remaining } in checkpoints {
        let fits = |lease: &Lease| lease.granted == *granted && (0..=lease.ttl).contains(remaining);
        if draft.leases().get(*id).is_some_and(fits) {
            draft.add_effect(Effect::Checkpoint { id: *id, remaining: *remaining });
        }
    }
    Body::LeaseCheckpointed
}
