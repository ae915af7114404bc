//! What a browser can be made to send: pages of other sites, names that were pointed here, forms, and pages that were
//! stored as values. On both ports, in clear and inside TLS, by every path through the server.

use crate::process::{Member, PATIENCE, Plan, until};
use crate::tls::{pem, wait_ready, with_server_certificate};
use crate::tour::block_on;
use std::net::SocketAddr;
use tls::ClientFiles;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

const JSON: &str = "content-type: application/json\r\n";
const EVIL: &str = "http://evil.example";

/// A port, as a browser reaches it.
#[derive(Clone, Copy)]
struct Site {
    address: SocketAddr,
    sealed: bool,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line == header)
    }
}

impl Site {
    fn both(member: &Member, sealed: bool) -> [Site; 2] {
        [member.client, member.rest.unwrap()].map(|address| Site { address, sealed })
    }

    /// Its own name, with the port.
    fn host(self) -> String {
        self.address.to_string()
    }

    fn ask(self, method: &str, target: &str, headers: &str, body: &str) -> Answer {
        let last = format!("{headers}connection: close\r\n");
        self.say(&Site::request(method, target, &last, body)).remove(0)
    }

    fn request(method: &str, target: &str, headers: &str, body: &str) -> String {
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        format!("{method} {target} HTTP/1.1\r\n{headers}{length}\r\n{body}")
    }

    /// What is answered on one connection, which the last request ends.
    fn say(self, said: &str) -> Vec<Answer> {
        let heard = block_on(async {
            let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
            if self.sealed {
                let files = ClientFiles { ca: Some(pem("ca.pem").into()), identity: None };
                let config = files.config(&[b"http/1.1"]).unwrap();
                let name = ClientFiles::name_of(&self.host()).unwrap();
                exchange(TlsConnector::from(config).connect(name, stream).await.unwrap(), said).await
            } else {
                exchange(stream, said).await
            }
        });
        let (mut answers, mut left) = (Vec::new(), heard.as_str());
        while let Some((head, rest)) = left.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let (body, next) = rest.split_at(length.map_or(0, |length| length.parse().unwrap()));
            let status = head.split(' ').nth(1).unwrap().parse().unwrap();
            answers.push(Answer { status, head: head.clone(), body: body.to_owned() });
            left = next;
        }
        assert!(!answers.is_empty(), "no answer to {said:?}");
        answers
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, said: &str) -> String {
    stream.write_all(said.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let mut heard = Vec::new();
    // Inside TLS, an end without a close alert is an error, and an end all the same.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut heard)).await.expect("the connection ends");
    String::from_utf8_lossy(&heard).into_owned()
}

/// A write on each port, and the read that shows whether it was done.
fn writes(port: usize) -> (&'static str, &'static str, &'static str) {
    match port {
        0 => ("POST", "/v3/kv/put", r#"{"key":"YQ==","value":"MQ=="}"#),
        _ => ("PUT", "/v1/data/a", r#"{"value":1}"#),
    }
}

fn is_written(sites: [Site; 2], port: usize) -> bool {
    let host = format!("host: {}\r\n", sites[port].host());
    match port {
        0 => {
            let read = sites[0].ask("POST", "/v3/kv/range", &host, r#"{"key":"YQ=="}"#);
            assert_eq!(read.status, 200, "{}", read.body);
            read.body.contains("MQ==")
        }
        _ => sites[1].ask("GET", "/v1/data/a", &host, "").status == 200,
    }
}

fn start(sealed: bool, flags: &[&str]) -> (Member, [Site; 2]) {
    let plan = if sealed { with_server_certificate(Plan::single()) } else { Plan::single() };
    let member = plan.with(flags).start();
    if sealed {
        wait_ready(&member, None)
    } else {
        member.wait_ready()
    }
    let sites = Site::both(&member, sealed);
    let host = format!("host: {}\r\n{JSON}", sites[1].host());
    until("the ring serves", || {
        let written = sites[1].ask("PUT", "/v1/data/ready", &host, r#"{"value":1}"#);
        (written.status == 200).then_some(())
    });
    (member, sites)
}

#[test]
fn no_page_of_another_site_reads_or_writes() {
    for sealed in [false, true] {
        let (_member, sites) = start(sealed, &[]);
        for (port, site) in sites.into_iter().enumerate() {
            let (method, target, body) = writes(port);
            let host = format!("host: {}\r\n", site.host());
            let rebound = "host: evil.example:2379\r\norigin: http://evil.example:2379\r\n";
            for (headers, expected) in [
                (format!("{host}origin: {EVIL}\r\n{JSON}"), 403),
                (format!("{host}origin: {EVIL}\r\ncontent-type: text/plain\r\n"), 403),
                (format!("{host}origin: null\r\n{JSON}"), 403),
                (format!("{host}sec-fetch-site: cross-site\r\n{JSON}"), 403),
                // A page on another port of this machine.
                (format!("{host}origin: http://localhost:3000\r\nsec-fetch-site: same-site\r\n{JSON}"), 403),
                (format!("{host}origin: http://{}\r\ncontent-type: text/plain\r\n", site.host()), 415),
                (format!("{rebound}{JSON}"), 421),
                (format!("host: evil.example\r\n{JSON}"), 421),
            ] {
                let answer = site.ask(method, target, &headers, body);
                assert_eq!(answer.status, expected, "{headers}{}", answer.body);
                assert!(answer.has("x-content-type-options: nosniff"), "{}", answer.head);
                assert!(!answer.head.contains("access-control-allow"), "{}", answer.head);
            }
            assert!(!is_written(sites, port), "what was refused was not done");
            for target in ["/metrics", "/health", "/version", "/v1/data/a", "/openapi.json"] {
                for headers in [rebound.to_owned(), format!("{host}sec-fetch-site: cross-site\r\n")] {
                    let status = site.ask("GET", target, &headers, "").status;
                    assert!([403, 421].contains(&status), "{target} {headers}: {status}");
                }
            }
            let preflight = format!("{host}origin: {EVIL}\r\naccess-control-request-method: PUT\r\n");
            assert_eq!(site.ask("OPTIONS", target, &preflight, "").status, 403);
        }
    }
}

#[test]
fn programs_and_pages_of_the_server_itself_are_served() {
    for sealed in [false, true] {
        let (_member, sites) = start(sealed, &[]);
        for (port, site) in sites.into_iter().enumerate() {
            let (method, target, body) = writes(port);
            let host = format!("host: {}\r\n", site.host());
            let own =
                format!("{host}origin: http://{}\r\nsec-fetch-site: same-origin\r\n{JSON}", site.host());
            let form = "content-type: application/x-www-form-urlencoded\r\n";
            for headers in
                [own, format!("{host}{form}"), format!("{host}{JSON}"), format!("host: localhost\r\n{JSON}")]
            {
                let answer = site.ask(method, target, &headers, body);
                assert_eq!(answer.status, 200, "{headers}{}", answer.body);
                assert!(answer.has("x-content-type-options: nosniff"), "{}", answer.head);
            }
            assert!(is_written(sites, port));
            // A link from another page is followed.
            let link = format!("{host}sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n");
            assert_eq!(site.ask("GET", "/health", &link, "").status, 200);
        }
    }
}

#[test]
fn a_name_that_is_configured_or_certified_is_answered() {
    let (_member, sites) = start(false, &["--allowed-hosts", "db.example.com,*.wild.example"]);
    for site in sites {
        for (host, expected) in [
            ("db.example.com", 200),
            ("A.wild.example:1", 200),
            ("wild.example", 421),
            ("other.example.com", 421),
        ] {
            let answer = site.ask("GET", "/version", &format!("host: {host}\r\n"), "");
            assert_eq!(answer.status, expected, "{host}: {}", answer.body);
            assert_eq!(answer.body.contains("--allowed-hosts"), expected == 421, "{}", answer.body);
        }
    }
    let (_member, sites) = start(false, &["--allowed-hosts", "*"]);
    assert_eq!(sites[1].ask("GET", "/version", "host: evil.example\r\n", "").status, 200);
}

#[test]
fn the_fast_path_refuses_a_name_as_the_router_does() {
    let (_member, [_, rest]) = start(false, &[]);
    let put = |host: &str, last: &str| {
        Site::request("PUT", "/v1/data/a", &format!("host: {host}\r\n{JSON}{last}"), r#"{"value":1}"#)
    };
    let close = "connection: close\r\n";
    let own = rest.host();
    for (said, expected) in [
        ([put(&own, ""), put(&own, ""), put(&own, close)].concat(), vec![200, 200, 200]),
        ([put(&own, ""), put("evil.example", close)].concat(), vec![200, 421]),
        ([put("evil.example", ""), put("evil.example", close)].concat(), vec![421, 421]),
    ] {
        let statuses: Vec<u16> = rest.say(&said).iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, expected, "{said}");
    }
}

#[test]
fn origins_that_are_configured_may_ask() {
    for (cors, shown) in [("https://app.example,https://b.example", "https://app.example"), ("*", "*")] {
        let (_member, sites) = start(false, &["--cors", cors]);
        for (port, site) in sites.into_iter().enumerate() {
            let (method, target, body) = writes(port);
            let host = format!("host: {}\r\n", site.host());
            let page = format!("{host}origin: https://app.example\r\nsec-fetch-site: cross-site\r\n");
            let allowed = format!("access-control-allow-origin: {shown}");
            let preflight = format!(
                "{page}access-control-request-method: {method}\r\naccess-control-request-headers: content-type\r\n"
            );
            let answer = site.ask("OPTIONS", target, &preflight, "");
            assert_eq!(answer.status, 204, "{}", answer.body);
            assert!(
                answer.has(&allowed) && answer.has("access-control-allow-headers: content-type"),
                "{}",
                answer.head
            );
            let answer = site.ask(method, target, &format!("{page}{JSON}"), body);
            assert_eq!(answer.status, 200, "{}", answer.body);
            assert!(answer.has(&allowed), "{}", answer.head);
            let other = site.ask(method, target, &format!("{host}origin: {EVIL}\r\n{JSON}"), body).status;
            assert_eq!(other, if cors == "*" { 200 } else { 403 });
        }
    }
}

#[test]
fn a_websocket_asks_as_pages_do() {
    let (_member, [client, _]) = start(false, &["--cors", "https://app.example"]);
    let open = |host: &str, origin: &str| {
        let key = "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let headers = format!("host: {host}\r\n{origin}upgrade: websocket\r\nconnection: upgrade\r\n{key}");
        let said = Site::request("GET", "/v3/kv/range?method=POST", &headers, "");
        // A frame that is not masked ends the conversation.
        client.say(&(said + "\u{1}\u{0}")).remove(0).status
    };
    let own = client.host();
    assert_eq!(open(&own, &format!("origin: {EVIL}\r\n")), 403);
    assert_eq!(open("evil.example", "origin: http://evil.example\r\n"), 421);
    assert_eq!(open("evil.example", ""), 421);
    assert_eq!(open(&own, "origin: https://app.example\r\n"), 101);
}

#[test]
fn nothing_that_is_stored_is_run() {
    let (_member, [_, rest]) = start(false, &[]);
    let host = format!("host: {}\r\n", rest.host());
    let script = "<script>alert(1)</script>";
    for (kind, answered) in [
        ("text/html", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
        ("text/javascript", "application/octet-stream"),
        ("text/plain", "text/plain"),
    ] {
        let stored = rest.ask("PUT", "/v1/data/page", &format!("{host}content-type: {kind}\r\n"), script);
        assert_eq!(stored.status, 200, "{}", stored.body);
        for (target, accept) in [
            ("/v1/data/page?raw", ""),
            ("/api/v1/store/keys/page?raw", ""),
            ("/v1/data/page", "accept: application/octet-stream\r\n"),
            ("/v1/data/page", &format!("accept: {kind}\r\n")),
        ] {
            let raw = rest.ask("GET", target, &format!("{host}{accept}"), "");
            assert_eq!((raw.status, raw.body.as_str()), (200, script), "{target}");
            for header in [
                &format!("content-type: {answered}"),
                "content-disposition: attachment",
                "x-content-type-options: nosniff",
                "content-security-policy: default-src 'none'; frame-ancestors 'none'; sandbox",
            ] {
                assert!(raw.has(header), "{target} {kind} {header}: {}", raw.head);
            }
        }
        let shown = rest.ask("GET", "/v1/data/page", &host, "");
        assert!(shown.has("content-type: application/json") && shown.has("x-content-type-options: nosniff"));
    }
    let page = rest.ask("GET", "/swagger-ui/", &host, "");
    let policy = page.head.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
    let policy = policy.expect("the page has a policy");
    assert!(policy.contains("script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
}
