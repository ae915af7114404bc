//! What all client verbs share on their way to a server: options, durations, errors. The connection itself is the
//! crate of the same name.

pub mod duration;
mod error;
mod options;
pub mod prompt;
pub mod rate;
mod tls;

pub use ::client::Client;
pub use error::Error;
pub use options::{Format, Options, login_of};
pub use tls::TlsOptions;
