//! `/metrics`: what the core counts, as text for Prometheus.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use server::Handle;

pub async fn metrics(State(handle): State<Handle>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], handle.metrics())
}
