//! Who was permitted what, and when, by the committed log and by rules of its own: every state of users and roles is
//! kept, by the index that made it.
//! A request that was carried out must have been permitted: a put where it stands in the log, anything else in some
//! state that was not over when it was asked for; and its token must not have ended by then. The rules know letters
//! alone: a range is permitted if each of its letters is.

use crate::seen_proposals::SeenProposals;
use base::{Index, KeyRange, RangeEnd};
use coord::request::Request;
use coord::{Access, AuthCommand, Caller, Command, DataAccess, DataRange, Policy};
use node::batch;
use raft::Entry;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct PermissionModel {
    newest: State,
    /// Each is true from its index up to the next, and was committed at this time.
    states: BTreeMap<Index, (u64, State)>,
    /// Puts of guests by the number that they carry.
    written: BTreeMap<usize, Index>,
    seen_proposals: SeenProposals,
    seen: Index,
}

#[derive(Clone, Debug, Default)]
struct State {
    enabled: bool,
    /// How many changes there were.
    changes: u64,
    users: BTreeMap<String, User>,
    roles: BTreeMap<String, BTreeMap<(u8, u8), Access>>,
    /// What roles permit on data.
    data: BTreeMap<String, BTreeMap<DataRange, DataAccess>>,
}

#[derive(Clone, Debug)]
struct User {
    roles: BTreeSet<String>,
    /// Tokens that were given before have ended.
    since: Index,
    /// The auth revision that came with it.
    epoch: u64,
}

/// What a guest shows.
pub struct Credentials {
    pub user: String,
    /// When its token was given.
    pub given: Index,
    pub sent: u64,
}

impl PermissionModel {
    pub fn committed(&mut self, now: u64, entry: &Entry) {
        if entry.at.index <= self.seen {
            return;
        }
        self.seen = entry.at.index;
        for proposal in batch::decode(entry.data.clone()).unwrap_or_default() {
            if !self.seen_proposals.is_new(proposal.id, proposal.low) {
                continue;
            }
            let Some(command) = Command::decode(proposal.command) else { continue };
            let (caller, command) = command.caller_and_command();
            match command {
                Command::Auth(command) => self.change(now, entry.at.index, caller, command),
                Command::Put(put) => {
                    let number = put.value.as_ref().and_then(|value| std::str::from_utf8(value).ok());
                    if let Some(number) = number.and_then(|number| number.parse().ok()) {
                        self.written.entry(number).or_insert(entry.at.index);
                    }
                }
                _ => {}
            }
        }
    }

    /// What is refused changes nothing here, either.
    fn change(&mut self, now: u64, at: Index, caller: &Caller, command: &AuthCommand) {
        if self.newest.is_current(caller) && self.newest.change(at, command).is_some() {
            self.states.insert(at, (now, self.newest.clone()));
        }
    }

    pub fn check(&self, number: usize, credentials: &Credentials, request: &Request) -> Result<(), String> {
        let lawful = match (request, self.written.get(&number)) {
            (Request::Put(_), None) => return Err(format!("put {number} was done, and is not in the log")),
            (Request::Put(_), Some(at)) => {
                let state = self.states.range(..=*at).next_back().map(|(_, (_, state))| state);
                state.is_none_or(|state| state.permits(credentials, request))
            }
            _ => self.possible(credentials.sent).any(|state| state.permits(credentials, request)),
        };
        if lawful {
            Ok(())
        } else {
            Err(format!("{} did {request:?} without being permitted", credentials.user))
        }
    }

    /// The policy that a member derives is that of the changes that it has applied.
    pub fn check_policy(&self, applied: Index, policy: &Policy) -> Result<(), String> {
        let Some((_, (_, state))) = self.states.range(..=applied).next_back() else { return Ok(()) };
        let held: Vec<(&str, u64)> = policy.users.iter().map(|(name, user)| (&**name, user.epoch)).collect();
        let right: Vec<(&str, u64)> =
            state.users.iter().map(|(name, user)| (name.as_str(), user.epoch)).collect();
        if held != right {
            return Err(format!("the policy at {applied:?} has users with epochs {held:?}, not {right:?}"));
        }
        for (name, user) in &state.users {
            let held: BTreeSet<(&DataRange, u8)> = policy
                .permissions_of(name)
                .map(|permission| (&permission.range, permission.access as u8))
                .collect();
            let data = user.roles.iter().filter_map(|role| state.data.get(role)).flatten();
            let right: BTreeSet<(&DataRange, u8)> =
                data.map(|(range, access)| (range, *access as u8)).collect();
            if held != right {
                return Err(format!("the policy at {applied:?} permits {name} {held:?}, not {right:?}"));
            }
        }
        Ok(())
    }

    /// Every state that may have been when something was asked for, or since.
    fn possible(&self, sent: u64) -> impl Iterator<Item = &State> {
        let over = self.states.iter().rev().find(|(_, (committed, _))| *committed < sent);
        let first = over.map_or(Index::ZERO, |(at, _)| *at);
        self.states.range(first..).map(|(_, (_, state))| state)
    }
}

impl State {
    /// Only root changes anything, and only if it was admitted after the last change. The first auth revision is one.
    fn is_current(&self, caller: &Caller) -> bool {
        match caller {
            _ if !self.enabled => true,
            Caller::User { name, revision } => &**name == "root" && *revision > self.changes,
            _ => false,
        }
    }

    /// `None` for what is refused or changes nothing.
    fn change(&mut self, at: Index, command: &AuthCommand) -> Option<()> {
        match command.clone() {
            AuthCommand::Enable => {
                let root = self.users.get("root")?;
                self.enabled |= root.roles.contains("root");
                return Some(());
            }
            AuthCommand::UserAdd { user, .. } if !self.users.contains_key(&user) => {
                let epoch = self.changes + 2;
                self.users.insert(user, User { roles: BTreeSet::new(), since: at, epoch });
            }
            AuthCommand::UserDelete { user } if !(self.enabled && user == "root") => {
                self.users.remove(&user)?;
            }
            AuthCommand::UserChangePassword { user, .. } => {
                let epoch = self.changes + 2;
                let user = self.users.get_mut(&user)?;
                (user.since, user.epoch) = (at, epoch);
            }
            AuthCommand::UserGrantRole { user, role } if role == "root" || self.roles.contains_key(&role) => {
                self.users.get_mut(&user)?.roles.insert(role).then_some(())?;
            }
            AuthCommand::UserRevokeRole { user, role } => {
                self.users.get_mut(&user)?.roles.remove(&role).then_some(())?;
            }
            AuthCommand::RoleAdd { role } if !self.roles.contains_key(&role) => {
                self.roles.insert(role, BTreeMap::new());
            }
            AuthCommand::RoleDelete { role } => {
                self.roles.remove(&role)?;
                self.data.remove(&role);
                for user in self.users.values_mut() {
                    user.roles.remove(&role);
                }
            }
            AuthCommand::RoleGrantPermission { role, permission } => {
                self.roles.get_mut(&role)?.insert(span(&permission.keys), permission.access);
            }
            AuthCommand::RoleRevokePermission { role, keys } => {
                self.roles.get_mut(&role)?.remove(&span(&keys))?;
            }
            AuthCommand::RoleGrantData { role, permission } if self.roles.contains_key(&role) => {
                self.data.entry(role).or_default().insert(permission.range, permission.access);
            }
            AuthCommand::RoleRevokeData { role, range } => {
                self.data.get_mut(&role)?.remove(&range)?;
            }
            _ => return None,
        }
        self.changes += 1;
        Some(())
    }

    fn permits(&self, credentials: &Credentials, request: &Request) -> bool {
        if !self.enabled {
            return true;
        }
        let Some(user) = self.users.get(&credentials.user).filter(|user| user.since <= credentials.given)
        else {
            return false;
        };
        let permissions: Vec<_> =
            user.roles.iter().filter_map(|role| self.roles.get(role)).flatten().collect();
        let each = |keys: &KeyRange, refused: Access| {
            let (start, end) = span(keys);
            (start..end).all(|letter| {
                let covers = |(from, to): &(u8, u8)| (*from..*to).contains(&letter);
                permissions.iter().any(|(span, access)| covers(span) && **access != refused)
            })
        };
        match request {
            Request::Range(range) => each(&range.keys, Access::Write),
            Request::Put(put) => each(&KeyRange::single(put.key.clone()), Access::Read),
            Request::Delete(delete) => {
                let reads = !delete.prev_kv || each(&delete.keys, Access::Write);
                reads && each(&delete.keys, Access::Read)
            }
            Request::Txn(_) => false,
        }
    }
}

/// The letters of a range, the last one excluded.
fn span(keys: &KeyRange) -> (u8, u8) {
    let start = keys.start[0];
    match &keys.end {
        RangeEnd::Before(end) => (start, end[0]),
        RangeEnd::Single => (start, start + 1),
        RangeEnd::Open => (start, u8::MAX),
    }
}
