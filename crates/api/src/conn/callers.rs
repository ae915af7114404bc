//! The caller of a connection's requests: the token of a call, or the name on the client's certificate.
//! The head of a call goes in and the handle that acts for its caller comes out. The last caller is cached, so the calls of
//! one client cost one comparison. What cannot be decided at once is left to the services.

use crate::clients::ClientRecord;
use crate::grpc::call_context;
use bytes::Bytes;
use http2::{Field, Head};
use server::{Admission, Handle};
use std::sync::Arc;

pub struct CallerCache {
    /// The token of the client's certificate, if its name is that of a user.
    certificate_token: Option<Bytes>,
    last: Option<Admission>,
    client: Arc<ClientRecord>,
}

impl CallerCache {
    pub fn new(certificate_token: Option<Bytes>, client: Arc<ClientRecord>) -> CallerCache {
        CallerCache { certificate_token, last: None, client }
    }

    /// The handle that acts for the caller of this call, which is `open` while auth is off. `None` for a caller that must
    /// wait, is refused, or has no token.
    pub fn handle<'a>(&'a mut self, open: &'a Handle, head: &Head) -> Option<&'a Handle> {
        if !open.auth().is_on() {
            return Some(open);
        }
        let token = match call_context::token_in(head) {
            Some(token) => token,
            None => self.certificate_token.as_deref().filter(|_| call_context::may_use_certificate(head))?,
        };
        if !self.last.as_ref().is_some_and(|last| last.holds(token)) {
            self.last = open.auth().admit_at_once(token);
            if let Some(admitted) = &self.last {
                self.client.set_caller(admitted.handle().caller());
            }
        }
        self.last.as_ref().map(Admission::handle)
    }

    /// The token of the client's certificate.
    pub fn certificate_token(&self) -> Option<Bytes> {
        self.certificate_token.clone()
    }

    /// Adds the caller to the head of a call for the router, if only the certificate names it.
    pub fn show(&self, head: &mut Head) {
        if let Some(certificate_token) =
            self.certificate_token.as_ref().filter(|_| call_context::may_use_certificate(head))
        {
            head.fields.push(Field {
                name: Bytes::from_static(call_context::TOKEN.as_bytes()),
                value: certificate_token.clone(),
            });
        }
    }
}
