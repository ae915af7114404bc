//! What clients send and users write before anything of it is believed: heads of HTTP/1, WebSocket frames, gRPC messages, tokens,
//! certificates, merge scripts, configuration files and the flags of etcd.

use bytes::Bytes;
use jwt::{JwtKeys, SigningMethod};
use mesh::Script;
use server::Scripts;
use std::sync::LazyLock;
use std::time::Duration;

pub use althing_cli::fuzzing::{etcd_flags, toml};
pub use api::fuzzing::{grpc_messages, http1_heads, websocket};

const SECRET: &[u8] = b"a secret that is long enough for the shortest of the methods";
const NOW: Duration = Duration::from_secs(1_000_000);

static KEYS: LazyLock<JwtKeys> =
    LazyLock::new(|| JwtKeys::load(SigningMethod::Hs256, None, Some(SECRET)).expect("a secret is a key"));

/// A signed token, and what a session's token may be.
pub fn token(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = KEYS.read(text, NOW);
    }
}

pub fn token_seeds() -> Vec<Vec<u8>> {
    let claims = jwt::Claims { user: "ann".to_owned(), revision: 7, ends: NOW * 2 };
    KEYS.sign(&claims).into_iter().map(String::into_bytes).collect()
}

/// Certificates as a peer or a client shows them, and key files as an operator names them.
pub fn certificate(bytes: &[u8]) {
    let _ = (tls::common_name(bytes), tls::expiry(bytes));
    for method in [SigningMethod::Rs256, SigningMethod::Es256, SigningMethod::EdDsa, SigningMethod::Hs256] {
        let _ = JwtKeys::load(method, Some(bytes), None);
        let _ = JwtKeys::load(method, None, Some(bytes));
    }
}

pub fn certificate_seeds() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../jwt/keys/rs256.pub.pem").to_vec(),
        b"-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n".to_vec(),
        vec![0x30, 0x03, 0x02, 0x01, 0x01],
    ]
}

/// A script, and two values to merge: separated by zeros.
pub fn merge_script(bytes: &[u8]) {
    let mut parts = bytes.splitn(3, |byte| *byte == 0).map(Bytes::copy_from_slice);
    let source = parts.next().unwrap_or_default();
    let (left, right) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(source) = std::str::from_utf8(&source) else { return };
    let scripts = Scripts::default();
    if scripts.flaw(source).is_none() {
        let _ = scripts.merge(source, &left, &right);
    }
}

pub fn script_seeds() -> Vec<Vec<u8>> {
    let sources = [
        "larger(left, right)",
        "let n = parse_int(left) + parse_int(right); n",
        "let a = []; for x in 0..10 { a.push(x) } a.len()",
        "fn f(n) { if n > 3 { n } else { f(n + 1) } } f(0)",
        "merge_json(left, right)",
    ];
    sources.iter().map(|source| [source.as_bytes(), b"\x001\x002"].concat()).collect()
}

pub fn head_seeds() -> Vec<Vec<u8>> {
    [
        "GET /v1/data/key HTTP/1.1\r\nhost: a\r\n\r\n\0GET /v1/data/other HTTP/1.1\r\nhost: a\r\n\r\n",
        "PUT /v1/data/key HTTP/1.1\r\ncontent-length: 11\r\ncontent-type: application/json\r\n\r\n{\"value\":1}",
        "GET /v3/watch HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "POST /api/v1/store/keys HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
    ]
    .iter()
    .map(|head| head.as_bytes().to_vec())
    .collect()
}

pub fn websocket_seeds() -> Vec<Vec<u8>> {
    vec![
        vec![0x81, 0x83, 1, 2, 3, 4, b'a', b'b', b'c', 0x88, 0x80, 0, 0, 0, 0],
        vec![0x01, 0xfe, 0, 3, 1, 2, 3, 4, 9, 9, 9, 0x80, 0x81, 1, 1, 1, 1, 5],
        vec![0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 7],
    ]
}

pub fn message_seeds() -> Vec<Vec<u8>> {
    // A transaction within a transaction, and a plain put.
    let put = [0x0a, 3, b'k', b'e', b'y', 0x12, 1, b'v'];
    let op = [&[0x12, put.len() as u8][..], &put].concat();
    let txn = [&[3, 0x12, op.len() as u8][..], &op].concat();
    vec![[&[1][..], &put].concat(), txn, vec![0, 0x0a, 1, b'k', 0x18, 0xff, 0xff, 0xff, 0xff, 0x0f]]
}

pub fn toml_seeds() -> Vec<Vec<u8>> {
    vec![
        b"name = \"m0\"\nelection-ms = 500\nclient-addr = \"127.0.0.1:2379\"\n".to_vec(),
        b"x = [[[[".to_vec(),
    ]
}

pub fn flag_seeds() -> Vec<Vec<u8>> {
    vec![
        b"--name\0m0\0--listen-client-urls=http://127.0.0.1:2379\0--initial-cluster\0m0=http://127.0.0.1:2380".to_vec(),
        b"--auto-compaction-mode=revision\0--auto-compaction-retention=5\0--heartbeat-interval=100".to_vec(),
        b"-experimental-x\0--quota-backend-bytes\x00-1\0--log-level=debug".to_vec(),
    ]
}
