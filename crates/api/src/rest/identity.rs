//! The name on a client's certificate, where such names are those of users (`--client-cert-auth`): it says who asks, unless
//! the request says so itself or was passed on. A proxy that shows its own certificate asks for others, and must say for
//! whom.

use crate::mutant::Mutant;
use axum::http::{HeaderMap, Request};
use base::mutant::planted;
use bytes::Bytes;
use std::sync::Arc;

/// By these a proxy says that it passes a request on.
pub const PASSED_ON: [&str; 3] = ["forwarded", "x-forwarded-for", "via"];

/// What a connection knows of its client by the certificate.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    pub name: Arc<str>,
    /// A token that stands for the name, in this process alone.
    pub certificate_token: Bytes,
}

impl ClientIdentity {
    /// The identity of a request's certificate, if the certificate says who asks.
    pub fn of<B>(request: &Request<B>) -> Option<&ClientIdentity> {
        let identity = request.extensions().get::<ClientIdentity>();
        identity.filter(|_| counts_for(request.headers()))
    }

    /// What the request is authorized by: its own header, or the certificate.
    pub fn authorization<'a>(identity: Option<&'a ClientIdentity>, headers: &'a HeaderMap) -> &'a [u8] {
        let identity = identity.filter(|_| counts_for(headers));
        identity.map_or(super::guard::authorization(headers), |identity| &identity.certificate_token)
    }
}

fn counts_for(headers: &HeaderMap) -> bool {
    let is_passed_on = PASSED_ON.iter().any(|name| headers.contains_key(*name));
    super::guard::authorization(headers).is_empty() && (!is_passed_on || planted(Mutant::ProxyTakenForCaller))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_certificate_counts_where_the_request_says_nothing_and_no_proxy_passed_it_on() {
        let identity = ClientIdentity {
            name: "ann".into(),
            certificate_token: Bytes::from_static(b"certificate_token"),
        };
        let of = |names: &[&'static str]| {
            let mut headers = HeaderMap::new();
            names.iter().for_each(|name| drop(headers.insert(*name, HeaderValue::from_static("x"))));
            ClientIdentity::authorization(Some(&identity), &headers).to_vec()
        };
        assert_eq!(of(&[]), b"certificate_token");
        assert_eq!(of(&["traceparent"]), b"certificate_token");
        assert_eq!(of(&["authorization"]), b"x");
        for name in PASSED_ON {
            assert_eq!(of(&[name]), b"", "{name}");
        }
        assert_eq!(ClientIdentity::authorization(None, &HeaderMap::new()), b"");
    }
}
