//! TLS as clients and operators meet it: every way of speaking, inside TLS; who is not let in; whose name is on a
//! certificate; and certificates that are exchanged under way. With curl and with etcd's own tool where they are.

use crate::etcdctl;
use crate::process::{Member, PATIENCE, Plan, althing, until};
use crate::tour::block_on;
use crate::verbs::{run, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tls::ClientFiles;
use tokio_rustls::TlsConnector;

/// One of the certificates and keys that the tests share.
pub fn pem(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tls/tests/pem").join(name).to_str().unwrap().to_owned()
}

pub fn with_server_certificate(plan: Plan) -> Plan {
    plan.with(&["--cert-file", &pem("server.pem"), "--key-file", &pem("server.key")])
}

/// Also asks clients for one.
pub fn with_authority(plan: Plan) -> Plan {
    with_server_certificate(plan).with(&["--trusted-ca-file", &pem("ca.pem")])
}

pub fn identity(name: &str) -> Vec<String> {
    ["--cert".into(), pem(&format!("{name}.pem")), "--key".into(), pem(&format!("{name}.key"))].into()
}

fn url(address: SocketAddr) -> String {
    format!("https://{address}")
}

fn ask(args: &[&str]) -> Output {
    let mut command = althing();
    command.args(args);
    run(command, "")
}

/// A verb that trusts the authority of the tests, with this certificate.
fn verb(member: &Member, who: Option<&str>, args: &[&str]) -> Output {
    let mut command = althing();
    command.args(args).args(["--endpoints", &url(member.client), "--cacert", &pem("ca.pem")]);
    command.args(who.map(identity).unwrap_or_default());
    run(command, "")
}

pub fn out(member: &Member, who: Option<&str>, args: &[&str]) -> String {
    let output = verb(member, who, args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// What a verb that must fail says.
fn refusal(member: &Member, who: Option<&str>, args: &[&str]) -> String {
    let output = verb(member, who, &[args, &["--dial-timeout", "1s"]].concat());
    assert!(!output.status.success(), "{args:?} should be refused: {}", text(&output.stdout));
    text(&output.stderr)
}

pub fn wait_ready(member: &Member, who: Option<&str>) {
    until("the member answers", || verb(member, who, &["get", "a"]).status.success().then_some(()));
}

/// With curl, if this machine has it.
fn curl(args: &[&str]) -> Option<String> {
    let output = Command::new("curl").args(["-sS", "--cacert", &pem("ca.pem")]).args(args).output();
    match output {
        Ok(output) => Some(text(&output.stdout) + &text(&output.stderr)),
        Err(_) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED what asks by curl: there is none");
            None
        }
    }
}

#[test]
fn a_client_certificate_that_is_its_own_authority_is_believed_and_others_are_logged() {
    let plan =
        with_server_certificate(Plan::single()).with(&["--trusted-ca-file", &pem("own-authority.pem")]);
    let member = plan.start();
    wait_ready(&member, Some("own-authority"));
    assert_eq!(out(&member, Some("own-authority"), &["put", "a", "b"]), "OK\n");
    refusal(&member, Some("stranger"), &["get", "a"]);
    until("the refusal is logged", || {
        plan.log().contains("rejected a client's connection: the TLS handshake failed").then_some(())
    });
}

#[test]
fn whatever_clients_speak_is_spoken_inside_tls_and_nothing_else_is_heard() {
    let member = with_server_certificate(Plan::single()).start();
    wait_ready(&member, None);
    // A handshake that is begun and not gone on with, many times.
    let half_open: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(member.client).unwrap();
            stream.write_all(&[22, 3, 1]).unwrap();
            stream
        })
        .collect();

    assert_eq!(out(&member, None, &["put", "a", "1"]), "OK\n");
    assert_eq!(out(&member, None, &["get", "a"]), "a\n1\n");
    let large = "x".repeat(600_000);
    assert_eq!(out(&member, None, &["put", "large", &large[..100_000]]), "OK\n");
    for nth in 0..20 {
        assert_eq!(out(&member, None, &["put", &format!("many/{nth:02}"), &large[..100_000]]), "OK\n");
    }
    let many = out(&member, None, &["get", "many/", "--prefix", "--print-value-only"]);
    assert_eq!(many.len(), 20 * 100_001, "a large answer comes in pieces");
    assert!(out(&member, None, &["member", "list"]).contains(&url(member.client)));

    let (ca, client) = (pem("ca.pem"), url(member.client));
    let unnamed = ask(&["get", "a", "--cacert", &ca, "--endpoints", &member.client.to_string()]);
    assert!(unnamed.status.success(), "without a scheme, the authority says that TLS is meant");
    let other =
        ask(&["get", "a", "--cacert", &pem("other-ca.pem"), "--endpoints", &client, "--dial-timeout", "1s"]);
    assert!(text(&other.stderr).contains("UnknownIssuer"), "{}", text(&other.stderr));
    assert!(refusal(&member, None, &["get", "a", "--insecure-skip-tls-verify"]).contains("always verified"));

    let rest = url(member.rest.unwrap());
    for args in [
        &["data", "put", "user_1", "Alice", "--http-endpoints", &rest, "--cacert", &ca][..],
        &["bench", "put", "--total", "50", "--clients", "5", "--endpoints", &client, "--cacert", &ca],
    ] {
        let told = ask(args);
        assert!(told.status.success(), "{args:?}: {}", text(&told.stderr));
    }
    by_curl(&member, &rest);
    by_etcdctl(&member);

    for words in [
        &b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0; 64],
    ] {
        let mut stream = TcpStream::connect(member.client).unwrap();
        stream.write_all(words).unwrap();
        assert!(!ended(stream).windows(4).any(|four| four == b"HTTP"), "plain words are not answered");
    }
    for stream in half_open {
        ended(stream);
    }
    assert_eq!(out(&member, None, &["get", "a"]), "a\n1\n");
}

/// Everything that comes until the other side ends it, which it must.
fn ended(mut stream: TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("it was not ended"),
        // A reset is an end as well.
        _ => heard,
    }
}

fn by_curl(member: &Member, rest: &str) {
    let client = url(member.client);
    let ask = |version: &str, target: &str, more: &[&str]| {
        curl(&[&["-w", " %{http_version}", version, &format!("{client}{target}")], more].concat())
    };
    let Some(health) = ask("--http1.1", "/health", &[]) else { return };
    assert_eq!(health, "{\"health\":\"true\",\"reason\":\"\"} 1.1");
    for (version, told) in [("--http1.1", " 1.1"), ("--http2", " 2")] {
        let range = ask(version, "/v3/kv/range", &["-d", "{\"key\":\"YQ==\"}"]).unwrap();
        assert!(range.contains("\"value\":\"MQ==\"") && range.ends_with(told), "{range}");
    }
    let metrics = ask("--http2", "/metrics", &[]).unwrap();
    assert!(metrics.contains("althing_certificate_expiry_seconds"), "{metrics}");
    let kept = curl(&[&format!("{rest}/v1/data/user_1")]).unwrap();
    assert!(kept.contains("Alice"), "{kept}");
}

fn by_etcdctl(member: &Member) {
    let Some(binary) = etcdctl::binary("what asks by etcdctl over TLS") else { return };
    let endpoint = url(member.client);
    let ask = |args: &[&str]| {
        let output = Command::new(&binary)
            .args(["--endpoints", &endpoint, "--cacert", &pem("ca.pem")])
            .args(args)
            .output()
            .unwrap();
        text(&output.stdout) + &text(&output.stderr)
    };
    assert_eq!(ask(&["put", "b", "2"]), "OK\n");
    assert_eq!(ask(&["get", "b"]), "b\n2\n");
    assert!(ask(&["endpoint", "health"]).contains("is healthy"));
    assert!(ask(&["lease", "grant", "60"]).contains("granted with TTL(60s)"));
}

#[test]
fn who_shows_no_certificate_of_the_authority_is_not_let_in() {
    let plan = with_authority(Plan::single()).with(&["--client-crl-file", &pem("crl.pem")]);
    let member = plan.start();
    wait_ready(&member, Some("alice"));
    assert_eq!(out(&member, Some("alice"), &["put", "a", "1"]), "OK\n");
    for who in [None, Some("stranger"), Some("revoked"), Some("expired")] {
        // The server's reason comes as an alert, unless the connection is reset before it is read.
        refusal(&member, who, &["get", "a", "--command-timeout", "1s"]);
    }
    assert_eq!(out(&member, Some("alice"), &["get", "a"]), "a\n1\n");
    let rest = url(member.rest.unwrap());
    if let Some(told) = curl(&[&format!("{rest}/health")]) {
        assert!(!told.contains("health\":"), "the data API asks for one as well: {told}");
    }
}

#[test]
fn verbs_over_rest_show_the_certificate_that_the_port_asks_for() {
    let member = with_authority(Plan::single()).start();
    wait_ready(&member, Some("alice"));
    let (rest, ca) = (url(member.rest.unwrap()), pem("ca.pem"));
    let place = ["--http-endpoints", &rest];
    let trust = ["--cacert", &ca];
    let shown: Vec<String> = identity("alice");
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    let put = [&["data", "put", "user_1", "Alice"][..], &place, &trust, &shown].concat();
    until("the data plane serves", || ask(&put).status.success().then_some(()));
    for args in [
        &["data", "get", "user_1"][..],
        &["crdt", "increment", "visits"],
        &["ring"],
        &["region", "ls"],
        &["conflicts", "ls"],
        &["handlers", "ls"],
        &["namespace", "ls"],
        &["bench", "data", "put", "--total", "20", "--clients", "2"],
    ] {
        let told = ask(&[args, &place, &trust, &shown].concat());
        assert!(told.status.success(), "{args:?}: {}", text(&told.stderr));
        // The load generator counts what is refused.
        for missing in [&trust[..], &shown].into_iter().filter(|_| args[0] != "bench") {
            assert!(
                !ask(&[args, &place, missing].concat()).status.success(),
                "{args:?} with {missing:?} alone"
            );
        }
        // The same by variables.
        let mut command = althing();
        command.args(args).env("ALTHING_HTTP_ENDPOINTS", &rest).env("ALTHING_CACERT", &ca);
        command.env("ALTHING_CERT", pem("alice.pem")).env("ALTHING_KEY", pem("alice.key"));
        let told = run(command, "");
        assert!(told.status.success(), "{args:?} by variables: {}", text(&told.stderr));
    }
}

#[test]
fn the_name_on_a_certificate_is_a_user_where_no_token_is_given() {
    let member = with_authority(Plan::single()).with(&["--client-cert-auth"]).start();
    let root = Some("root");
    wait_ready(&member, root);
    for args in [
        &["user", "add", "root:a long secret"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "reader"],
        &["role", "grant-permission", "reader", "readwrite", "a", "b"],
        &["user", "add", "alice", "--no-password"],
        &["user", "grant-role", "alice", "reader"],
        &["put", "a1", "before"],
        &["put", "c", "secret"],
        &["auth", "enable"],
    ] {
        out(&member, root, args);
    }
    let alice = Some("alice");
    assert_eq!(out(&member, alice, &["get", "a1"]), "a1\nbefore\n");
    assert_eq!(out(&member, alice, &["put", "a2", "x"]), "OK\n");
    assert!(refusal(&member, alice, &["get", "c"]).contains("permission denied"));
    assert!(refusal(&member, alice, &["user", "list"]).contains("permission denied"));
    assert_eq!(out(&member, root, &["get", "c"]), "c\nsecret\n");
    let as_root = &["get", "c", "--user", "root:a long secret"];
    assert_eq!(out(&member, alice, as_root), "c\nsecret\n", "a token says more than a certificate");
    assert!(refusal(&member, Some("nameless"), &["get", "a1"]).contains("user name is empty"));
    assert!(
        refusal(&member, Some("peer"), &["get", "a1"]).contains("permission denied"),
        "no user of that name"
    );

    // A right that was taken away is gone for connections that are up, too.
    let mut watch = watch_of(&member, alice, "a1");
    out(&member, root, &["put", "a1", "after"]);
    assert!(watch.next_value("after"));
    out(&member, root, &["role", "revoke-permission", "reader", "a", "b"]);
    assert!(refusal(&member, alice, &["get", "a1"]).contains("permission denied"));

    let range = format!("{}/v3/kv/range", url(member.client));
    let (cert, key) = (pem("root.pem"), pem("root.key"));
    for version in ["--http1.1", "--http2"] {
        let asked = curl(&[version, "--cert", &cert, "--key", &key, &range, "-d", "{\"key\":\"Yw==\"}"]);
        let Some(told) = asked else { return };
        assert!(told.contains("user name is empty"), "the gateway knows no certificates: {told}");
    }
}

struct Watch {
    child: std::process::Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Watch {
    /// Whether this value comes before the watch ends.
    fn next_value(&mut self, value: &str) -> bool {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if line.trim_end() == value {
                return true;
            }
            line.clear();
        }
        false
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A watch from the first revision on, so that it misses nothing while it begins.
fn watch_of(member: &Member, who: Option<&str>, key: &str) -> Watch {
    let mut command = althing();
    command.args([
        "watch",
        key,
        "--rev",
        "1",
        "--endpoints",
        &url(member.client),
        "--cacert",
        &pem("ca.pem"),
    ]);
    command.args(who.map(identity).unwrap_or_default());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Watch { child, lines }
}

/// The name on the certificate that a port shows.
fn shown_by(address: SocketAddr) -> Option<String> {
    block_on(async {
        let files = ClientFiles { ca: Some(pem("ca.pem").into()), identity: None };
        let config = files.config(&[b"h2"]).unwrap();
        let stream = tokio::net::TcpStream::connect(address).await.ok()?;
        let name = ClientFiles::name_of(&address.to_string()).unwrap();
        let sealed = TlsConnector::from(config).connect(name, stream).await.ok()?;
        tls::common_name(sealed.get_ref().1.peer_certificates()?.first()?)
    })
}

#[test]
fn replaced_certificates_are_used_and_no_connection_is_cut() {
    let plan = Plan::single();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| plan.dir.path().join(name));
    let put = |name: &str| {
        let copy = |from: &str, to: &PathBuf| {
            let beside = to.with_extension("new");
            std::fs::copy(pem(from), &beside).unwrap();
            std::fs::rename(&beside, to).unwrap();
        };
        copy(&format!("{name}.pem"), &cert);
        copy(&format!("{name}.key"), &key);
    };
    put("server");
    let flags = ["--cert-file", cert.to_str().unwrap(), "--key-file", key.to_str().unwrap()];
    let member = plan.with(&flags).start();
    wait_ready(&member, None);
    let mut watch = watch_of(&member, None, "a");
    out(&member, None, &["put", "a", "first"]);
    assert!(watch.next_value("first"));
    assert_eq!(shown_by(member.client).as_deref(), Some("server"));

    // What cannot be used is not: the last that could be stays.
    std::fs::write(&cert, "half a certif").unwrap();
    assert_eq!(shown_by(member.client).as_deref(), Some("server"));
    put("renewed");
    until("the new certificate is shown", || (shown_by(member.client)? == "renewed").then_some(()));
    until("the data API shows it, too", || (shown_by(member.rest.unwrap())? == "renewed").then_some(()));
    out(&member, None, &["put", "a", "second"]);
    assert!(watch.next_value("second"), "a stream that was up goes on");
}

#[test]
fn three_members_use_tls_and_refuse_other_nodes() {
    let plans = Plan::cluster(3);
    let sealed = |plan: &Plan, certificate: &str| {
        let [cert, key] = ["pem", "key"].map(|kind| pem(&format!("{certificate}.{kind}")));
        let flags =
            ["--peer-cert-file", &cert, "--peer-key-file", &key, "--peer-trusted-ca-file", &pem("ca.pem")];
        with_authority(plan.clone()).with(&flags)
    };
    let mut members: Vec<Member> = plans[..2].iter().map(|plan| sealed(plan, "peer").start()).collect();
    let alice = Some("alice");
    wait_ready(&members[0], alice);
    assert_eq!(out(&members[0], alice, &["put", "a", "1"]), "OK\n");

    // The third has a certificate of the right authority that names another address.
    let wrong = sealed(&plans[2], "elsewhere");
    let mut third = wrong.start();
    until("it is turned away by its name", || {
        wrong.log().contains("does not name the address at which the cluster reaches it").then_some(())
    });
    third.kill();
    members.push(sealed(&plans[2], "peer").start());
    for member in &members {
        wait_ready(member, alice);
        assert_eq!(out(member, alice, &["get", "a"]), "a\n1\n");
    }
    let listed = out(&members[2], alice, &["member", "list"]);
    assert_eq!(listed.matches("https://127.0.0.1").count(), 6, "peers and clients, of each: {listed}");

    let port: SocketAddr = format!("127.0.0.1:{}", plans[0].peer_port).parse().unwrap();
    for words in
        [&b"ALTHINGP\x01\0 and the rest of a hello that no member sent"[..], &[22, 3, 1, 0, 5, 1, 2, 3, 4, 5]]
    {
        let mut stream = TcpStream::connect(port).unwrap();
        stream.write_all(words).unwrap();
        ended(stream);
    }
    assert_eq!(out(&members[1], alice, &["put", "a", "2"]), "OK\n");
}

#[test]
fn members_started_with_etcds_flags_speak_tls() {
    let plan = Plan::single();
    let (client, peer) = (crate::process::free_port(), plan.peer_port);
    let mut command = althing();
    let [client_url, peer_url] = [client, peer].map(|port| format!("https://127.0.0.1:{port}"));
    command
        .args(["etcd", "--name", "one", "--listen-client-urls", &client_url])
        .args(["--advertise-client-urls", &client_url, "--listen-peer-urls", &peer_url])
        .args(["--initial-advertise-peer-urls", &peer_url, "--initial-cluster", &format!("one={peer_url}")])
        .args(["--cert-file", &pem("server.pem"), "--key-file", &pem("server.key")])
        .args(["--trusted-ca-file", &pem("ca.pem"), "--client-cert-auth"])
        .args(["--peer-cert-file", &pem("peer.pem"), "--peer-key-file", &pem("peer.key")])
        .args(["--peer-trusted-ca-file", &pem("ca.pem"), "--peer-client-cert-auth", "--data-dir"])
        .arg(plan.data_dir());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let asked = || {
        let mut command = althing();
        command.args(["endpoint", "health", "--endpoints", &client_url, "--cacert", &pem("ca.pem")]);
        command.args(identity("alice"));
        run(command, "")
    };
    until("the member is healthy", || asked().status.success().then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
}
