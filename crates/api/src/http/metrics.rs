//! `/metrics`: the metrics of the core and of this crate, as text for Prometheus.

use crate::http::Views;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

pub async fn metrics(State(Views { handle, figures, tls }): State<Views>) -> impl IntoResponse {
    let mut text = handle.metrics();
    figures.set_expiry("client", tls.and_then(|tls| tls.server.expiry()));
    figures.set_expiry("peer", handle.peer_certificate_expiry());
    figures.append_to(&mut text);
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}
