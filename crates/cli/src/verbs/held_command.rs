//! A command that runs while a lock is held, and no longer.
//! A guard and signals go in; the command's exit status comes out. Signals are passed on. When the lock is lost or a
//! signal asks for the end, the command is asked to end and, after a grace, killed; this process does not end while it
//! runs, and when this process is killed, so are the command and its process group (`hold_process`).

use super::hold_signals::{self, HoldSignals};
use super::{Error, fence, hold_process, lock};
use client::Guard;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

pub struct HeldCommand<'a> {
    pub program: &'a OsString,
    pub arguments: &'a [OsString],
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
}

impl HeldCommand<'_> {
    pub async fn run(&self, name: &str, guard: &Guard, signals: &mut HoldSignals) -> Result<ExitCode, Error> {
        let mut running = Running::start(self, name, guard)?;
        let outcome = self.attend(&mut running, guard, signals).await;
        running.dismiss_watchdog().await;
        outcome
    }

    async fn attend(
        &self,
        running: &mut Running,
        guard: &Guard,
        signals: &mut HoldSignals,
    ) -> Result<ExitCode, Error> {
        let failed = |error| self.failed(&error);
        loop {
            tokio::select! {
                status = running.child.wait() => return status.map(exit_code).map_err(failed),
                reason = guard.lost() => {
                    running.stop(Signal::TERM, self.grace).await.map_err(failed)?;
                    // What it was about to do may be undone by now: its own status would suggest success.
                    return Err(lock::lost(reason));
                }
                caught = signals.next() => {
                    if hold_signals::is_stopping(caught) {
                        return running.stop(caught, self.grace).await.map(exit_code).map_err(failed);
                    }
                    running.pass_on(caught);
                }
            }
        }
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::Command { command: self.program.to_string_lossy().into_owned(), reason: error.to_string() }
    }
}

struct Running {
    child: Child,
    pid: Pid,
    /// It leads a process group of its own, which its children share.
    has_group: bool,
    /// Ends the command when this process dies; a byte says that there is nothing to end.
    watchdog: Option<(Child, ChildStdin)>,
}

impl Running {
    fn start(what: &HeldCommand<'_>, name: &str, guard: &Guard) -> Result<Running, Error> {
        let key = OsString::from_vec(guard.key().to_vec());
        let token = guard.token().to_string();
        let mut command = hold_process::following(what.program);
        command
            .args(what.arguments)
            .env(fence::VARIABLE, guard.fence().to_string())
            .env("ALTHING_LOCK_NAME", name)
            .env("ALTHING_LOCK_KEY", &key)
            .env("ALTHING_FENCING_TOKEN", &token)
            .env("ETCD_LOCK_KEY", &key)
            .env("ETCD_LOCK_REV", &token);
        // A terminal lets only one group read: there the command stays in this one, which Ctrl-C reaches as well.
        let has_group = !std::io::stdin().is_terminal();
        if has_group {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| what.failed(&error))?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let pid = pid.expect("a process that was started and not waited for has an id");
        let watchdog = start_watchdog(pid, has_group);
        Ok(Running { child, pid, has_group, watchdog })
    }

    /// A terminal has sent its signals to this whole group of processes already.
    fn pass_on(&self, signal: Signal) {
        if self.has_group || !hold_signals::comes_from_terminal(signal) {
            self.signal(signal);
        }
    }

    async fn dismiss_watchdog(&mut self) {
        if let Some((mut watchdog, mut input)) = self.watchdog.take() {
            // A process that has ended need not be told.
            let _ = input.write_all(b".").await;
            drop(input);
            let _ = watchdog.wait().await;
        }
    }

    /// On a terminal the command has had Ctrl-C, and is asked to end in another way.
    async fn stop(&mut self, signal: Signal, grace: Duration) -> std::io::Result<ExitStatus> {
        let on_terminal = !self.has_group && hold_signals::comes_from_terminal(signal);
        self.signal(if on_terminal { Signal::TERM } else { signal });
        let ended = timeout(grace, self.child.wait()).await;
        // Also when the command has ended: its children may still run.
        if ended.is_err() || self.has_group {
            self.signal(Signal::KILL);
        }
        match ended {
            Ok(status) => status,
            Err(_) => self.child.wait().await,
        }
    }

    fn signal(&self, signal: Signal) {
        // The process may be gone already.
        let _ = if self.has_group {
            kill_process_group(self.pid, signal)
        } else {
            kill_process(self.pid, signal)
        };
    }
}

/// In a process group of its own, so that a signal for this one does not end it.
fn start_watchdog(pid: Pid, has_group: bool) -> Option<(Child, ChildStdin)> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(["hold-process", "watch", "--pid", &pid.as_raw_nonzero().to_string()]);
    command.args(has_group.then_some("--group"));
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let input = child.stdin.take()?;
    Some((child, input))
}

/// As a shell reports it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(number.and_then(|number| u8::try_from(number).ok()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_as_a_shell_tells_it() {
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), ExitCode::from(7));
        assert_eq!(exit_code(ExitStatus::from_raw(0)), ExitCode::SUCCESS);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), ExitCode::from(143));
    }
}
