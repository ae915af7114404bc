//! `/metrics`: what the core and this room count, as text for Prometheus.

use crate::figures::Figures;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use server::Handle;
use std::sync::Arc;

pub async fn metrics(State(handle): State<Handle>, State(figures): State<Arc<Figures>>) -> impl IntoResponse {
    let mut text = handle.metrics();
    figures.append_to(&mut text);
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}
