//! Requests that their clients may repeat: a command with an identity of the client's own choosing. The session is a
//! lease, the number counts the session's requests; however often the same request is sent, and through whichever
//! member, it is applied once and every answer is the first one. This is another level than the identity of
//! proposals: which ends with a member's boot and is never visible to clients.

use crate::command::Command;
use crate::draft::Draft;
use crate::lease_command::{self, Grant, Revoke};
use crate::reply::Body;
use crate::txn;
use base::checksum::hash64;
use base::codec::{Reader, put_bytes, put_signed, put_varint};
use base::rng::mix;
use base::{Code, LeaseId, Position};
use bytes::Bytes;

/// Names one request of one client, for as long as the session's lease lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    pub session: LeaseId,
    pub seq: u64,
    /// The client has the answers to everything below, and will not ask for them again. Not above `seq`.
    pub low: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotentCommand {
    pub id: RequestId,
    command: Box<Command>,
    /// The hash of the command's bytes: tells a repetition from another request under the same id.
    fingerprint: u64,
}

impl IdempotentCommand {
    /// `None` for a command that no client sends.
    pub fn new(id: RequestId, command: Command) -> Option<IdempotentCommand> {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        IdempotentCommand::of(id, command, &bytes)
    }

    fn of(id: RequestId, command: Command, bytes: &[u8]) -> Option<IdempotentCommand> {
        let is_valid = is_for_clients(&command) && id.low <= id.seq;
        is_valid.then(|| IdempotentCommand { id, fingerprint: hash64(bytes, 0), command: Box::new(command) })
    }

    pub fn command(&self) -> &Command {
        &self.command
    }

    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_signed(out, self.id.session.0);
        put_varint(out, self.id.seq);
        // Lies close below: the difference is short.
        put_varint(out, self.id.seq - self.id.low);
        let mut command = Vec::new();
        self.command.encode(&mut command);
        put_bytes(out, &command);
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<IdempotentCommand> {
        let session = LeaseId(reader.signed()?);
        let seq = reader.varint()?;
        let low = seq.checked_sub(reader.varint()?)?;
        let bytes: Bytes = reader.bytes()?;
        IdempotentCommand::of(RequestId { session, seq, low }, Command::decode_plain(bytes.clone())?, &bytes)
    }
}

fn is_for_clients(command: &Command) -> bool {
    matches!(
        command,
        Command::Put(_)
            | Command::Delete(_)
            | Command::Txn(_)
            | Command::Fenced(_)
            | Command::LeaseGrant(_)
            | Command::LeaseRevoke(Revoke { guard: None, .. })
    )
}

/// A lease whose id the client leaves open gets it here: members would choose a new one for every repetition.
pub(crate) fn run(draft: &mut Draft<'_>, at: Position, once: &IdempotentCommand) -> Result<Body, Code> {
    match once.command() {
        Command::LeaseGrant(Grant { id: LeaseId::NONE, ttl }) => {
            let id = free_lease(draft, at, once.id);
            lease_command::run_grant(draft, Grant { id, ttl: *ttl })
        }
        command => txn::run_command(draft, at, command),
    }
}

fn free_lease(draft: &Draft<'_>, at: Position, request: RequestId) -> LeaseId {
    let mut number = mix(at.index.0 ^ mix(request.seq ^ mix(request.session.0 as u64)));
    loop {
        let id = LeaseId((number as i64 & i64::MAX).max(1));
        if draft.leases().get(id).is_none() {
            return id;
        }
        number = mix(number);
    }
}
