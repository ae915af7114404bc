//! Certificates: what a port shows, whom it believes, and what is read from both.
//! Paths go in; configurations of the TLS library come out, made anew when a file has changed. Every certificate is
//! verified in every build: there is no way to turn that off.

mod certificate;
mod client;
mod error;
mod files;
mod peers;
mod reload;
mod server;

pub use certificate::{common_name, expiry};
pub use client::{ClientFiles, ClientPem};
pub use error::Error;
pub use files::Files;
pub use peers::{PeerConfigs, PeerFiles, Peers};
pub use server::{MinVersion, Server};

use rustls::crypto::{CryptoProvider, ring};
use std::sync::Arc;

/// The one set of algorithms, whatever else the process links.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
