//! Trust of a node that dials without a certificate of its own: the authority whose fingerprint it was given, or,
//! where members prove nothing to each other, any server.

use crate::peers::{DialTls, MEMBER_NAME, PROTOCOL};
use crate::provider;
use crate::secret::{Fingerprint, roots_of};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// A joining node trusts members of the cluster whose authority its token names.
pub struct PinnedAuthority;

impl PinnedAuthority {
    pub fn dial(authority: Fingerprint) -> DialTls {
        DialTls {
            config: config(Verifier { authority: Some(authority) }),
            name: ServerName::try_from(MEMBER_NAME).ok(),
        }
    }
}

/// For `--peer-auto-tls`.
pub(crate) struct TrustAnyServer;

impl TrustAnyServer {
    pub fn config() -> Arc<ClientConfig> {
        config(Verifier { authority: None })
    }
}

fn config(verifier: Verifier) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has algorithms for it")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

#[derive(Debug)]
struct Verifier {
    /// Any if there is none.
    authority: Option<Fingerprint>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(authority) = self.authority else { return Ok(ServerCertVerified::assertion()) };
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        // The members show the authority behind their own certificate.
        let root =
            intermediates.iter().find(|shown| Fingerprint::of(shown) == authority).ok_or_else(unknown)?;
        let roots = roots_of(&root.clone().into_owned()).map_err(|_| unknown())?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, &[], now, algorithms)?;
        verify_server_name(&certificate, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
