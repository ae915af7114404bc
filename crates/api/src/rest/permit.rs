//! The rights that a request to the mesh demands of its caller: every key that it would show or change. It stands in front of the mesh,
//! so that no handler can forget it; a request of a new kind does not compile until it is checked here.

use super::Rest;
use super::refusal::Refusal;
use crate::audit;
use crate::mutant::Mutant;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use base::Code;
use base::mutant::planted;
use mesh::{Key, Op, Request, Scan, Write};
use server::{AuditEntry, DataCaller, DataRights, DataVerb};
use std::convert::Infallible;
use std::sync::Arc;

/// Handlers get the API together with the caller that the guard has found.
impl FromRequestParts<Rest> for Rest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, rest: &Rest) -> Result<Rest, Infallible> {
        Ok(rest.with_caller(parts.extensions.get::<Arc<DataCaller>>().cloned()))
    }
}

impl Rest {
    pub fn with_caller(&self, caller: Option<Arc<DataCaller>>) -> Rest {
        Rest { shared: self.shared.clone(), caller }
    }

    /// The caller's rights; none if everything is permitted.
    fn rights(&self) -> Result<Option<&DataRights>, Refusal> {
        match &self.caller {
            Some(caller) => Ok(Some(caller.rights())),
            // Auth was turned on after the request was admitted.
            None if self.handle().auth().is_on() => Err(Code::UserEmpty.into()),
            None => Ok(None),
        }
    }

    pub fn permit(&self, request: &Request) -> Result<(), Refusal> {
        audit::note(|entry| note(entry, request));
        let Some(rights) = self.rights()? else { return Ok(()) };
        match request {
            Request::Read { key, .. } => check_key(rights, DataVerb::Read, key),
            Request::Get(get) => check_key(rights, DataVerb::Read, &get.key),
            Request::Elements(read) => check_key(rights, DataVerb::Read, &read.key),
            Request::Write(write) => check_write(rights, write),
            Request::Batch(writes) => writes.iter().try_for_each(|write| check_write(rights, write)),
            Request::Scan(scan) => {
                let may = rights.may_range(DataVerb::Read, scan.namespace_id, &scan.start, scan.end.as_ref());
                check(may, "read on all keys of the range")
            }
            Request::Query(query) => {
                check(rights.may_all(DataVerb::Read, query.namespace_id), "read on all keys of the namespace")
            }
            // The feed checks its consumers itself, each for its own keys.
            Request::Rows { .. } | Request::Feed { .. } => check(rights.is_root(), "root"),
            // Conflicts that the caller may not see are left out of the answer.
            Request::Conflicts { .. } => Ok(()),
        }
    }

    /// All keys of a range are deleted: who may not write one of them deletes none.
    pub fn permit_deletion(&self, scan: &Scan) -> Result<(), Refusal> {
        let Some(rights) = self.rights()? else { return Ok(()) };
        let may = rights.may_range(DataVerb::Write, scan.namespace_id, &scan.start, scan.end.as_ref());
        check(may, "write on all keys of the range")
    }

    pub fn may_read(&self, key: &Key) -> bool {
        let may = |rights: &DataRights| rights.may_key(DataVerb::Read, key.namespace_id(), key.name_slice());
        self.rights().is_ok_and(|rights| rights.is_none_or(may))
    }

    pub fn may_see(&self, space: u32) -> bool {
        self.rights().is_ok_and(|rights| rights.is_none_or(|rights| rights.may_see(space)))
    }
}

/// The keys that a request is about.
fn note(entry: &mut AuditEntry, request: &Request) {
    match request {
        Request::Read { key, .. } => entry.add_key(key.name_slice()),
        Request::Get(get) => entry.add_key(get.key.name_slice()),
        Request::Elements(read) => entry.add_key(read.key.name_slice()),
        Request::Write(write) => entry.add_key(write.key.name_slice()),
        Request::Batch(writes) => writes.iter().for_each(|write| entry.add_key(write.key.name_slice())),
        Request::Scan(scan) => entry.add_keys_from(&scan.start, scan.end.as_deref()),
        Request::Query(_) | Request::Conflicts { .. } | Request::Rows { .. } | Request::Feed { .. } => {}
    }
}

/// A write that shows what is there, as operations on values that merge and refused conditions do, reads it too.
fn check_write(rights: &DataRights, write: &Write) -> Result<(), Refusal> {
    check_key(rights, DataVerb::Write, &write.key)?;
    let shows_nothing = matches!(write.op, Op::Put(_) | Op::Delete) && write.expect.is_none();
    if shows_nothing { Ok(()) } else { check_key(rights, DataVerb::Read, &write.key) }
}

fn check_key(rights: &DataRights, verb: DataVerb, key: &Key) -> Result<(), Refusal> {
    let needed = match verb {
        DataVerb::Read => "read on the key",
        _ => "write on the key",
    };
    check(rights.may_key(verb, key.namespace_id(), key.name_slice()), needed)
}

fn check(may: bool, needed: &str) -> Result<(), Refusal> {
    if may || planted(Mutant::DataPermissionUnchecked) {
        Ok(())
    } else {
        Err(Refusal::new(Code::PermissionDenied, format!("this needs the permission {needed}")))
    }
}
