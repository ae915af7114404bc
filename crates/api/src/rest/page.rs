//! The page on which people try the API out: a form for every operation that `/openapi.json` describes.
//! It is one file without anything from elsewhere, so that it works where nothing else can be reached, and runs its own
//! script and nothing else. See docs/adr/0018.

use axum::Router;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse, Redirect};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use std::sync::LazyLock;

const PAGE: &str = include_str!("page.html");
/// By the digests of its one script and its one style.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let (script, style) = (digest_of("script"), digest_of("style"));
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'"
    )
});

pub fn router() -> Router {
    Router::new()
        .route("/api-docs", get(page))
        .route("/swagger-ui", get(async || Redirect::temporary("/swagger-ui/")))
        .route("/swagger-ui/", get(page))
        .route("/swagger-ui/index.html", get(page))
        .route("/swagger-ui.html", get(async || Redirect::temporary("/swagger-ui/index.html")))
        .route("/webjars/swagger-ui/index.html", get(page))
}

async fn page() -> impl IntoResponse {
    ([(CONTENT_SECURITY_POLICY, POLICY.as_str())], Html(PAGE))
}

/// The digest of the page's text between two tags.
fn digest_of(tag: &str) -> String {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let inside =
        PAGE.split_once(&open).and_then(|(_, rest)| rest.split_once(&close)).map_or("", |(inside, _)| inside);
    format!("sha256-{}", STANDARD.encode(digest(&SHA256, inside.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_script_and_one_style_and_nothing_inline_beside_them() {
        for tag in ["<script>", "</script>", "<style>", "</style>"] {
            assert_eq!(PAGE.matches(tag).count(), 1, "{tag}");
        }
        for inline in [" style=", " onclick=", " onsubmit=", "javascript:", " src="] {
            assert!(!PAGE.contains(inline), "{inline}");
        }
        assert_ne!(digest_of("script"), digest_of("nothing"));
        assert!(POLICY.contains(&digest_of("script")));
    }
}
