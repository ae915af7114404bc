//! Keys: requests that `coord::request` has validated go in, and the reply of their kind comes out. A request is submitted
//! and waited for, or submitted with an inbox that gets the reply together with others.

use crate::handle::Handle;
use crate::pieces::{HoldKind, KeyEncoder, RangePieces};
use crate::reply_inbox::ReplyInbox;
use crate::waiters::ReplyRoute;
use base::Code;
use base::limits::LEASE_TTL_SECONDS_MAX;
use coord::call::{Call, FenceOutcome, RepeatOutcome, ReplyBody};
use coord::reply::Reply;
use coord::request::{Range, Request};
use coord::{Command, Compact, Fenced, FencingToken, Grant, IdempotentCommand, RequestId};
use node::ClientWork;
use std::sync::Arc;

/// The outcome of a request that was submitted with an inbox.
#[derive(Debug)]
pub struct InboxReply {
    /// The number that it was submitted under.
    pub ticket: u64,
    pub outcome: Result<Reply, Code>,
}

#[derive(Clone, Copy)]
pub struct KvHandle<'a> {
    pub(crate) handle: &'a Handle,
}

impl KvHandle<'_> {
    /// Submits a request and waits for its reply. A caller that stops waiting does not take the request back.
    pub async fn submit<C: Call>(self, call: C) -> Result<Reply<C::Reply>, Code> {
        let request = call.into_request();
        if !request.is_read_only() {
            return self.handle.propose_and_wait(&command_of(request)).await;
        }
        let read = |handle: Handle| {
            let work = ClientWork::Read(request.clone(), handle.caller().clone());
            async move { handle.wait_for(work).await }
        };
        self.handle.auth().admitted(read).await.map(Reply::narrowed)
    }

    /// The same without waiting: the reply goes to `inbox` under this ticket, unless the request is refused
    /// here and now.
    pub fn submit_to(
        self,
        request: Request,
        inbox: &Arc<ReplyInbox<InboxReply>>,
        ticket: u64,
    ) -> Result<(), Code> {
        let handle = self.handle;
        if handle.is_draining() {
            return Err(Code::Stopped);
        }
        let work = if request.is_read_only() {
            ClientWork::Read(request, handle.caller().clone())
        } else {
            handle.propose(&command_of(request))?
        };
        handle.post(handle.usual_deadline(), work, || ReplyRoute::inbox(inbox.clone(), ticket))
    }

    /// Submits a write that happens only while its fence holds.
    pub async fn submit_fenced<C: Call>(
        self,
        fence: FencingToken,
        call: C,
    ) -> Result<Reply<FenceOutcome<C::Reply>>, Code> {
        let fenced = Fenced { fence, request: call.into_request() };
        self.handle.propose_and_wait(&Command::Fenced(fenced)).await
    }

    /// Submits a client's command that may be sent again under the same id, here or elsewhere: it is executed
    /// once, and a repetition gets the reply of the first time. `T` is the reply to the command.
    pub async fn submit_once<T: ReplyBody>(
        self,
        id: RequestId,
        command: Command,
    ) -> Result<Reply<RepeatOutcome<T>>, Code> {
        let command = match command {
            Command::LeaseGrant(Grant { ttl, .. }) if ttl > LEASE_TTL_SECONDS_MAX => {
                return Err(Code::LeaseTtlTooLarge);
            }
            Command::LeaseGrant(Grant { id, ttl }) => {
                Command::LeaseGrant(Grant { id, ttl: ttl.max(self.handle.shared.params.lease_ttl_min) })
            }
            command => command,
        };
        let once = IdempotentCommand::new(id, command).ok_or(Code::RequestIdMalformed)?;
        self.handle.propose_and_wait(&Command::Idempotent(once)).await
    }

    /// Reads a large range in pieces, at its revision.
    pub async fn pieces(
        self,
        range: Range,
        keep: HoldKind,
        encode: Arc<dyn KeyEncoder>,
    ) -> Result<RangePieces, Code> {
        RangePieces::begin(&self.handle.shared.core, range, keep, encode).await
    }

    pub async fn compact(self, compact: Compact) -> Result<Reply<()>, Code> {
        self.handle.propose_and_wait(&Command::Compact(compact)).await
    }
}

fn command_of(request: Request) -> Command {
    Command::from_request(request).expect("a request that is no read is a command")
}
