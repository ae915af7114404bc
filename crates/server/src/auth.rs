//! Authentication as this member knows it: the users and permissions that were applied, the tokens, and the hashing of
//! passwords. A token goes in with a call and a handle comes out that acts as its user; what the user may do is decided
//! where the request is applied. While auth is off, all of this costs one atomic load.

mod admission;
mod certificate_token;
mod fair_queue;
mod password;
mod policy;
mod rights;
mod signed;
pub(crate) mod token_keys;
mod verified;

pub use admission::Admission;
pub use policy::{Credentials, DataCaller};
pub use rights::{DataRights, DataVerb};
pub use signed::SignedTokens;

use crate::apply::ApplyJob;
use crate::handle::Handle;
use crate::telemetry::{RefusalKind, RefusedAccess};
use base::{Code, FormatLevel, Instant, KeyRange};
use bytes::Bytes;
use coord::call::{AuthCall, AuthToken, IssueToken};
use coord::reply::Reply;
use coord::request::{Range, Request};
use coord::{Auth, AuthCommand, Caller, Command, Document, LeaseAccess};
use fair_queue::LoginSource;
use node::{AuthTokens, ClientWork, TokenEvent};
use password::{PasswordHasher, StoredHash};
use policy::DataPolicy;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// The name under which a note about auth goes to data-only nodes. It is no document of the cluster's.
pub(crate) const AUTH_NOTE: &str = "auth";
const AUTH_ON: &[u8] = b"on";
/// How often a login compares the password again because the auth revision has changed meanwhile.
const LOGINS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// How long a token lives after its last use, if it is not a signed one.
    pub token_ttl: Duration,
    /// Tokens are signed instead of remembered.
    pub signed: Option<SignedTokens>,
    /// The bcrypt cost: two to this power rounds.
    pub bcrypt_cost: u32,
    /// After so long without news of users and permissions, the data plane refuses every caller; none sets no limit.
    pub staleness_max: Option<Duration>,
}

impl Default for AuthConfig {
    /// As in etcd.
    fn default() -> AuthConfig {
        AuthConfig { token_ttl: Duration::from_secs(300), signed: None, bcrypt_cost: 10, staleness_max: None }
    }
}

/// The permission that a call needs which is no request for keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequiredAccess {
    /// Any user.
    User,
    /// The root role.
    Root,
    Read(Vec<KeyRange>),
    Leases(LeaseAccess),
}

/// The state of auth: the apply thread writes it, all other threads read it.
pub(crate) struct AuthState {
    /// Zero while auth is off, else the auth revision.
    revision: AtomicU64,
    auth: RwLock<Arc<Auth>>,
    tokens: Mutex<AuthTokens>,
    token_ttl: Duration,
    signed: Option<SignedTokens>,
    /// The node applies nothing; members send it the state.
    data_only: bool,
    hashing: PasswordHasher,
    /// The policy of the data plane.
    pub data: DataPolicy,
}

impl AuthState {
    pub fn new(config: AuthConfig, data_only: bool) -> AuthState {
        AuthState {
            revision: AtomicU64::new(u64::from(data_only)),
            data_only,
            auth: RwLock::default(),
            tokens: Mutex::new(AuthTokens::new(config.token_ttl)),
            token_ttl: config.token_ttl,
            signed: config.signed,
            data: DataPolicy::new(config.staleness_max),
            hashing: PasswordHasher::new(config.bcrypt_cost),
        }
    }

    /// Tokens first: a reader of the new revision must not find a token that this revision ended.
    pub fn apply_token_events(&self, now: Instant, news: impl Iterator<Item = TokenEvent>) {
        let mut tokens = self.tokens.lock().expect("no thread panics while it holds the tokens");
        news.for_each(|news| tokens.observe(now, news));
    }

    pub fn set(&self, auth: &Auth) {
        if self.data_only {
            return;
        }
        let revision = if auth.is_enabled() { auth.revision() } else { 0 };
        *self.auth.write().expect("no thread panics while it holds it") = Arc::new(auth.clone());
        self.derive_policy(auth);
        self.revision.store(revision, Ordering::Release);
    }

    /// What data-only nodes receive: whether callers must authenticate. A note replaces those
    /// with a lower version.
    pub fn note(&self) -> Document {
        let auth = self.current();
        let enabled = auth.is_enabled();
        let bytes = Bytes::from_static(if enabled { AUTH_ON } else { b"off" });
        Document { version: policy::version_of(enabled, auth.revision()), bytes }
    }

    /// On a data-only node. Until a note arrives, auth is on and the node knows no user.
    pub fn set_from_note(&self, note: Option<&Document>) {
        self.revision.store(u64::from(self.is_auth_on_by_note(note)), Ordering::Release);
    }

    fn current(&self) -> Arc<Auth> {
        self.auth.read().expect("no thread panics while it holds it").clone()
    }

    fn user_of(&self, now: Instant, token: &str) -> Option<Arc<str>> {
        self.tokens.lock().expect("no thread panics while it holds the tokens").user_of(now, token)
    }
}

/// The caller for whom a handle acts.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandleCaller {
    pub caller: Caller,
    token: Option<Arc<str>>,
}

impl HandleCaller {
    pub fn member() -> HandleCaller {
        HandleCaller { caller: Caller::Member, token: None }
    }
}

/// The auth of this node, for the caller of the handle.
#[derive(Clone, Copy)]
pub struct AuthHandle<'a> {
    pub(crate) handle: &'a Handle,
}

impl<'a> AuthHandle<'a> {
    /// As far as this member knows, callers must authenticate.
    pub fn is_on(self) -> bool {
        self.auth_state().revision.load(Ordering::Relaxed) != 0
    }

    /// A token for the client whose verified certificate bears this name; valid in this process alone.
    pub fn certificate_token(self, name: &str) -> Option<String> {
        certificate_token::make(name)
    }

    /// The name on the certificate that a certificate token stands for, if the token is one.
    pub fn certified_name(self, token: &str) -> Option<Arc<str>> {
        certificate_token::name_in(token)
    }

    /// The handle of the token's user; without a token, that of an anonymous caller.
    pub async fn admit(self, token: Option<&str>) -> Result<Handle, Code> {
        let Some(token) = token else { return Ok(self.handle.with_caller(HandleCaller::default())) };
        if self.handle.is_data_only() {
            return self.admit_by_policy(token).await;
        }
        // A certificate token is this process's own, whatever kind of token it issues otherwise.
        let signed =
            self.auth_state().signed.as_ref().filter(|_| certificate_token::name_in(token).is_none());
        if let Some(signed) = signed {
            return self.admit_signed(signed, token).await;
        }
        // A token carries the index of the entry that made it, and this member may not be there yet.
        if index_of(token).is_some_and(|index| index > self.handle.status().applied.0) {
            self.catch_up().await?;
        }
        // In this order: a token that is found ended no earlier than this revision.
        let revision = match self.auth_state().revision.load(Ordering::Acquire) {
            0 => return Ok(self.handle.with_caller(HandleCaller::default())),
            revision => revision,
        };
        let now = self.handle.core().clock.now();
        let name = certificate_token::name_in(token).or_else(|| self.auth_state().user_of(now, token));
        let name = name.ok_or(Code::InvalidAuthToken)?;
        let caller = Caller::User { name, revision };
        Ok(self.handle.with_caller(HandleCaller { caller, token: Some(token.into()) }))
    }

    /// Runs a call, and admits its caller again if the auth revision has changed since. Where changes follow each
    /// other quickly that may be needed many times, so only time bounds it.
    pub(crate) async fn admitted<T, F: Future<Output = Result<T, Code>>>(
        self,
        ask: impl Fn(Handle) -> F,
    ) -> Result<T, Code> {
        let mut handle = self.handle.clone();
        let deadline = self.handle.usual_deadline();
        loop {
            match (ask(handle.clone()).await, &handle.asking.token) {
                // What a signed token says does not change.
                (Err(Code::AuthOldRevision), Some(token))
                    if self.auth_state().signed.is_none() && self.handle.core().clock.now() < deadline =>
                {
                    handle = self.admit(Some(token)).await?;
                }
                (answer, _) => return answer,
            }
        }
    }

    /// Whether the caller may do what no command of the log decides. What was revoked before is known here: if auth is
    /// on, this waits for everything agreed so far.
    pub async fn permit(self, need: RequiredAccess) -> Result<(), Code> {
        if self.is_on() {
            self.catch_up().await?;
        }
        self.check(&need).await
    }

    /// The same for what goes into the log and is not checked there, which changes members or the cluster: it waits in any
    /// case, as a member that is behind may not know that auth is on.
    pub async fn permit_agreed(self, need: RequiredAccess) -> Result<(), Code> {
        self.catch_up_urgently().await?;
        self.check(&need).await
    }

    /// The same by what this member knows, without waiting: for every message of a stream that was permitted before.
    pub async fn permit_here(self, need: RequiredAccess) -> Result<(), Code> {
        self.check(&need).await
    }

    /// A request without a token would be refused where it is applied, so it is not put into the log.
    pub(crate) async fn refuse_unauthenticated(self, command: &Command) -> Result<(), Code> {
        let for_users = command.needs_permission() && *command != Command::Auth(AuthCommand::Status);
        if self.is_on() && for_users && *self.handle.caller() == Caller::Anonymous {
            self.permit(RequiredAccess::User).await
        } else {
            Ok(())
        }
    }

    /// The same caller, admitted at the current auth revision.
    pub async fn readmitted(self) -> Result<Handle, Code> {
        match &self.handle.asking.token {
            Some(token) => self.admit(Some(token)).await,
            None => Ok(self.handle.clone()),
        }
    }

    async fn check(self, need: &RequiredAccess) -> Result<(), Code> {
        if self.handle.is_data_only() {
            return self.check_by_policy(need);
        }
        self.admitted(|handle| async move {
            let auth = handle.auth().auth_state().current();
            let rights = auth.rights(handle.caller())?;
            match need {
                RequiredAccess::User => Ok(()),
                RequiredAccess::Root => rights.root(),
                RequiredAccess::Read(ranges) => ranges.iter().try_for_each(|keys| rights.read(keys)),
                RequiredAccess::Leases(_) if rights.root().is_ok() => Ok(()),
                RequiredAccess::Leases(need) => handle.auth().check_leases(*need).await,
            }
        })
        .await
    }

    /// The apply thread knows which keys are attached to a lease.
    async fn check_leases(self, need: LeaseAccess) -> Result<(), Code> {
        let (asker, told) = oneshot::channel();
        let caller = self.handle.caller().clone();
        self.handle.core().coord.apply.post(ApplyJob::CheckLeases { caller, need, asker });
        told.await.unwrap_or(Err(Code::Stopped))
    }

    /// Users, roles, permissions: changes and queries, which go through the log as well.
    pub async fn run<C: AuthCall>(self, call: C) -> Result<Reply<C::Reply>, Code> {
        self.handle.propose_and_wait(&Command::Auth(call.into_command())).await
    }

    /// The hash under which a password is kept, for a caller that may set one. Release 0.1.0 reads no hash of a long password.
    pub async fn hash_password(self, password: String) -> Result<Bytes, Code> {
        if password::is_hashed_before(&password) {
            self.handle.formats().require(FormatLevel(1))?;
        }
        let source = LoginSource::authenticated(match self.handle.caller() {
            Caller::User { name, .. } => name,
            Caller::Anonymous | Caller::Member => "",
        });
        self.auth_state().hashing.hash(source, password, self.handle.request_timeout()).await
    }

    /// Issues a token for the correct password of a user. The logins of each address take turns with those of others.
    pub async fn authenticate_from(
        self,
        address: Option<IpAddr>,
        user: String,
        password: String,
    ) -> Result<Reply<AuthToken>, Code> {
        let member = self.handle.as_member();
        for _ in 0..LOGINS_MAX {
            let agreed = self.await_commit().await?;
            let auth = self.auth_state().current();
            self.compare_password(&auth, address, &user, &password).await?;
            if let Some(signed) = &self.auth_state().signed {
                let body = AuthToken(self.sign_token(signed, user, auth.revision()).await?);
                return Ok(Reply { revision: agreed.revision, body });
            }
            let secret = password::secret()?;
            let secret = match self.auth_state().signed_part(&user, auth.revision()).await {
                Some(signed) => format!("{secret}.{signed}"),
                None => secret,
            };
            let issue = IssueToken { user: user.clone(), revision: auth.revision(), secret };
            match member.auth().run(issue).await {
                Err(Code::AuthOldRevision) => {}
                outcome => return outcome,
            }
        }
        Err(Code::AuthOldRevision)
    }

    /// Compares a password with the hash that this node knows of a user. It takes as long when there is no such
    /// user.
    async fn compare_password(
        self,
        auth: &Auth,
        address: Option<IpAddr>,
        user: &str,
        password: &str,
    ) -> Result<(), Code> {
        let (known, refusal) = match auth.password_of(user) {
            Ok(hash) => (StoredHash::Hash(hash.clone()), Code::AuthFailed),
            Err(Code::AuthNotEnabled) => return Err(Code::AuthNotEnabled),
            Err(code) => (StoredHash::Missing, code),
        };
        let (now, source) = (self.handle.core().clock.now(), LoginSource::new(address, user));
        let patience = self.handle.request_timeout();
        if self.auth_state().hashing.matches_hash(now, source, password.to_owned(), known, patience).await? {
            Ok(())
        } else {
            let user = user.to_owned();
            self.handle.note_refused(RefusedAccess { kind: RefusalKind::Login, user, address });
            Err(refusal)
        }
    }

    /// Waits until this member has applied everything that was committed when this was called.
    pub async fn catch_up(self) -> Result<(), Code> {
        self.await_commit().await.map(drop)
    }

    /// The same for calls of operators, which are answered also while ordinary ones are refused for overload.
    pub async fn catch_up_urgently(self) -> Result<(), Code> {
        self.handle.as_member().wait_for(empty_read()).await.map(drop)
    }

    /// The same for a thread of the peer port.
    pub(crate) fn catch_up_blocking(self) -> Result<(), Code> {
        self.handle.as_member().wait_blocking(empty_read()).map(drop)
    }

    /// Whether auth is on by everything that is committed; none while this node cannot know that.
    pub async fn is_on_by_agreement(self) -> Option<bool> {
        let is_known = if self.handle.is_data_only() {
            self.policy_age().is_some()
        } else {
            self.catch_up_urgently().await.is_ok()
        };
        is_known.then(|| self.is_on())
    }

    async fn await_commit(self) -> Result<Reply, Code> {
        self.handle.wait_for(empty_read()).await
    }

    fn auth_state(self) -> &'a AuthState {
        &self.handle.core().security.auth
    }
}

/// A read of no key, which is answered once everything committed so far is applied.
fn empty_read() -> ClientWork {
    let nothing = Range { count_only: true, ..Range::of(KeyRange::single(Bytes::from_static(b"\0"))) };
    ClientWork::Read(Request::Range(nothing), Caller::Member)
}

fn index_of(token: &str) -> Option<u64> {
    token.rsplit_once('.')?.1.parse().ok()
}
