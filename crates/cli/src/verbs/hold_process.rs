//! `althing hold-process`: small processes that `althing lock` starts so that its command dies with it, whatever ends
//! it. `exec` asks the kernel for a signal when its parent dies, where the kernel can, and becomes the command. `watch`
//! reads deadlines from its parent on a pipe; when one passes, or the pipe ends, it kills the command and its process group.
//! `sweep` does the same for the members of `althing dev`, and removes their directory. `take-terminal` makes its process group the one that reads the terminal. Not for people.

use clap::{Args, Subcommand};
use rustix::process::{Pid, Signal, getpgrp, getppid, kill_process_group};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// As a shell reports a command that it did not find, or could not run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;
/// A deadline is so many bytes: few enough for a pipe to take all of them or none.
const DEADLINE_BYTES: usize = 8;
/// How often the clock is read: a machine that slept wakes no timer on time.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long processes may take to end after SIGKILL.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Args)]
pub struct HoldProcess {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    Exec {
        #[arg(long)]
        parent: i32,
        #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    Watch {
        #[arg(long)]
        pid: i32,
    },
    TakeTerminal,
    Sweep {
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

impl HoldProcess {
    pub fn run(&self) -> Result<ExitCode, super::Error> {
        match &self.role {
            Role::Exec { parent, command } => Ok(ExitCode::from(become_command(*parent, command))),
            Role::Watch { pid } => {
                watch(*pid);
                Ok(ExitCode::SUCCESS)
            }
            Role::Sweep { dir } => {
                sweep(dir.as_deref());
                Ok(ExitCode::SUCCESS)
            }
            Role::TakeTerminal => {
                // A terminal that is gone is read by no process.
                let _ = rustix::termios::tcsetpgrp(std::io::stdin(), getpgrp());
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// A program that the kernel ends with this process, where it can.
pub fn following(program: &OsStr) -> tokio::process::Command {
    let Ok(myself) = std::env::current_exe() else { return tokio::process::Command::new(program) };
    let mut command = tokio::process::Command::new(myself);
    command.args(["hold-process", "exec", "--parent", &std::process::id().to_string(), "--"]).arg(program);
    command
}

/// Returns only when the command cannot be run.
fn become_command(parent: i32, command: &[OsString]) -> u8 {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        let _ = writeln!(std::io::stderr(), "Error: cannot follow the process that holds the lock: {error}");
        return NOT_RUN;
    }
    // It may have died before the kernel was asked.
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|id| id.get() != parent) {
        return NOT_RUN;
    }
    let Some((program, arguments)) = command.split_first() else { return NOT_RUN };
    let error = Command::new(program).args(arguments).exec();
    let _ = writeln!(std::io::stderr(), "Error: command {:?} error ({error})", program.to_string_lossy());
    if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN }
}

/// The end of the input says that the parent has died.
fn watch(group: i32) {
    let (sender, deadlines) = channel();
    std::thread::spawn(move || read_deadlines(&sender));
    let mut deadline = None;
    loop {
        match deadlines.recv_timeout(LOOK_EVERY) {
            Ok(later) => deadline = Some(later),
            Err(RecvTimeoutError::Timeout) if deadline.is_none_or(|deadline| clock() < deadline) => {}
            Err(_) => break,
        }
    }
    if let Some(group) = Pid::from_raw(group) {
        // It may be gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Reads of process groups, negative for those that have ended. At the end of the input all others are killed, and then the
/// directory is removed.
fn sweep(dir: Option<&Path>) {
    let mut groups = BTreeSet::new();
    let numbers = std::io::stdin().lines().map_while(Result::ok).filter_map(|line| line.parse::<i32>().ok());
    for number in numbers {
        if number > 0 {
            groups.insert(number)
        } else {
            groups.remove(&-number)
        };
    }
    let deadline = Instant::now() + SWEEP_TIMEOUT;
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        // It may be gone already; what still runs would write into the directory.
        while kill_process_group(group, Signal::KILL).is_ok() && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
    }
    if let Some(dir) = dir {
        // The system empties its directory for temporary files, too.
        let _ = std::fs::remove_dir_all(dir);
    }
}

fn read_deadlines(sender: &Sender<Duration>) {
    let mut deadline = [0; DEADLINE_BYTES];
    while std::io::stdin().read_exact(&mut deadline).is_ok() {
        if sender.send(Duration::from_millis(u64::from_be_bytes(deadline))).is_err() {
            return;
        }
    }
}

/// For `watch`: a moment that lies so far ahead.
pub fn deadline_in(left: Duration) -> [u8; DEADLINE_BYTES] {
    let moment = clock() + left;
    u64::try_from(moment.as_millis()).unwrap_or(u64::MAX).to_be_bytes()
}

/// One clock for all processes of a machine, which goes on while the machine sleeps: the lease does, too.
fn clock() -> Duration {
    let uptime = std::fs::read_to_string("/proc/uptime").ok();
    let uptime = uptime.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let seconds = uptime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_moment_of_the_clock_that_all_processes_share() {
        let before = clock();
        let deadline = Duration::from_millis(u64::from_be_bytes(deadline_in(Duration::from_secs(7))));
        let ahead = Duration::from_secs(7) - Duration::from_millis(1);
        assert!(before + ahead <= deadline && deadline <= clock() + Duration::from_secs(7));
    }
}
