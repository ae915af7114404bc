//! The tour with etcd's own command-line tool. It runs when the variable `ETCDCTL` names the binary.

use crate::process::{Member, Plan};
use std::io::Write;
use std::process::{Command, Stdio};

struct Etcdctl<'a> {
    binary: String,
    member: &'a Member,
}

impl Etcdctl<'_> {
    fn run(&self, args: &[&str], input: &str) -> String {
        let mut child = Command::new(&self.binary)
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.member.client.to_string()])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
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
