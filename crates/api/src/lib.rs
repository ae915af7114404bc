//! The only crate that knows gRPC, HTTP and JSON.
//! Bytes of clients go in, requests to `server::Handle` come out, and its replies go back as bytes. Nothing a
//! client sends may panic here or take memory without bound.

mod audit;
mod browsers;
mod connections;
mod door;
mod figures;
mod front;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gateway;
mod grpc;
mod http;
mod intake;
mod lanes;
mod limits;
mod percent;
mod rest;
mod serve;

pub use browsers::BrowserSettings;
pub use connections::{BEYOND_LIMIT_MAX, ConnectionLimits};
pub use lanes::serve_rest;
pub use limits::ClientLimits;
pub use serve::{Error, Port, RestSettings, Settings, Tls, serve, serve_probes};

/// The release of etcd whose API is spoken; clients decide by it what they may ask for.
pub const ETCD_VERSION: &str = "3.6.0";
