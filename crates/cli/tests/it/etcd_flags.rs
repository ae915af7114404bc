//! A member that is started as scripts start etcd: by its flags, its variables, and under its name.

use crate::etcd::{Etcd, get, op, put};
use crate::process::{PATIENCE, althing, free_port, until};
use crate::tour::block_on;
use proto::etcdserverpb::TxnRequest;
use proto::etcdserverpb::request_op::Request as Op;
use std::io::{Read, Write};
use std::net::TcpStream;
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
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
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
    assert_eq!(status(metrics, "/metrics"), Some(200));
    assert!(dir.path().join("infra0.etcd").is_dir());
    let (out, log) = terminate(member);
    assert_eq!(out, "", "standard output stays empty, as with etcd");
    let warning = "accepted without effect: --logger, --snapshot-count, --experimental-initial-corrupt-check";
    assert_eq!(log.matches("accepted without effect").count(), 1, "{log}");
    assert!(log.contains(warning), "{log}");
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
    assert!(String::from_utf8(version.stdout).unwrap().starts_with("etcd Version: 3.6.0\n"));
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
    let table: &[(&[&str], &str)] = &[
        (&["--discovery", "https://discovery.etcd.io/x"], "list the members in --initial-cluster"),
        (&["--listen-client-urls", "unix://etcd:1"], "Unix sockets are not served"),
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
