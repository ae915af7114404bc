//! The plain HTTP side of the client port: probes for people and machines, nothing that changes state.
//! A wrong method is answered with 405 and an `Allow` header, by axum.

mod health;
mod metrics;
mod probes;
mod version;

use crate::figures::Figures;
use crate::serve::Tls;
use axum::Router;
use axum::extract::FromRef;
use axum::routing::get;
use server::Handle;
use std::sync::Arc;

/// What the handlers read.
#[derive(Clone)]
pub struct Views {
    pub handle: Handle,
    pub figures: Arc<Figures>,
    /// What the port shows.
    pub tls: Option<Tls>,
}

impl FromRef<Views> for Handle {
    fn from_ref(views: &Views) -> Handle {
        views.handle.clone()
    }
}

impl FromRef<Views> for Arc<Figures> {
    fn from_ref(views: &Views) -> Arc<Figures> {
        views.figures.clone()
    }
}

pub fn router(views: Views) -> Router {
    Router::new()
        .route("/health", get(health::health))
        .route("/livez", get(probes::livez))
        .route("/livez/{check}", get(probes::livez_one))
        .route("/readyz", get(probes::readyz))
        .route("/readyz/{check}", get(probes::readyz_one))
        .route("/version", get(version::version))
        .route("/metrics", get(metrics::metrics))
        .with_state(views)
}
