//! Client certificates that are their own authority: a file of authorities may hold a self-signed certificate that
//! a client shows as it is. The library refuses an authority at the end of a chain; Go's does not, and etcd's users
//! have such certificates. One is accepted if it is byte for byte in the file, and its time has not passed.

use crate::certificate;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct OwnAuthorityVerifier {
    pub inner: Arc<dyn ClientCertVerifier>,
    pub authorities: Vec<CertificateDer<'static>>,
    /// With a list of revoked certificates, only the library decides.
    pub has_crl: bool,
}

impl ClientCertVerifier for OwnAuthorityVerifier {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.inner.verify_client_cert(end_entity, intermediates, now).or_else(|refusal| {
            let is_listed = !self.has_crl && self.authorities.contains(end_entity);
            let is_in_time = certificate::expiry(end_entity).is_some_and(|expiry| now.as_secs() <= expiry);
            if is_listed && is_in_time { Ok(ClientCertVerified::assertion()) } else { Err(refusal) }
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
