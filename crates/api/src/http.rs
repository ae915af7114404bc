//! The plain HTTP side of the client port: probes for people and machines, nothing that changes state.
//! A wrong method is answered with 405 and an `Allow` header, by axum.

mod health;
mod metrics;
mod probes;
mod version;

use axum::Router;
use axum::routing::get;
use server::Handle;

pub fn router(handle: Handle) -> Router {
    Router::new()
        .route("/health", get(health::health))
        .route("/livez", get(probes::livez))
        .route("/livez/{check}", get(probes::livez_one))
        .route("/readyz", get(probes::readyz))
        .route("/readyz/{check}", get(probes::readyz_one))
        .route("/version", get(version::version))
        .route("/metrics", get(metrics::metrics))
        .with_state(handle)
}
