//! The head of a call: what the messages say in fields and the REST API in headers and in the query, brought into the latter's
//! form, so that it is parsed and refused in one place.

use super::check_sees;
use crate::grpc::calls;
use crate::rest::Rest;
use crate::rest::query::Query;
use crate::rest::refusal::Refusal;
use crate::rest::request_head::RequestHead;
use axum::http::{HeaderMap, HeaderValue};
use mesh::namespaces;
use proto::althing::data::v1 as wire;
use tonic::metadata::MetadataMap;

/// The longest that a call waits for replicas, in milliseconds.
const TIMEOUT_MS_MAX: u128 = 60_000;

#[derive(Clone, Debug)]
pub struct CallHead {
    namespace: String,
    query: Vec<(String, String)>,
    headers: HeaderMap,
}

impl CallHead {
    pub fn of(metadata: &MetadataMap, scope: Option<wire::Scope>) -> Result<CallHead, Refusal> {
        let scope = scope.unwrap_or_default();
        let namespace = Some(scope.namespace).filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or(namespaces::DEFAULT.to_owned());
        let mut head = CallHead { namespace, query: Vec::new(), headers: HeaderMap::new() };
        let deadline = metadata.get(calls::TIMEOUT).and_then(|text| calls::parse_timeout(text.as_bytes()));
        if let Some(deadline) = deadline {
            head.set_query("timeout_ms", deadline.as_millis().clamp(1, TIMEOUT_MS_MAX));
        }
        let level = wire::Consistency::try_from(scope.consistency);
        match level.map_err(|_| Refusal::bad("there is no such consistency"))? {
            wire::Consistency::Default => {}
            level => head.set("x-consistency-level", level.as_str_name())?,
        }
        head.set("x-session-token", &scope.session)?;
        Ok(head)
    }

    pub fn reading(mut self, options: Option<wire::ReadOptions>) -> Result<CallHead, Refusal> {
        let wire::ReadOptions { r, min_version } = options.unwrap_or_default();
        if r != 0 {
            self.set_query("r", r);
        }
        self.set("x-min-vector-clock", &min_version)?;
        Ok(self)
    }

    pub fn writing(mut self, options: Option<wire::WriteOptions>) -> Result<CallHead, Refusal> {
        let wire::WriteOptions { w, sloppy, request_id, context, if_version, conflict_resolution, fence } =
            options.unwrap_or_default();
        if w != 0 {
            self.set_query("w", w);
        }
        if sloppy {
            self.set_query("sloppy", true);
        }
        self.set("x-request-id", &request_id)?;
        self.set("x-vector-clock", &context)?;
        self.set("x-if-vector-clock", &if_version)?;
        let resolution = wire::ConflictResolution::try_from(conflict_resolution);
        match resolution.map_err(|_| Refusal::bad("there is no such resolution of conflicts"))? {
            wire::ConflictResolution::ConflictDefault => {}
            named => self.set("x-conflict-resolution", named.as_str_name())?,
        }
        if let Some(wire::Fence { lock, token }) = fence {
            let lock = crate::percent::encode(lock.as_bytes()).replace(',', "%2C").replace(' ', "%20");
            self.set("x-fence", &format!("lock={lock},token={token}"))?;
        }
        Ok(self)
    }

    /// The keys of a scan.
    pub fn ranging(mut self, keys: Option<wire::Keys>) -> CallHead {
        let wire::Keys { start, end, prefix } = keys.unwrap_or_default();
        let ends = [("start", start), ("end", end), ("prefix", prefix)];
        ends.into_iter()
            .filter(|(_, text)| !text.is_empty())
            .for_each(|(name, text)| self.set_query(name, text));
        self
    }

    fn set_query(&mut self, name: &str, value: impl ToString) {
        self.query.push((name.to_owned(), value.to_string()));
    }

    /// An empty field says nothing.
    fn set(&mut self, name: &'static str, value: &str) -> Result<(), Refusal> {
        if !value.is_empty() {
            let value = HeaderValue::try_from(value);
            let value = value.map_err(|_| Refusal::bad(format!("{name} must be plain text")))?;
            self.headers.insert(name, value);
        }
        Ok(())
    }

    /// The head, in the namespace that is named.
    pub async fn find(self, rest: &Rest) -> Result<RequestHead, Refusal> {
        crate::audit::note(|entry| entry.namespace = Some(self.namespace.clone()));
        check_sees(rest, &self.namespace)?;
        let space = rest.spaces().find(rest.handle(), &self.namespace).await?;
        RequestHead::of_call(space.into(), Query::of(self.query), self.headers)
    }

    /// The head, in the namespace of another one.
    pub fn beside(self, other: &RequestHead) -> RequestHead {
        other.beside(Query::of(self.query), self.headers)
    }
}
