//! Passwords as people meet them, and what leases ask of those who have logged in.

use crate::auth::{CHEAP, gate, token_of, v3, with_auth};
use crate::both_ways::{Way, both_ways};
use crate::process::{Member, Plan, althing, connect_from, until};
use crate::rest::Rest;
use crate::terminal::Terminal;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::Write;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn message(member: &Member, token: &str, path: &str, body: &str) -> (u16, String) {
    let answer = v3(gate(member), token, path, body);
    (answer.status, answer.json()["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn no_part_of_a_long_password_is_left_out() {
    both_ways(compare_all_of_a_password);
}

fn compare_all_of_a_password(way: Way) {
    let member = way.start_ready(&Plan::single().with(&CHEAP));
    with_auth(&member);
    let root = token_of(gate(&member), "root", "rpw");
    let long = "long enough to be cut ".repeat(10);
    let add = format!(r#"{{"name":"ann","password":"{long}"}}"#);
    assert_eq!(v3(gate(&member), &root, "auth/user/add", &add).status, 200);
    token_of(gate(&member), "ann", &long);
    for wrong in [&long[..72], &long[..71], &long[..200], &format!("{long}x")] {
        let login = format!(r#"{{"name":"ann","password":"{wrong}"}}"#);
        let refused = message(&member, "", "auth/authenticate", &login);
        let words = "etcdserver: authentication failed, invalid user ID or password";
        assert_eq!(refused, (400, words.to_owned()));
    }
}

#[test]
fn no_password_is_empty() {
    let member = Plan::single().with(&CHEAP).start_ready();
    with_auth(&member);
    let root = token_of(gate(&member), "root", "rpw");
    for (path, body) in [
        ("auth/user/add", r#"{"name":"bob"}"#),
        ("auth/user/add", r#"{"name":"bob","password":""}"#),
        ("auth/user/changepw", r#"{"name":"u1","password":""}"#),
    ] {
        let refused = message(&member, &root, path, body);
        assert_eq!(refused, (400, "althing: password is empty".to_owned()), "{path} {body}");
        // Who may not is told that first.
        assert_eq!(v3(gate(&member), &token_of(gate(&member), "u1", "pw"), path, body).status, 403);
    }
    let run = |args: &[&str], typed: &str| {
        let mut child = althing()
            .args(args)
            .args(["--user", "root:rpw", "--endpoints", &member.client.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may not read anything.
        let _ = child.stdin.take().unwrap().write_all(typed.as_bytes());
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    for (args, typed, words) in [
        (&["user", "add", "bob"][..], "", "cannot read standard input"),
        (&["user", "add", "bob"], "\n", "the password is empty"),
        (&["user", "add", "bob:"], "", "the password is empty"),
        (&["user", "add", "bob", "--new-user-password", ""], "", "the password is empty"),
        (&["user", "passwd", "u1"], "", "cannot read standard input"),
        (&["user", "passwd", "u1"], "\n", "password is empty"),
    ] {
        let (code, told) = run(args, typed);
        assert!(code != 0 && told.contains(words), "{args:?}: {code} {told}");
    }
    assert!(message(&member, &root, "auth/user/get", r#"{"name":"bob"}"#).1.contains("user name not found"));
    token_of(gate(&member), "u1", "pw");
    assert_eq!(run(&["user", "add", "bob"], "typed\n").0, 0);
    token_of(gate(&member), "bob", "typed");
    assert_eq!(run(&["user", "add", "robot", "--no-password"], "").0, 0);
}

/// Calls of one client that come from this address of loopback, each on a connection of its own.
fn status_from(address: [u8; 4], server: SocketAddr, request: &str) -> Option<u16> {
    Rest::answer_on(connect_from(address, server)?, request.as_bytes()).map(|answer| answer.status)
}

fn by_password(user: &str, password: &str) -> String {
    let basic = STANDARD.encode(format!("{user}:{password}"));
    format!("GET /v1/ring HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {basic}\r\n\r\n")
}

/// Wrong passwords for more names than one address may have waiting, again and again until it is dropped.
struct Flood {
    ends: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Flood {
    const NAMES: usize = 80;

    fn begin(server: SocketAddr) -> Flood {
        let (ends, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = (0..Flood::NAMES).map(|nth| {
            let (ends, refused) = (ends.clone(), refused.clone());
            let request = by_password(&format!("stranger{nth}"), "wrong");
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    if status_from([127, 0, 0, 9], server, &request) == Some(429) {
                        refused.fetch_add(1, Ordering::Relaxed);
                        // What is refused at once would be asked again at once.
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                }
            })
        });
        Flood { threads: threads.collect(), ends, refused }
    }

    /// Until its address has as many logins waiting as it may have.
    fn wait_until_refused(&self) {
        let before = self.refused.load(Ordering::Relaxed);
        until("the flood is refused", || (self.refused.load(Ordering::Relaxed) > before).then_some(()));
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[test]
fn a_flood_of_names_from_one_address_keeps_no_other_address_out() {
    let keys = concat!(env!("CARGO_MANIFEST_DIR"), "/../jwt/keys");
    let signed = format!("jwt,sign-method=RS256,priv-key={keys}/rs256.pem");
    for token in ["simple", &signed] {
        // Each comparison takes a while, so that the flood's places are taken most of the time.
        let flags = ["--bcrypt-cost", "7", "--auth-token", token];
        let member = Plan::single().with(&flags).start_ready();
        with_auth(&member);
        let (rest, root) = (member.rest.unwrap(), token_of(gate(&member), "root", "rpw"));
        let flood = Flood::begin(rest);
        for nth in 0..4 {
            flood.wait_until_refused();
            let add = format!(r#"{{"name":"ann{nth}","password":"apw"}}"#);
            // A signed token ends with every change.
            let root = if nth == 0 { root.clone() } else { token_of(gate(&member), "root", "rpw") };
            let added = v3(gate(&member), &root, "auth/user/add", &add);
            assert_eq!(added.status, 200, "{token} {nth}: {}", added.shown());
            flood.wait_until_refused();
            let ann = by_password(&format!("ann{nth}"), "apw");
            assert_eq!(status_from([127, 0, 0, 1], rest, &ann), Some(200), "{token} {nth}");
            flood.wait_until_refused();
            token_of(gate(&member), &format!("ann{nth}"), "apw");
        }
    }
}

#[test]
fn passwords_are_typed_and_not_shown() {
    let member = Plan::single().with(&CHEAP).start_ready();
    with_auth(&member);
    let mut terminal = Terminal::open();
    // It gets end of file once all other ends are closed.
    let _kept = terminal.line();

    let root = ["user", "add", "ann", "--user", "root"];
    let adding = terminal.run(&member, &root);
    terminal.wait_for("Password of ann: ");
    terminal.type_keys("hidex\x7fn\r");
    terminal.wait_for("again for confirmation: ");
    terminal.type_keys("hiden\r");
    terminal.wait_for("Password of root: ");
    terminal.type_keys("rpw\r");
    let output = adding.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "User ann created\n", "{}", terminal.shown);
    token_of(gate(&member), "ann", "hiden");
    assert!(!terminal.shown.contains("hid") && !terminal.shown.contains("rpw"), "{}", terminal.shown);

    for (first, second, words) in
        [("one\r", "other\r", "the two passwords differ"), ("\r", "", "the password is empty")]
    {
        let passwd = terminal.run(&member, &["user", "passwd", "ann", "--user", "root:rpw"]);
        terminal.wait_for("Password of ann: ");
        terminal.type_keys(first);
        if !second.is_empty() {
            terminal.wait_for("again for confirmation: ");
            terminal.type_keys(second);
        }
        terminal.wait_for(words);
        assert_eq!(passwd.wait_with_output().unwrap().status.code(), Some(2));
    }
    // Interrupted, or at the end of what is typed.
    for (keys, code) in [("abc\x03", 130), ("\x04", 1)] {
        let passwd = terminal.run(&member, &["user", "passwd", "ann", "--user", "root:rpw"]);
        terminal.wait_for("Password of ann: ");
        terminal.type_keys(keys);
        assert_eq!(passwd.wait_with_output().unwrap().status.code(), Some(code));
    }
    token_of(gate(&member), "ann", "hiden");
    let modes = rustix::termios::tcgetattr(terminal.line()).unwrap().local_modes;
    let usual = rustix::termios::LocalModes::ECHO | rustix::termios::LocalModes::ISIG;
    assert!(modes.contains(usual), "the terminal is as it was");
}

#[test]
fn leases_ask_for_the_keys_that_hang_on_them() {
    let members: Vec<Member> = Plan::cluster(3).into_iter().map(|plan| plan.with(&CHEAP).start()).collect();
    members.iter().for_each(Member::wait_ready);
    with_auth(&members[0]);
    let (root, u1) = (token_of(gate(&members[0]), "root", "rpw"), token_of(gate(&members[0]), "u1", "pw"));
    let ask = |member: &Member, token: &str, path: &str, body: &str| v3(gate(member), token, path, body);
    for (lease, key) in [("77", "YQ=="), ("78", "eA==")] {
        let grant = format!(r#"{{"TTL":"1000","ID":"{lease}"}}"#);
        assert_eq!(ask(&members[0], &root, "lease/grant", &grant).status, 200);
        let put = format!(r#"{{"key":"{key}","lease":"{lease}"}}"#);
        assert_eq!(ask(&members[0], &root, "kv/put", &put).status, 200);
    }
    for member in &members {
        // The member has what was put when it has answered this.
        assert_eq!(ask(member, &root, "kv/range", r#"{"key":"eA=="}"#).status, 200);
        let keep = |token: &str, id: &str| {
            let answer = ask(member, token, "lease/keepalive", &format!(r#"{{"ID":"{id}"}}"#));
            (answer.status, String::from_utf8_lossy(&answer.bytes).into_owned())
        };
        for (token, id, words) in [
            (&root, "77", r#""TTL":"1000""#),
            (&root, "78", r#""TTL":"1000""#),
            (&u1, "77", r#""TTL":"1000""#),
            (&u1, "78", "permission denied"),
            (&u1, "79", r#""ID":"79""#),
        ] {
            let (status, told) = keep(token, id);
            assert!(told.contains(words), "{id}: {status} {told}");
        }
        assert!(keep("", "77").1.contains("user name is empty"));
        let live = |token: &str, body: &str| ask(member, token, "lease/timetolive", body).status;
        assert_eq!(live(&u1, r#"{"ID":"78"}"#), 200);
        assert_eq!(live(&u1, r#"{"ID":"78","keys":true}"#), 403);
        assert_eq!(live(&u1, r#"{"ID":"77","keys":true}"#), 200);
        assert_eq!(live("", r#"{"ID":"77"}"#), 400);
        for (token, status) in [(root.as_str(), 200), (&u1, 403), ("", 400)] {
            assert_eq!(ask(member, token, "lease/leases", "{}").status, status);
        }
        assert_eq!(ask(member, &u1, "lease/revoke", r#"{"ID":"78"}"#).status, 403);
    }
    assert_eq!(ask(&members[1], &root, "lease/revoke", r#"{"ID":"78"}"#).status, 200);
    assert_eq!(
        ask(&members[2], &u1, "lease/leases", "{}").status,
        200,
        "only keys that it may read are left"
    );
    assert_eq!(ask(&members[2], &u1, "lease/revoke", r#"{"ID":"77"}"#).status, 200);
}
