//! TLS of a client port. ServerFiles go in; the configuration for the next handshake comes out. With authorities, a client
//! without a certificate of theirs is not let in; nothing of a session outlives its connection, so that every
//! handshake verifies again.

use crate::extended_verifier::ExtendedVerifier;
use crate::files::{self, ServerFiles};
use crate::own_authority::OwnAuthorityRule;
use crate::reload::{CHECK_EVERY, Reloading};
use crate::{Error, certificate, provider};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};
use std::sync::Arc;

/// In the order in which we would rather speak them.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The oldest version of TLS that is spoken. etcd's own clients up to 3.5 do not speak 1.3; of 1.2 the library speaks only
/// what has forward secrecy and authenticated ciphers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinVersion {
    Tls12,
    Tls13,
}

pub struct ServerTls {
    made: Reloading<BuiltServer>,
}

struct BuiltServer {
    config: Arc<ServerConfig>,
    /// In seconds since 1970.
    expiry: Option<u64>,
    shown: CertificateDer<'static>,
}

impl ServerTls {
    pub fn open(files: ServerFiles, min: MinVersion) -> Result<ServerTls, Error> {
        let paths = files.paths();
        let made = Reloading::new(paths, CHECK_EVERY, Box::new(move || make(&files, min)))?;
        Ok(ServerTls { made })
    }

    /// For the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.made.get().config.clone()
    }

    /// Whether the certificate that is shown is good for this host name.
    pub fn is_certified_for(&self, host: &str) -> bool {
        let made = self.made.get();
        let Ok(name) = ServerName::try_from(host) else { return false };
        ParsedCertificate::try_from(&made.shown).is_ok_and(|shown| verify_server_name(&shown, &name).is_ok())
    }

    /// When the certificate that is shown ends, in seconds since 1970.
    pub fn expiry(&self) -> Option<u64> {
        self.made.get().expiry
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

fn make(files: &ServerFiles, min: MinVersion) -> Result<BuiltServer, Error> {
    let versions: &[&SupportedProtocolVersion] = match min {
        MinVersion::Tls12 => &[&TLS13, &TLS12],
        MinVersion::Tls13 => &[&TLS13],
    };
    let chain = files::chain(&files.cert)?;
    let shown = chain[0].clone();
    let expiry = certificate::expiry(&shown);
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .expect("the provider has algorithms for both versions");
    let builder = match &files.ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(files::roots(ca)?), provider());
            if let Some(crl) = &files.crl {
                verifier = verifier.with_crls(files::revoked(crl)?).allow_unknown_revocation_status();
            }
            let inner = verifier.build().map_err(|reason| files::unusable(ca, reason))?;
            let (authorities, has_crl) = (files::chain(ca)?, files.crl.is_some());
            let cert_required = inner.client_auth_mandatory();
            let rule = OwnAuthorityRule { authorities, has_crl };
            builder.with_client_cert_verifier(Arc::new(ExtendedVerifier { inner, rule, cert_required }))
        }
    };
    let mut config = builder
        .with_single_cert(chain, files::key(&files.key)?)
        .map_err(|reason| files::unusable(&files.cert, reason))?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(BuiltServer { config: Arc::new(config), expiry, shown })
}
