//! TLS of a client: the authorities that it trusts, and its own certificate. Paths go in; PEM for a library that
//! reads it itself, or a configuration, comes out.

use crate::files::{self, chain, key, read};
use crate::peers::name_of;
use crate::{Error, provider};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where systems keep their trusted authorities; the first that exists is used.
const SYSTEM_ROOTS: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/ssl/cert.pem",
];
/// Names another one.
const SYSTEM_ROOTS_VARIABLE: &str = "SSL_CERT_FILE";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The trusted authorities; those of the system if there is none.
    pub ca: Option<PathBuf>,
    /// The client certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// As the files hold it, and known to be usable.
#[derive(Clone)]
pub struct ClientPem {
    pub roots: Vec<u8>,
    /// The certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl ClientFiles {
    pub fn pem(&self) -> Result<ClientPem, Error> {
        self.config(&[])?;
        let identity = match &self.identity {
            Some((cert, key)) => Some((read(cert)?, read(key)?)),
            None => None,
        };
        Ok(ClientPem { roots: read(&self.roots_path()?)?, identity })
    }

    /// For connections on which one of these protocols is spoken.
    pub fn config(&self, protocols: &[&[u8]]) -> Result<Arc<ClientConfig>, Error> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the provider has algorithms for them")
            .with_root_certificates(self.roots()?);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key_file)) => builder
                .with_client_auth_cert(chain(cert)?, key(key_file)?)
                .map_err(|reason| files::unusable(cert, reason))?,
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    /// The name that the certificate of the server at `host:port` must have.
    pub fn name_of(address: &str) -> Option<ServerName<'static>> {
        name_of(address)
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        if let Some(ca) = &self.ca {
            return files::roots(ca);
        }
        // Some of the system's certificates may be of an unsupported kind.
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(chain(&self.roots_path()?)?);
        Ok(roots)
    }

    fn roots_path(&self) -> Result<PathBuf, Error> {
        let system = || {
            let named = std::env::var_os(SYSTEM_ROOTS_VARIABLE).map(PathBuf::from);
            let known = SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists());
            named.or(known.map(Path::to_owned))
        };
        self.ca.clone().or_else(system).ok_or(Error::NoSystemRoots)
    }
}
