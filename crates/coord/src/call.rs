//! Which kind of reply each request has. A request goes in and names the type of its reply; the body that the state
//! machine gave comes out as that type. Callers match no other kinds: the pairs are listed here alone.

use crate::Alarm;
use crate::auth::{AuthCommand, AuthReply, DataPermission, Permission};
use crate::reply::{
    Body, DeleteReply, EndingLease, FenceRefusal, LeaseRenewal, LeaseTime, PutReply, RangeReply, Reply,
    TxnReply,
};
use crate::request::{Delete, Put, Range, Request, Txn};
use base::{LeaseId, Revision};
use std::marker::PhantomData;

/// The body of a reply as the caller of one kind of request gets it.
pub trait ReplyBody: Sized {
    /// `None` for a body that answers another kind of request.
    fn narrow(body: Body) -> Option<Self>;

    /// The body of the reply to a request of this kind.
    fn of(body: Body) -> Self {
        let kind = std::any::type_name::<Self>();
        Self::narrow(body).unwrap_or_else(|| panic!("a request answered by {kind} has another reply"))
    }
}

impl Reply {
    pub fn narrowed<T: ReplyBody>(self) -> Reply<T> {
        Reply { revision: self.revision, body: T::of(self.body) }
    }
}

/// A request of a client, and the kind of its reply.
pub trait Call {
    type Reply: ReplyBody;

    fn into_request(self) -> Request;
}

/// A request as the state machine takes it, with the kind of its reply: for callers that look into it first.
#[derive(Clone, Debug)]
pub struct TypedRequest<T> {
    request: Request,
    reply: PhantomData<fn() -> T>,
}

impl<T: ReplyBody> TypedRequest<T> {
    pub fn of(call: impl Call<Reply = T>) -> TypedRequest<T> {
        TypedRequest { request: call.into_request(), reply: PhantomData }
    }

    pub fn request(&self) -> &Request {
        &self.request
    }
}

impl<T: ReplyBody> Call for TypedRequest<T> {
    type Reply = T;

    fn into_request(self) -> Request {
        self.request
    }
}

/// A command about users, roles and permissions, and the kind of its reply.
pub trait AuthCall {
    type Reply: ReplyBody;

    fn into_command(self) -> AuthCommand;
}

/// A command about auth as the state machine takes it, with the kind of its reply.
#[derive(Clone, Debug)]
pub struct TypedCommand<T> {
    command: AuthCommand,
    reply: PhantomData<fn() -> T>,
}

impl<T: ReplyBody> TypedCommand<T> {
    pub fn of(call: impl AuthCall<Reply = T>) -> TypedCommand<T> {
        TypedCommand { command: call.into_command(), reply: PhantomData }
    }

    pub fn command(&self) -> &AuthCommand {
        &self.command
    }
}

impl<T: ReplyBody> AuthCall for TypedCommand<T> {
    type Reply = T;

    fn into_command(self) -> AuthCommand {
        self.command
    }
}

/// The answer to a range whose caller can read a large one in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPieces(pub Range);

/// The reply to any request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpReply {
    Range(RangeReply),
    Put(PutReply),
    Delete(DeleteReply),
    Txn(TxnReply),
}

/// The reply to any request whose caller can read a large range in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpOutcome {
    Whole(OpReply),
    /// Too large for one piece. Its revision is set.
    Large(Box<Range>),
}

/// The reply to a range that may be read in pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeOutcome {
    Whole(RangeReply),
    /// Too large for one piece. Its revision is set.
    Large(Box<Range>),
}

/// The reply to a write with a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceOutcome<T> {
    Passed(T),
    /// Nothing was done.
    Refused(FenceRefusal),
}

/// The reply to a command that may be repeated under its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepeatOutcome<T> {
    Whole(T),
    /// The command was carried out before, and nothing but the revision was kept.
    RevisionAlone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedLease {
    pub id: LeaseId,
    pub ttl: i64,
}

/// The TTL in seconds that a lease has again; zero when there is no such lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewedLease {
    pub ttl: i64,
    pub renewal: LeaseRenewal,
}

/// The highest token that the resource has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedFence(pub Revision);

/// The version that a document has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentVersion(pub u64);

/// Whether auth is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthStatusQuery;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthStatus {
    pub enabled: bool,
    pub revision: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolesOfUser(pub String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListUsers;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRoles;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionsOfRole(pub String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPermissionsOfRole(pub String);

/// The user's password was compared at this auth revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssueToken {
    pub user: String,
    pub revision: u64,
    pub secret: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthToken(pub String);

/// The names of users or of roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthNames(pub Vec<String>);

impl Call for Range {
    type Reply = RangeReply;

    fn into_request(self) -> Request {
        Request::Range(Range { in_pieces: false, ..self })
    }
}

impl Call for InPieces {
    type Reply = RangeOutcome;

    fn into_request(self) -> Request {
        Request::Range(Range { in_pieces: true, ..self.0 })
    }
}

impl Call for Put {
    type Reply = PutReply;

    fn into_request(self) -> Request {
        Request::Put(self)
    }
}

impl Call for Delete {
    type Reply = DeleteReply;

    fn into_request(self) -> Request {
        Request::Delete(self)
    }
}

impl Call for Txn {
    type Reply = TxnReply;

    fn into_request(self) -> Request {
        Request::Txn(self)
    }
}

impl AuthCall for AuthStatusQuery {
    type Reply = AuthStatus;

    fn into_command(self) -> AuthCommand {
        AuthCommand::Status
    }
}

impl AuthCall for RolesOfUser {
    type Reply = AuthNames;

    fn into_command(self) -> AuthCommand {
        AuthCommand::UserGet { user: self.0 }
    }
}

impl AuthCall for ListUsers {
    type Reply = AuthNames;

    fn into_command(self) -> AuthCommand {
        AuthCommand::UserList
    }
}

impl AuthCall for ListRoles {
    type Reply = AuthNames;

    fn into_command(self) -> AuthCommand {
        AuthCommand::RoleList
    }
}

impl AuthCall for PermissionsOfRole {
    type Reply = Vec<Permission>;

    fn into_command(self) -> AuthCommand {
        AuthCommand::RoleGet { role: self.0 }
    }
}

impl AuthCall for DataPermissionsOfRole {
    type Reply = Vec<DataPermission>;

    fn into_command(self) -> AuthCommand {
        AuthCommand::RoleData { role: self.0 }
    }
}

impl AuthCall for IssueToken {
    type Reply = AuthToken;

    fn into_command(self) -> AuthCommand {
        let IssueToken { user, revision, secret } = self;
        AuthCommand::Authenticate { user, revision, secret }
    }
}

/// A change, of which the caller wants to know only that it was made.
impl AuthCall for AuthCommand {
    type Reply = ();

    fn into_command(self) -> AuthCommand {
        self
    }
}

/// The revision is all that the caller wants to know.
impl ReplyBody for () {
    fn narrow(_: Body) -> Option<()> {
        Some(())
    }
}

impl<T: ReplyBody> ReplyBody for FenceOutcome<T> {
    fn narrow(body: Body) -> Option<FenceOutcome<T>> {
        match body {
            Body::Fenced(refusal) => Some(FenceOutcome::Refused(refusal)),
            body => T::narrow(body).map(FenceOutcome::Passed),
        }
    }
}

impl<T: ReplyBody> ReplyBody for RepeatOutcome<T> {
    fn narrow(body: Body) -> Option<RepeatOutcome<T>> {
        match body {
            Body::CarriedOut => Some(RepeatOutcome::RevisionAlone),
            body => T::narrow(body).map(RepeatOutcome::Whole),
        }
    }
}

/// Bodies of one variant.
macro_rules! narrow {
    ($($body:pat => $reply:ty, $value:expr;)*) => {
        $(impl ReplyBody for $reply {
            fn narrow(body: Body) -> Option<Self> {
                if let $body = body { Some($value) } else { None }
            }
        })*
    };
}

narrow! {
    Body::Range(reply) => RangeReply, reply;
    Body::Put(reply) => PutReply, reply;
    Body::Delete(reply) => DeleteReply, reply;
    Body::Txn(reply) => TxnReply, reply;
    Body::LeaseGranted { id, ttl } => GrantedLease, GrantedLease { id, ttl };
    Body::LeaseRenewed { ttl, renewal } => RenewedLease, RenewedLease { ttl, renewal };
    Body::LeaseTime(time) => LeaseTime, time;
    Body::Leases(ids) => Vec<LeaseId>, ids;
    Body::LeasesEnding(leases) => Vec<EndingLease>, leases;
    Body::Alarms(alarms) => Vec<Alarm>, alarms;
    Body::FencePassed { last } => PassedFence, PassedFence(last);
    Body::Document { version } => DocumentVersion, DocumentVersion(version);
    Body::Auth(AuthReply::Status { enabled, revision }) => AuthStatus, AuthStatus { enabled, revision };
    Body::Auth(AuthReply::Token(token)) => AuthToken, AuthToken(token);
    Body::Auth(AuthReply::Users(names) | AuthReply::Roles(names)) => AuthNames, AuthNames(names);
    Body::Auth(AuthReply::Permissions(list)) => Vec<Permission>, list;
    Body::Auth(AuthReply::DataPermissions(list)) => Vec<DataPermission>, list;
}

impl ReplyBody for OpReply {
    fn narrow(body: Body) -> Option<OpReply> {
        match body {
            Body::Range(reply) => Some(OpReply::Range(reply)),
            Body::Put(reply) => Some(OpReply::Put(reply)),
            Body::Delete(reply) => Some(OpReply::Delete(reply)),
            Body::Txn(reply) => Some(OpReply::Txn(reply)),
            _ => None,
        }
    }
}

impl ReplyBody for OpOutcome {
    fn narrow(body: Body) -> Option<OpOutcome> {
        match body {
            Body::Large(range) => Some(OpOutcome::Large(range)),
            body => OpReply::narrow(body).map(OpOutcome::Whole),
        }
    }
}

impl ReplyBody for RangeOutcome {
    fn narrow(body: Body) -> Option<RangeOutcome> {
        match body {
            Body::Range(reply) => Some(RangeOutcome::Whole(reply)),
            Body::Large(range) => Some(RangeOutcome::Large(range)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_becomes_the_reply_of_its_request_and_of_no_other() {
        let put = || Body::Put(PutReply::default());
        assert_eq!(PutReply::narrow(put()), Some(PutReply::default()));
        assert_eq!(RangeReply::narrow(put()), None);
        assert_eq!(OpReply::narrow(put()), Some(OpReply::Put(PutReply::default())));
        assert_eq!(OpReply::narrow(Body::Noted), None);
        assert_eq!(<()>::narrow(put()), Some(()));
    }

    #[test]
    fn a_fence_and_a_repetition_have_outcomes_of_their_own() {
        type Outcome = RepeatOutcome<FenceOutcome<PutReply>>;
        let refusal = FenceRefusal { lock: "l".into(), given: Revision(1), last: Revision(2) };
        assert_eq!(Outcome::narrow(Body::CarriedOut), Some(RepeatOutcome::RevisionAlone));
        let refused = RepeatOutcome::Whole(FenceOutcome::Refused(refusal.clone()));
        assert_eq!(Outcome::narrow(Body::Fenced(refusal)), Some(refused));
        let passed = RepeatOutcome::Whole(FenceOutcome::Passed(PutReply::default()));
        assert_eq!(Outcome::narrow(Body::Put(PutReply::default())), Some(passed));
        assert_eq!(PutReply::narrow(Body::CarriedOut), None);
    }
}
