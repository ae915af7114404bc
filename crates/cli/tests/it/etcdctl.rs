//! The tour with etcd's own command-line tool. It runs when the variable `ETCDCTL` names the binary.

use crate::process::{Member, Plan};
use std::io::Write;
use std::process::{Child, Command, Stdio};

struct Etcdctl<'a> {
    binary: String,
    member: &'a Member,
}

impl Etcdctl<'_> {
    fn start(&self, args: &[&str]) -> Child {
        Command::new(&self.binary)
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.member.client.to_string()])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn run(&self, args: &[&str], input: &str) -> String {
        let mut child = self.start(args);
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        text(output.stdout) + &text(output.stderr)
    }
}

#[test]
fn etcdctl_reads_and_writes() {
    let Ok(binary) = std::env::var("ETCDCTL") else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED etcdctl_reads_and_writes: set ETCDCTL to a binary to run it"
        );
        return;
    };
    let member = Plan::single().start_ready();
    let etcdctl = Etcdctl { binary, member: &member };
    let run = |args: &[&str]| etcdctl.run(args, "");

    assert_eq!(run(&["put", "a", "1"]), "OK\n");
    assert_eq!(run(&["get", "a"]), "a\n1\n");
    assert_eq!(run(&["put", "a", "2", "--prev-kv"]), "OK\na\n1\n");
    assert_eq!(run(&["put", "b", "3"]), "OK\n");
    assert_eq!(run(&["get", "", "--prefix", "--keys-only"]), "a\n\nb\n\n");
    assert_eq!(run(&["get", "a", "--rev", "2", "--print-value-only"]), "1\n");
    assert!(
        run(&["get", "a", "--rev", "99"])
            .contains("etcdserver: mvcc: required revision is a future revision")
    );
    let txn = etcdctl.run(&["txn"], "value(\"a\") = \"2\"\n\nput won yes\nget a\n\nput lost yes\n\n");
    assert_eq!(txn, "SUCCESS\n\nOK\n\na\n2\n");
    assert_eq!(run(&["del", "a", "c"]), "2\n");
    assert!(run(&["endpoint", "health"]).contains("is healthy"));
    assert!(run(&["endpoint", "status"]).contains("3.6.0"));
}

#[test]
fn etcdctl_watches() {
    let Ok(binary) = std::env::var("ETCDCTL") else {
        let _ = writeln!(std::io::stderr(), "SKIPPED etcdctl_watches: set ETCDCTL to a binary to run it");
        return;
    };
    let member = Plan::single().start_ready();
    let etcdctl = Etcdctl { binary, member: &member };
    for (key, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
        etcdctl.run(&["put", key, value], "");
    }
    let mut child = etcdctl.start(&["watch", "a", "--rev", "2", "--prev-kv"]);
    let mut heard = String::new();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
    etcdctl.run(&["del", "a"], "");
    while !heard.contains("DELETE\na\n3\n") {
        use std::io::BufRead;
        assert!(lines.read_line(&mut heard).unwrap() > 0, "etcdctl ended after {heard}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(heard.starts_with("PUT\na\n1\nPUT\na\n1\na\n3\nDELETE\na\n3\n"), "{heard}");
}
