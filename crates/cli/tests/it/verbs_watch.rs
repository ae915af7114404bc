//! The verbs that go on: `watch` in all its forms, and `lease keep-alive`. What they print is read line by line as
//! it comes; nothing here sleeps.

use crate::process::{Member, PATIENCE, Plan, althing};
use crate::verbs::{out, text};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A verb that runs, and the lines it has printed.
struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if line.map(|line| sender.send(line)).is_err() {
                    return;
                }
            }
        });
        Running { child, input, lines }
    }

    fn verb(member: &Member, args: &[&str]) -> Running {
        Running::start(command(member, args))
    }

    fn expect(&self, expected: &[&str]) {
        let mut heard = vec![];
        for _ in expected {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => heard.push(line),
                Err(_) => panic!("after {heard:?} nothing more, but {expected:?} was due"),
            }
        }
        assert_eq!(heard, expected);
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The verb's endpoints stand before it, for what follows `--` is another command's.
fn command(member: &Member, args: &[&str]) -> Command {
    let mut command = althing();
    command.args(["--endpoints", &member.client.to_string()]).args(args);
    command
}

#[test]
fn a_watch_prints_history_and_then_what_happens() {
    let member = Plan::single().start_ready();
    out(&member, &["put", "a", "1"], "");
    out(&member, &["put", "a", "2"], "");
    let watch = Running::verb(&member, &["watch", "a", "--rev", "2", "--prev-kv"]);
    watch.expect(&["PUT", "a", "1", "PUT", "a", "1", "a", "2"]);
    out(&member, &["del", "a"], "");
    watch.expect(&["DELETE", "a", "2", "a", ""]);
}

#[test]
fn a_watch_runs_a_command_for_every_event() {
    let member = Plan::single().start_ready();
    out(&member, &["put", "k1", "v\tw"], "");
    out(&member, &["put", "l", "x"], "");
    out(&member, &["del", "k1"], "");
    let script = "printenv ETCD_WATCH_REVISION ETCD_WATCH_EVENT_TYPE ETCD_WATCH_KEY ETCD_WATCH_VALUE";
    let args = ["watch", "k", "--prefix", "--rev", "2", "--", "sh", "-c", script];
    let watch = Running::verb(&member, &args);
    watch.expect(&["PUT", "k1", "v\tw", "DELETE", "k1", ""]);
    watch.expect(&["4", "\"PUT\"", "\"k1\"", "\"v\\tw\""]);
    watch.expect(&["4", "\"DELETE\"", "\"k1\"", "\"\""]);
    let failing = command(&member, &["watch", "l", "--rev", "3", "--", "false"]).output().unwrap();
    assert_eq!(failing.status.code(), Some(1));
    assert!(text(&failing.stderr).contains("command \"false\" error"), "{}", text(&failing.stderr));
}

#[test]
fn watches_are_begun_line_by_line() {
    let member = Plan::single().start_ready();
    out(&member, &["put", "a", "1"], "");
    let mut watch = Running::verb(&member, &["watch", "-i"]);
    watch.say("fly away");
    watch.say("watch a --rev 2");
    watch.expect(&["PUT", "a", "1"]);
    watch.say("");
    watch.say("watch 'b c' --rev 3 --prev-kv");
    out(&member, &["put", "b c", "2"], "");
    watch.expect(&["PUT", "b c", "2"]);
    watch.say("progress");
    watch.expect(&["progress notify: 3", "progress notify: 3"]);
}

#[test]
fn the_formats_of_events_are_etcdctls() {
    let member = Plan::single().start_ready();
    out(&member, &["put", "a", "1"], "");
    let watch = |format: &str| Running::verb(&member, &["watch", "a", "--rev", "2", "-w", format]);
    let json = watch("json").lines.recv_timeout(PATIENCE).unwrap();
    let kv = "{\"key\":\"YQ==\",\"create_revision\":2,\"mod_revision\":2,\"version\":1,\"value\":\"MQ==\"}";
    assert!(json.starts_with("{\"Header\":{\"cluster_id\":"), "{json}");
    let end =
        format!("\"Events\":[{{\"kv\":{kv}}}],\"CompactRevision\":0,\"Canceled\":false,\"Created\":false}}");
    assert!(json.ends_with(&end), "{json}");
    let fields = watch("fields");
    let lines: Vec<String> = (0..6).map(|_| fields.lines.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(lines[4..], ["\"Type\" : PUT", "\"Key\" : \"a\""]);
    let table = watch("table");
    let lines: Vec<String> = (0..4).map(|_| table.lines.recv_timeout(PATIENCE).unwrap()).collect();
    assert!(lines[1].contains("EVENT") && lines[3].contains("PUT"), "{lines:?}");
}

#[test]
fn a_watch_of_what_was_compacted_ends_and_says_so() {
    let member = Plan::single().start_ready();
    out(&member, &["put", "a", "1"], "");
    out(&member, &["put", "a", "2"], "");
    assert_eq!(out(&member, &["compaction", "3"], ""), "compacted revision 3\n");
    let ended = command(&member, &["watch", "a", "--rev", "2"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let told = text(&ended.stderr);
    assert!(
        told.contains("watch is canceled by the server") && told.contains("has been compacted"),
        "{told}"
    );
}

#[test]
fn a_lease_is_kept_alive_until_it_is_revoked() {
    let member = Plan::single().start_ready();
    let granted = out(&member, &["lease", "grant", "8"], "");
    let id = granted.split(' ').nth(1).unwrap();
    assert_eq!(granted, format!("lease {id} granted with TTL(8s)\n"));
    out(&member, &["put", "leased", "v", "--lease", id], "");
    let kept = format!("lease {id} keepalived with TTL(8)");
    let keeper = Running::verb(&member, &["lease", "keep-alive", id]);
    // Longer than it would live alone.
    keeper.expect(&[&kept[..]; 4]);
    assert_eq!(out(&member, &["get", "leased", "--print-value-only"], ""), "v\n");
    assert!(out(&member, &["lease", "timetolive", id, "--keys"], "").contains("attached keys([leased])"));
    assert_eq!(out(&member, &["lease", "list"], ""), format!("found 1 leases\n{id}\n"));
    assert_eq!(out(&member, &["lease", "revoke", id], ""), format!("lease {id} revoked\n"));
    let gone = format!("lease {id} expired or revoked.");
    let last = std::iter::from_fn(|| keeper.lines.recv_timeout(PATIENCE).ok()).find(|line| *line != kept);
    assert_eq!(last, Some(gone));
    assert_eq!(out(&member, &["get", "leased"], ""), "");
    assert_eq!(out(&member, &["lease", "timetolive", id], ""), format!("lease {id} already expired\n"));
}

#[test]
fn verbs_look_after_a_cluster() {
    let plans = Plan::cluster(3);
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    out(&members[0], &["put", "a", "1"], "");
    let list = crate::process::until("all members have told where they serve", || {
        let list = out(&members[0], &["member", "list"], "");
        members.iter().all(|member| list.contains(&member.endpoint())).then_some(list)
    });
    assert_eq!(list.matches(", started, m").count(), 3, "{list}");
    assert!(out(&members[0], &["member", "list", "-w", "table"], "").contains(" PEER ADDRS "));
    for (args, word) in [
        (&["endpoint", "status", "--cluster"][..], ", 3.7.0, "),
        (&["endpoint", "health", "--cluster"], "is healthy"),
        (&["defrag", "--cluster"], "Finished defragmenting etcd member["),
    ] {
        let told = out(&members[1], args, "");
        assert_eq!(told.matches(word).count(), 3, "{args:?}: {told}");
    }
    let hashes = out(&members[2], &["endpoint", "hashkv", "--cluster", "--rev", "2"], "");
    let distinct: std::collections::BTreeSet<_> =
        hashes.lines().map(|line| line.rsplit(", ").next().unwrap()).collect();
    assert_eq!((hashes.lines().count(), distinct.len()), (3, 1), "{hashes}");
    assert_eq!(out(&members[0], &["alarm", "list"], ""), "");
    assert_eq!(out(&members[0], &["alarm", "disarm"], ""), "");

    let leads = |member: &&Member| out(member, &["endpoint", "status"], "").contains(", true, false,");
    let leader = members.iter().find(leads).unwrap();
    let heir = members.iter().find(|member| member.client != leader.client).unwrap();
    let heir_id = out(heir, &["endpoint", "status"], "").split(", ").nth(1).unwrap().to_owned();
    let all: Vec<String> = members.iter().map(Member::endpoint).collect();
    let moved = althing().args(["move-leader", &heir_id, "--endpoints", &all.join(",")]).output().unwrap();
    let told = text(&moved.stdout);
    assert!(
        told.starts_with("Leadership transferred from ") && told.ends_with(&format!(" to {heir_id}\n")),
        "{moved:?}"
    );
    assert!(leads(&heir));
    let refused = command(leader, &["move-leader", &heir_id]).output().unwrap();
    assert!(text(&refused.stderr).contains("no leader endpoint given at ["), "{refused:?}");
}
