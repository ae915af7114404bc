//! TLS configurations: certificates that ports present, authorities that they trust, and what is read from
//! certificates. Paths and shared secrets go in; configurations of the TLS library come out, made again when a file
//! has changed. Clients verify every certificate in every build; members do, unless an operator asks for
//! `--peer-auto-tls`.

mod certificate;
mod client;
mod der;
mod error;
mod extended_verifier;
mod files;
mod issue;
mod own_authority;
mod peers;
mod pinned;
mod reload;
mod secret;
mod self_signed;
mod server;

pub use certificate::{common_name, expiry};
pub use client::{ClientFiles, ClientPem};
pub use error::Error;
pub use files::ServerFiles;
pub use peers::{DialTls, MemberProof, PeerClaim, PeerFiles, PeerTls};
pub use pinned::PinnedAuthority;
pub use secret::{Authority, Fingerprint, SECRET_BYTES_MIN, Secret, hash, random};
pub use self_signed::SelfSigned;
pub use server::{MinVersion, ServerTls};

use rustls::crypto::{CryptoProvider, ring};
use std::sync::Arc;

/// The one set of algorithms, whatever else the process links.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
