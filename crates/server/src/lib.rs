//! The thin shell: threads, peer streams, shutdown, and the Handle that the api room holds.

pub mod config;
pub mod handle;
pub mod peer;
pub mod status;

pub use config::{Config, Member};
pub use handle::Handle;
pub use status::{Identity, Status};
