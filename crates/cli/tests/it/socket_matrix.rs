//! Every WebSocket, opened by every kind of caller: watches and keep-alives of the gateway, and streams of changes of both
//! planes; on a member and on a node that keeps data alone.

use crate::auth::{gate, v3};
use crate::permission_matrix::calls::LEASE;
use crate::permission_matrix::{DATA_READ, Outcome, READ, USER, WRITE, Who, world};
use crate::process::Member;
use crate::rest::Rest;
use crate::sockets::Socket;
use std::net::SocketAddr;
use std::time::Duration;

/// A socket: its target, what its client says first, and who may.
type Row = (&'static str, Option<&'static str>, Who);

const GATEWAY: [Row; 3] = [
    ("/v3/watch?method=POST", Some(r#"{"create_request":{"key":"YTE="}}"#), READ),
    ("/v3/lease/keepalive?method=POST", Some(r#"{"ID":"88"}"#), WRITE),
    ("/v3/lease/keepalive?method=POST", Some(r#"{"ID":"77"}"#), USER),
];
const STREAMS: [Row; 2] =
    [("/v1/feed?prefix=open", None, DATA_READ), ("/v1/coord/watch?key=a1&since=0", None, READ)];

fn open(address: SocketAddr, target: &str, token: &str) -> Result<Socket, String> {
    let protocol = match token {
        "" => String::new(),
        token => format!("Sec-WebSocket-Protocol: Bearer, {token}\r\n"),
    };
    Socket::open(address, target, &protocol)
}

fn begin(address: SocketAddr, (target, first, _): Row, token: &str) -> Socket {
    let mut socket = open(address, target, token).unwrap();
    first.iter().for_each(|text| socket.say(text));
    socket
}

/// What the first message says.
fn told(address: SocketAddr, row: Row, token: &str) -> (Outcome, String) {
    let told = begin(address, row, token).hear_pieces().to_string();
    let outcome = match Outcome::told_by(&told) {
        _ if told.contains("auth is on: send") => Outcome::Unknown,
        _ if told.contains("this user has no permission") => Outcome::Denied,
        outcome => outcome,
    };
    (outcome, told)
}

#[test]
fn a_socket_is_for_those_who_have_its_permission() {
    let world = world();
    let lease = format!(r#"{{"key":"YTE=","lease":"{LEASE}"}}"#);
    assert_eq!(v3(gate(&world.member), &world.root, "kv/put", &lease).status, 200);
    let rest = |member: &Member| Rest::of(member).0;
    let places = [
        (&GATEWAY[..], world.member.client),
        (&STREAMS[..], rest(&world.member)),
        (&STREAMS[..], rest(&world.node)),
    ];
    let mut wrong = Vec::new();
    for (rows, address) in places {
        for row @ (target, first, who) in rows.iter().copied() {
            let mut expect = |caller: &str, wanted: Outcome, (got, told): (Outcome, String)| {
                if got != wanted {
                    wrong.push(format!(
                        "{target} {first:?} at {address} for {caller}: {got:?}, not {wanted:?}: {told}"
                    ));
                }
            };
            for (stranger, token) in &world.strangers {
                expect(stranger, Outcome::Unknown, told(address, row, token));
            }
            // A node without the coordination store sends every caller that it knows to a member.
            let is_elsewhere = target.starts_with("/v1/coord") && address == rest(&world.node);
            for (nth, (user, token)) in world.users.iter().enumerate() {
                let wanted = if is_elsewhere { Outcome::Served } else { who.for_user(nth) };
                expect(user, wanted, told(address, row, token));
            }
            expect("root", Outcome::Served, told(address, row, &world.root));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A stream of documents comes as events alone, and an upgrade of it is answered as the path is.
#[test]
fn an_upgrade_of_a_path_without_sockets_asks_for_its_permission() {
    let world = world();
    for address in [&world.member, &world.node].map(|member| Rest::of(member).0) {
        let status = |token: &str| {
            let authorization = match token {
                "" => String::new(),
                token => format!("Authorization: Bearer {token}\r\n"),
            };
            Socket::open(address, "/v1/events", &authorization).err()
        };
        for (stranger, token) in &world.strangers {
            assert_eq!(status(token).as_deref(), Some("401"), "{stranger}");
        }
        for (user, token) in &world.users {
            assert_eq!(status(token).as_deref(), Some("200"), "{user}");
        }
    }
}

/// A node that keeps data alone has no keys to watch and no leases: what it tells a caller that it does not know is a refusal, or nothing.
#[test]
fn no_socket_of_a_node_without_keys_tells_anything_to_strangers() {
    let world = world();
    let address = world.node.client;
    std::thread::scope(|scope| {
        for row in GATEWAY {
            for (stranger, token) in &world.strangers {
                scope.spawn(move || {
                    let mut socket = begin(address, row, token);
                    if let Some(told) = socket.hear_within(Duration::from_secs(5)) {
                        let is_refused = Outcome::told_by(&told.to_string()) == Outcome::Unknown;
                        assert!(is_refused || told["error"].is_object(), "{} for {stranger}: {told}", row.0);
                    }
                });
            }
        }
    });
}
