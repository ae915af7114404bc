//! The same random requests to two servers that speak etcd's API, side by side, and the first difference.
//! Two endpoints and a seed go in; nothing, or a request with both answers, comes out. The same seed draws the
//! same requests, and what is compared does not depend on time: identities, terms and what COMPAT.md names as
//! a deviation are left out.

pub mod auth;
mod auth_round;
mod compare;
mod gateway_round;
mod generator;
mod http;
mod json;
mod raw_codec;
pub mod round;
pub mod server;
mod side;
pub mod test_call;
mod watching;

pub use raw_codec::RawCodec;

use std::time::Duration;

/// How long anything may take that should take a moment.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where two servers differ.
#[derive(Debug, thiserror::Error)]
#[error("seed {seed}, step {step}\n{request}\netcd:    {theirs}\nAlthing: {ours}")]
pub struct Difference {
    pub seed: u64,
    pub step: u64,
    pub request: String,
    pub theirs: String,
    pub ours: String,
}
