//! TLS of a client: the authorities that it trusts, and its own certificate.
//! PEM goes in; what the transport needs for one endpoint comes out. Servers are always verified, by the host of
//! their endpoint.

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// The authorities that servers are verified by.
    pub roots: Vec<u8>,
    /// A certificate and its private key, for servers that ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    pub(crate) fn config_for(&self, host: &str) -> ClientTlsConfig {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let config =
            ClientTlsConfig::new().domain_name(host).ca_certificate(Certificate::from_pem(&self.roots));
        match &self.identity {
            Some((cert, key)) => config.identity(Identity::from_pem(cert, key)),
            None => config,
        }
    }
}
