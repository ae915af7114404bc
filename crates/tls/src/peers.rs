//! TLS between members: each shows a certificate, whoever dialled.
//! Files go in; configurations for accepting and for dialling come out. A certificate is believed if an authority of the
//! peers' own vouches for it for both ends of a connection: what clients are given, usually good for one end alone, opens
//! nothing here. Which member it may speak for is decided by `speaks_for`.

use crate::files::{self, Files};
use crate::reload::{LOOK_EVERY, Reloading};
use crate::{Error, certificate, provider};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::client::{VerifierBuilderError, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore};
use rustls::{ServerConfig, SignatureScheme};
use std::path::PathBuf;
use std::sync::Arc;

/// Nobody who wants to speak something else is let in.
const PROTOCOL: &[u8] = b"althing-peer";

/// As `Files`, but there is always somebody to be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
    pub crl: Option<PathBuf>,
}

pub struct Peers {
    made: Reloading<Made>,
}

struct Made {
    configs: PeerConfigs,
    expiry: Option<u64>,
}

/// For the next connection.
#[derive(Clone)]
pub struct PeerConfigs {
    pub accept: Arc<ServerConfig>,
    pub dial: Arc<ClientConfig>,
}

impl Peers {
    pub fn open(peer_files: PeerFiles) -> Result<Peers, Error> {
        let PeerFiles { cert, key, ca, crl } = peer_files.clone();
        let paths = Files { cert, key, ca: Some(ca), crl }.paths();
        let made = Reloading::new(paths, LOOK_EVERY, Box::new(move || make(&peer_files)))?;
        Ok(Peers { made })
    }

    pub fn configs(&self) -> PeerConfigs {
        self.made.get().configs.clone()
    }

    /// When the certificate that is shown ends, in seconds since 1970.
    pub fn expiry(&self) -> Option<u64> {
        self.made.get().expiry
    }

    /// Whether somebody who has shown these certificates may be who is reached at `host:port`.
    pub fn speaks_for(certificates: &[CertificateDer<'_>], address: &str) -> bool {
        let (Some(certificate), Some(name)) = (certificates.first(), name_of(address)) else { return false };
        ParsedCertificate::try_from(certificate)
            .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
    }
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Peers")
    }
}

/// The host of `host:port`, as certificates name it.
pub(crate) fn name_of(address: &str) -> Option<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned()).ok()
}

impl PeerConfigs {
    /// Under which name the member that is reached at `host:port` must show itself.
    pub fn name_of(address: &str) -> Option<ServerName<'static>> {
        name_of(address)
    }
}

fn make(files: &PeerFiles) -> Result<Made, Error> {
    let chain = files::chain(&files.cert)?;
    let expiry = certificate::expiry(&chain[0]);
    let roots = Arc::new(files::roots(&files.ca)?);
    let crls = files.crl.as_deref().map(files::revoked).transpose()?.unwrap_or_default();
    let unbuilt = |reason: VerifierBuilderError| files::unusable(&files.ca, reason);
    let misfit = |reason: rustls::Error| files::unusable(&files.cert, reason);

    let mut inner = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
    let mut outer = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider());
    if !crls.is_empty() {
        inner = inner.with_crls(crls.clone()).allow_unknown_revocation_status();
        outer = outer.with_crls(crls).allow_unknown_revocation_status();
    }
    let verifier = BothEnds { inner: inner.build().map_err(unbuilt)?, roots };

    let mut accept = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has algorithms for it")
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(chain.clone(), files::key(&files.key)?)
        .map_err(misfit)?;
    accept.alpn_protocols = vec![PROTOCOL.to_vec()];
    accept.session_storage = Arc::new(NoServerSessionStorage {});
    accept.send_tls13_tickets = 0;

    let mut dial = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider has algorithms for it")
        .with_webpki_verifier(outer.build().map_err(unbuilt)?)
        .with_client_auth_cert(chain, files::key(&files.key)?)
        .map_err(misfit)?;
    dial.alpn_protocols = vec![PROTOCOL.to_vec()];
    dial.resumption = Resumption::disabled();
    Ok(Made { configs: PeerConfigs { accept: Arc::new(accept), dial: Arc::new(dial) }, expiry })
}

/// Believes who dials only with a certificate that is good for being dialled as well.
#[derive(Debug)]
struct BothEnds {
    inner: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
}

impl ClientCertVerifier for BothEnds {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = provider().signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        self.inner.verify_client_cert(end_entity, intermediates, now)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_without_its_port() {
        let name = |address| name_of(address).map(|name| name.to_str().into_owned());
        assert_eq!(name("db1.example.com:2380").as_deref(), Some("db1.example.com"));
        assert_eq!(name("10.0.0.1:2380").as_deref(), Some("10.0.0.1"));
        assert_eq!(name("[::1]:2380").as_deref(), Some("::1"));
        assert_eq!(name("a b:1"), None);
    }
}
