//! Counts calls by the version that a client names in its metadata, as etcd's own clients do.
//! A connection keeps the counters that it used last, so that a call costs a comparison and an addition.

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What a client calls its version.
pub const VERSION: &str = "client-api-version";
/// Counted apart; clients choose the text, and further ones are counted together.
const VERSIONS_MAX: usize = 32;
const VERSION_BYTES_MAX: usize = 32;
const UNKNOWN: &str = "unknown";
const OTHER: &str = "other";

#[derive(Debug, Default)]
pub struct ClientVersions {
    pub requests: Family<[(&'static str, String); 2], Counter>,
    known: Mutex<BTreeSet<String>>,
}

impl ClientVersions {
    /// The counter of calls of this kind, `unary` or `stream`, whose client names this version.
    pub fn counter(&self, kind: &'static str, version: Option<&[u8]>) -> Counter {
        let version = version.map_or(UNKNOWN, |version| self.admitted(version));
        self.requests
            .get_or_create(&[("type", kind.to_owned()), ("client_api_version", version.to_owned())])
            .clone()
    }

    fn admitted<'a>(&self, version: &'a [u8]) -> &'a str {
        let Some(text) = std::str::from_utf8(version).ok().filter(|text| text.len() <= VERSION_BYTES_MAX)
        else {
            return OTHER;
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(text) || known.len() < VERSIONS_MAX {
            known.insert(text.to_owned());
            text
        } else {
            OTHER
        }
    }
}

/// The counter that a connection used last for unary calls.
#[derive(Debug, Default)]
pub struct VersionCache(Option<(Option<Bytes>, Counter)>);

impl VersionCache {
    pub fn count(&mut self, versions: &ClientVersions, version: Option<&Bytes>) {
        if let Some((last, counter)) = &self.0
            && last.as_ref() == version
        {
            counter.inc();
            return;
        }
        let counter = versions.counter("unary", version.map(|version| version.as_ref()));
        counter.inc();
        self.0 = Some((version.map(|version| Bytes::copy_from_slice(version)), counter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_counted_apart_and_no_more_than_the_limit() {
        let versions = ClientVersions::default();
        let mut cache = VersionCache::default();
        for version in ["3.5", "3.5", "3.7"] {
            cache.count(&versions, Some(&Bytes::from_static(version.as_bytes())));
        }
        cache.count(&versions, None);
        assert_eq!(versions.counter("unary", Some(b"3.5")).get(), 2);
        assert_eq!(versions.counter("unary", Some(b"3.7")).get(), 1);
        assert_eq!(versions.counter("unary", None).get(), 1);
        for nth in 0..100 {
            versions.counter("stream", Some(format!("x{nth}").as_bytes())).inc();
        }
        assert_eq!(versions.counter("stream", Some(b"x200")).get(), 70);
    }
}
