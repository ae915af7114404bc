//! The options of all client verbs about TLS, as etcdctl spells them: which authorities to trust, which certificate to use.
//! Flags and variables go in; files for the endpoints that speak TLS come out, or nothing where none does. Servers are
//! always verified.

use super::Error;
use clap::{ArgAction, Args};
use std::path::PathBuf;
use tls::ClientFiles;

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection and output")]
pub struct TlsOptions {
    /// Trust servers by these authorities (PEM), and use TLS [default: $ALTHING_CACERT, $ETCDCTL_CACERT, or the system's]
    #[arg(id = "tls-cacert", long = "cacert", value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Present this certificate (PEM) to servers that ask for one [default: $ALTHING_CERT or $ETCDCTL_CERT]
    #[arg(id = "tls-cert", long = "cert", value_name = "FILE")]
    cert: Option<PathBuf>,
    /// The private key of --cert [default: $ALTHING_KEY or $ETCDCTL_KEY]
    // Many verbs have an argument that is called so.
    #[arg(id = "tls-key", long = "key", value_name = "FILE")]
    key: Option<PathBuf>,
    /// With false, endpoints without a scheme use TLS
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    insecure_transport: Option<bool>,
    #[arg(long, hide = true)]
    insecure_skip_tls_verify: bool,
}

impl TlsOptions {
    /// For these endpoints, if any of them speaks TLS.
    pub fn files_for(&self, endpoints: &[String]) -> Result<Option<ClientFiles>, Error> {
        let usage = |problem: &str| Err(Error::Usage(problem.to_owned()));
        if self.insecure_skip_tls_verify {
            return usage(
                "servers are always verified: name the authority of their certificates with --cacert",
            );
        }
        let ca = given(&self.cacert, "CACERT");
        let identity = match (given(&self.cert, "CERT"), given(&self.key, "KEY")) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return usage("--cert and --key are given together, or neither"),
        };
        let asked_for = ca.is_some() || identity.is_some() || self.insecure_transport == Some(false);
        let needed = asked_for || endpoints.iter().any(|endpoint| endpoint.starts_with("https://"));
        Ok(needed.then_some(ClientFiles { ca, identity }))
    }
}

/// By its flag, or by one of two variables.
fn given(flag: &Option<PathBuf>, name: &str) -> Option<PathBuf> {
    let variable =
        |prefix: &str| std::env::var_os(format!("{prefix}_{name}")).filter(|text| !text.is_empty());
    flag.clone().or_else(|| ["ALTHING", "ETCDCTL"].into_iter().find_map(variable).map(PathBuf::from))
}
