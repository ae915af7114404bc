//! `/version`: which etcd's API is spoken, and which Althing speaks it.

use crate::ETCD_VERSION;
use axum::Json;
use serde::Serialize;

#[derive(Serialize)]
pub struct Version {
    etcdserver: &'static str,
    etcdcluster: &'static str,
    storage: &'static str,
    althing: &'static str,
}

pub async fn version() -> Json<Version> {
    Json(Version {
        etcdserver: ETCD_VERSION,
        etcdcluster: ETCD_VERSION,
        storage: ETCD_VERSION,
        althing: env!("CARGO_PKG_VERSION"),
    })
}
