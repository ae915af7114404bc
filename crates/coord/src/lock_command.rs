//! The commands of the lock machine: take or join, release, leave, and check a token. Their bytes, and what they
//! do to a draft.
//! The queue is the keys below the lock's name, so each command reads them, changes at most one of them, and says
//! how things stand. A token is the revision at which the place in the queue was created: it rises from holder to
//! holder and stays the same while the lock is held.

use crate::change::ChangeKind;
use crate::draft::{Draft, Effect};
use crate::lock_queue;
use crate::locks::{ClaimCalls, Fence, LockClaim};
use crate::mutant::Mutant;
use crate::reply::{Body, FenceRefusal, LockReply};
use crate::request::{Put, Request};
use crate::txn;
use base::codec::{Reader, put_bytes, put_signed, put_varint};
use base::mutant::planted;
use base::{Code, LeaseId, Revision};
use bytes::Bytes;

/// Take the lock, or stand in its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    pub name: Bytes,
    pub lease: LeaseId,
    /// The value of the key: a lock's metadata, a candidate's value.
    pub value: Bytes,
    /// The name that the client has given itself.
    pub holder: Bytes,
    /// The proposer's clock, in milliseconds.
    pub since: i64,
    /// The number of the call; no other call has it.
    pub call: u64,
    /// Do not join the queue if another client holds the lock.
    pub is_try: bool,
    /// A place that is there already gets this value, as etcd's elections do.
    pub replaces_value: bool,
}

/// Give the lock back. Refused unless the place holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub key: Bytes,
    /// Zero when the caller does not know it.
    pub token: Revision,
}

/// A call does not wait any longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    pub key: Bytes,
    pub call: u64,
    /// The caller keeps the lock if it holds it by now.
    pub keeps_held: bool,
}

/// The condition that a write may carry: this token holds this lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencingToken {
    pub lock: Bytes,
    pub token: Revision,
}

/// A put, delete or transaction that happens only while its fence holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    pub fence: FencingToken,
    pub request: Request,
}

/// Check a token for a resource that is kept elsewhere, and remember it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFence {
    pub resource: Bytes,
    pub fence: FencingToken,
}

mod flag {
    pub const TRY: u8 = 1;
    pub const REPLACES_VALUE: u8 = 2;
    pub const ALL: u8 = 3;
}

impl Acquire {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out.push(flag(self.is_try, flag::TRY) | flag(self.replaces_value, flag::REPLACES_VALUE));
        put_bytes(out, &self.name);
        put_signed(out, self.lease.0);
        put_bytes(out, &self.value);
        put_bytes(out, &self.holder);
        put_signed(out, self.since);
        put_varint(out, self.call);
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<Acquire> {
        let flags = reader.u8()?;
        if flags & !flag::ALL != 0 {
            return None;
        }
        Some(Acquire {
            name: reader.bytes()?,
            lease: LeaseId(reader.signed()?),
            value: reader.bytes()?,
            holder: reader.bytes()?,
            since: reader.signed()?,
            call: reader.varint()?,
            is_try: flags & flag::TRY != 0,
            replaces_value: flags & flag::REPLACES_VALUE != 0,
        })
    }
}

impl Release {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.key);
        put_signed(out, self.token.0);
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<Release> {
        Some(Release { key: reader.bytes()?, token: Revision(reader.signed()?) })
    }
}

impl Leave {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.keeps_held));
        put_bytes(out, &self.key);
        put_varint(out, self.call);
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<Leave> {
        let keeps_held = reader.bool()?;
        Some(Leave { key: reader.bytes()?, call: reader.varint()?, keeps_held })
    }
}

impl FencingToken {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.lock);
        put_signed(out, self.token.0);
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<FencingToken> {
        Some(FencingToken { lock: reader.bytes()?, token: Revision(reader.signed()?) })
    }
}

impl CheckFence {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.resource);
        self.fence.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<CheckFence> {
        Some(CheckFence { resource: reader.bytes()?, fence: FencingToken::decode(reader)? })
    }
}

/// One lease has one place: asking again finds it, with the token that it has.
pub(crate) fn run_acquire(draft: &mut Draft<'_>, acquire: &Acquire) -> Result<Body, Code> {
    draft.leases().get(acquire.lease).ok_or(Code::LeaseNotFound)?;
    let key = lock_queue::key_of(&acquire.name, acquire.lease);
    let place = draft.current(&key);
    let token = place.map_or(draft.next_revision(), |place| place.create);
    let queue_position = lock_queue::queue_position(draft, &acquire.name, token);
    let acquired = queue_position.ahead == 0 || planted(Mutant::DoubleGrant) && queue_position.ahead == 1;
    let reply = LockReply {
        key: key.clone(),
        token,
        acquired,
        ahead: queue_position.ahead,
        holder: queue_position.holder,
    };
    if acquire.is_try && !acquired {
        let token = place.map_or(Revision::ZERO, |place| place.create);
        return Ok(Body::Lock(LockReply { token, ..reply }));
    }
    let keeps_value =
        |modified| !acquire.replaces_value || draft.record(&key, modified).value == acquire.value;
    if !place.is_some_and(|place| keeps_value(place.modified)) {
        let lease = Some(acquire.lease);
        let put = Put { key: key.clone(), value: Some(acquire.value.clone()), lease, prev_kv: false };
        txn::run_put(draft, &put)?;
    }
    join(draft, acquire, key, place.is_none(), acquired);
    Ok(Body::Lock(reply))
}

/// A place made by a plain put belongs to no call.
fn join(draft: &mut Draft<'_>, acquire: &Acquire, key: Bytes, is_new: bool, is_held: bool) {
    let claim = match draft.locks().claim(&key) {
        Some(claim) if !is_new => {
            let mut claim = claim.clone();
            claim.calls.join(acquire.call, is_held);
            claim
        }
        _ if !is_new => return,
        _ => LockClaim {
            holder: acquire.holder.clone(),
            since: acquire.since,
            calls: ClaimCalls::Few(vec![acquire.call]),
        },
    };
    draft.add_effect(Effect::Claim { key, claim });
}

pub(crate) fn run_release(draft: &mut Draft<'_>, release: &Release) -> Result<Body, Code> {
    let Release { key, token } = release;
    let place = draft.current(key).ok_or(Code::NotLockHolder)?;
    let is_meant = *token == Revision::ZERO || place.create == *token;
    if !is_meant || !is_holding(draft, key, place.create) {
        return Err(Code::NotLockHolder);
    }
    draft.change(key.clone(), place.modified, ChangeKind::Delete)?;
    Ok(Body::Unlocked)
}

fn is_holding(draft: &Draft<'_>, key: &Bytes, token: Revision) -> bool {
    lock_queue::lock_of(key).is_some_and(|name| lock_queue::queue_position(draft, &name, token).ahead == 0)
}

/// A call that has left before, or never joined, leaves nothing behind.
pub(crate) fn run_leave(draft: &mut Draft<'_>, leave: &Leave) -> Result<Body, Code> {
    let Leave { key, call, keeps_held } = leave;
    let gone = Body::Left { holding: None };
    let claim = draft.locks().claim(key).filter(|claim| claim.calls.has(*call));
    let (Some(claim), Some(place)) = (claim, draft.current(key)) else { return Ok(gone) };
    if planted(Mutant::CancelledWaiterStays) {
        return Ok(gone);
    }
    if *keeps_held && is_holding(draft, key, place.create) {
        return Ok(Body::Left { holding: Some(place.create) });
    }
    let mut claim = claim.clone();
    if claim.calls.leave(*call) {
        draft.change(key.clone(), place.modified, ChangeKind::Delete)?
    } else {
        draft.add_effect(Effect::Claim { key: key.clone(), claim })
    }
    Ok(gone)
}

/// `None` if the fence holds.
pub(crate) fn fence_refusal(draft: &Draft<'_>, fence: &FencingToken) -> Option<Body> {
    let last = lock_queue::holding_token(draft, &fence.lock);
    if last == fence.token && last != Revision::ZERO || planted(Mutant::StaleFenceAccepted) {
        return None;
    }
    Some(Body::Fenced(FenceRefusal { lock: fence.lock.clone(), given: fence.token, last }))
}

/// The same token again is the next write of the holder, or a retry of its last. A token that no lock can have yet
/// would lock out all holders for ever.
pub(crate) fn run_check(draft: &mut Draft<'_>, check: &CheckFence) -> Result<Body, Code> {
    let FencingToken { lock, token } = check.fence.clone();
    if token <= Revision::ZERO || token > draft.revisions().current {
        return Err(Code::UnknownToken);
    }
    let last = draft.locks().fence(&check.resource).map_or(Revision::ZERO, |fence| fence.token);
    if token < last && !planted(Mutant::StaleFenceAccepted) {
        return Ok(Body::Fenced(FenceRefusal { lock, given: token, last }));
    }
    if token != last {
        draft.add_effect(Effect::Fence { resource: check.resource.clone(), fence: Fence { lock, token } });
    }
    Ok(Body::FencePassed { last: token })
}
