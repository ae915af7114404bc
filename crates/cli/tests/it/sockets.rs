//! WebSocket in front of the JSON gateway: watches and keep-alives as a page would have them, and as etcd has them.

use crate::auth::{CHEAP, gate, token_of, with_auth};
use crate::both_ways::{Way, both_ways};
use crate::process::{Member, PATIENCE, Plan, http_at, start_etcd, until};
use crate::rest::Rest;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A client of its own, so that nothing of ours vouches for ours.
pub struct Socket(TcpStream);

impl Socket {
    /// The socket, or the status with which it was refused.
    pub fn open(address: SocketAddr, target: &str, headers: &str) -> Result<Socket, String> {
        Socket::upgrade(TcpStream::connect(address).unwrap(), address, target, headers)
    }

    /// The same on a connection that is open.
    fn upgrade(
        mut stream: TcpStream,
        address: SocketAddr,
        target: &str,
        headers: &str,
    ) -> Result<Socket, String> {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let answer = read_head(&mut stream);
        match answer.get(9..12) {
            Some("101") => {
                assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
                Ok(Socket(stream))
            }
            status => Err(status.unwrap_or_default().to_owned()),
        }
    }

    pub fn say(&mut self, text: &str) {
        self.frame(0x81, text.as_bytes());
    }

    fn frame(&mut self, first: u8, payload: &[u8]) {
        let mask = [7, 77, 177, 1];
        let mut frame = vec![first];
        match payload.len() {
            len @ 0..126 => frame.push(0x80 | len as u8),
            len => {
                frame.push(0x80 | 126);
                frame.extend((len as u16).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.0.write_all(&frame).unwrap();
    }

    fn next_frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        let len = match head[1] {
            126 => {
                let mut len = [0; 2];
                self.0.read_exact(&mut len).unwrap();
                usize::from(u16::from_be_bytes(len))
            }
            len => usize::from(len),
        };
        let mut payload = vec![0; len];
        self.0.read_exact(&mut payload).unwrap();
        (head[0], payload)
    }

    pub fn hear(&mut self) -> Value {
        let (first, payload) = self.next_frame();
        assert_eq!(first, 0x81, "a whole text, not {}", String::from_utf8_lossy(&payload));
        serde_json::from_slice(&payload).unwrap()
    }

    /// The next message, which may come in pieces: a refusal is a text without an end of line.
    pub fn hear_pieces(&mut self) -> Value {
        let mut whole = Vec::new();
        loop {
            let (first, payload) = self.next_frame();
            assert!(
                first & 0x7f < 2,
                "a text, not a frame {first:#x} after {}",
                String::from_utf8_lossy(&whole)
            );
            whole.extend(payload);
            if first & 0x80 != 0 {
                return serde_json::from_slice(&whole).unwrap();
            }
        }
    }

    /// The next message, if one begins within this time.
    pub fn hear_within(&mut self, patience: Duration) -> Option<Value> {
        self.0.set_read_timeout(Some(patience)).unwrap();
        let begins = self.0.peek(&mut [0]).is_ok();
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
        begins.then(|| self.hear_pieces())
    }

    /// The next message of a stream with this name.
    fn event(&mut self, name: &str) -> Value {
        loop {
            let message = self.hear();
            if message["event"] == name {
                return message["data"].clone();
            }
        }
    }

    /// Waits for the frame that ends the conversation.
    fn wait_for_close(&mut self) {
        while self.next_frame().0 != 0x88 {}
    }
}

fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn post(address: SocketAddr, path: &str, body: &str) {
    let answer = http_at(address, "POST", path, body);
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// What is told, without what differs from server to server and from run to run.
fn settled(mut told: serde_json::Value) -> String {
    if let Some(header) = told["result"]["header"].as_object_mut() {
        ["cluster_id", "member_id", "raft_term"].iter().for_each(|name| drop(header.remove(*name)));
    }
    told.to_string()
}

/// A watch with a change of mind, and a lease that is renewed.
fn conversation(address: SocketAddr) -> Vec<String> {
    let mut told = Vec::new();
    let mut watch = Socket::open(address, "/v3/watch?method=POST", "").unwrap();
    let mut hear = |socket: &mut Socket| told.push(settled(socket.hear()));
    watch.say(r#"{"create_request":{"key":"YQ==","range_end":"Yw=="}}"#);
    hear(&mut watch);
    for body in [r#"{"key":"YQ==","value":"MQ=="}"#, r#"{"key":"Yg==","value":"Mg=="}"#] {
        post(address, "/v3/kv/put", body);
        hear(&mut watch);
    }
    watch.say(r#"{"create_request":{"key":"YQ==","start_revision":"2"}}"#);
    hear(&mut watch);
    hear(&mut watch);
    watch.say(r#"{"cancel_request":{"watch_id":"0"}}"#);
    hear(&mut watch);
    post(address, "/v3/lease/grant", r#"{"ID":"77","TTL":"1000"}"#);
    let mut lease = Socket::open(address, "/v3/lease/keepalive?method=POST", "").unwrap();
    for id in ["77", "78"] {
        lease.say(&format!(r#"{{"ID":"{id}"}}"#));
        hear(&mut lease);
    }
    told
}

#[test]
fn a_socket_watches_and_keeps_alive_as_etcds_does() {
    let member = Plan::single().start_ready();
    let ours = conversation(member.client);
    assert!(ours[0].contains("created") && ours[1].contains("events"), "{ours:#?}");
    let Ok(binary) = std::env::var("ETCD") else {
        let _ = writeln!(std::io::stderr(), "SKIPPED comparing sockets with etcd: set ETCD to a binary");
        return;
    };
    let etcd = start_etcd(&binary, &[]);
    assert_eq!(ours, conversation(etcd.address()));
}

#[test]
fn a_socket_says_who_it_is_and_pages_of_others_are_kept_out() {
    let mut member = Plan::single().with(&CHEAP).start_ready();
    with_auth(&member);
    let token = token_of(gate(&member), "u1", "pw");
    let watch = |headers: &str| Socket::open(member.client, "/v3/watch?method=POST", headers);
    let create = |key: &str| format!(r#"{{"create_request":{{"key":"{key}"}}}}"#);
    let bearer = format!("Sec-WebSocket-Protocol: Bearer, {token}\r\n");
    for (headers, key, allowed) in [("", "YQ==", false), (&bearer, "eg==", false), (&bearer, "YQ==", true)] {
        let mut socket = watch(headers).unwrap();
        socket.say(&create(key));
        let told = socket.hear();
        assert_eq!(told["result"]["canceled"] == true, !allowed, "{told}");
    }
    assert_eq!(watch("Origin: http://elsewhere.example\r\n").err().as_deref(), Some("403"));
    assert!(watch(&format!("Origin: http://{}\r\n", member.client)).is_ok());
    // A wrong method is told as it is without a socket.
    let mut wrong = Socket::open(member.client, "/v3/watch", "").unwrap();
    let refusal = br#"{"code":12,"message":"Method Not Allowed"}"#;
    assert_eq!(wrong.next_frame(), (0x01, refusal.to_vec()));
    assert_eq!(wrong.next_frame(), (0x80, vec![]));
    // What is not masked is not read; and who stops says so.
    let mut rude = watch("").unwrap();
    rude.0.write_all(&[0x81, 0x02, b'{', b'}']).unwrap();
    assert_eq!(rude.next_frame(), (0x88, 1002u16.to_be_bytes().to_vec()));
    let mut open = watch(&bearer).unwrap();
    open.say(&create("YQ=="));
    open.hear();
    open.frame(0x89, b"there?");
    assert_eq!(open.next_frame(), (0x8a, b"there?".to_vec()));
    member.signal("TERM");
    assert!(member.wait_exit().success(), "open sockets do not hold it up");
}

/// Changes of both planes over sockets on the REST port, for a caller with this token.
fn follow_changes(member: &Member, token: &str) {
    let rest = Rest::of(member);
    let (protocol, authorization) = match token {
        "" => (String::new(), vec![]),
        token => (format!("Sec-WebSocket-Protocol: Bearer, {token}\r\n"), vec![("authorization", token)]),
    };
    let put = |path: &str, body: &str| {
        let headers = [&authorization[..], &[("content-type", "application/json")]].concat();
        let answer = rest.call("PUT", path, &headers, body.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.shown());
    };
    let open = |target: &str| Socket::open(rest.0, target, &protocol).unwrap();
    put("/v1/data/s1", r#"{"value": 1}"#);
    let mut feed = open("/v1/feed?prefix=s");
    let state = feed.event("state");
    assert_eq!((&state["key"], &state["value"]), (&Value::from("s1"), &Value::from(1)));
    feed.event("live");
    put("/v1/data/s1", r#"{"value": 2}"#);
    assert_eq!(feed.event("change")["value"], 2);

    put("/v1/coord/key?key=s/a", r#"{"value": "1"}"#);
    let mut watch = open("/v1/coord/watch?prefix=s/&since=0");
    assert_eq!(watch.event("state")["key"], "s/a");
    watch.event("live");
    put("/v1/coord/key?key=s/b", r#"{"value": "2"}"#);
    assert_eq!(watch.event("put")["key"], "s/b");

    // Also on a connection that has served another request before.
    let mut kept = TcpStream::connect(rest.0).unwrap();
    let before = format!(
        "GET /v1/data/s1 HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        authorization.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>()
    );
    kept.write_all(before.as_bytes()).unwrap();
    kept.set_read_timeout(Some(PATIENCE)).unwrap();
    let (head, mut byte) = (read_head(&mut kept), [0]);
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    (0..length.parse().unwrap()).for_each(|_: usize| kept.read_exact(&mut byte).unwrap());
    let mut again = Socket::upgrade(kept, rest.0, "/v1/feed?prefix=s", &protocol).unwrap();
    again.event("live");

    // A refusal is a message, and the socket ends behind it.
    let mut refused = open("/v1/feed?since=x");
    assert!(refused.hear_pieces()["message"].as_str().unwrap().contains("since must be"));
    refused.wait_for_close();
    assert_eq!(
        Socket::open(rest.0, "/v1/feed", "Origin: http://elsewhere.example\r\n").err().as_deref(),
        Some("403")
    );
}

#[test]
fn changes_of_both_planes_come_over_sockets() {
    both_ways(follow_changes_without_and_with_auth);
}

fn follow_changes_without_and_with_auth(way: Way) {
    let mut member = way.start_ready(&Plan::single().with(&CHEAP));
    let rest = Rest::of(&member);
    rest.wait_for_ring(1);
    follow_changes(&member, "");
    with_auth(&member);
    let token = token_of(gate(&member), "root", "rpw");
    until("the data plane knows the users", || (rest.get("/v1/data/s1").status == 401).then_some(()));
    follow_changes(&member, &token);
    for target in ["/v1/feed", "/v1/coord/watch"] {
        for headers in ["", "Sec-WebSocket-Protocol: Bearer, nonsense\r\n"] {
            let mut stranger = Socket::open(rest.0, target, headers).unwrap();
            let told = stranger.hear_pieces();
            assert!(told["event"].is_null() && told["error"].is_string(), "{target}: {told}");
            stranger.wait_for_close();
        }
    }
    let protocol = format!("Sec-WebSocket-Protocol: Bearer, {token}\r\n");
    let mut open = Socket::open(rest.0, "/v1/feed", &protocol).unwrap();
    open.event("live");
    member.signal("TERM");
    assert!(member.wait_exit().success(), "open sockets do not hold it up");
}
