use super::*;
use crate::connections::{ConnectionLimits, Connections};
use axum::routing::post;
use tokio::io::{DuplexStream, duplex};

/// Echoes every message as a line, in two pieces.
async fn echo(body: Body) -> Body {
    let lines = body.into_data_stream().map(|part| {
        let part = part.unwrap();
        Ok::<_, Infallible>(if part == "\n"[..] { part } else { [b"said ", &part[..]].concat().into() })
    });
    Body::from_stream(lines)
}

fn router() -> Router {
    Router::new().route("/v3/watch", post(echo)).route("/v3/kv/put", post(echo))
}

async fn serve_bounded(server: &mut DuplexStream) -> Option<Bytes> {
    let slot_guard = Connections::new(ConnectionLimits::default()).admit([127, 0, 0, 1].into()).unwrap();
    let (request_budget, browsers) = (RequestBudget::new(1_000_000), BrowserGuard::default());
    let bounds = SocketLimits {
        slot_guard: &slot_guard,
        request_budget: &request_budget,
        address: None,
        identity: None,
        browsers: &browsers,
    };
    serve(server, &router(), bounds).await
}

async fn open(target: &str) -> (DuplexStream, tokio::task::JoinHandle<Option<Bytes>>) {
    let (mut client, mut server) = duplex(1024);
    let serving = tokio::spawn(async move { serve_bounded(&mut server).await });
    let head = format!(
        "GET {target} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n\r\n") {
        heard.push(client.read_u8().await.unwrap());
    }
    assert!(heard.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&heard));
    (client, serving)
}

/// A frame, masked with zeros.
async fn say(client: &mut DuplexStream, first: u8, payload: &[u8]) {
    let head = [&[first, 0x80 | payload.len() as u8, 0, 0, 0, 0][..], payload].concat();
    client.write_all(&head).await.unwrap();
}

/// The next whole message, or control frame; pings are passed over.
async fn hear_message(client: &mut DuplexStream) -> (u8, Vec<u8>) {
    let mut whole = Vec::new();
    let mut opcode = 0;
    loop {
        let (first, len) = (client.read_u8().await.unwrap(), client.read_u8().await.unwrap());
        assert!(len < 126, "small messages");
        let mut payload = vec![0; usize::from(len)];
        client.read_exact(&mut payload).await.unwrap();
        if first & 0x0f == 0x9 {
            continue;
        }
        opcode |= first & 0x0f;
        whole.extend(payload);
        if first & 0x80 != 0 {
            return (opcode, whole);
        }
    }
}

#[tokio::test]
async fn every_line_of_the_answer_is_a_message() {
    let (mut client, serving) = open("/v3/watch?method=POST").await;
    for word in [&b"one"[..], b"two"] {
        say(&mut client, 0x81, word).await;
        assert_eq!(hear_message(&mut client).await, (1, [b"said ", word].concat()));
    }
    say(&mut client, 0x89, b"here?").await;
    assert_eq!(hear_message(&mut client).await, (0xa, b"here?".to_vec()));
    say(&mut client, 0x88, &NORMAL.to_be_bytes()).await;
    assert_eq!(hear_message(&mut client).await, (8, NORMAL.to_be_bytes().to_vec()));
    assert_eq!(serving.await.unwrap(), None);
}

#[tokio::test]
async fn a_call_for_one_message_is_answered_and_ends() {
    let (mut client, serving) = open("/v3/kv/put?method=POST").await;
    say(&mut client, 0x81, b"one").await;
    assert_eq!(hear_message(&mut client).await, (1, b"said one".to_vec()));
    assert_eq!(hear_message(&mut client).await, (8, NORMAL.to_be_bytes().to_vec()));
    assert_eq!(serving.await.unwrap(), None);
}

#[tokio::test]
async fn a_breach_of_the_protocol_closes_the_connection() {
    let (mut client, serving) = open("/v3/watch?method=POST").await;
    client.write_all(&[0x81, 0x03, b'o', b'n', b'e']).await.unwrap();
    assert_eq!(hear_message(&mut client).await, (8, BROKEN.to_be_bytes().to_vec()));
    assert_eq!(serving.await.unwrap(), None);
}

#[tokio::test]
async fn what_is_no_socket_goes_back_as_it_came() {
    let (mut client, mut server) = duplex(1024);
    client.write_all(b"GET /v3/watch HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let back = serve_bounded(&mut server).await;
    assert_eq!(back.as_deref(), Some(&b"GET /v3/watch HTTP/1.1\r\nhost: a\r\n\r\n"[..]));
}

#[tokio::test]
async fn who_leaves_in_the_middle_is_let_go() {
    let (client, serving) = open("/v3/watch?method=POST").await;
    drop(client);
    assert_eq!(serving.await.unwrap(), None);
}
