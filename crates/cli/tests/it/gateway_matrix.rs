//! The paths that no table of services names: those of the gateway, asked by every kind of caller, with the messages of the
//! calls behind them; and the rule that each path a router serves is in a table of what callers may do.

use crate::permission_matrix::calls::calls;
use crate::permission_matrix::{Outcome, world};
use crate::process::PATIENCE;
use bytes::Bytes;
use prost_reflect::{DescriptorPool, DynamicMessage};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

const API: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/src");
const PERMISSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/permissions.md");

/// The paths in the text of a router, in the order of its lines: a literal behind a call that adds a route, or at the begin of a
/// row of the gateway.
fn paths_in(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let product = text.split("\nmod tests {").next().unwrap();
    let begins_route = |before: &str| {
        let before = before.trim_end();
        before.ends_with(".route(") || before.ends_with(".route_service(") || before.ends_with(';')
    };
    let literals: Vec<&str> = product.split('"').collect();
    let routed = literals.windows(2).filter(|pair| pair[1].starts_with('/') && begins_route(pair[0]));
    routed.map(|pair| pair[1].to_owned()).collect()
}

fn gateway_paths() -> Vec<String> {
    let mut paths = paths_in(&Path::new(API).join("gateway.rs"));
    // What is refused for being unknown; and a stream that does not end, which sockets are asked for in the matrix.
    paths.retain(|path| !path.contains('{') && path != "/v3/watch");
    assert!(paths.len() > 60, "{paths:?}");
    paths
}

/// The path of each row of the gateway, and its call as the table of calls names it.
fn gateway_calls() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(Path::new(API).join("gateway.rs")).unwrap();
    let row = |line: &str| {
        let (path, rest) = line.trim().strip_prefix('"')?.split_once('"')?;
        let (service, call) = rest.strip_suffix(';')?.split_whitespace().last()?.split_once("::")?;
        Some((path.to_owned(), plain_name(&format!("{service}/{call}"))))
    };
    let mut rows: Vec<(String, String)> = text.lines().filter_map(row).collect();
    rows.push(("/v3/lease/keepalive".to_owned(), plain_name("Lease/LeaseKeepAlive")));
    rows
}

/// In the letters that the names of Rust and of protobuf share.
fn plain_name(call: &str) -> String {
    call.replace('_', "").to_lowercase()
}

/// The message of a call as the gateway takes it.
fn json_of(pool: &DescriptorPool, path: &str, message: Bytes) -> String {
    let (service, call) = path.trim_start_matches('/').split_once('/').unwrap();
    let service = pool.get_service_by_name(service).unwrap();
    let call = service.methods().find(|method| method.name() == call).unwrap();
    serde_json::to_string(&DynamicMessage::decode(call.input(), message).unwrap()).unwrap()
}

/// The begin of the answer: all of it, or the first message of a stream.
fn answer_of(address: SocketAddr, token: &str, path: &str, body: &str) -> String {
    let authorization = if token.is_empty() { String::new() } else { format!("authorization: {token}\r\n") };
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{authorization}content-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
    let (mut answer, mut piece) = (String::new(), [0; 16 * 1024]);
    loop {
        let read = stream.read(&mut piece).unwrap();
        answer.push_str(&String::from_utf8_lossy(&piece[..read]));
        let is_whole_message = answer.split_once("\r\n\r\n").is_some_and(|(_, body)| body.contains('}'));
        if read == 0 || is_whole_message {
            return answer;
        }
    }
}

#[test]
fn every_path_of_the_gateway_is_for_those_who_have_the_permission_of_its_call() {
    let world = world();
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).unwrap();
    let (mut paths, mut wrong) = (gateway_paths(), Vec::new());
    let behind = gateway_calls();
    // In the order of the calls, as each finds what those before it have left.
    for (call, message, who) in calls() {
        let (service, method) = call.rsplit_once('/').unwrap();
        let name = plain_name(&format!("{}/{method}", service.rsplit_once('.').unwrap().1));
        for (path, _) in behind.iter().filter(|(_, of)| *of == name) {
            paths.retain(|left| left != path);
            let body = json_of(&pool, call, message.clone());
            let mut expect = |caller: &str, token: &str, wanted: Outcome| {
                let answer = answer_of(world.member.client, token, path, &body);
                let got = Outcome::told_by(&answer);
                if got != wanted {
                    wrong.push(format!("{path} for {caller}: {got:?}, not {wanted:?}: {answer}"));
                }
            };
            for (stranger, token) in &world.strangers {
                expect(stranger, token, who.for_stranger(token));
            }
            for (nth, (user, token)) in world.users.iter().enumerate() {
                expect(user, token, who.for_user(nth));
            }
            // Auth stays on for the rows that follow.
            if path != "/v3/auth/disable" {
                expect("root", &world.root, Outcome::Served);
            }
        }
    }
    assert!(paths.is_empty(), "{paths:?} are in no row");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_path_that_a_router_names_is_in_a_table_of_permissions() {
    let page = std::fs::read_to_string(PERMISSIONS).unwrap();
    let listed: BTreeSet<&str> = page.split('`').filter(|word| word.starts_with('/')).collect();
    // Rows of REST are held against the page by a test of the crate, gRPC by the matrix, the gateway by the test above.
    let held: BTreeSet<PathBuf> =
        ["rest/routes.rs", "gateway.rs"].map(|file| Path::new(API).join(file)).into();
    let mut files = vec![PathBuf::from(API)];
    let mut found = 0;
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end == "rs")
            && !path.ends_with("tests.rs")
            && !held.contains(&path)
        {
            for route in paths_in(&path) {
                found += 1;
                let begin = route.split("/{").next().unwrap();
                assert!(
                    listed.contains(begin) || listed.contains(route.as_str()),
                    "{route} of {}",
                    path.display()
                );
            }
        }
    }
    assert!(found > 10, "{found} paths");
}
