//! `althing lock` as a process among others: signals, its death, and what its exit codes and variables say.

use crate::process::{Member, Plan, althing, until};
use crate::talking::Talking;
use crate::verbs::{out, run, text};
use std::process::{Command, Stdio};

fn command(member: &Member, args: &[&str]) -> Command {
    let mut command = althing();
    command.env("ALTHING_ENDPOINTS", member.client.to_string()).args(args);
    command
}

fn start(member: &Member, args: &[&str]) -> Talking {
    let mut command = command(member, args);
    Talking::of(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// A process that has ended and was not waited for has no command line.
fn is_gone(pid: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty()).then_some(()).is_none()
}

#[test]
fn the_command_and_its_children_die_with_a_wrapper_that_is_killed() {
    let member = Plan::single().start_ready();
    let script = "echo $$; sh -c 'echo $$; exec sleep 1000' & wait";
    let mut holder = start(&member, &["lock", "l", "--", "sh", "-c", script]);
    let pids = [holder.line(), holder.line()];
    until("both run", || pids.iter().all(|pid| !is_gone(pid)).then_some(()));
    holder.signal("KILL");
    until("both are gone", || pids.iter().all(|pid| is_gone(pid)).then_some(()));
}

#[test]
fn signals_reach_the_command() {
    let member = Plan::single().start_ready();
    let passed_on =
        ["USR1", "USR2", "ALRM", "IO", "PWR", "URG", "VTALRM", "PROF", "XCPU", "XFSZ", "TTIN", "TTOU"];
    // `wait` ends with every signal that has a trap.
    let script = "(trap '' $*; exec sleep 1000) & for one in $*; do trap \"echo $one\" $one; done; \
                  trap 'echo HUP; exit 5' HUP; echo ready; while :; do wait; done";
    let sh = ["lock", "l", "--grace", "60s", "--", "sh", "-c", script, "sh"];
    let mut holder = start(&member, &[&sh[..], &passed_on].concat());
    assert_eq!(holder.line(), "ready");
    for signal in passed_on.into_iter().chain(["HUP"]) {
        holder.signal(signal);
        assert_eq!(holder.line(), signal);
    }
    assert_eq!(holder.ending().0.code(), Some(5));
    let mut holder = start(&member, &["lock", "l", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    holder.line();
    holder.signal("QUIT");
    assert_eq!(holder.ending().0.code(), Some(128 + 3));
    assert!(out(&member, &["lock", "inspect", "l"], "").ends_with("is free\n"));
}

#[test]
fn exit_codes_tell_why_there_is_no_lock() {
    let member = Plan::single().start_ready();
    let mut holder = start(&member, &["lock", "l"]);
    holder.line();
    let code = |args: &[&str]| run(command(&member, args), "").status.code();
    assert_eq!(code(&["lock", "l", "--timeout", "0s", "--", "true"]), Some(121), "held");
    assert_eq!(code(&["lock", "l", "--timeout", "100ms", "--", "true"]), Some(124), "timed out");
    assert_eq!(code(&["lock", "m", "--", "/no/such/program"]), Some(127), "not found");
    assert_eq!(code(&["lock", "m", "--", "/"]), Some(126), "not a program");
    let nowhere = ["lock", "m", "--endpoints", "127.0.0.1:1", "--command-timeout", "1s", "--", "true"];
    assert_eq!(code(&nowhere), Some(123), "unreachable");
    holder.interrupt();
}

#[test]
fn the_fence_of_a_lock_of_any_name_is_ready_to_use() {
    let member = Plan::single().start_ready();
    let name = "a, b/ü%";
    let script = "\"$0\" put --fence k 1 && printf %s \"$ALTHING_FENCE\"";
    let ran =
        run(command(&member, &["lock", name, "--", "sh", "-c", script, env!("CARGO_BIN_EXE_althing")]), "");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let told = text(&ran.stdout);
    let fence = told.strip_prefix("OK\n").unwrap();
    assert!(fence.starts_with("lock=a%2C%20b/%C3%BC%25,token="), "{fence}");
    let late = format!("--fence={fence}");
    for args in [vec!["put", &late, "k", "2"], vec!["del", &late, "k"]] {
        let refused = run(command(&member, &args), "");
        assert!(!refused.status.success(), "{args:?}");
        assert!(text(&refused.stderr).contains("the lock is free"), "{}", text(&refused.stderr));
    }
    let refused = run(command(&member, &["txn", &late]), "\nput k 2\n\n\n");
    assert!(text(&refused.stderr).contains("the lock is free"), "{}", text(&refused.stderr));
    assert_eq!(out(&member, &["get", "k", "--print-value-only"], ""), "1\n");
    assert_eq!(run(command(&member, &["put", "--fence", "k", "2"]), "").status.code(), Some(2));
}

#[test]
fn a_key_that_is_no_entry_is_shown_as_what_it_is() {
    let member = Plan::single().start_ready();
    out(&member, &["put", "job/config", "x"], "");
    let inspected = out(&member, &["lock", "inspect", "job"], "");
    assert!(inspected.contains("has no holder") && inspected.contains("job/config"), "{inspected}");
    assert_eq!(out(&member, &["lock", "ls"], ""), "", "no client holds or wants it");
    let mut waiter = start(&member, &["lock", "job", "--", "echo", "mine"]);
    let listed = until("the waiter is listed", || {
        Some(out(&member, &["lock", "ls"], "")).filter(|listed| !listed.is_empty())
    });
    assert_eq!(listed, "job: blocked by job/config, which is no entry of it, 1 waiting\n");
    out(&member, &["del", "job/config"], "");
    assert_eq!(waiter.line(), "mine");
}
