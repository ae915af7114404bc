//! The permissions that a command or a read needs: on every key that it would show or change, in either branch. A
//! caller's rights and the command go in, a refusal or nothing comes out. Commands that only members propose need no
//! permission; commands that a client can propose need at least a user.

use super::{Auth, AuthCommand, Caller, Rights};
use crate::command::Command;
use crate::leases::Leases;
use crate::lock_command::Acquire;
use crate::lock_queue;
use crate::request::{Delete, Put, Request, Txn};
use base::{Code, KeyRange, LeaseId};
use bytes::Bytes;

/// Refuses a command that this caller may not run.
pub(crate) fn check_command(
    auth: &Auth,
    leases: &Leases,
    caller: &Caller,
    command: &Command,
) -> Result<(), Code> {
    let check = |request: &dyn Fn(&PermissionCheck<'_>) -> Result<(), Code>| {
        request(&PermissionCheck { rights: auth.rights(caller)?, leases })
    };
    match command {
        Command::Put(put) => check(&|permissions| permissions.put(put)),
        Command::Delete(delete) => check(&|permissions| permissions.delete(delete)),
        Command::Txn(txn) => check(&|permissions| permissions.txn(txn)),
        Command::Fenced(fenced) => check(&|permissions| permissions.request(&fenced.request)),
        Command::FenceCheck(fence) => {
            check(&|permissions| permissions.rights.read(&lock_queue::keys_of(&fence.fence.lock)))
        }
        Command::LeaseGrant(_) => check(&|_| Ok(())),
        // Without a guard it is a client's; with one, the leader's.
        Command::LeaseRevoke(revoke) if revoke.guard.is_none() => {
            check(&|permissions| permissions.lease(revoke.id))
        }
        Command::LockAcquire(acquire) => check(&|permissions| permissions.acquire(acquire)),
        Command::LockRelease(release) => check(&|permissions| permissions.write_one(&release.key)),
        Command::Idempotent(once) => check_command(auth, leases, caller, once.command()),
        Command::Auth(command) => check_auth(auth, caller, command),
        Command::Authed(authed) => check_command(auth, leases, &authed.caller, authed.command()),
        Command::LeaseRevoke(_) | Command::LeaseCheckpoint(_) | Command::LockLeave(_) => Ok(()),
        // Clients' ones are checked before they are proposed, as in etcd.
        Command::Compact(_) | Command::Alarm(_) | Command::Quota(_) | Command::Members(_) => Ok(()),
        Command::TimeMark { .. } | Command::Document(_) => Ok(()),
    }
}

/// The same for a request that is answered without a command.
pub fn check_request(auth: &Auth, leases: &Leases, caller: &Caller, request: &Request) -> Result<(), Code> {
    PermissionCheck { rights: auth.rights(caller)?, leases }.request(request)
}

/// The same for a call about leases that is no command.
pub fn check_leases(auth: &Auth, leases: &Leases, caller: &Caller, need: LeaseAccess) -> Result<(), Code> {
    let permissions = PermissionCheck { rights: auth.rights(caller)?, leases };
    match need {
        LeaseAccess::Renew(id) => permissions.lease(id),
        LeaseAccess::List => permissions.read_leases(),
    }
}

/// Users may ask about themselves and their roles; everything else about auth is for root. As in etcd 3.7, every
/// caller may ask whether auth is enabled, and may ask for a token.
fn check_auth(auth: &Auth, caller: &Caller, command: &AuthCommand) -> Result<(), Code> {
    if matches!(command, AuthCommand::Authenticate { .. } | AuthCommand::Status) {
        return Ok(());
    }
    let rights = auth.rights(caller)?;
    match (command, caller) {
        (AuthCommand::UserGet { user }, Caller::User { name, .. }) if **name == **user => Ok(()),
        (AuthCommand::RoleGet { role } | AuthCommand::RoleData { role }, Caller::User { name, .. })
            if auth.has_role(name, role) =>
        {
            Ok(())
        }
        _ => rights.root(),
    }
}

/// What a caller does with leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAccess {
    /// Keeping a lease keeps its keys, so each of them must be one that the caller may write.
    Renew(LeaseId),
    /// As in etcd, a caller may list leases if it may read the keys of all of them.
    List,
}

struct PermissionCheck<'a> {
    rights: Rights<'a>,
    leases: &'a Leases,
}

impl PermissionCheck<'_> {
    fn request(&self, request: &Request) -> Result<(), Code> {
        match request {
            Request::Range(range) => self.rights.read(&range.keys),
            Request::Put(put) => self.put(put),
            Request::Delete(delete) => self.delete(delete),
            Request::Txn(txn) => self.txn(txn),
        }
    }

    fn put(&self, put: &Put) -> Result<(), Code> {
        self.write_one(&put.key)?;
        self.lease(put.lease.unwrap_or(LeaseId::NONE))?;
        if put.prev_kv { self.rights.read(&KeyRange::single(put.key.clone())) } else { Ok(()) }
    }

    fn delete(&self, delete: &Delete) -> Result<(), Code> {
        self.rights.write(&delete.keys)?;
        if delete.prev_kv { self.rights.read(&delete.keys) } else { Ok(()) }
    }

    /// Both branches, whichever will be taken: which one it was tells something, too.
    fn txn(&self, txn: &Txn) -> Result<(), Code> {
        txn.compares.iter().try_for_each(|compare| self.rights.read(&compare.keys))?;
        txn.success.iter().chain(&txn.failure).try_for_each(|request| self.request(request))
    }

    /// A place in the queue is a key, and the caller learns of the others.
    fn acquire(&self, acquire: &Acquire) -> Result<(), Code> {
        self.write_one(&lock_queue::key_of(&acquire.name, acquire.lease))?;
        self.rights.read(&lock_queue::keys_of(&acquire.name))?;
        self.lease(acquire.lease)
    }

    fn write_one(&self, key: &Bytes) -> Result<(), Code> {
        self.rights.write(&KeyRange::single(key.clone()))
    }

    /// A caller that attaches a key to a lease, or revokes it, affects all its keys.
    fn lease(&self, id: LeaseId) -> Result<(), Code> {
        let Some(lease) = self.leases.get(id).filter(|_| self.rights.root().is_err()) else { return Ok(()) };
        lease.keys().try_for_each(|key| self.write_one(&Bytes::copy_from_slice(key)))
    }
    fn read_leases(&self) -> Result<(), Code> {
        if self.rights.root().is_ok() {
            return Ok(());
        }
        let mut keys = self.leases.iter().flat_map(|(_, lease)| lease.keys());
        keys.try_for_each(|key| self.rights.read(&KeyRange::single(Bytes::copy_from_slice(key))))
    }
}
