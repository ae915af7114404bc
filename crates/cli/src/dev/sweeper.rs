//! A small process that ends what `althing dev` leaves behind when it is killed: members, and the directory that was to be
//! temporary. It is told of each member that starts and ends, on a pipe; when the pipe ends, it acts (`hold-process sweep`).

use rustix::process::Pid;
use std::io::{Result, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

pub struct Sweeper {
    process: Child,
    input: Mutex<ChildStdin>,
}

impl Sweeper {
    /// In a process group of its own, so that Ctrl-C does not reach it.
    pub fn start(temporary: Option<&Path>) -> Result<Sweeper> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["hold-process", "sweep"]);
        if let Some(dir) = temporary {
            command.arg("--dir").arg(dir);
        }
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let input = process.stdin.take().expect("its standard input is a pipe");
        Ok(Sweeper { process, input: Mutex::new(input) })
    }

    /// The member leads a process group.
    pub fn note_start(&self, member: Pid) {
        self.note(member.as_raw_nonzero().get());
    }

    pub fn note_end(&self, member: Pid) {
        self.note(-member.as_raw_nonzero().get());
    }

    fn note(&self, number: i32) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        // Without it the kernel ends the members, where it can.
        let _ = input.write_all(format!("{number}\n").as_bytes());
    }
}

impl Drop for Sweeper {
    /// This process cleans up by itself.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
