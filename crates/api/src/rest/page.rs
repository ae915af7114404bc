//! The page on which people try the API out: a form for every operation that `/openapi.json` describes.
//! It is one file without anything from elsewhere, so that it works where nothing else can be reached. See
//! docs/adr/0018.

use axum::Router;
use axum::response::{Html, Redirect};
use axum::routing::get;

const PAGE: &str = include_str!("page.html");

pub fn router() -> Router {
    Router::new()
        .route("/", get(async || Redirect::temporary("/swagger-ui/")))
        .route("/swagger-ui", get(async || Redirect::temporary("/swagger-ui/")))
        .route("/swagger-ui/", get(async || Html(PAGE)))
        .route("/swagger-ui/index.html", get(async || Html(PAGE)))
        .route("/webjars/swagger-ui/index.html", get(async || Html(PAGE)))
}
