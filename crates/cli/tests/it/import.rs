//! Keys and leases copied from a running etcd. It runs when the variable `ETCD` names the binary.

use crate::process::{Plan, althing, free_port, until};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// An etcd of its own, gone with the test.
struct Source {
    child: Child,
    endpoint: String,
    _dir: TempDir,
}

impl Source {
    fn start(binary: &str) -> Source {
        let dir = TempDir::new().unwrap();
        let (client, peer) = (free_port(), free_port());
        let url = |port| format!("http://127.0.0.1:{port}");
        let child = Command::new(binary)
            .arg("--data-dir")
            .arg(dir.path())
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("default={}", url(peer))])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Source { child, endpoint: format!("127.0.0.1:{client}"), _dir: dir }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(endpoint: &str, words: &[&str]) -> (bool, String) {
    let output = althing().args(words).args(["--endpoints", endpoint]).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&told).into_owned())
}

#[test]
fn keys_and_leases_come_over_from_etcd() {
    let Ok(binary) = std::env::var("ETCD") else { return };
    let source = Source::start(&binary);
    until("etcd serves", || ask(&source.endpoint, &["put", "a", "1"]).0.then_some(()));
    for n in 0..150 {
        assert!(ask(&source.endpoint, &["put", &format!("many/{n:03}"), "value"]).0);
    }
    let (_, granted) = ask(&source.endpoint, &["lease", "grant", "500"]);
    let lease = granted.split(' ').nth(1).unwrap();
    assert!(ask(&source.endpoint, &["put", "leased", "x", "--lease", lease]).0);

    let member = Plan::single().start_ready();
    let target = member.client.to_string();
    let import = |more: &[&str]| {
        let words = [&["import", "etcd", "--endpoint", &source.endpoint], more].concat();
        ask(&target, &words)
    };
    let (done, told) = import(&[]);
    assert!(done, "{told}");
    assert!(told.contains("Imported 152 keys and 1 leases"), "{told}");
    assert_eq!(ask(&target, &["get", "many/149", "--print-value-only"]).1, "value\n");
    let (_, left) = ask(&target, &["lease", "timetolive", lease, "--keys"]);
    assert!(left.contains("granted with TTL(500s)") && left.contains("leased"), "{left}");
    let (done, told) = import(&[]);
    assert!(!done && told.contains("--overwrite"), "{told}");
    let (done, told) = import(&["--overwrite", "--prefix", "many/"]);
    assert!(done && told.contains("Imported 150 keys"), "{told}");
}
