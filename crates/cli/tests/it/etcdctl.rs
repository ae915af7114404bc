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
    assert_eq!(run(&["compaction", "5"]), "compacted revision 5\n");
    assert!(run(&["compaction", "5"]).contains("required revision has been compacted"));
    assert!(run(&["get", "b", "--rev", "3"]).contains("required revision has been compacted"));
    assert_eq!(run(&["compaction", "6", "--physical"]), "compacted revision 6\n");

    let granted = run(&["lease", "grant", "600"]);
    assert!(granted.ends_with(" granted with TTL(600s)\n"), "{granted}");
    let id = granted.split(' ').nth(1).unwrap();
    assert_eq!(run(&["lease", "list"]), format!("found 1 leases\n{id}\n"));
    assert_eq!(run(&["put", "leased", "v", "--lease", id]), "OK\n");
    assert_eq!(run(&["lease", "keep-alive", "--once", id]), format!("lease {id} keepalived with TTL(600)\n"));
    let left = run(&["lease", "timetolive", id, "--keys"]);
    assert!(left.contains("granted with TTL(600s)") && left.contains("attached keys([leased])"), "{left}");
    assert_eq!(run(&["lease", "revoke", id]), format!("lease {id} revoked\n"));
    assert_eq!(run(&["get", "leased"]), "");
    assert!(run(&["lease", "revoke", id]).contains("requested lease not found"));
    assert!(run(&["lease", "timetolive", id]).contains("already expired"));
    assert!(run(&["endpoint", "health"]).contains("is healthy"));
    assert!(run(&["endpoint", "status"]).contains("3.6.0"));
}
