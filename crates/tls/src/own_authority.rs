//! Client certificates that are their own authority: a file of authorities may hold a self-signed certificate that
//! a client shows as it is. The library refuses an authority at the end of a chain; Go's does not, and etcd's users
//! have such certificates. One is accepted if it is byte for byte in the file, and its time has not passed.

use crate::certificate;
use crate::extended_verifier::ClientCertRule;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};

#[derive(Debug)]
pub(crate) struct OwnAuthorityRule {
    pub authorities: Vec<CertificateDer<'static>>,
    /// With a list of revoked certificates, only the library decides.
    pub has_crl: bool,
}

impl ClientCertRule for OwnAuthorityRule {
    fn verify(
        &self,
        inner: &dyn ClientCertVerifier,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        inner.verify_client_cert(end_entity, intermediates, now).or_else(|refusal| {
            let is_listed = !self.has_crl && self.authorities.contains(end_entity);
            let is_in_time = certificate::expiry(end_entity).is_some_and(|expiry| now.as_secs() <= expiry);
            if is_listed && is_in_time { Ok(ClientCertVerified::assertion()) } else { Err(refusal) }
        })
    }
}
