//! A command that runs while a lock is held, and no longer.
//! A guard and signals go in; the command's exit status comes out. Signals are passed on. When a signal asks for the end,
//! or the lease is near its end, the command is asked to end and, after a grace, killed with its process group: always before
//! another holder can begin. When this process is stopped or killed, its watchdog does that (`hold_process`).

use super::hold_signals::{self, HoldSignals};
use super::terminal_job::TerminalJob;
use super::{Error, fence, hold_process, lock};
use client::{Guard, LeaseState};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// The part of a TTL that is left to a command for its end, at most: the rest is for the members to answer in.
const GRACE_PARTS: u32 = 5;

pub struct HeldCommand<'a> {
    pub program: &'a OsString,
    pub arguments: &'a [OsString],
    /// From SIGTERM to SIGKILL.
    pub grace: Duration,
    pub ttl: Duration,
}

impl HeldCommand<'_> {
    pub async fn run(&self, name: &str, guard: &Guard, signals: &mut HoldSignals) -> Result<ExitCode, Error> {
        let mut running = Running::start(self, name, guard)?;
        let outcome = self.attend(&mut running, guard, signals).await;
        running.dismiss_watchdog().await;
        if let Some(job) = &running.job {
            job.take_terminal_back().await;
        }
        outcome
    }

    async fn attend(
        &self,
        running: &mut Running,
        guard: &Guard,
        signals: &mut HoldSignals,
    ) -> Result<ExitCode, Error> {
        let failed = |error| self.failed(&error);
        let ahead = self.grace.min(self.ttl / GRACE_PARTS);
        loop {
            tokio::select! {
                // First: a command that the watchdog has killed would tell of a signal.
                biased;
                reason = guard.doubtful(ahead) => {
                    running.stop(Signal::TERM, self.grace, guard).await.map_err(failed)?;
                    // What it was about to do may be undone by now: its own status would suggest success.
                    return Err(lock::lost(reason));
                }
                status = running.child.wait() => return status.map(exit_code).map_err(failed),
                caught = signals.next() => {
                    if hold_signals::is_stopping(caught) {
                        return running.stop(caught, self.grace, guard).await.map(exit_code).map_err(failed);
                    }
                    running.signal(caught);
                }
                job = TerminalJob::command_stopped(&mut running.job) => job.resume(),
            }
        }
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::Command { command: self.program.to_string_lossy().into_owned(), reason: error.to_string() }
    }
}

struct Running {
    child: Child,
    /// The process leads a group of this number, which its children share.
    group: Pid,
    job: Option<TerminalJob>,
    watchdog: Option<Watchdog>,
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
            .env("ETCD_LOCK_REV", &token)
            .process_group(0);
        let stops = TerminalJob::watch_stops().map_err(Error::Signals)?;
        let child = command.spawn().map_err(|error| what.failed(&error))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = group.expect("a process that was started and not waited for has an id");
        let job = stops.map(|stops| TerminalJob::new(group, stops));
        let watchdog = Watchdog::start(group, guard.lease_states());
        Ok(Running { child, group, job, watchdog })
    }

    async fn dismiss_watchdog(&mut self) {
        if let Some(mut watchdog) = self.watchdog.take() {
            // It may have done its work, and ended.
            let _ = watchdog.process.kill().await;
            watchdog.deadlines.abort();
        }
    }

    /// Asks the command to end, and kills its group after the grace, or when the lock is lost.
    async fn stop(&mut self, signal: Signal, grace: Duration, guard: &Guard) -> std::io::Result<ExitStatus> {
        self.signal(signal);
        // One that is stopped takes no signal but SIGKILL.
        self.signal(Signal::CONT);
        tokio::select! {
            biased;
            _ = guard.lost() => {}
            () = sleep(grace) => {}
            // An error comes again below.
            _ = self.child.wait() => {}
        }
        // Also when the command has ended: its children may still run.
        self.signal(Signal::KILL);
        self.child.wait().await
    }

    fn signal(&self, signal: Signal) {
        // The process may be gone already.
        let _ = kill_process_group(self.group, signal);
    }
}

/// Kills the command when this process dies, or does not say in time that the lock is still held.
struct Watchdog {
    process: Child,
    deadlines: JoinHandle<()>,
}

impl Watchdog {
    /// In a process group of its own, so that a signal for this one does not end it.
    fn start(group: Pid, lease_states: watch::Receiver<LeaseState>) -> Option<Watchdog> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.args(["hold-process", "watch", "--pid", &group.as_raw_nonzero().to_string()]);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().ok()?;
        let input = process.stdin.take()?;
        Some(Watchdog { process, deadlines: tokio::spawn(pass_deadlines_on(lease_states, input)) })
    }
}

/// Ends, and so lets the watchdog act, when the lease is lost.
async fn pass_deadlines_on(mut lease_states: watch::Receiver<LeaseState>, mut input: ChildStdin) {
    loop {
        let LeaseState::Held { deadline, .. } = *lease_states.borrow_and_update() else { return };
        let left = deadline.saturating_duration_since(Instant::now());
        let sent = input.write_all(&hold_process::deadline_in(left)).await;
        if sent.is_err() || lease_states.changed().await.is_err() {
            return;
        }
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
