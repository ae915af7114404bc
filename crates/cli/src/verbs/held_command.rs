//! A command that runs while a lock is held, and no longer.
//! A guard and signals go in; the command's exit status comes out. When the lock is lost or a signal stops this
//! process, the command gets SIGTERM and, after a grace, SIGKILL; this process does not end while it runs.

use super::Error;
use crate::signals::Signals;
use client::Guard;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::timeout;

pub struct HeldCommand<'a> {
    pub program: &'a OsString,
    pub arguments: &'a [OsString],
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
}

impl HeldCommand<'_> {
    pub async fn run(&self, name: &str, guard: &Guard, signals: &mut Signals) -> Result<ExitCode, Error> {
        let mut running = Running::start(self, name, guard)?;
        let lost = tokio::select! {
            status = running.child.wait() => return status.map(exit_code).map_err(|error| self.failed(&error)),
            error = guard.lost() => Some(error),
            _ = signals.next() => None,
        };
        let status = running.stop(self.grace).await.map_err(|error| self.failed(&error))?;
        match lost {
            // What it was about to do may be undone by now: its own status would suggest success.
            Some(error) => Err(error.into()),
            None => Ok(exit_code(status)),
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
}

impl Running {
    fn start(what: &HeldCommand<'_>, name: &str, guard: &Guard) -> Result<Running, Error> {
        let key = OsString::from_vec(guard.key().to_vec());
        let token = guard.token().to_string();
        let mut command = Command::new(what.program);
        command
            .args(what.arguments)
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
        Ok(Running { child, pid, has_group })
    }

    async fn stop(&mut self, grace: Duration) -> std::io::Result<ExitStatus> {
        self.signal(Signal::TERM);
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
