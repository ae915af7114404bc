//! `althing lock` as a process among others: signals, its death, and what its exit codes and variables say.

use crate::process::{Member, Plan, althing, program, until};
use crate::talking::Talking;
use crate::terminal::Terminal;
use crate::verbs::{out, run, text};
use std::process::{Child, Command, Stdio};

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

/// They write their numbers, and ignore the request to end.
const STUBBORN: &str =
    "trap '' TERM; echo $$; sh -c 'echo $$; while :; do sleep 1; done' & while :; do sleep 1; done";

#[test]
fn a_command_that_ignores_the_request_to_end_is_killed_before_its_lease_ends() {
    let member = Plan::single().start_ready();
    let lock = ["lock", "l", "--ttl", "3s", "--grace", "1000s", "--", "sh", "-c", STUBBORN];
    let mut holder = start(&member, &lock);
    let pids = [holder.line(), holder.line()];
    member.signal("STOP");
    until("both are gone", || pids.iter().all(|pid| is_gone(pid)).then_some(()));
    let (status, told) = holder.ending();
    assert_eq!(status.code(), Some(122), "{told}");
    member.signal("CONT");
}

#[test]
fn the_command_dies_when_its_wrapper_is_stopped() {
    let member = Plan::single().start_ready();
    let lock = ["lock", "l", "--ttl", "3s", "--", "sh", "-c", STUBBORN];
    let mut holder = start(&member, &lock);
    let pids = [holder.line(), holder.line()];
    holder.signal("STOP");
    // Its first child is not waited for, and has no command line all the same.
    until("both are gone", || pids.iter().all(|pid| is_gone(pid)).then_some(()));
    holder.signal("CONT");
    assert_eq!(holder.ending().0.code(), Some(122));
}

/// A script below a terminal that is its own.
fn on_terminal(terminal: &Terminal, member: &Member, script: &str) -> Option<Child> {
    let mut command = Command::new(program("SETSID", "setsid")?);
    command.args(["--ctty", "--wait", "sh", "-c", script]);
    command.env("ALTHING", env!("CARGO_BIN_EXE_althing")).env("ALTHING_ENDPOINTS", member.client.to_string());
    command.stdin(terminal.line()).stdout(terminal.line()).stderr(terminal.line());
    Some(command.spawn().unwrap())
}

#[test]
fn the_command_reads_the_terminal_and_then_the_script_does() {
    let member = Plan::single().start_ready();
    let mut terminal = Terminal::open();
    let _kept = terminal.line();
    let script =
        "$ALTHING lock l -- sh -c 'echo one; read x; echo \"two <$x>\"'; read y; echo \"three <$y>\"";
    let Some(mut child) = on_terminal(&terminal, &member, script) else { return };
    terminal.wait_for("one\r\n");
    terminal.type_keys("a\r");
    terminal.wait_for("two <a>\r\n");
    terminal.type_keys("b\r");
    terminal.wait_for("three <b>\r\n");
    let ended = until("the script ends", || child.try_wait().unwrap());
    assert!(ended.success(), "{}", terminal.shown);
}

#[test]
fn on_a_terminal_too_all_processes_of_the_command_die_with_the_wrapper() {
    let member = Plan::single().start_ready();
    let mut terminal = Terminal::open();
    let _kept = terminal.line();
    // The wrapper is the parent of the command.
    let command = "echo wrapper $PPID; sh -c 'echo child $$.; exec sleep 1000' & read x";
    let script = format!("$ALTHING lock l -- sh -c \"{}\"; echo over", command.replace('$', "\\$"));
    let Some(mut child) = on_terminal(&terminal, &member, &script) else { return };
    terminal.wait_for(".\r\n");
    let number = |word: &str| {
        let (_, rest) = terminal.shown.split_once(word).unwrap();
        rest.trim_start().split(|letter: char| !letter.is_ascii_digit()).next().unwrap().to_owned()
    };
    let (wrapper, grandchild) = (number("wrapper"), number("child"));
    assert!(Command::new("kill").args(["-KILL", &wrapper]).status().unwrap().success());
    until("the command's child is gone", || is_gone(&grandchild).then_some(()));
    until("the script ends", || child.try_wait().unwrap());
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
