//! The only crate that knows gRPC, HTTP and JSON.
//! Bytes of clients go in, requests to `server::Handle` come out, and its replies go back as bytes. Nothing a
//! client sends may panic here or take memory without bound.

mod acceptor;
mod audit;
mod browsers;
mod clients;
mod conn;
mod connections;
mod console;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gateway;
mod grpc;
mod http;
mod inspect;
mod leader_hint;
mod limits;
mod metrics;
mod mutant;
mod percent;
pub mod reference;
mod request_budget;
mod rest;
mod serve;
mod workers;

pub use acceptor::Listener;
pub use browsers::BrowserSettings;
pub use connections::{BEYOND_LIMIT_MAX, ConnectionLimits};
pub use limits::ClientLimits;
pub use metrics::ClientMetrics;
pub use mutant::Mutant;
pub use rest::ShownSetting;
pub use serve::{Error, Port, RestSettings, ServeSettings, Tls, serve, serve_probes};
pub use workers::serve_rest;

/// The release of etcd whose API is spoken; clients decide by it what they may ask for.
pub const ETCD_VERSION: &str = "3.7.0";
