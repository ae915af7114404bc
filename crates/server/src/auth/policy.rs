//! The policy of the data plane as this node knows it. Members derive it from what they have applied; data-only nodes
//! receive it from members (`mesh/documents.rs`). Credentials go in and a caller with its rights comes out, by what
//! this node knows: no request of the data plane asks the coordination store. The policy's age is a metric,
//! and beyond a limit every caller is refused.

use super::rights::{DataRights, DataVerb};
use super::token_keys::TokenKeys;
use super::{HandleCaller, RequiredAccess, SignedTokens, certificate_token};
use crate::auth::signed::{since_1970, wall_now};
use crate::auth::{AuthHandle, AuthState};
use crate::handle::Handle;
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{Code, Instant};
use bytes::Bytes;
use coord::{Auth, Caller, Document, Policy, TokenKey};
use jwt::{Claims, JwtKeys, SigningMethod};
use mesh::Key;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// How long a caller is cached: a lookup keeps a remembered token alive, and a signed one may have expired.
const LOOKED_UP_FOR: Duration = Duration::from_secs(1);
const CALLERS_MAX: usize = 4_096;
/// How long to wait for the policy when a token is newer than it.
const POLICY_WAIT_MAX: Duration = Duration::from_secs(2);
const POLICY_POLL: Duration = Duration::from_millis(10);
/// The versions of the policy leave space for those of the keys that it carries.
const KEY_VERSIONS: u64 = 1 << 20;

/// The caller of a request on the data plane, with its rights.
#[derive(Debug)]
pub struct DataCaller {
    pub user: Arc<str>,
    rights: Arc<DataRights>,
    generation: u64,
    until: Instant,
}

impl DataCaller {
    pub fn rights(&self) -> &DataRights {
        &self.rights
    }

    pub fn may(&self, verb: DataVerb, key: &Key) -> bool {
        self.rights.may_key(verb, key.namespace_id(), key.name_slice())
    }
}

/// How a client of the data plane authenticates.
#[derive(Clone, Copy, Debug)]
pub enum Credentials<'a> {
    Token(&'a str),
    Password {
        user: &'a str,
        password: &'a str,
        /// Of the client: the logins of each address take turns with those of others.
        address: Option<IpAddr>,
    },
}

pub(crate) struct DataPolicy {
    snapshot: RwLock<Arc<PolicySnapshot>>,
    /// Incremented with every new directory; a caller with an older generation is looked up again.
    generation: AtomicU64,
    /// The last moment at which this was known to be the newest policy; zero before the first.
    known_at: AtomicU64,
    staleness_max: Option<Duration>,
    token_keys: Mutex<(u64, Bytes)>,
    callers: Mutex<BTreeMap<Box<str>, Arc<DataCaller>>>,
}

/// One version of the policy, with what is derived from it once.
#[derive(Default)]
struct PolicySnapshot {
    policy: Policy,
    /// The keys that verify tokens; those that can also sign come first.
    keys: Vec<JwtKeys>,
    generation: u64,
    rights: Mutex<BTreeMap<Arc<str>, Arc<DataRights>>>,
}

impl PolicySnapshot {
    fn rights_of(&self, user: &Arc<str>) -> Arc<DataRights> {
        let mut known = self.rights.lock().expect("no thread panics while it holds the rights");
        let made = || Arc::new(DataRights::of(&self.policy, user));
        known.entry(user.clone()).or_insert_with(made).clone()
    }

    fn read(&self, configured: Option<&SignedTokens>, token: &str) -> Option<Claims> {
        let now = wall_now();
        let mut all = configured.map(|signed| &*signed.keys).into_iter().chain(&self.keys);
        all.find_map(|keys| keys.read(token, now))
    }
}

impl DataPolicy {
    pub fn new(staleness_max: Option<Duration>) -> DataPolicy {
        DataPolicy {
            snapshot: RwLock::default(),
            generation: AtomicU64::new(0),
            known_at: AtomicU64::new(0),
            staleness_max,
            token_keys: Mutex::default(),
            callers: Mutex::default(),
        }
    }

    fn snapshot(&self) -> Arc<PolicySnapshot> {
        self.snapshot.read().expect("no thread panics while it holds the policy").clone()
    }

    /// The directory first: a caller that reads the new generation must not find the old directory.
    fn replace(&self, policy: Policy, keys: Vec<JwtKeys>) {
        let mut snapshot = self.snapshot.write().expect("no thread panics while it holds the policy");
        let generation = snapshot.generation + 1;
        *snapshot = Arc::new(PolicySnapshot { policy, keys, generation, rights: Mutex::default() });
        self.callers.lock().expect("no thread panics while it holds the callers").clear();
        self.generation.store(generation, Ordering::Release);
    }

    /// The policy known here was the newest this long ago.
    pub fn confirm(&self, now: Instant, age: Duration) {
        let at = now.0.saturating_sub(age.as_micros() as u64).max(1);
        self.known_at.fetch_max(at, Ordering::Relaxed);
    }

    /// How old this node's policy may be; none before the node has one.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let at = self.known_at.load(Ordering::Relaxed);
        (at > 0).then(|| now.since(Instant(at)))
    }

    fn check_age(&self, now: Instant) -> Result<(), Code> {
        if self.generation.load(Ordering::Relaxed) == 0 {
            return Err(Code::NotInStep);
        }
        let Some(max) = self.staleness_max else { return Ok(()) };
        if self.age(now).is_some_and(|age| age <= max) { Ok(()) } else { Err(Code::PolicyTooOld) }
    }

    fn version(&self) -> u64 {
        let policy = &self.snapshot().policy;
        let key_version = self.token_keys.lock().expect("no thread panics while it holds the keys").0;
        version_of(policy.enabled, policy.revision) * KEY_VERSIONS + key_version.min(KEY_VERSIONS - 1)
    }
}

/// The version of the state of auth; it grows with every change.
pub(super) fn version_of(enabled: bool, revision: u64) -> u64 {
    2 * revision + u64::from(enabled)
}

fn public_keys(keys: &[JwtKeys]) -> Vec<TokenKey> {
    let of_one = |keys: &JwtKeys| {
        let method = keys.method().name();
        let public = keys.public_keys().iter();
        public
            .map(|key| TokenKey { method: method.to_owned(), public: key.clone().into() })
            .collect::<Vec<_>>()
    };
    keys.iter().flat_map(of_one).collect()
}

fn readers(keys: &[TokenKey]) -> Vec<JwtKeys> {
    let reader =
        |key: &TokenKey| JwtKeys::of_public(key.method.parse::<SigningMethod>().ok()?, &key.public).ok();
    keys.iter().filter_map(reader).collect()
}

impl AuthState {
    /// On a member: what it has applied is the policy.
    pub(super) fn derive_policy(&self, auth: &Auth) {
        let token_keys =
            self.data.token_keys.lock().expect("no thread panics while it holds the keys").1.clone();
        let keys = TokenKeys::decode(token_keys).unwrap_or_default().load();
        let mut policy = auth.policy();
        policy.keys = match &self.signed {
            Some(signed) => public_keys(std::slice::from_ref(&signed.keys)),
            None => public_keys(&keys),
        };
        self.data.replace(policy, keys);
    }

    /// The keys of tokens are a document of their own.
    pub fn set_token_keys(&self, document: Option<&Document>) {
        let Some(Document { version, bytes }) = document else { return };
        {
            let mut known = self.data.token_keys.lock().expect("no thread panics while it holds the keys");
            if known.0 == *version {
                return;
            }
            *known = (*version, bytes.clone());
        }
        self.derive_policy(&self.current());
    }

    /// The document that the leader must propose in the place of this version, when it is time for another key.
    pub fn next_token_keys(&self, now_ms: u64) -> Option<(u64, Bytes)> {
        if self.signed.is_some() || self.data.snapshot().policy.users.is_empty() {
            return None;
        }
        let (version, bytes) =
            self.data.token_keys.lock().expect("no thread panics while it holds the keys").clone();
        // A document of a later release that cannot be read is not replaced.
        let known = if version == 0 { TokenKeys::default() } else { TokenKeys::decode(bytes)? };
        Some((version, known.renewed(now_ms)?))
    }

    /// For data-only nodes.
    pub fn policy_document(&self) -> Document {
        Document { version: self.data.version(), bytes: self.data.snapshot().policy.encode() }
    }

    /// On a data-only node: the document that a member has sent.
    pub fn set_policy(&self, document: &Document) {
        match Policy::decode(document.bytes.clone()) {
            Some(policy) => {
                let keys = readers(&policy.keys);
                self.data.replace(policy, keys);
            }
            None => tracing::error!(version = document.version, "cannot decode the access policy"),
        }
    }

    /// Whether auth is on by the notes of version 0.1.0 and of later ones; the newer of the two decides.
    pub fn is_auth_on_by_note(&self, note: Option<&Document>) -> bool {
        let Policy { enabled, revision, .. } = self.data.snapshot().policy;
        match note {
            Some(note) if note.version > version_of(enabled, revision) => note.bytes == super::AUTH_ON,
            // No note has arrived yet.
            None if revision == 0 => true,
            _ => enabled,
        }
    }

    /// The signed part of a token, for nodes of the data plane that do not remember it. The leader makes the first key when
    /// there are users; an earlier login waits for it, and a cluster whose leader makes none issues tokens without.
    pub(super) async fn signed_part(&self, user: &str, revision: u64) -> Option<String> {
        let claims = Claims { user: user.to_owned(), revision, ends: since_1970() + self.token_ttl };
        for _ in 0..POLICY_WAIT_MAX.as_millis() / POLICY_POLL.as_millis() {
            let snapshot = self.data.snapshot();
            if let Some(keys) = snapshot.keys.iter().find(|keys| keys.can_sign()) {
                return keys.sign(&claims).ok();
            }
            tokio::time::sleep(POLICY_POLL).await;
        }
        None
    }
}

/// What a node without the coordination store serves beside data, as its status, is permitted by the policy that it was told.
impl AuthHandle<'_> {
    pub(super) async fn admit_by_policy(self, token: &str) -> Result<Handle, Code> {
        if !self.is_on() {
            return Ok(self.handle.with_caller(HandleCaller::default()));
        }
        let caller = self.data_caller(Some(Credentials::Token(token))).await?;
        let revision = self.auth_state().revision.load(Ordering::Acquire);
        let caller = Caller::User { name: caller.user.clone(), revision };
        Ok(self.handle.with_caller(HandleCaller { caller, token: Some(token.into()) }))
    }

    pub(super) fn check_by_policy(self, need: &RequiredAccess) -> Result<(), Code> {
        let name = match self.handle.caller() {
            _ if !self.is_on() => return Ok(()),
            Caller::Member => return Ok(()),
            Caller::Anonymous => return Err(Code::UserEmpty),
            Caller::User { name, .. } => name,
        };
        let snapshot = self.auth_state().data.snapshot();
        let caller = self.caller_in(&snapshot, name.clone())?;
        match need {
            RequiredAccess::User => Ok(()),
            _ if caller.rights().is_root() => Ok(()),
            RequiredAccess::Root | RequiredAccess::Read(_) | RequiredAccess::Leases(_) => {
                Err(Code::PermissionDenied)
            }
        }
    }

    /// Refuses a caller that is not known, on a node that has nothing of the coordination store to judge it by.
    pub fn refuse_strangers_to_data_nodes(self) -> Result<(), Code> {
        if self.handle.is_data_only() { self.check_by_policy(&RequiredAccess::User) } else { Ok(()) }
    }
}

impl AuthHandle<'_> {
    /// How long ago the policy of the data plane was last known to be the newest.
    pub fn policy_age(self) -> Option<Duration> {
        let core = self.handle.core();
        core.security.auth.data.age(core.clock.now())
    }

    /// Whether a cached caller is still valid.
    pub fn is_current(self, caller: &DataCaller) -> bool {
        let (data, now) = (&self.auth_state().data, self.handle.core().clock.now());
        caller.generation == data.generation.load(Ordering::Acquire)
            && now < caller.until
            && data.check_age(now).is_ok()
    }

    /// The caller with these credentials, by what this node knows. Only a password that was not seen before takes long.
    pub async fn data_caller(self, credentials: Option<Credentials<'_>>) -> Result<Arc<DataCaller>, Code> {
        self.auth_state().data.check_age(self.handle.core().clock.now())?;
        match credentials {
            None => Err(Code::UserEmpty),
            Some(Credentials::Token(token)) => self.caller_of_token(token).await,
            Some(Credentials::Password { user, password, address }) => {
                self.caller_of_password(address, user, password).await
            }
        }
    }

    async fn caller_of_token(self, token: &str) -> Result<Arc<DataCaller>, Code> {
        let data = &self.auth_state().data;
        let known =
            data.callers.lock().expect("no thread panics while it holds the callers").get(token).cloned();
        if let Some(caller) = known.filter(|caller| self.is_current(caller)) {
            return Ok(caller);
        }
        let began = self.handle.core().clock.now();
        let (snapshot, user) = loop {
            let snapshot = data.snapshot();
            match self.user_of_token(&snapshot, token) {
                TokenLookup::User(user) => break (snapshot, user),
                TokenLookup::Ahead if self.handle.core().clock.now().since(began) < POLICY_WAIT_MAX => {
                    tokio::time::sleep(POLICY_POLL).await;
                }
                TokenLookup::Ahead | TokenLookup::Unknown => return Err(Code::InvalidAuthToken),
            }
        };
        let caller = Arc::new(self.caller_in(&snapshot, user)?);
        let mut callers = data.callers.lock().expect("no thread panics while it holds the callers");
        if callers.len() >= CALLERS_MAX {
            callers.clear();
        }
        callers.insert(token.into(), caller.clone());
        Ok(caller)
    }

    /// A remembered token first, because a lookup keeps it alive; then a signed one.
    fn user_of_token(self, snapshot: &PolicySnapshot, token: &str) -> TokenLookup {
        let auth_state = self.auth_state();
        if let Some(user) = certificate_token::name_in(token) {
            return TokenLookup::User(user);
        }
        if auth_state.signed.is_none() && !self.handle.is_data_only() {
            let now = self.handle.core().clock.now();
            if let Some(user) = auth_state.user_of(now, token) {
                return TokenLookup::User(user);
            }
        }
        match snapshot.read(auth_state.signed.as_ref(), signed_part_of(token)) {
            Some(claims) if claims.revision > snapshot.policy.revision => TokenLookup::Ahead,
            Some(claims) => {
                let epoch = snapshot.policy.users.get(claims.user.as_str()).map(|user| user.epoch);
                if epoch.is_some_and(|epoch| epoch <= claims.revision) {
                    TokenLookup::User(claims.user.into())
                } else {
                    TokenLookup::Unknown
                }
            }
            // The entry that made the token may not be applied here yet.
            None if super::index_of(token).is_some_and(|index| index > self.handle.status().applied.0) => {
                TokenLookup::Ahead
            }
            None => TokenLookup::Unknown,
        }
    }

    async fn caller_of_password(
        self,
        address: Option<IpAddr>,
        user: &str,
        password: &str,
    ) -> Result<Arc<DataCaller>, Code> {
        if self.handle.is_data_only() {
            return Err(Code::PasswordNotHere);
        }
        let address = address.filter(|_| !planted(Mutant::LoginAddressForgotten));
        self.compare_password(&self.auth_state().current(), address, user, password).await?;
        let snapshot = self.auth_state().data.snapshot();
        self.caller_in(&snapshot, user.into()).map(Arc::new)
    }

    fn caller_in(self, snapshot: &PolicySnapshot, user: Arc<str>) -> Result<DataCaller, Code> {
        if !snapshot.policy.users.contains_key(&user) {
            return Err(Code::InvalidAuthToken);
        }
        let until = self.handle.core().clock.now().after(LOOKED_UP_FOR);
        let rights = snapshot.rights_of(&user);
        Ok(DataCaller { user, rights, generation: snapshot.generation, until })
    }
}

enum TokenLookup {
    User(Arc<str>),
    /// The token was issued by a member that knows a newer policy than this node.
    Ahead,
    Unknown,
}

/// A remembered token is a secret, the signed part and the index of its entry; one that is signed is that part alone.
fn signed_part_of(token: &str) -> &str {
    let inner = |token: &'_ str| {
        let (_, rest) = token.split_once('.')?;
        let (signed, index) = rest.rsplit_once('.')?;
        (signed.split('.').count() == 3 && index.parse::<u64>().is_ok()).then_some(())?;
        Some(token.len() - rest.len()..token.len() - index.len() - 1)
    };
    inner(token).map_or(token, |range| &token[range])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_part_lies_between_the_secret_and_the_index() {
        assert_eq!(signed_part_of("abc.h.c.s.17"), "h.c.s");
        assert_eq!(signed_part_of("h.c.s"), "h.c.s");
        assert_eq!(signed_part_of("abc.17"), "abc.17");
        assert_eq!(signed_part_of("abc.h.c.s.x"), "abc.h.c.s.x");
        assert_eq!(signed_part_of(""), "");
    }

    #[test]
    fn the_age_is_that_of_the_last_confirmation_and_never_goes_back() {
        let data = DataPolicy::new(Some(Duration::from_secs(10)));
        assert_eq!(data.check_age(Instant::ZERO), Err(Code::NotInStep), "nothing is known");
        data.replace(Policy::default(), Vec::new());
        let at = |seconds: u64| Instant::ZERO.after(Duration::from_secs(seconds));
        assert_eq!((data.age(at(5)), data.check_age(at(5))), (None, Err(Code::PolicyTooOld)));
        data.confirm(at(20), Duration::from_secs(2));
        assert_eq!(data.age(at(20)), Some(Duration::from_secs(2)));
        data.confirm(at(20), Duration::from_secs(8));
        assert_eq!(data.age(at(25)), Some(Duration::from_secs(7)), "an older word changes nothing");
        assert_eq!((data.check_age(at(28)), data.check_age(at(29))), (Ok(()), Err(Code::PolicyTooOld)));
        let unlimited = DataPolicy::new(None);
        unlimited.replace(Policy::default(), Vec::new());
        assert_eq!(unlimited.check_age(at(1_000)), Ok(()));
    }
}
