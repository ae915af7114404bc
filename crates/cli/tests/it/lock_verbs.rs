//! `althing lock` and `althing elect` as their users meet them: who is excluded, what the command finds and how it
//! ends, and that the lock is given back however that is. With `ETCDCTL` set also against etcd's own tool.

use crate::etcdctl::{Etcdctl, binary};
use crate::process::{Member, Plan, althing, until};
use crate::talking::Talking;
use crate::verbs::{out, run, text};
use std::process::{Command, Output, Stdio};

fn command(member: &Member, args: &[&str]) -> Command {
    let mut command = althing();
    command.env("ALTHING_ENDPOINTS", member.client.to_string()).args(args);
    command
}

fn start(member: &Member, args: &[&str]) -> Talking {
    let mut command = command(member, args);
    Talking::of(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn finish(member: &Member, args: &[&str]) -> Output {
    run(command(member, args), "")
}

fn is_free(member: &Member, name: &str) -> bool {
    out(member, &["lock", "inspect", name], "").ends_with("is free\n")
}

/// Waits until so many stand behind the holder.
fn wait_for_queue(member: &Member, name: &str, count: usize) {
    let heads = |shown: &str| shown.matches(" waits for ").count();
    until("so many wait", || (heads(&out(member, &["lock", "inspect", name], "")) == count).then_some(()));
}

/// The lease of a lock's holder, as the last part of its key.
fn lease_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap()
}

#[test]
fn a_command_runs_under_the_lock_and_its_status_is_passed_on() {
    let member = Plan::single().start_ready();
    let script = "echo $ALTHING_LOCK_NAME $ALTHING_LOCK_KEY $ALTHING_FENCING_TOKEN; exit 7";
    let ran = finish(&member, &["lock", "jobs/a", "--ttl", "20s", "--", "sh", "-c", script]);
    assert_eq!(ran.status.code(), Some(7), "{}", text(&ran.stderr));
    let told = text(&ran.stdout);
    let words: Vec<&str> = told.split_whitespace().collect();
    assert_eq!((words.len(), words[0], words[2]), (3, "jobs/a", "2"), "{told}");
    assert!(words[1].starts_with("jobs/a/"));
    assert!(is_free(&member, "jobs/a"));

    let killed = finish(&member, &["lock", "jobs/a", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(137));
    let missing = finish(&member, &["lock", "jobs/a", "--", "/no/such/program"]);
    assert_eq!(missing.status.code(), Some(127), "{}", text(&missing.stderr));
    assert!(is_free(&member, "jobs/a"), "a command that cannot be run holds no lock");
    assert_eq!(out(&member, &["lease", "list"], ""), "found 0 leases\n");
}

#[test]
fn one_lock_excludes_another_and_shows_who_waits() {
    let member = Plan::single().start_ready();
    let mut first = start(&member, &["lock", "l", "--id", "first", "--metadata", "why"]);
    let key = first.line();
    let late = finish(&member, &["lock", "l", "--timeout", "0s", "--", "echo", "never"]);
    assert_eq!((late.status.code(), text(&late.stdout)), (Some(121), String::new()));
    assert!(text(&late.stderr).contains("held by \"first\""), "{}", text(&late.stderr));

    let mut second = start(&member, &["lock", "l", "--id", "second", "--", "echo", "at last"]);
    wait_for_queue(&member, "l", 1);
    let shown = out(&member, &["lock", "inspect", "l"], "");
    assert!(shown.starts_with("lock \"l\" is held by first\n") && shown.contains("1. second waits for "));
    assert!(shown.contains(&format!("key {key}")) && shown.contains("metadata why"), "{shown}");
    let json = out(&member, &["lock", "inspect", "l", "-w", "json"], "");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["lock"]["holder_id"], "first");
    assert_eq!(json["lock"]["queue"][0]["client_id"], "second");
    assert!(out(&member, &["lock", "inspect", "l", "-w", "table"], "").contains("| holder |  first |"));
    assert_eq!(out(&member, &["lock", "ls"], ""), "l: held by first with token 2, 1 waiting\n");
    assert_eq!(out(&member, &["lock", "ls", "other"], ""), "");
    assert!(out(&member, &["lock", "ls", "-w", "table"], "").contains("| WAITING |"));

    first.interrupt();
    assert_eq!(second.line(), "at last");
    assert!(second.ending().0.success());
    assert!(is_free(&member, "l"));
}

#[test]
fn a_command_says_what_it_does_while_it_holds_the_lock() {
    let member = Plan::single().start_ready();
    let script =
        r#"$ALTHING lock update "$ALTHING_LOCK_NAME" --metadata "half done" && $ALTHING lock inspect a"#;
    let mut holder = command(&member, &["lock", "a", "--", "sh", "-c", script]);
    holder.env("ALTHING", althing().get_program());
    let done = run(holder, "");
    let told = text(&done.stdout);
    assert!(
        told.starts_with("OK\nlock \"a\" is held by") && told.contains("metadata half done"),
        "{}: {told}{}",
        done.status,
        text(&done.stderr)
    );
    let outside = finish(&member, &["lock", "update", "a", "--metadata", "x"]);
    assert_eq!(outside.status.code(), Some(2));
    assert!(text(&outside.stderr).contains("--token"), "{}", text(&outside.stderr));
    let free = finish(&member, &["lock", "update", "a", "--metadata", "x", "--token", "9"]);
    assert!(!free.status.success());
    assert!(text(&free.stderr).contains("the lock is free"), "{}", text(&free.stderr));
}

#[test]
fn a_key_that_is_no_entry_of_a_lock_is_shown_as_that() {
    let member = Plan::single().start_ready();
    let mut holder = start(&member, &["lock", "job", "--id", "first"]);
    holder.line();
    out(&member, &["put", "job/config", "x"], "");
    let shown = out(&member, &["lock", "inspect", "job"], "");
    assert!(shown.contains("1. the key job/config, which is no entry of the lock"), "{shown}");
    assert!(out(&member, &["lock", "inspect", "job", "-w", "table"], "").contains("no entry"));
    let json: serde_json::Value =
        serde_json::from_str(&out(&member, &["lock", "inspect", "job", "-w", "json"], "")).unwrap();
    assert_eq!(json["lock"]["queue"][0]["is_foreign"], true);
    let mut waiter = start(&member, &["lock", "job", "--id", "second", "--", "echo", "at last"]);
    wait_for_queue(&member, "job", 1);
    holder.interrupt();
    until("the key blocks the lock", || {
        (out(&member, &["lock", "ls"], "")
            == "job: blocked by job/config, which is no entry of it, 1 waiting\n")
            .then_some(())
    });
    assert!(out(&member, &["lock", "inspect", "job"], "").contains("no holder, and is blocked by the key"));
    out(&member, &["del", "job/config"], "");
    assert_eq!(waiter.line(), "at last");
}

#[test]
fn the_command_is_stopped_when_the_lock_is_lost() {
    let member = Plan::single().start_ready();
    // It ignores the request to end, and so do those that it has started.
    let script = "trap '' TERM; echo $ALTHING_LOCK_KEY; while :; do sleep 0.1; done";
    let stubborn = ["lock", "l", "--ttl", "60s", "--grace", "300ms", "--", "sh", "-c", script];
    let mut holder = start(&member, &stubborn);
    let key = holder.line();
    out(&member, &["lease", "revoke", lease_of(&key)], "");
    let (status, told) = holder.ending();
    assert_eq!(status.code(), Some(122), "{told}");
    assert!(told.contains("the lock is lost"), "{told}");

    // One that ends when it is asked, and would call that a success.
    let script = "trap 'exit 0' TERM; echo $ALTHING_LOCK_KEY; while :; do sleep 0.1; done";
    let mut holder = start(&member, &["lock", "l", "--ttl", "60s", "--", "sh", "-c", script]);
    let key = holder.line();
    out(&member, &["del", &key], "");
    assert_eq!(holder.ending().0.code(), Some(122));
    assert_eq!(out(&member, &["lease", "list"], ""), "found 0 leases\n");
}

#[test]
fn who_hears_nothing_of_its_lease_stops_the_command() {
    let member = Plan::single().start_ready();
    let script = "echo ready; while :; do sleep 0.1; done";
    let args = ["lock", "l", "--ttl", "2s", "--command-timeout", "500ms", "--", "sh", "-c", script];
    let mut holder = start(&member, &args);
    holder.line();
    member.signal("STOP");
    let (status, told) = holder.ending();
    member.signal("CONT");
    assert_eq!(status.code(), Some(122), "{told}");
    assert!(told.contains("the lock is lost"), "{told}");
}

#[test]
fn a_stopped_command_releases_the_lock() {
    let member = Plan::single().start_ready();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut holder = start(&member, &["lock", "l"]);
        holder.line();
        let waiter = ["lock", "l", "--", "echo", "never"];
        let mut waiter = start(&member, &waiter);
        wait_for_queue(&member, "l", 1);
        waiter.signal(signal);
        assert_eq!(waiter.ending().0.code(), Some(130));
        wait_for_queue(&member, "l", 0);
        holder.signal(signal);
        assert!(holder.ending().0.success());
        assert!(is_free(&member, "l"));

        let script = "echo ready; while :; do sleep 0.1; done";
        let mut holder = start(&member, &["lock", "l", "--", "sh", "-c", script]);
        holder.line();
        holder.signal(signal);
        assert_eq!(holder.ending().0.code(), Some(code), "the command was asked to end");
        assert!(is_free(&member, "l"));
    }
    assert_eq!(out(&member, &["lease", "list"], ""), "found 0 leases\n");
}

#[test]
fn a_lock_may_be_called_like_a_question() {
    let member = Plan::single().start_ready();
    assert_eq!(text(&finish(&member, &["lock", "--", "ls", "echo", "-n", "held"]).stdout), "held");
    assert_eq!(text(&finish(&member, &["lock", "--", "inspect", "--", "echo", "held"]).stdout), "held\n");
    assert_eq!(text(&finish(&member, &["lock", "a", "ls", "-d", "/"]).stdout), "/\n");
    let doubtful = finish(&member, &["lock", "--ttl", "5s", "ls"]);
    assert_eq!(doubtful.status.code(), Some(2));
    assert!(text(&doubtful.stderr).contains("althing lock -- ls"));
    assert_eq!(finish(&member, &["lock"]).status.code(), Some(2));
    assert_eq!(finish(&member, &["lock", "a", "--ttl", "0s"]).status.code(), Some(2));
}

#[test]
fn one_is_elected_after_the_other_and_listeners_hear_of_it() {
    let member = Plan::single().start_ready();
    let mut first = start(&member, &["elect", "post", "first"]);
    let key = first.line();
    assert!(key.starts_with("post/"), "{key}");
    assert_eq!(first.line(), "first");
    let mut listens = start(&member, &["elect", "post", "-l"]);
    assert_eq!((listens.line(), listens.line()), (key, "first".to_owned()));
    let mut second = start(&member, &["elect", "post", "second"]);
    wait_for_queue(&member, "post", 1);
    first.interrupt();
    let key = second.line();
    assert_eq!(second.line(), "second");
    assert_eq!((listens.line(), listens.line()), (key.clone(), "second".to_owned()));
    out(&member, &["lease", "revoke", lease_of(&key)], "");
    assert_eq!(second.ending().0.code(), Some(4));
    assert_eq!(finish(&member, &["elect", "post"]).status.code(), Some(2));
    assert_eq!(finish(&member, &["elect", "post", "x", "-l"]).status.code(), Some(2));
}

#[test]
fn the_load_of_locks_leaves_none_of_them_held() {
    let member = Plan::single().start_ready();
    let shape = ["--locks", "3", "--clients", "12", "--connections", "2", "--total", "300", "--json"];
    for by in ["service", "keys"] {
        let ran = finish(&member, &[&["bench", "lock", "--by", by], &shape[..]].concat());
        let report: serde_json::Value = serde_json::from_str(&text(&ran.stdout)).unwrap();
        assert_eq!((&report["ops"], &report["errors"]), (&300.into(), &0.into()), "{by}: {report}");
        assert_eq!(out(&member, &["lock", "ls"], ""), "");
    }
}

#[test]
fn a_paced_load_ends_when_its_time_is_over() {
    let member = Plan::single().start_ready();
    let shape = ["--rate", "50", "--duration", "300ms", "--clients", "4", "--connections", "2", "--json"];
    let ran = finish(&member, &[&["bench", "put"], &shape[..]].concat());
    let report: serde_json::Value = serde_json::from_str(&text(&ran.stdout)).unwrap();
    assert_eq!(&report["errors"], &0, "{report}");
}

#[test]
fn etcdctl_and_althing_exclude_each_other() {
    let Some(binary) = binary("etcdctl_and_althing_exclude_each_other") else { return };
    let members = [Plan::single().start_ready()];
    let member = &members[0];
    let etcdctl = Etcdctl::of(&binary, &members);
    let mut theirs = Talking::of(etcdctl.start(&["lock", "mixed"]));
    let their_key = theirs.line();
    assert_eq!(theirs.line(), "");
    let late = finish(member, &["lock", "mixed", "--timeout", "100ms", "--", "echo", "never"]);
    assert_eq!((late.status.code(), text(&late.stdout)), (Some(124), String::new()));
    let mut ours = start(member, &["lock", "mixed"]);
    wait_for_queue(member, "mixed", 1);
    theirs.interrupt();
    let our_key = ours.line();
    assert_eq!(ours.line(), "");
    assert!(our_key.starts_with("mixed/") && our_key != their_key);
    let mut theirs = Talking::of(etcdctl.start(&["lock", "mixed", "echo", "theirs"]));
    wait_for_queue(member, "mixed", 1);
    ours.interrupt();
    assert_eq!(theirs.line(), "theirs");
}
