//! One entry of the audit log: what is known of a request, gathered while it is served. Names and keys are copied and cut
//! to a bound, so that an entry pins no request and a hostile one takes little; values have no place in it.

use base::{KeyRange, RangeEnd};
use coord::request::Request;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

/// What of one key or name is shown.
const TEXT_BYTES_MAX: usize = 512;
/// How many keys or ranges are shown; of the others only their number is.
const KEYS_MAX: usize = 16;
const TARGETS_MAX: usize = 8;
/// The most operations of a request that are examined.
const OPERATIONS_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditClass {
    Read,
    Change,
    /// A caller shows a password for a token.
    Login,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    Ok,
    /// Nothing was done, because the caller may not or asked for what cannot be.
    Refused,
    /// The request was not done, for another reason.
    Failed,
    /// The caller does not know whether the request was done.
    Unknown,
}

/// How a caller has shown who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentifiedBy {
    Token,
    Password,
    Certificate,
    /// A secret that nodes of the cluster share, or a join token.
    Cluster,
}

#[derive(Clone, Debug)]
pub struct AuditEntry {
    pub class: AuditClass,
    /// `grpc`, `json`, `rest` or `peer`.
    pub protocol: &'static str,
    pub operation: Cow<'static, str>,
    pub address: Option<SocketAddr>,
    /// None for an unknown caller.
    pub user: Option<Arc<str>>,
    pub identified_by: Option<IdentifiedBy>,
    pub namespace: Option<String>,
    pub(super) keys: Vec<Keys>,
    /// Keys that are not shown.
    pub(super) more_keys: usize,
    /// Other things that the request names, as a user or a member.
    pub(super) targets: Vec<(&'static str, String)>,
    /// The id of the caller's trace.
    pub trace: Option<String>,
    pub outcome: AuditOutcome,
    pub code: Cow<'static, str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    One(Text),
    /// Up to, and without, the end; without one to the last key.
    Range(Text, Option<Text>),
}

/// Bytes of a key, cut to their bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub bytes: Vec<u8>,
    pub is_cut: bool,
}

impl Text {
    fn of(bytes: &[u8]) -> Text {
        let shown = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
        Text { bytes: shown.to_vec(), is_cut: shown.len() < bytes.len() }
    }
}

impl AuditEntry {
    pub fn new(
        class: AuditClass,
        protocol: &'static str,
        operation: impl Into<Cow<'static, str>>,
    ) -> AuditEntry {
        AuditEntry {
            class,
            protocol,
            operation: operation.into(),
            address: None,
            user: None,
            identified_by: None,
            namespace: None,
            keys: Vec::new(),
            more_keys: 0,
            targets: Vec::new(),
            trace: None,
            outcome: AuditOutcome::Unknown,
            code: Cow::Borrowed(""),
        }
    }

    pub fn add_key(&mut self, key: &[u8]) {
        self.add(|| Keys::One(Text::of(key)));
    }

    /// Adds the range from `start` to `end` (excluded), or without an end.
    pub fn add_keys_from(&mut self, start: &[u8], end: Option<&[u8]>) {
        self.add(|| Keys::Range(Text::of(start), end.map(Text::of)));
    }

    pub fn add_range(&mut self, keys: &KeyRange) {
        match &keys.end {
            RangeEnd::Single => self.add_key(&keys.start),
            RangeEnd::Before(end) => self.add_keys_from(&keys.start, Some(end)),
            RangeEnd::Open => self.add_keys_from(&keys.start, None),
        }
    }

    /// The same keys may be noted at several steps of one request.
    fn add(&mut self, make: impl FnOnce() -> Keys) {
        if self.keys.len() < KEYS_MAX {
            let keys = make();
            if !self.keys.contains(&keys) {
                self.keys.push(keys);
            }
        } else {
            self.more_keys += 1;
        }
    }

    pub fn add_target(&mut self, kind: &'static str, name: &str) {
        let mut end = name.len().min(TEXT_BYTES_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let target = (kind, name[..end].to_owned());
        if self.targets.len() < TARGETS_MAX && !self.targets.contains(&target) {
            self.targets.push(target);
        }
    }

    /// The keys that a request of the coordination store reads or writes, and whether it writes any.
    pub fn add_request(&mut self, request: &Request) {
        if self.class == AuditClass::Change && request.is_read_only() {
            self.class = AuditClass::Read;
        }
        let (mut waiting, mut seen) = (vec![request], 0);
        while let Some(request) = waiting.pop() {
            seen += 1;
            if seen > OPERATIONS_MAX {
                self.more_keys += 1;
                continue;
            }
            match request {
                Request::Range(range) => self.add_range(&range.keys),
                Request::Put(put) => self.add_key(&put.key),
                Request::Delete(delete) => self.add_range(&delete.keys),
                Request::Txn(txn) => {
                    txn.compares
                        .iter()
                        .take(OPERATIONS_MAX)
                        .for_each(|compare| self.add_range(&compare.keys));
                    waiting.extend(txn.failure.iter().rev());
                    waiting.extend(txn.success.iter().rev());
                }
            }
        }
    }

    pub fn end(&mut self, outcome: AuditOutcome, code: impl Into<Cow<'static, str>>) {
        (self.outcome, self.code) = (outcome, code.into());
    }
}
