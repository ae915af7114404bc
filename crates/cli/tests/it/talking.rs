//! A process that runs until it is stopped, and what it says meanwhile.

use crate::process::until;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus};

pub struct Talking {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Talking {
    /// One whose standard output is a pipe.
    pub fn of(mut child: Child) -> Talking {
        let lines = BufReader::new(child.stdout.take().unwrap());
        Talking { child, lines }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended without a word");
        line.trim_end().to_owned()
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// How it ends by itself, and the rest of what it says on standard error.
    pub fn ending(&mut self) -> (ExitStatus, String) {
        let status = until("the process ends", || self.child.try_wait().unwrap());
        let mut told = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut told).unwrap();
        }
        (status, told)
    }

    /// As a user ends it: it gives back what it has.
    pub fn interrupt(mut self) {
        self.signal("INT");
        self.child.wait().unwrap();
    }
}

impl Drop for Talking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
