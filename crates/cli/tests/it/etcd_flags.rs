//! A member that is started as scripts start etcd: by its flags, its variables, and under its name.

use crate::etcd::{Etcd, get, op, put};
use crate::process::{PATIENCE, althing, free_port, http_at, until};
use crate::tour::block_on;
use proto::etcdserverpb::TxnRequest;
use proto::etcdserverpb::request_op::Request as Op;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Killed when the test ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn without_variables(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ETCD_")) {
        command.env_remove(name);
    }
    command
}

/// The path answers with this status, or no server answers yet.
fn status(port: u16, path: &str) -> Option<u16> {
    status_of(port, &format!("GET {path}"), "host: localhost\r\n", "")
}

fn status_of(port: u16, request: &str, headers: &str, body: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let headers = format!("{headers}connection: close\r\ncontent-length: {length}\r\n");
    write!(stream, "{request} HTTP/1.1\r\n{headers}\r\n{body}").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

fn wait_healthy(port: u16) {
    until("the member is healthy", || (status(port, "/health") == Some(200)).then_some(()));
}

fn start(command: &mut Command) -> Process {
    Process(without_variables(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Stops it as scripts do, and returns what it wrote.
fn terminate(mut process: Process) -> (String, String) {
    let killed = Command::new("kill").arg(process.0.id().to_string()).status().unwrap();
    assert!(killed.success());
    let ended = until("the process ends", || process.0.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
    let (mut out, mut log) = (String::new(), String::new());
    process.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    process.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    (out, log)
}

#[test]
fn a_script_that_starts_etcd_starts_a_member() {
    let dir = TempDir::new().unwrap();
    let [client, second, peer, metrics] = [(); 4].map(|()| free_port());
    let mut command = althing();
    command
        .current_dir(dir.path())
        .args(["etcd", "-name", "infra0"])
        .arg(format!("--listen-client-urls={},http://localhost:{second}", url(client)))
        .args(["--advertise-client-urls", &url(client), "--listen-peer-urls", &url(peer)])
        .args(["--initial-advertise-peer-urls", &url(peer)])
        .args([
            "--initial-cluster",
            &format!("infra0=http://localhost:{peer}"),
            "--initial-cluster-state",
            "new",
        ])
        .args(["--listen-metrics-urls", &url(metrics), "--max-txn-ops=1024", "--max-request-bytes=2097152"])
        .args(["--logger=zap", "--snapshot-count", "5000", "--experimental-initial-corrupt-check=true"]);
    let member = start(&mut command);
    wait_healthy(client);
    block_on(async {
        let mut etcd = Etcd::connect(&url(client)).await;
        etcd.put(put("a", "1")).await.unwrap();
        let puts = (0..1_024).map(|i| op(Op::RequestPut(put(format!("k{i}"), "v"))));
        etcd.txn(TxnRequest { success: puts.collect(), ..Default::default() }).await.unwrap();
        let mut other = Etcd::connect(&url(second)).await;
        assert_eq!(other.range(get("a")).await.unwrap().kvs[0].value, "1");
        let mut probes = Etcd::connect(&url(metrics)).await;
        assert_eq!(probes.range(get("a")).await.unwrap_err().code(), tonic::Code::Unimplemented);
    });
    // Whichever port is asked, what came in at the others is told.
    let told = http_at(SocketAddr::from(([127, 0, 0, 1], metrics)), "GET", "/metrics", "").body;
    let handled = r#"grpc_server_handled_total{grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Range",grpc_code="OK"} 1"#;
    assert!(told.contains(handled), "{told}");
    let received =
        told.lines().find_map(|line| line.strip_prefix("etcd_network_client_grpc_received_bytes_total "));
    assert!(received.unwrap().parse::<u64>().unwrap() > 1_024, "{told}");
    assert!(dir.path().join("infra0.etcd").is_dir());
    let (out, log) = terminate(member);
    assert_eq!(out, "", "standard output stays empty, as with etcd");
    let warning = "accepted without effect: --logger, --snapshot-count, --experimental-initial-corrupt-check";
    assert_eq!(log.matches("accepted without effect").count(), 1, "{log}");
    assert!(log.contains(warning), "{log}");
}

/// What is asked under a name that this member does not have, and the statuses: read by a program, read by a page, written
/// by a page; of the port of etcd's clients and of the data API.
fn by_a_strange_name(flags: &[&str]) -> [[u16; 3]; 2] {
    let dir = TempDir::new().unwrap();
    let [client, peer, data] = [(); 3].map(|()| free_port());
    let mut command = althing();
    command.current_dir(dir.path()).env("ALTHING_HTTP_ADDR", format!("127.0.0.1:{data}"));
    command.args(["etcd", "--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)]);
    command.args(["--listen-peer-urls", &url(peer)]).args(flags);
    let _member = start(&mut command);
    wait_healthy(client);
    until("the data API listens", || TcpStream::connect(("127.0.0.1", data)).ok());
    let host = "host: db.example.com\r\ncontent-type: application/json\r\n";
    let page = format!("{host}origin: http://db.example.com\r\n");
    // All that a plain GET is answered with there: nothing that is kept.
    for path in ["/v3/kv/range?key=YQ==", "/v3/watch", "/v1/data/a", "/v1/coord/key?key=a", "/v1/cluster"] {
        let status = status_of(client, &format!("GET {path}"), host, "").unwrap();
        assert!((400..600).contains(&status), "{path}: {status}");
    }
    let range = ("POST /v3/kv/range", r#"{"key":"YQ=="}"#);
    [(client, range), (data, ("GET /v1/data/a", ""))].map(|(port, (read, body))| {
        let put = ("POST /v3/kv/put", r#"{"key":"YQ==","value":"MQ=="}"#);
        [(read, host, body), (read, page.as_str(), body), (put.0, page.as_str(), put.1)]
            .map(|(request, headers, body)| status_of(port, request, headers, body).unwrap())
    })
}

#[test]
fn programs_reach_the_port_of_etcds_clients_by_any_name_and_pages_do_not() {
    assert_eq!(by_a_strange_name(&[]), [[200, 421, 421], [421, 421, 421]]);
    let listed = by_a_strange_name(&["--host-whitelist", "other.example.com"]);
    assert_eq!(listed, [[421, 421, 421], [421, 421, 421]], "a list is a list for programs, too");
}

#[test]
fn a_link_called_etcd_reads_etcds_variables() {
    let dir = TempDir::new().unwrap();
    let link = dir.path().join("etcd");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_althing"), &link).unwrap();
    let [client, peer] = [(); 2].map(|()| free_port());
    let log = dir.path().join("log");
    let mut command = Command::new(&link);
    without_variables(&mut command)
        .env("ETCD_DATA_DIR", dir.path().join("data"))
        .env("ETCD_LISTEN_CLIENT_URLS", url(client))
        .env("ETCD_ADVERTISE_CLIENT_URLS", url(client))
        .env("ETCD_LOG_OUTPUTS", &log)
        .args(["--listen-peer-urls", &url(peer)]);
    let member = Process(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    wait_healthy(client);
    let (out, err) = terminate(member);
    assert_eq!((out.as_str(), err.as_str()), ("", ""), "the log goes where it was told to go");
    assert!(std::fs::read_to_string(log).unwrap().contains("ready to serve client requests"));

    let version = Command::new(&link).arg("--version").output().unwrap();
    assert!(String::from_utf8(version.stdout).unwrap().starts_with("etcd Version: 3.7.0\n"));
    let help = Command::new(&link).arg("-h").output().unwrap();
    assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("Example:"));
}

#[test]
fn three_members_started_as_etcd_are_one_cluster() {
    let dir = TempDir::new().unwrap();
    let clients = [(); 3].map(|()| free_port());
    let peers = [(); 3].map(|()| free_port());
    let cluster: Vec<String> = (0..3).map(|i| format!("m{i}={}", url(peers[i]))).collect();
    let members: Vec<Process> = (0..3)
        .map(|i| {
            let mut command = althing();
            command
                .current_dir(dir.path())
                .args(["etcd", "--name", &format!("m{i}"), "--initial-cluster", &cluster.join(",")])
                .args(["--listen-client-urls", &url(clients[i]), "--advertise-client-urls", &url(clients[i])])
                .args(["--listen-peer-urls", &url(peers[i])])
                .args(["--initial-advertise-peer-urls", &url(peers[i])])
                .args(["--heartbeat-interval", "50", "--election-timeout", "500"]);
            without_variables(&mut command).stdout(Stdio::null()).stderr(Stdio::null());
            Process(command.spawn().unwrap())
        })
        .collect();
    clients.iter().for_each(|port| wait_healthy(*port));
    block_on(async {
        Etcd::connect(&url(clients[0])).await.put(put("a", "1")).await.unwrap();
        for port in clients {
            let mut etcd = Etcd::connect(&url(port)).await;
            assert_eq!(etcd.range(get("a")).await.unwrap().kvs[0].value, "1");
        }
    });
    drop(members);
}

fn refused(dir: &Path, args: &[&str]) -> Output {
    let mut command = althing();
    without_variables(&mut command).current_dir(dir).arg("etcd").args(args).output().unwrap()
}

#[test]
fn what_cannot_be_honoured_is_refused_before_anything_starts() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir_all(dir.path().join("old.etcd/member")).unwrap();
    std::fs::write(dir.path().join("bad.yaml"), "name: a\nnome: b\n").unwrap();
    let table: &[(&[&str], &str)] = &[
        (&["--discovery", "https://discovery.etcd.io/x"], "list the members in --initial-cluster"),
        (&["--listen-peer-urls", "unix://etcd:1"], "members reach each other by http or https"),
        (&["--config-file", "none.yaml"], "cannot read none.yaml"),
        (&["--config-file", "bad.yaml"], "nome is not a setting of etcd"),
        (&["--no-such-flag"], "flag provided but not defined: -no-such-flag"),
        (&["gateway", "start"], "not a proxy"),
        (&["--name", "old"], "was written by etcd"),
    ];
    for (args, reason) in table {
        let output = refused(dir.path(), args);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(reason), "{args:?}: {told}");
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One request of HTTP/1 on a stream, and everything that comes back.
fn ask_on(mut stream: impl Read + Write, path: &str, body: &str) -> String {
    let len = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).unwrap();
    text(answer)
}

#[test]
fn a_file_in_the_place_of_all_flags_starts_a_member() {
    let dir = TempDir::new().unwrap();
    let [client, http, peer, second_peer] = [(); 4].map(|()| free_port());
    let config = format!(
        "# as etcd.conf.yml.sample\nname: 'infra0'\ndata-dir: {data}\nwal-dir:\n\
         listen-client-urls: {client}\nlisten-client-http-urls: {http}\nadvertise-client-urls: {client}\n\
         listen-peer-urls: {peer},{second_peer}\ninitial-advertise-peer-urls: {peer}\n\
         initial-cluster: infra0={peer}\nlog-outputs: [stderr]\ncipher-suites: [\n  A,\n  B\n]\n\
         client-transport-security:\n  cert-file:\n  client-cert-auth: false\n",
        data = dir.path().join("data").display(),
        client = url(client),
        http = url(http),
        peer = url(peer),
        second_peer = url(second_peer),
    );
    let path = dir.path().join("etcd.yaml");
    std::fs::write(&path, config).unwrap();
    let mut command = althing();
    command.current_dir(dir.path()).args(["etcd", "--name", "other", "--config-file"]).arg(&path);
    let member = start(&mut command);
    wait_healthy(client);
    wait_healthy(http);
    TcpStream::connect(("127.0.0.1", second_peer)).unwrap();
    let members = ask_on(TcpStream::connect(("127.0.0.1", client)).unwrap(), "/v3/cluster/member/list", "{}");
    assert!(members.contains(r#""name":"infra0""#), "{members}");
    let (_, log) = terminate(member);
    assert!(log.contains("without effect beside it: --name"), "{log}");
    assert!(log.contains("accepted without effect: cipher-suites"), "{log}");
    assert!(dir.path().join("data").is_dir());
}

#[test]
fn unix_sockets_and_a_port_with_and_without_tls_are_served() {
    let dir = TempDir::new().unwrap();
    let [client, peer] = [(); 2].map(|()| free_port());
    let socket = dir.path().join("etcd.sock");
    let mut command = althing();
    command
        .current_dir(dir.path())
        .args(["etcd", "--listen-client-urls"])
        .arg(format!("{},https://127.0.0.1:{client},unix://{}", url(client), socket.display()))
        .args(["--advertise-client-urls", &url(client), "--listen-peer-urls", &url(peer)])
        .args(["--cert-file", &crate::tls::pem("server.pem"), "--key-file", &crate::tls::pem("server.key")])
        .args(["--initial-advertise-peer-urls", &url(peer), "--initial-cluster"])
        .arg(format!("default={}", url(peer)));
    let member = start(&mut command);
    wait_healthy(client);
    let put = r#"{"key":"Zm9v","value":"YmFy"}"#;
    let stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let answer = ask_on(stream, "/v3/kv/put", put);
    assert!(answer.contains(r#""revision":"2""#), "{answer}");
    let endpoint = format!("https://127.0.0.1:{client}");
    let mut verb = althing();
    let got = verb.args(["get", "foo", "--endpoints", &endpoint, "--cacert", &crate::tls::pem("ca.pem")]);
    let got = got.output().unwrap();
    assert_eq!(text(got.stdout), "foo\nbar\n", "{}", text(got.stderr));
    drop(member);
    assert!(socket.exists(), "a killed process leaves it");
    let again = start(&mut command);
    wait_healthy(client);
    let answer = ask_on(std::os::unix::net::UnixStream::connect(&socket).unwrap(), "/v3/kv/range", put);
    assert!(answer.contains("YmFy"), "{answer}");
    drop(again);
}

struct EtcdMember {
    client: u16,
    process: Option<Process>,
    flags: Vec<String>,
}

impl EtcdMember {
    fn start(&mut self, dir: &Path, more: &[&str]) {
        let mut command = althing();
        without_variables(&mut command).current_dir(dir).arg("etcd").args(&self.flags).args(more);
        self.process = Some(Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()));
    }

    fn post(&self, path: &str, body: &str) -> String {
        ask_on(TcpStream::connect(("127.0.0.1", self.client)).unwrap(), path, body)
    }
}

fn three() -> Vec<EtcdMember> {
    let clients = [(); 3].map(|()| free_port());
    let peers = [(); 3].map(|()| free_port());
    let cluster: Vec<String> = (0..3).map(|i| format!("m{i}={}", url(peers[i]))).collect();
    let flags = |i: usize| {
        let pairs = [
            ("--name", format!("m{i}")),
            ("--initial-cluster", cluster.join(",")),
            ("--listen-client-urls", url(clients[i])),
            ("--advertise-client-urls", url(clients[i])),
            ("--listen-peer-urls", url(peers[i])),
            ("--initial-advertise-peer-urls", url(peers[i])),
            ("--heartbeat-interval", "50".to_owned()),
            ("--election-timeout", "500".to_owned()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
    };
    (0..3).map(|i| EtcdMember { client: clients[i], process: None, flags: flags(i) }).collect()
}

#[test]
fn a_member_of_three_serves_once_it_has_a_leader_and_refuses_a_fourth_without_the_third() {
    let dir = TempDir::new().unwrap();
    let mut members = three();
    members[0].start(dir.path(), &[]);
    until("it runs", || dir.path().join("m0.etcd").is_dir().then_some(()));
    // The port is bound, and nothing is served there.
    let mut stream = until("the port is bound", || TcpStream::connect(("127.0.0.1", members[0].client)).ok());
    stream.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
    write!(stream, "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(stream.read(&mut [0]).is_err(), "it has no leader");
    members[1].start(dir.path(), &[]);
    wait_healthy(members[0].client);
    wait_healthy(members[1].client);
    // The third is away, so a fourth would leave too few.
    let add = r#"{"peerURLs":["http://127.0.0.1:1"]}"#;
    let refused = members[0].post("/v3/cluster/member/add", add);
    let words = ["unhealthy cluster", "not enough started members"];
    assert!(words.iter().any(|words| refused.contains(words)), "{refused}");
}

#[test]
fn a_second_member_that_has_not_started_keeps_a_third_out_at_once() {
    let dir = TempDir::new().unwrap();
    let [client, peer] = [(); 2].map(|()| free_port());
    let mut command = althing();
    command
        .current_dir(dir.path())
        .args(["etcd", "--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
        .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
        .args(["--initial-cluster", &format!("default={}", url(peer))]);
    let _member = start(&mut command);
    wait_healthy(client);
    let add = |url: &str| {
        let stream = TcpStream::connect(("127.0.0.1", client)).unwrap();
        ask_on(stream, "/v3/cluster/member/add", &format!(r#"{{"peerURLs":["{url}"]}}"#))
    };
    assert!(add("http://127.0.0.1:1").contains(r#""peerURLs":["http://127.0.0.1:1"]"#));
    let refused = add("http://127.0.0.1:2");
    assert!(refused.contains("re-configuration failed due to not enough started members"), "{refused}");
}

#[test]
fn a_member_that_is_forced_to_begin_a_new_cluster_keeps_its_data() {
    let dir = TempDir::new().unwrap();
    let mut members = three();
    members.iter_mut().for_each(|member| member.start(dir.path(), &[]));
    members.iter().for_each(|member| wait_healthy(member.client));
    let put = members[0].post("/v3/kv/put", r#"{"key":"Zm9v","value":"YmFy"}"#);
    assert!(put.contains(r#""revision":"2""#), "{put}");
    until("the third member has it", || {
        let range = members[2].post("/v3/kv/range", r#"{"key":"Zm9v","serializable":true}"#);
        range.contains("YmFy").then_some(())
    });
    let mut table = String::new();
    until("the table of members is in its store", || {
        table = members[2].post("/v3/cluster/member/list", "{}");
        (table.matches("clientURLs").count() == 3).then_some(())
    });
    for member in &mut members {
        let process = member.process.take().unwrap();
        assert!(Command::new("kill").arg(process.0.id().to_string()).status().unwrap().success());
        let mut process = process;
        until("it stops", || process.0.try_wait().unwrap());
    }
    members[2].start(dir.path(), &["--force-new-cluster"]);
    wait_healthy(members[2].client);
    let range = members[2].post("/v3/kv/range", r#"{"key":"Zm9v"}"#);
    assert!(range.contains("YmFy"), "{range}");
    let list = members[2].post("/v3/cluster/member/list", "{}");
    assert_eq!(list.matches("peerURLs").count(), 1, "{list}");
    let put = members[2].post("/v3/kv/put", r#"{"key":"YQ=="}"#);
    assert!(put.contains(r#""revision":"3""#), "{put}");
}
