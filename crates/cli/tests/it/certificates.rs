//! Clients of the REST API that say who they are by a certificate: every path of it, over HTTP/1.1 and HTTP/2, for root, for
//! a user with some rights, for certificates that name no user, and for a proxy that shows its own.

use crate::auth::CHEAP;
use crate::data_auth::{GRANTS, USERS};
use crate::permission_matrix::rest_rows;
use crate::process::{Member, PATIENCE, Plan, until};
use crate::tls::{out, pem, wait_ready, with_authority};
use crate::tour::block_on;
use bytes::Bytes;
use h2::client::SendRequest;
use std::net::SocketAddr;
use tls::ClientFiles;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// With the certificate of `who`.
async fn connect(address: SocketAddr, who: &str, protocol: &[u8]) -> TlsStream<TcpStream> {
    let identity = Some((pem(&format!("{who}.pem")).into(), pem(&format!("{who}.key")).into()));
    let files = ClientFiles { ca: Some(pem("ca.pem").into()), identity };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ClientFiles::name_of(&address.to_string()).unwrap();
    TlsConnector::from(files.config(&[protocol]).unwrap()).connect(name, stream).await.unwrap()
}

/// A request, and the headers that it carries beside those of its body.
#[derive(Clone, Copy)]
struct Asked<'a> {
    method: &'a str,
    path: &'a str,
    body: &'a str,
    headers: &'a [(&'a str, &'a str)],
}

/// A client with a kept connection of HTTP/2.
struct Http2(SendRequest<Bytes>);

impl Http2 {
    async fn connect(address: SocketAddr, who: &str) -> Http2 {
        let (sender, connection) = h2::client::handshake(connect(address, who, b"h2").await).await.unwrap();
        tokio::spawn(connection);
        Http2(sender)
    }

    async fn ask(&mut self, asked: Asked<'_>) -> u16 {
        let uri = format!("https://localhost{}", asked.path.replace(' ', "%20"));
        let mut request = http::Request::builder().method(asked.method).uri(uri);
        for (name, value) in asked.headers {
            request = request.header(*name, *value);
        }
        if !asked.body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(()).unwrap();
        let mut ready = self.0.clone().ready().await.unwrap();
        let (response, mut stream) = ready.send_request(request, asked.body.is_empty()).unwrap();
        if !asked.body.is_empty() {
            stream.send_data(Bytes::copy_from_slice(asked.body.as_bytes()), true).unwrap();
        }
        timeout(PATIENCE, response).await.unwrap().unwrap().status().as_u16()
    }
}

/// On a connection of its own.
async fn ask_http1(address: SocketAddr, who: &str, asked: Asked<'_>) -> u16 {
    let Asked { method, path, body, headers } = asked;
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = if body.is_empty() {
        String::new()
    } else {
        format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len())
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}{length}\r\n{body}"
    );
    let mut stream = connect(address, who, b"http/1.1").await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while head.len() < 12 {
        let read = timeout(PATIENCE, stream.read_buf(&mut head)).await.unwrap().unwrap();
        assert_ne!(read, 0, "{method} {path}: no answer");
    }
    String::from_utf8_lossy(&head[9..12]).parse().unwrap()
}

/// A member that takes names on certificates for users: alice has the rights of the matrix's reader.
fn secured() -> Member {
    let member = with_authority(Plan::single()).with(&["--client-cert-auth"]).with(&CHEAP).start();
    let root = Some("root");
    wait_ready(&member, root);
    let rest = member.rest.unwrap();
    block_on(async {
        let mut client = Http2::connect(rest, "root").await;
        for path in ["/v1/namespaces/shop", "/v1/namespaces/bank"] {
            let asked = Asked { method: "PUT", path, body: r#"{"n":1}"#, headers: &[] };
            // The data plane starts beside the port.
            while client.ask(asked).await >= 500 {
                tokio::task::yield_now().await;
            }
        }
    });
    let (_, password) = USERS[0];
    out(&member, root, &["user", "add", &format!("root:{password}")]);
    out(&member, root, &["user", "grant-role", "root", "root"]);
    out(&member, root, &["user", "add", "alice", "--no-password"]);
    out(&member, root, &["role", "add", "reader"]);
    out(&member, root, &["user", "grant-role", "alice", "reader"]);
    for (role, access, data) in GRANTS {
        if role == "reader" {
            out(&member, root, &["role", "grant-permission", role, access, "--data", data]);
        }
    }
    out(&member, root, &["role", "grant-permission", "reader", "read", "a", "b"]);
    out(&member, root, &["auth", "enable"]);
    let asked = Asked { method: "GET", path: "/v1/ring", body: "", headers: &[] };
    until("the policy is known", || {
        (block_on(ask_http1(rest, "root", asked)) == 200
            && block_on(ask_http1(rest, "nameless", asked)) == 401)
            .then_some(())
    });
    member
}

fn outcome(status: u16) -> &'static str {
    match status {
        401 => "unknown",
        403 => "denied",
        _ => "served",
    }
}

#[test]
fn every_path_is_for_those_whose_certificate_has_its_permission() {
    let member = secured();
    let rest = member.rest.unwrap();
    let mut wrong = Vec::new();
    block_on(async {
        let callers = ["root", "alice", "nameless", "peer"];
        let mut clients = Vec::new();
        for who in callers {
            clients.push((who, Http2::connect(rest, who).await));
        }
        for row in rest_rows().into_iter().filter(|row| !row.ends_the_rest()) {
            let asked = Asked { method: &row.method, path: &row.path, body: &row.body, headers: &[] };
            for (who, client) in &mut clients {
                let wanted = match (&row.may, *who) {
                    (None, _) | (_, "root") => "served",
                    (Some([reader, ..]), "alice") => {
                        if *reader {
                            "served"
                        } else {
                            "denied"
                        }
                    }
                    // No name, and a name that is no user.
                    _ => "unknown",
                };
                let statuses =
                    [("HTTP/2", client.ask(asked).await), ("HTTP/1.1", ask_http1(rest, who, asked).await)];
                for (protocol, status) in statuses {
                    if outcome(status) != wanted {
                        wrong.push(format!(
                            "{} {} by {protocol} for {who}: {status}, not {wanted}",
                            row.method, row.path
                        ));
                    }
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_certificate_counts_on_http2_where_nothing_else_says_who_asks_and_ends_with_its_rights() {
    let member = secured();
    let rest = member.rest.unwrap();
    block_on(async {
        let mut alice = Http2::connect(rest, "alice").await;
        let read = Asked { method: "GET", path: "/v1/data/open", body: "", headers: &[] };
        assert_eq!(alice.ask(read).await, 404);
        for passed_on in
            [("forwarded", "for=10.0.0.9"), ("x-forwarded-for", "10.0.0.9"), ("via", "1.1 proxy")]
        {
            assert_eq!(alice.ask(Asked { headers: &[passed_on], ..read }).await, 401, "{passed_on:?}");
        }
        assert_eq!(
            alice.ask(Asked { headers: &[("authorization", "Bearer nonsense")], ..read }).await,
            401,
            "a token that says nothing"
        );
        let put = Asked { method: "PUT", path: "/v1/data/open", body: r#"{"value":1}"#, headers: &[] };
        assert_eq!(alice.ask(put).await, 403);
        // `root:rpw`: a password says more than a certificate.
        let headers: &[_] = &[("authorization", "Basic cm9vdDpycHc=")];
        assert_eq!(alice.ask(Asked { headers, ..put }).await, 200);
        assert_eq!(alice.ask(read).await, 200, "on the same connection it counts again");
        out(&member, Some("root"), &["role", "revoke-permission", "reader", "--data", "default/open"]);
        timeout(PATIENCE, async {
            while alice.ask(read).await != 403 {
                tokio::task::yield_now().await
            }
        })
        .await
        .expect("what is taken away is gone on kept connections");
        out(&member, Some("root"), &["user", "delete", "alice"]);
        timeout(PATIENCE, async {
            while alice.ask(read).await != 401 {
                tokio::task::yield_now().await
            }
        })
        .await
        .expect("so is the user");
    });
}

#[test]
fn a_certificate_says_who_opens_a_socket() {
    let member = secured();
    let rest = member.rest.unwrap();
    let request = "GET /v1/feed?prefix=open HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let first_message = |who: &'static str, header: &'static str| async move {
        let mut stream = connect(rest, who, b"http/1.1").await;
        stream.write_all(format!("{request}{header}\r\n").as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&heard).into_owned();
            if text.contains("\"event\"") || text.contains("\"error\"") {
                return text;
            }
            let read = timeout(PATIENCE, stream.read_buf(&mut heard)).await.unwrap().unwrap();
            assert_ne!(read, 0, "{who}: {text}");
        }
    };
    block_on(async {
        for (who, header, is_told) in [
            ("alice", "", true),
            ("root", "", true),
            ("nameless", "", false),
            // A proxy must say for whom it asks.
            ("alice", "via: 1.1 proxy\r\n", false),
        ] {
            let told = first_message(who, header).await;
            assert!(told.starts_with("HTTP/1.1 101 "), "{who}: {told}");
            assert_eq!(told.contains("\"event\""), is_told, "{who} {header}: {told}");
        }
    });
}
