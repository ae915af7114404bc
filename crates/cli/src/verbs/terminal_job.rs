//! A command in a process group of its own, below a wrapper that a terminal's shell has started.
//! A terminal lets one group read. It stays with the wrapper's until the command wants to read, and so is stopped; then the
//! command's group gets it. When the command is stopped for another reason, the wrapper's group stops as well, so that the
//! shell goes on; the shell resumes both.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgrp, getppid, getsid, kill_current_process_group,
    kill_process_group, waitid,
};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::io::{IsTerminal, stdin};
use std::process::Stdio;
use tokio::process::Command;
use tokio::signal::unix::{self, SignalKind, signal};

/// A process whose group may not read the terminal is stopped when it changes who may. It is not, if it ignores SIGTTOU;
/// a shell can start one that does.
const TAKE_TERMINAL: &str = "trap '' TTOU; exec \"$0\" hold-process take-terminal";

pub struct TerminalJob {
    group: Pid,
    stops: unix::Signal,
    has_had_terminal: bool,
}

impl TerminalJob {
    /// Before the command is started; none where standard input is no terminal.
    pub fn watch_stops() -> std::io::Result<Option<unix::Signal>> {
        if stdin().is_terminal() { signal(SignalKind::child()).map(Some) } else { Ok(None) }
    }

    pub fn new(group: Pid, stops: unix::Signal) -> TerminalJob {
        TerminalJob { group, stops, has_had_terminal: false }
    }

    /// Waits until something has stopped the command; for ever, if there is no terminal.
    pub async fn command_stopped(job: &mut Option<TerminalJob>) -> StoppedJob<'_> {
        let Some(job) = job else { return std::future::pending().await };
        loop {
            if let Some(reason) = job.stopped_by() {
                return StoppedJob { job, wants_terminal: reason };
            }
            if job.stops.recv().await.is_none() {
                return std::future::pending().await;
            }
        }
    }

    /// Whether it wanted the terminal; none while it runs.
    fn stopped_by(&self) -> Option<bool> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group), options).ok().flatten()?;
        let signal = status.stopping_signal()?;
        Some([Signal::TTIN.as_raw(), Signal::TTOU.as_raw()].contains(&signal))
    }

    /// A script that goes on after the wrapper wants to read as before.
    pub async fn take_terminal_back(&self) {
        let Ok(myself) = std::env::current_exe() else { return };
        if self.has_had_terminal && tcgetpgrp(stdin()) == Ok(self.group) {
            let mut command = Command::new("sh");
            command.args(["-c", TAKE_TERMINAL]).arg(myself).stdout(Stdio::null()).stderr(Stdio::null());
            // Without it, an interactive shell takes the terminal by itself.
            let _ = command.status().await;
        }
    }
}

/// Until it is resumed.
pub struct StoppedJob<'a> {
    job: &'a mut TerminalJob,
    wants_terminal: bool,
}

impl StoppedJob<'_> {
    pub fn resume(self) {
        let StoppedJob { job, wants_terminal } = self;
        let is_mine = || tcgetpgrp(stdin()) == Ok(getpgrp());
        let has_it = wants_terminal && tcgetpgrp(stdin()) == Ok(job.group);
        if !(has_it || wants_terminal && is_mine()) && can_be_resumed() {
            // Returns when the shell has resumed this process.
            let _ = kill_current_process_group(Signal::STOP);
        }
        if (wants_terminal || job.has_had_terminal) && is_mine() {
            job.has_had_terminal |= tcsetpgrp(stdin(), job.group).is_ok();
        }
        // It may be gone already.
        let _ = kill_process_group(job.group, Signal::CONT);
    }
}

/// Whether a process of the same session is above this one: it may be a shell that resumes what is stopped.
fn can_be_resumed() -> bool {
    let session = |pid| getsid(pid).ok();
    getppid().and_then(|parent| session(Some(parent))).is_some_and(|above| session(None) == Some(above))
}
