//! Verdicts about heads as browsers and programs send them.

use super::*;
use axum::http::Request;

fn guard(hosts: &[&str], origins: &[&str], beyond_loopback: bool) -> BrowserGuard {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let settings =
        BrowserSettings { hosts: owned(hosts), origins: owned(origins), ..BrowserSettings::default() };
    BrowserGuard::new(settings, beyond_loopback, None)
}

fn head(method: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri("/v1/data/k");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// The status of a refusal or a preflight, or 0 for what is served.
fn status(guard: &BrowserGuard, method: &str, headers: &[(&str, &str)]) -> u16 {
    match guard.check(&head(method, headers)) {
        Verdict::Pass(_) => 0,
        Verdict::Answered(response) => response.status().as_u16(),
    }
}

#[test]
fn a_name_is_believed_if_it_cannot_have_been_pointed_here() {
    let strict = guard(&["Db.Example.com", "*.wild.example"], &[], false);
    for host in [
        "",
        "127.0.0.1",
        "127.0.0.1:2379",
        "10.1.2.3:80",
        "[::1]:2379",
        "[fe80::1%25eth0]:1",
        "localhost",
        "LOCALHOST:8080",
        "a.localhost",
        "localhost.",
        "db.example.com:2379",
        "DB.example.com",
        "a.wild.example",
    ] {
        assert!(strict.allows_host(host.as_bytes()), "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:2379",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "test",
        "0x7f.1",
        "wild.example",
        "evilwild.example",
        "db.example.com.evil.example",
        "[evil]:1",
        "\u{e9}",
        "notlocalhost",
    ] {
        assert!(!strict.allows_host(host.as_bytes()), "{host}");
    }
    assert!(!strict.allows_host(b"\xff"));
    assert!(guard(&["*"], &[], false).allows_host(b"evil.example"));
}

#[test]
fn names_of_the_private_network_are_believed_where_it_reaches_the_port() {
    let (inside, outside) = (guard(&[], &[], true), guard(&[], &[], false));
    for host in ["althing", "althing-0.althing.default.svc", "a.b.svc.cluster.local:2379", "db.internal"] {
        assert!(inside.allows_host(host.as_bytes()), "{host}");
        assert!(!outside.allows_host(host.as_bytes()), "{host}");
    }
    assert!(!inside.allows_host(b"evil.example"));
}

#[test]
fn pages_of_other_origins_are_refused_and_programs_are_not() {
    let guard = guard(&[], &["https://app.example"], false);
    let host = ("host", "localhost:8080");
    for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(status(&guard, method, &[host]), 0, "{method} of curl");
        assert_eq!(status(&guard, method, &[("host", "evil.example:8080")]), 421, "{method}");
        for origin in
            ["http://evil.example", "null", "http://localhost:3000", "http://localhost", "localhost:8080"]
        {
            assert_eq!(status(&guard, method, &[host, ("origin", origin)]), 403, "{method} {origin}");
        }
        let json = ("content-type", "application/json");
        for origin in ["http://localhost:8080", "https://localhost:8080", "https://app.example"] {
            assert_eq!(status(&guard, method, &[host, json, ("origin", origin)]), 0, "{method} {origin}");
        }
        // A page whose name was pointed here is of one origin with what it asks.
        let rebound = [("host", "evil.example:8080"), ("origin", "http://evil.example:8080")];
        assert_eq!(status(&guard, method, &rebound), 421, "{method}");
    }
}

#[test]
fn a_page_must_say_what_it_sends_and_curl_need_not() {
    let guard = guard(&[], &[], false);
    let same = [("host", "localhost:1"), ("origin", "http://localhost:1"), ("content-length", "2")];
    let with = |kind| [&same[..], &[("content-type", kind)]].concat();
    for kind in [
        "text/plain",
        "Text/Plain; charset=utf-8",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        assert_eq!(status(&guard, "POST", &with(kind)), 415, "{kind}");
        let curl = [("host", "localhost:1"), ("content-type", kind), ("content-length", "2")];
        assert_eq!(status(&guard, "POST", &curl), 0, "{kind}");
    }
    for kind in ["application/json", "application/octet-stream", "image/png"] {
        assert_eq!(status(&guard, "PUT", &with(kind)), 0, "{kind}");
    }
    assert_eq!(status(&guard, "POST", &same), 415, "a body of no type");
    assert_eq!(status(&guard, "DELETE", &same[..2]), 0, "no body");
}

#[test]
fn what_a_browser_says_of_itself_counts_without_an_origin() {
    let guard = guard(&[], &[], false);
    let fetched = |method: &str, site: &str, mode: &str| {
        let headers = [("host", "localhost:1"), (FETCH_SITE, site), (FETCH_MODE, mode)];
        status(&guard, method, &headers)
    };
    for site in ["cross-site", "same-site"] {
        assert_eq!(fetched("GET", site, "no-cors"), 403, "an image of another page");
        assert_eq!(fetched("GET", site, "navigate"), 0, "a link");
        assert_eq!(fetched("POST", site, "navigate"), 403, "a form");
    }
    for site in ["same-origin", "none"] {
        assert_eq!(fetched("GET", site, "cors"), 0);
        assert_eq!(fetched("DELETE", site, "cors"), 0);
    }
}

#[test]
fn a_preflight_is_answered_for_origins_that_are_configured() {
    let ask = [
        ("host", "localhost:1"),
        ("origin", "https://app.example"),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "authorization, x-fence"),
    ];
    assert_eq!(status(&guard(&[], &[], false), "OPTIONS", &ask), 403);
    for (origins, shown) in [(["https://APP.example"], "https://app.example"), (["*"], "*")] {
        let guard = guard(&[], &origins, false);
        let Verdict::Answered(response) = guard.check(&head("OPTIONS", &ask)) else {
            panic!("it is answered")
        };
        assert_eq!(response.status(), 204);
        assert_eq!(response.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], shown);
        assert_eq!(response.headers()[ACCESS_CONTROL_ALLOW_HEADERS], "authorization, x-fence");
        let Verdict::Pass(Some(origin)) = guard.check(&head("GET", &ask)) else { panic!("it is served") };
        assert_eq!(origin, shown);
    }
}

#[test]
fn where_programs_ask_by_any_name_pages_do_not() {
    let settings = BrowserSettings { programs_by_any_name: true, ..BrowserSettings::default() };
    let guard = BrowserGuard::new(settings, false, None);
    let rebound = ("host", "evil.example:2379");
    for method in ["GET", "POST", "PUT", "DELETE"] {
        assert_eq!(status(&guard, method, &[rebound]), 0, "{method} of curl");
        for of_a_page in [("origin", "http://evil.example:2379"), (FETCH_SITE, "same-origin")] {
            assert_eq!(status(&guard, method, &[rebound, of_a_page]), 421, "{method} {of_a_page:?}");
        }
    }
}

#[test]
fn grpc_is_for_any_authority() {
    let guard = guard(&[], &[], false);
    let grpc = ("content-type", "application/grpc+proto");
    assert_eq!(status(&guard, "POST", &[("host", "evil.example"), grpc]), 0);
}

#[test]
fn answers_cannot_be_run() {
    let headers_of = |kind: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        protect(&mut headers);
        headers
    };
    for kind in [None, Some("text/html"), Some("text/plain"), Some("image/png")] {
        let headers = headers_of(kind);
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[CONTENT_SECURITY_POLICY], INERT);
    }
    assert_eq!(headers_of(Some("application/json"))[X_CONTENT_TYPE_OPTIONS], "nosniff");
    assert!(headers_of(Some("application/grpc")).keys().all(|name| name == CONTENT_TYPE));
}
