//! The plain HTTP side of the client port: probes for people and machines, nothing that changes state.
//! A wrong method is answered with 405 and an `Allow` header, by axum.

mod debug;
mod health;
mod metrics;
mod probes;
mod version;

use crate::metrics::ApiMetrics;
use crate::serve::Tls;
use axum::Router;
use axum::extract::FromRef;
use axum::routing::get;
use server::Handle;
use std::sync::Arc;

/// What the handlers read.
#[derive(Clone)]
pub struct HttpState {
    pub handle: Handle,
    pub metrics: Arc<ApiMetrics>,
    /// What the port shows.
    pub tls: Option<Tls>,
}

impl FromRef<HttpState> for Handle {
    fn from_ref(views: &HttpState) -> Handle {
        views.handle.clone()
    }
}

impl FromRef<HttpState> for Arc<ApiMetrics> {
    fn from_ref(views: &HttpState) -> Arc<ApiMetrics> {
        views.metrics.clone()
    }
}

pub fn router(views: HttpState) -> Router {
    Router::new()
        .route("/health", get(health::health))
        .route("/livez", get(probes::livez))
        .route("/livez/{check}", get(probes::livez_one))
        .route("/readyz", get(probes::readyz))
        .route("/readyz/{check}", get(probes::readyz_one))
        .route("/version", get(version::version))
        .route("/debug/vars", get(debug::vars))
        .route("/metrics", get(metrics::metrics))
        .with_state(views)
}
