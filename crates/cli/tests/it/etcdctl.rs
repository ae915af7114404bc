//! The tour with etcd's own command-line tool. It runs when the variable `ETCDCTL` names the binary.

use crate::process::{Member, Plan, until};
use std::io::Write;
use std::process::{Child, Command, Stdio};

pub struct Etcdctl<'a> {
    pub binary: String,
    pub member: &'a Member,
}

/// Its binary, or a word on standard error that the test is skipped.
pub fn binary(test: &str) -> Option<String> {
    let binary = std::env::var("ETCDCTL").ok();
    if binary.is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: set ETCDCTL to a binary to run it");
    }
    binary
}

impl Etcdctl<'_> {
    pub fn start(&self, args: &[&str]) -> Child {
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

    pub fn run(&self, args: &[&str], input: &str) -> String {
        let mut child = self.start(args);
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        text(output.stdout) + &text(output.stderr)
    }
}

#[test]
fn etcdctl_reads_and_writes() {
    let Some(binary) = binary("etcdctl_reads_and_writes") else { return };
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

#[test]
fn etcdctl_looks_after_a_cluster() {
    let Some(binary) = binary("etcdctl_looks_after_a_cluster") else { return };
    let members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    let run = |member: &Member, args: &[&str]| Etcdctl { binary: binary.clone(), member }.run(args, "");
    assert_eq!(run(&members[0], &["put", "a", "1"]), "OK\n");

    let list = until("all members have told where they serve", || {
        let list = run(&members[0], &["member", "list"]);
        (!list.contains("unstarted") && list.lines().all(|line| line.contains("started"))).then_some(list)
    });
    assert_eq!(list.lines().count(), 3, "{list}");
    for member in &members {
        assert!(list.contains(&member.endpoint()), "{list}");
    }
    for (args, word) in [
        (&["endpoint", "status", "--cluster"][..], "3.6.0"),
        (&["endpoint", "health", "--cluster"], "is healthy"),
        (&["defrag", "--cluster"], "Finished defragmenting"),
    ] {
        let told = run(&members[1], args);
        assert_eq!(told.matches(word).count(), 3, "{args:?}: {told}");
    }
    assert_eq!(run(&members[2], &["alarm", "list"]), "");
    assert_eq!(run(&members[2], &["alarm", "disarm"]), "");

    let hashes = run(&members[0], &["endpoint", "hashkv", "--cluster"]);
    let hash_of = |line: &str| line.rsplit(", ").next().map(str::to_owned);
    let distinct: std::collections::BTreeSet<_> = hashes.lines().map(hash_of).collect();
    assert_eq!((hashes.lines().count(), distinct.len()), (3, 1), "{hashes}");

    let leads = |member: &&Member| run(member, &["endpoint", "status"]).contains(", true, false,");
    let leader = members.iter().find(leads).unwrap();
    let heir = members.iter().find(|member| member.client != leader.client).unwrap();
    let heir_id = run(heir, &["endpoint", "status"]).split(", ").nth(1).unwrap().to_owned();
    let moved = run(leader, &["move-leader", &heir_id]);
    assert!(moved.contains("Leadership transferred from"), "{moved}");
    assert!(leads(&heir));
    let refused = run(leader, &["move-leader", &heir_id]);
    assert!(refused.contains("no leader endpoint given"), "{refused}");
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
