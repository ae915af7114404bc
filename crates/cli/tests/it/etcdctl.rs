//! The tour with etcd's own command-line tool. It runs when the variable `ETCDCTL` names the binary.

use crate::process::{Member, Plan, until};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

pub struct Etcdctl {
    binary: String,
    endpoints: String,
}

/// Its binary, or a word on standard error that the test is skipped.
pub fn binary(test: &str) -> Option<String> {
    let binary = std::env::var("ETCDCTL").ok();
    if binary.is_none() {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: set ETCDCTL to a binary to run it");
    }
    binary
}

impl Etcdctl {
    pub fn of(binary: &str, members: &[Member]) -> Etcdctl {
        let endpoints: Vec<String> = members.iter().map(|member| member.client.to_string()).collect();
        Etcdctl { binary: binary.to_owned(), endpoints: endpoints.join(",") }
    }

    pub fn start(&self, args: &[&str]) -> Child {
        Command::new(&self.binary)
            .args(["--endpoints", &self.endpoints])
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

    /// `3.4`, `3.5` and so on.
    fn version(&self) -> String {
        let told = self.run(&["version"], "");
        told.lines().last().unwrap().rsplit(' ').next().unwrap().to_owned()
    }

    /// Whether it is 3.6 or newer: those warn and wait before they delete a range without `--range`.
    fn takes_range(&self) -> bool {
        !["3.4", "3.5"].contains(&self.version().as_str())
    }

    /// Lets a watch run until it has printed this, and tells all it has printed.
    fn watch_until(&self, args: &[&str], input: &str, last: &str) -> String {
        let mut child = self.start(args);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut heard = String::new();
        while !heard.contains(last) {
            assert!(lines.read_line(&mut heard).unwrap() > 0, "etcdctl ended after {heard}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        heard
    }
}

fn members(count: usize) -> Vec<Member> {
    let members: Vec<Member> = Plan::cluster(count).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    members
}

#[test]
fn every_command_works_on_one_member() {
    let Some(binary) = binary("every_command_works_on_one_member") else { return };
    tour(&Etcdctl::of(&binary, &members(1)));
}

#[test]
fn every_command_works_on_three_members() {
    let Some(binary) = binary("every_command_works_on_three_members") else { return };
    tour(&Etcdctl::of(&binary, &members(3)));
}

fn tour(etcdctl: &Etcdctl) {
    keys(etcdctl);
    transactions(etcdctl);
    compaction(etcdctl);
    leases(etcdctl);
    watches(etcdctl);
    endpoints(etcdctl);
}

fn keys(etcdctl: &Etcdctl) {
    let run = |args: &[&str]| etcdctl.run(args, "");
    assert_eq!(run(&["put", "a", "1"]), "OK\n");
    assert_eq!(run(&["get", "a"]), "a\n1\n");
    assert_eq!(run(&["put", "a", "2", "--prev-kv"]), "OK\na\n1\n");
    assert_eq!(etcdctl.run(&["put", "b"], "3"), "OK\n");
    assert_eq!(run(&["put", "c", "9"]), "OK\n");
    assert_eq!(run(&["put", "a", "--ignore-value", "--prev-kv"]), "OK\na\n2\n");
    assert!(run(&["put", "none", "--ignore-value"]).contains("etcdserver: key not found"));
    assert!(run(&["put", "", "x"]).contains("etcdserver: key is not provided"));
    assert_eq!(run(&["get", "", "--prefix", "--keys-only"]), "a\n\nb\n\nc\n\n");
    assert_eq!(run(&["get", "a", "c"]), "a\n2\nb\n3\n");
    assert_eq!(run(&["get", "b", "--from-key", "--limit", "1"]), "b\n3\n");
    assert_eq!(
        run(&["get", "", "--prefix", "--order", "DESCEND", "--sort-by", "VALUE"]),
        "c\n9\nb\n3\na\n2\n"
    );
    assert_eq!(run(&["get", "", "--prefix", "--sort-by", "MODIFY", "--limit", "1"]), "b\n3\n");
    assert_eq!(run(&["get", "a", "--consistency", "s"]), "a\n2\n");
    assert_eq!(run(&["get", "a", "--rev", "2", "--print-value-only"]), "1\n");
    assert_eq!(run(&["get", "a", "--hex"]), "\\x61\n\\x32\n");
    assert!(run(&["get", "a", "-w", "json"]).contains("\"kvs\":[{\"key\":\"YQ==\""));
    assert!(run(&["get", "a", "-w", "fields"]).contains("\"ModRevision\" : 6"));
    assert!(
        run(&["get", "a", "--rev", "99"])
            .contains("etcdserver: mvcc: required revision is a future revision")
    );
    assert_eq!(run(&["del", "c", "--prev-kv"]), "1\nc\n9\n");
    assert_eq!(run(&["del", "c"]), "0\n");
}

/// Revision 7 before; 9 afterwards.
fn transactions(etcdctl: &Etcdctl) {
    let won = etcdctl
        .run(&["txn"], "value(\"a\") = \"2\"\nmod(\"a\") > \"1\"\n\nput won yes\nget a\n\nput lost yes\n\n");
    assert_eq!(won, "SUCCESS\n\nOK\n\na\n2\n");
    let lost =
        etcdctl.run(&["txn"], "ver(\"a\") = \"77\"\nc(\"a\") != \"0\"\n\nput won no\n\ndel won\nget won\n\n");
    assert_eq!(lost, "FAILURE\n\n1\n\n");
    let asked = etcdctl.run(&["txn", "-i"], "\n\nget a\n\n\n");
    assert!(asked.contains("compares:") && asked.contains("SUCCESS"), "{asked}");
    let twice = etcdctl.run(&["txn"], "\nput a 1\nput a 2\n\n\n");
    assert!(twice.contains("etcdserver: duplicate key given in txn request"), "{twice}");
}

fn compaction(etcdctl: &Etcdctl) {
    let run = |args: &[&str]| etcdctl.run(args, "");
    let range: &[&str] = if etcdctl.takes_range() { &["--range"] } else { &[] };
    assert_eq!(run(&[&["del", "a", "c"], range].concat()), "2\n");
    assert_eq!(run(&["compaction", "5"]), "compacted revision 5\n");
    assert!(run(&["compaction", "5"]).contains("required revision has been compacted"));
    assert!(run(&["get", "b", "--rev", "3"]).contains("required revision has been compacted"));
    assert!(run(&["compaction", "99"]).contains("required revision is a future revision"));
    assert_eq!(run(&["compaction", "10", "--physical"]), "compacted revision 10\n");
}

fn leases(etcdctl: &Etcdctl) {
    let run = |args: &[&str]| etcdctl.run(args, "");
    let granted = run(&["lease", "grant", "600"]);
    assert!(granted.ends_with(" granted with TTL(600s)\n"), "{granted}");
    let id = granted.split(' ').nth(1).unwrap();
    assert_eq!(run(&["lease", "list"]), format!("found 1 leases\n{id}\n"));
    assert_eq!(run(&["put", "leased", "v", "--lease", id]), "OK\n");
    assert_eq!(run(&["put", "leased", "w", "--ignore-lease"]), "OK\n");
    assert_eq!(run(&["lease", "keep-alive", "--once", id]), format!("lease {id} keepalived with TTL(600)\n"));
    let left = run(&["lease", "timetolive", id, "--keys"]);
    assert!(left.contains("granted with TTL(600s)") && left.contains("attached keys([leased])"), "{left}");
    assert!(run(&["lease", "timetolive", id]).contains("remaining("));
    assert_eq!(run(&["lease", "revoke", id]), format!("lease {id} revoked\n"));
    assert_eq!(run(&["get", "leased"]), "");
    assert!(run(&["lease", "revoke", id]).contains("requested lease not found"));
    assert!(run(&["lease", "timetolive", id]).contains("already expired"));
    assert!(run(&["lease", "keep-alive", id]).contains("expired or revoked"));
    assert!(run(&["lease", "grant", "9000000001"]).contains("too large lease TTL"));
    assert!(run(&["put", "leased", "v", "--lease", id]).contains("requested lease not found"));
}

fn watches(etcdctl: &Etcdctl) {
    let run = |args: &[&str]| etcdctl.run(args, "");
    let status = run(&["get", "nothing", "-w", "fields"]);
    let line = status.lines().find(|line| line.starts_with("\"Revision\"")).unwrap();
    let now: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    let since = (now + 1).to_string();
    for (key, value) in [("w1", "1"), ("w2", "2"), ("w1", "3")] {
        run(&["put", key, value]);
    }
    run(&["del", "w1"]);
    let watch = |args: &[&str], last| etcdctl.watch_until(&[args, &["--rev", &since]].concat(), "", last);
    let one = watch(&["watch", "w1", "--prev-kv"], "DELETE\nw1\n3\n");
    assert!(one.starts_with("PUT\nw1\n1\nPUT\nw1\n1\nw1\n3\nDELETE\nw1\n3\n"), "{one}");
    let below = watch(&["watch", "w", "--prefix"], "DELETE\nw1\n");
    assert!(below.starts_with("PUT\nw1\n1\nPUT\nw2\n2\nPUT\nw1\n3\nDELETE\nw1\n"), "{below}");
    assert_eq!(watch(&["watch", "w2", "w3"], "w2\n2\n"), "PUT\nw2\n2\n");
    if etcdctl.version() != "3.4" {
        assert_eq!(watch(&["watch", "w2", "--progress-notify"], "w2\n2\n"), "PUT\nw2\n2\n");
    }
    let json = watch(&["watch", "w2", "-w", "json"], "Created");
    assert!(json.contains("\"key\":\"dzI=\""), "{json}");
    let command = ["watch", "w2", "--rev", &since, "--", "printenv", "ETCD_WATCH_KEY"];
    assert_eq!(etcdctl.watch_until(&command, "", "\"w2\""), "PUT\nw2\n2\n\"w2\"\n");
    let typed = etcdctl.watch_until(&["watch", "-i"], &format!("watch w2 --rev {since}\n"), "w2\n2\n");
    assert_eq!(typed, "PUT\nw2\n2\n");
    assert!(run(&["watch", "w1", "--rev", "2"]).contains("required revision has been compacted"));
}

fn endpoints(etcdctl: &Etcdctl) {
    let count = etcdctl.endpoints.split(',').count();
    let run = |args: &[&str]| etcdctl.run(args, "");
    for (args, word) in [
        (&["endpoint", "health"][..], "is healthy"),
        // From 3.6 on etcdctl prints the version of the storage behind it.
        (&["endpoint", "status"], ", 3.7.0, "),
        (&["endpoint", "status", "-w", "json"], "\"version\":\"3.7.0\""),
        (&["member", "list"], "started"),
        (&["member", "list", "-w", "table"], " started "),
        (&["member", "list", "-w", "json"], "\"peerURLs\""),
    ] {
        let told = run(args);
        assert_eq!(told.matches(word).count(), count, "{args:?}: {told}");
    }
    assert_eq!(run(&["endpoint", "hashkv"]).lines().filter(|line| line.contains(", ")).count(), count);
    let table = run(&["endpoint", "status", "-w", "table"]);
    assert_eq!(table.lines().filter(|line| line.contains(" 3.7.0 ")).count(), count, "{table}");
    assert_eq!(run(&["alarm", "list"]), "");
    assert_eq!(run(&["alarm", "disarm"]), "");
    assert_eq!(run(&["defrag"]).matches("Finished defragmenting").count(), count);
    assert!(run(&["move-leader", "1234"]).contains("bad leader transferee"));
    for change in
        [&["remove", "1234"][..], &["promote", "1234"], &["update", "1234", "--peer-urls", "http://h:1"]]
    {
        let told = run(&[&["member"], change].concat());
        assert!(told.contains("etcdserver: member not found"), "{change:?}: {told}");
    }
}

#[test]
fn etcdctl_looks_after_a_cluster() {
    let Some(binary) = binary("etcdctl_looks_after_a_cluster") else { return };
    let members = members(3);
    let run =
        |member: &Member, args: &[&str]| Etcdctl::of(&binary, std::slice::from_ref(member)).run(args, "");
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
        (&["endpoint", "status", "--cluster"][..], ", 3.7.0, "),
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
