//! The way of a request to the consensus thread and of its reply back: encoded on the caller's thread, refused if it would
//! not fit, posted with a deadline. The other parts of the handle use it.

use crate::consensus::ConsensusMessage;
use crate::core::{Help, proposed_bytes};
use crate::handle::Handle;
use crate::waiters::{Priority, ReplyRoute};
use base::{Code, Instant};
use coord::call::ReplyBody;
use coord::reply::Reply;
use coord::{Caller, Command};
use node::ClientWork;
use tokio::sync::oneshot;

/// Most commands fit without their buffer growing.
const COMMAND_BYTES_USUAL: usize = 256;

impl Handle {
    /// Proposes a command for this handle's caller, who is admitted again if need be, and waits for its reply.
    pub(crate) async fn propose_and_wait<T: ReplyBody>(&self, command: &Command) -> Result<Reply<T>, Code> {
        self.auth().refuse_unauthenticated(command).await?;
        let reply = self
            .auth()
            .admitted(|handle| async move { handle.wait_for(handle.propose(command)?).await })
            .await?;
        Ok(reply.narrowed())
    }

    /// A request that the quota would refuse is not put into the log.
    pub(crate) fn propose(&self, command: &Command) -> Result<ClientWork, Code> {
        self.formats().require(command.level_needed())?;
        let mut bytes = Vec::with_capacity(COMMAND_BYTES_USUAL);
        command.encode_for(self.caller(), &mut bytes);
        if command.grows() && self.core().has_no_space_for(bytes.len()) {
            return Err(Code::NoSpace);
        }
        if bytes.len() <= self.shared.params.request_bytes_max {
            Ok(ClientWork::Propose(bytes.into()))
        } else {
            Err(Code::RequestTooLarge)
        }
    }

    pub(crate) async fn wait_for(&self, work: ClientWork) -> Result<Reply, Code> {
        if self.is_draining() {
            return Err(Code::Stopped);
        }
        self.wait_until(self.usual_deadline(), work).await
    }

    /// Waits for a reply, which comes by the deadline if not before. A caller that stops waiting does not take the
    /// request back.
    pub(crate) async fn wait_until(&self, deadline: Instant, work: ClientWork) -> Result<Reply, Code> {
        let (sender, answer) = oneshot::channel();
        self.post(deadline, work, || ReplyRoute::Oneshot(sender))?;
        // The sender is dropped when the member has stopped.
        answer.await.unwrap_or(Err(Code::Stopped))
    }

    /// The same for a thread of the peer port.
    pub(crate) fn wait_blocking(&self, work: ClientWork) -> Result<Reply, Code> {
        let (sender, answer) = oneshot::channel();
        self.post(self.usual_deadline(), work, || ReplyRoute::Oneshot(sender))?;
        answer.blocking_recv().unwrap_or(Err(Code::Stopped))
    }

    pub(crate) fn propose_blocking(&self, command: &Command) -> Result<Reply, Code> {
        self.wait_blocking(self.propose(command)?)
    }

    pub(crate) fn usual_deadline(&self) -> Instant {
        self.core().clock.now().after(self.request_timeout())
    }

    /// Posts work to the consensus thread. From then on the caller is answered in any case.
    pub(super) fn post(
        &self,
        deadline: Instant,
        work: ClientWork,
        caller: impl FnOnce() -> ReplyRoute,
    ) -> Result<(), Code> {
        let core = self.core();
        let bytes = proposed_bytes(&work);
        if !core.waiters.admit(bytes, self.priority_of(&work)) {
            return Err(Code::TooManyRequests);
        }
        let message =
            ConsensusMessage::Request { deadline, posted: core.clock.now(), work, caller: caller() };
        // A member that stops drops the request, which tells its caller.
        if !core.post_and_help(message, Help::UnderLightLoad) {
            core.waiters.dismiss(1, bytes);
        }
        Ok(())
    }

    fn priority_of(&self, work: &ClientWork) -> Priority {
        let is_urgent =
            matches!(self.caller(), Caller::Member) || matches!(work, ClientWork::LeaderQuestion(_));
        if is_urgent { Priority::Urgent } else { Priority::Ordinary }
    }
}
