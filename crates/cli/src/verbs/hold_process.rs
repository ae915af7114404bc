//! `althing hold-process`: two small processes that `althing lock` starts so that its command dies with it, whatever ends
//! it. `exec` asks the kernel for a signal when its parent dies, where the kernel can, and becomes the command. `watch`
//! waits for the end of its parent on a pipe, and kills the command and its process group. Not for people.

use clap::{Args, Subcommand};
use rustix::process::{Pid, Signal, getppid, kill_process, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// As a shell reports a command that it did not find, or could not run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

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
        #[arg(long)]
        group: bool,
    },
}

impl HoldProcess {
    pub fn run(&self) -> Result<ExitCode, super::Error> {
        match &self.role {
            Role::Exec { parent, command } => Ok(ExitCode::from(become_command(*parent, command))),
            Role::Watch { pid, group } => {
                watch(*pid, *group);
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

/// A byte on standard input says that the command has ended; the end of the input without it, that the parent has died.
fn watch(pid: i32, group: bool) {
    let mut said = [0];
    let has_ended = std::io::stdin().read_exact(&mut said).is_ok();
    let Some(pid) = Pid::from_raw(pid).filter(|_| !has_ended) else { return };
    // It may be gone already.
    let _ = if group { kill_process_group(pid, Signal::KILL) } else { kill_process(pid, Signal::KILL) };
}
