//! `/metrics`: the metrics of the core and of this crate, as text for Prometheus.

use crate::http::HttpState;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

pub async fn metrics(State(HttpState { handle, metrics, tls }): State<HttpState>) -> impl IntoResponse {
    let mut text = handle.maintenance().metrics();
    metrics.set_expiry("client", tls.and_then(|tls| tls.server.expiry()));
    metrics.set_expiry("peer", handle.peer_port().certificate_expiry());
    metrics.append_to(&mut text);
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}
