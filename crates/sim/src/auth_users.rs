//! Users with few permissions, and an administrator who gives and takes them while everything else goes wrong.
//! Users hold tokens, present them to any member, and read and write letters there; the administrator grants and revokes
//! roles and permissions, deletes and adds users and roles, and changes passwords. A model judges what is permitted, from the
//! committed log alone and by rules of its own.

use crate::lease_holders::SideRequest;
use crate::oracle::{Checker, Violation};
use crate::permission_model::{Credentials, PermissionModel};
use crate::world::{Checked, Event, World};
use base::{Code, Index, KeyRange, Rng};
use bytes::Bytes;
use coord::reply::{Body, Reply};
use coord::request::{Delete, Put, Range, Request};
use coord::{
    Access, AuthCommand, AuthReply, Caller, Command, DataAccess, DataPermission, DataRange, Permission,
};
use node::{ClientWork, TokenEvent};
use raft::Entry;
use std::sync::Arc;

/// Users beside root, each with a role of its own and one that all share.
pub const AUTH_USERS: usize = 5;
const LETTERS: &[u8; 6] = b"abcdef";
const SHARED_ROLE: &str = "shared";
const PAUSE_US: (u64, u64) = (10_000, 250_000);
const ADMIN_PAUSE_US: (u64, u64) = (20_000, 600_000);

#[derive(Default)]
pub struct AuthUsers {
    pub count: usize,
    pub stopped: bool,
    /// What the administrator still has to do before anything else, the last first.
    plan: Vec<AuthCommand>,
    auth_tokens: [Option<HeldToken>; AUTH_USERS],
    /// What was asked for, by number.
    asked: Vec<AuthRequest>,
    permission_model: PermissionModel,
    /// Requests of guests that were carried out, and that were refused.
    pub served: u64,
    pub refused: u64,
}

/// A token that a guest holds.
#[derive(Clone, Debug)]
struct HeldToken {
    token: Arc<str>,
    /// The entry that made it.
    given: Index,
}

#[derive(Clone, Debug)]
struct AuthRequest {
    who: usize,
    sent: u64,
    what: AuthRequestKind,
}

#[derive(Clone, Debug)]
enum AuthRequestKind {
    Token,
    Admin,
    Keys { request: Request, given: Index },
}

impl AuthUsers {
    pub fn new(count: usize) -> AuthUsers {
        AuthUsers { count, ..AuthUsers::default() }
    }

    pub fn committed(&mut self, now: u64, entry: &Entry) {
        if self.count > 0 {
            self.permission_model.committed(now, entry);
        }
    }

    fn ask(&mut self, who: usize, sent: u64, what: AuthRequestKind) -> usize {
        self.asked.push(AuthRequest { who, sent, what });
        self.asked.len() - 1
    }
}

fn user(auth_user: usize) -> String {
    format!("guest-{auth_user}")
}

fn role(auth_user: usize) -> String {
    format!("role-{auth_user}")
}

/// Everything up to the moment at which auth is on.
fn opening(count: usize) -> Vec<AuthCommand> {
    let root = || "root".to_owned();
    let mut plan = vec![
        AuthCommand::UserAdd { user: root(), password: Some(Bytes::new()) },
        AuthCommand::UserGrantRole { user: root(), role: root() },
        AuthCommand::RoleAdd { role: SHARED_ROLE.to_owned() },
    ];
    for auth_user in 0..count {
        plan.push(AuthCommand::RoleAdd { role: role(auth_user) });
        plan.extend(arrival(auth_user));
    }
    plan.push(AuthCommand::Enable);
    plan
}

fn arrival(auth_user: usize) -> [AuthCommand; 3] {
    [
        AuthCommand::UserAdd { user: user(auth_user), password: Some(Bytes::new()) },
        AuthCommand::UserGrantRole { user: user(auth_user), role: role(auth_user) },
        AuthCommand::UserGrantRole { user: user(auth_user), role: SHARED_ROLE.to_owned() },
    ]
}

/// One of few, so that what is revoked was often granted.
fn data_range(rng: &mut Rng) -> DataRange {
    let namespace = (*rng.pick(&["shop", "bank", "*"])).to_owned();
    DataRange { namespace, prefix: Bytes::from_static(rng.pick(&["", "a"]).as_bytes()) }
}

/// From one letter up to another.
fn letters(rng: &mut Rng) -> KeyRange {
    let start = rng.between(0, LETTERS.len() as u64) as usize;
    let len = rng.between(1, 4) as usize;
    let end = LETTERS[0] + (start + len).min(LETTERS.len()) as u8;
    KeyRange::from_wire(Bytes::copy_from_slice(&LETTERS[start..=start]), Bytes::copy_from_slice(&[end]))
}

impl World {
    pub fn start_auth_users(&mut self) {
        if self.auth_users.count > 0 {
            self.events.after(1_500_000, Event::Administer);
        }
        for auth_user in 0..self.auth_users.count {
            let delay = self.rng.between(2_000_000, 4_000_000);
            self.events.after(delay, Event::AuthUser { auth_user });
        }
    }

    pub fn learn_tokens(&mut self, host: usize, news: Vec<TokenEvent>) {
        let now = self.local_now(host);
        let auth_tokens = &mut self.process(host).auth_tokens;
        news.into_iter().for_each(|news| auth_tokens.observe(now, news));
    }

    /// The administrator does the next thing, and comes back for another.
    pub fn administer(&mut self) -> Checked {
        if self.auth_users.stopped {
            return Ok(());
        }
        let pause = self.rng.between(ADMIN_PAUSE_US.0, ADMIN_PAUSE_US.1);
        self.events.after(pause, Event::Administer);
        let Some(host) = self.running_host() else { return Ok(()) };
        // Something of the opening may have been lost.
        if self.auth_users.plan.is_empty() && !self.process(host).member.apply.auth().is_enabled() {
            self.auth_users.plan = opening(self.auth_users.count);
            self.auth_users.plan.reverse();
        }
        let command = match self.auth_users.plan.pop() {
            Some(command) => command,
            None => self.next_measure(),
        };
        let number = self.auth_users.ask(0, self.events.now(), AuthRequestKind::Admin);
        self.send_as(host, number, "root", Command::Auth(command));
        Ok(())
    }

    fn next_measure(&mut self) -> AuthCommand {
        let auth_user = self.rng.between(0, self.auth_users.count as u64) as usize;
        let role = if self.rng.chance(300_000) { SHARED_ROLE.to_owned() } else { role(auth_user) };
        match self.rng.between(0, 14) {
            0..5 => {
                let access = *self.rng.pick(&[Access::Read, Access::Write, Access::ReadWrite]);
                let permission = Permission { keys: letters(&mut self.rng), access };
                AuthCommand::RoleGrantPermission { role, permission }
            }
            5..8 => AuthCommand::RoleRevokePermission { role, keys: letters(&mut self.rng) },
            8 => {
                self.auth_users
                    .plan
                    .push(AuthCommand::UserGrantRole { user: user(auth_user), role: role.clone() });
                AuthCommand::UserRevokeRole { user: user(auth_user), role }
            }
            9 => {
                let permission = Permission { keys: letters(&mut self.rng), access: Access::ReadWrite };
                let plan = &mut self.auth_users.plan;
                plan.push(AuthCommand::RoleGrantPermission { role: role.clone(), permission });
                plan.push(AuthCommand::RoleAdd { role: role.clone() });
                AuthCommand::RoleDelete { role }
            }
            10 => {
                self.auth_users.plan.extend(arrival(auth_user).into_iter().rev());
                AuthCommand::UserDelete { user: user(auth_user) }
            }
            11 => {
                let access = *self.rng.pick(&[DataAccess::Read, DataAccess::Write, DataAccess::Admin]);
                let permission = DataPermission { range: data_range(&mut self.rng), access };
                AuthCommand::RoleGrantData { role, permission }
            }
            12 => AuthCommand::RoleRevokeData { role, range: data_range(&mut self.rng) },
            _ => AuthCommand::UserChangePassword { user: user(auth_user), password: Bytes::new() },
        }
    }

    /// A guest does the next thing: asks for a token, or shows it to some member and asks for keys.
    pub fn auth_user(&mut self, auth_user: usize) -> Checked {
        if self.auth_users.stopped {
            return Ok(());
        }
        let pause = self.rng.between(PAUSE_US.0, PAUSE_US.1);
        self.events.after(pause, Event::AuthUser { auth_user });
        let Some(host) = self.running_host() else { return Ok(()) };
        let now = self.events.now();
        let Some(user_token) = self.auth_users.auth_tokens[auth_user].clone() else {
            self.ask_for_token(host, auth_user);
            return Ok(());
        };
        let apply = &self.process(host).member.apply;
        let (applied, policy) = (apply.applied_index(), apply.auth().policy());
        let held = self.auth_users.permission_model.check_policy(applied, &policy);
        held.map_err(|what| Violation { checker: Checker::Permission, what })?;
        let local = self.local_now(host);
        let process = self.process(host);
        let revision = process.member.apply.auth().revision();
        let Some(name) = process.auth_tokens.user_of(local, &user_token.token) else {
            // Not known here, or not any more: sometimes the guest believes the latter.
            if self.rng.chance(300_000) {
                self.auth_users.auth_tokens[auth_user] = None;
            }
            return Ok(());
        };
        let number = self.auth_users.asked.len();
        let request = self.next_request(number);
        self.auth_users.ask(
            auth_user,
            now,
            AuthRequestKind::Keys { request: request.clone(), given: user_token.given },
        );
        let caller = Caller::User { name, revision };
        let work = match Command::from_request(request.clone()) {
            None => ClientWork::Read(request, caller),
            Some(command) => propose_for(&caller, &command),
        };
        self.send_work(host, number, work);
        Ok(())
    }

    /// The password fits: it is compared with the one at this member's auth revision.
    fn ask_for_token(&mut self, host: usize, auth_user: usize) {
        let revision = self.process(host).member.apply.auth().revision();
        let secret = format!("secret-{auth_user}-{}", self.auth_users.asked.len());
        let number = self.auth_users.ask(auth_user, self.events.now(), AuthRequestKind::Token);
        let command = Command::Auth(AuthCommand::Authenticate { user: user(auth_user), revision, secret });
        self.send_work(host, number, propose_for(&Caller::Anonymous, &command));
    }

    /// A put has its number as its value, by which the log is searched for it.
    fn next_request(&mut self, number: usize) -> Request {
        let key = Bytes::copy_from_slice(&[*self.rng.pick(LETTERS)]);
        match self.rng.between(0, 10) {
            0..5 => {
                let value = Some(Bytes::from(number.to_string()));
                Request::Put(Put { key, value, lease: None, prev_kv: false })
            }
            5 => Request::Delete(Delete { keys: letters(&mut self.rng), prev_kv: self.rng.chance(500_000) }),
            _ => Request::Range(Range::of(letters(&mut self.rng))),
        }
    }

    fn send_as(&mut self, host: usize, number: usize, name: &str, command: Command) {
        let revision = self.process(host).member.apply.auth().revision();
        let work = propose_for(&Caller::User { name: name.into(), revision }, &command);
        self.send_work(host, number, work);
    }

    fn send_work(&mut self, host: usize, number: usize, work: ClientWork) {
        let side_request = SideRequest::of_auth_user(self.events.now(), number);
        let pid = self.hosts[host].pid;
        self.events.after(100, Event::SideRequest { host, pid, side_request, work });
    }

    fn running_host(&mut self) -> Option<usize> {
        let running: Vec<usize> =
            (0..self.hosts.len()).filter(|host| self.hosts[*host].process.is_some()).collect();
        (!running.is_empty()).then(|| *self.rng.pick(&running))
    }

    pub fn answer_auth_user(&mut self, number: usize, reply: &Result<Reply, Code>) -> Checked {
        let AuthRequest { who, sent, what } = self.auth_users.asked[number].clone();
        match (what, reply) {
            (AuthRequestKind::Token, Ok(Reply { body: Body::Auth(AuthReply::Token(token)), .. })) => {
                let given = token.rsplit_once('.').and_then(|(_, index)| index.parse().ok()).map(Index);
                let given = given.expect("a token names its entry");
                self.auth_users.auth_tokens[who] = Some(HeldToken { token: token.as_str().into(), given });
            }
            (AuthRequestKind::Keys { request, given }, Ok(_)) => {
                self.counts.answered += 1;
                self.auth_users.served += 1;
                let credentials = Credentials { user: user(who), given, sent };
                return self
                    .auth_users
                    .permission_model
                    .check(number, &credentials, &request)
                    .map_err(|what| Violation { checker: Checker::Permission, what });
            }
            (AuthRequestKind::Keys { .. }, Err(Code::PermissionDenied | Code::AuthOldRevision)) => {
                self.counts.answered += 1;
                self.auth_users.refused += 1;
            }
            _ => {}
        }
        Ok(())
    }
}

fn propose_for(caller: &Caller, command: &Command) -> ClientWork {
    let mut bytes = Vec::new();
    command.encode_for(caller, &mut bytes);
    ClientWork::Propose(bytes.into())
}
