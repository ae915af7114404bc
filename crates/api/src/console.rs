//! The console: pages that every node serves at `/`, made of the files in `crates/api/console` that are part of the binary.
//! They are a client of the REST API with the permissions of their user, and run nothing but their own scripts.
//! The path of a file has the digest of all of them in it, so that a browser keeps what it has until the release changes.
//! See docs/adr/0070.

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use ring::digest::{Context, SHA256};
use std::fmt::Write;
use std::sync::LazyLock;

struct ConsoleFile {
    name: &'static str,
    text: &'static str,
}

macro_rules! files {
    ($($name:literal,)*) => {
        const FILES: &[ConsoleFile] = &[
            $(ConsoleFile { name: $name, text: include_str!(concat!("../console/", $name)) },)*
        ];
    };
}

files! {
    "access.js",
    "api.js",
    "app.js",
    "charts.js",
    "collections.js",
    "commands.js",
    "conflicts.js",
    "console.css",
    "data.js",
    "dialog.js",
    "diff.js",
    "dom.js",
    "format.js",
    "icon.svg",
    "keys.js",
    "leases.js",
    "live.js",
    "locks.js",
    "maintenance.js",
    "metrics.js",
    "overview.js",
    "panels.js",
    "rates.js",
    "regions.js",
    "sizes.js",
    "stream.js",
}

const PAGE: &str = include_str!("../console/index.html");
/// Stands in the page for the digest.
const DIGEST_MARK: &str = "DIGEST";
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const UNCHANGING: &str = "public, max-age=31536000, immutable";
const REVALIDATED: &str = "no-cache";

static DIGEST: LazyLock<String> = LazyLock::new(|| {
    let mut context = Context::new(&SHA256);
    context.update(PAGE.as_bytes());
    for file in FILES {
        context.update(file.name.as_bytes());
        context.update(file.text.as_bytes());
    }
    context.finish().as_ref()[..8].iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes all text");
        text
    })
});
static PAGE_WITH_DIGEST: LazyLock<String> = LazyLock::new(|| PAGE.replace(DIGEST_MARK, &DIGEST));

pub fn router() -> Router {
    Router::new()
        .route("/", get(page))
        .route("/console", get(page))
        .route("/console/{digest}/{name}", get(file))
}

async fn page() -> Response {
    answer("text/html; charset=utf-8", REVALIDATED, PAGE_WITH_DIGEST.as_str())
}

async fn file(Path((digest, name)): Path<(String, String)>) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // A page of the release before or after asks for its own files, and gets these once.
    let kept = if digest == *DIGEST { UNCHANGING } else { REVALIDATED };
    answer(content_type(file.name), kept, file.text)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        _ => "image/svg+xml",
    }
}

fn answer(kind: &'static str, kept: &'static str, text: &'static str) -> Response {
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What a first visit transfers.
    const BYTES_MAX: usize = 300_000;

    #[test]
    fn every_file_of_the_folder_is_served_and_the_first_visit_is_small() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
        let there: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "index.html")
            .collect();
        let served: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(there, served);
        let bytes: usize = FILES.iter().map(|file| file.text.len()).sum();
        assert!(bytes + PAGE.len() < BYTES_MAX, "{bytes}");
    }

    #[test]
    fn nothing_is_inline_and_data_never_becomes_markup() {
        for inline in [" onclick=", " style=", "javascript:", "<style", "<script>"] {
            assert!(!PAGE.contains(inline), "{inline}");
        }
        for file in FILES {
            for unsafe_name in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(!file.text.contains(unsafe_name), "{} has {unsafe_name}", file.name);
            }
            assert!(!file.text.contains("https://"), "{} refers to another site", file.name);
        }
    }

    #[test]
    fn modules_import_only_what_is_served() {
        for file in FILES.iter().filter(|file| file.name.ends_with(".js")) {
            for (_, rest) in
                file.text.match_indices("from \"./").map(|(at, found)| (at, &file.text[at + found.len()..]))
            {
                let name = rest.split('"').next().unwrap();
                assert!(FILES.iter().any(|file| file.name == name), "{} imports {name}", file.name);
            }
        }
    }

    #[test]
    fn every_rule_of_conflicts_is_explained() {
        let page = FILES.iter().find(|file| file.name == "conflicts.js").unwrap().text;
        for rule in mesh::ConflictRule::ALL {
            let name = rule.name();
            assert!(page.contains(&format!("\n  {name}: \"")), "{name}");
        }
    }
}
