//! A terminal for what asks a person.

use crate::process::{Member, PATIENCE, althing};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A terminal, and a user who types at it.
pub struct Terminal {
    keys: File,
    screen: Receiver<u8>,
    pub shown: String,
    place: String,
}

impl Terminal {
    pub fn open() -> Terminal {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let place = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
        let keys = File::from(keys);
        let mut reader = keys.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while reader.read_exact(&mut byte).is_ok() && sender.send(byte[0]).is_ok() {}
        });
        Terminal { keys, screen, shown: String::new(), place }
    }

    pub fn line(&self) -> File {
        File::options().read(true).write(true).open(&self.place).unwrap()
    }

    pub fn run(&self, member: &Member, args: &[&str]) -> Child {
        let mut command = althing();
        command.args(args).args(["--endpoints", &member.client.to_string()]);
        command.stdin(self.line()).stderr(self.line()).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Waits until these words are shown, again if they were shown before.
    pub fn wait_for(&mut self, words: &str) {
        let before = self.shown.len();
        while !self.shown[before..].ends_with(words) {
            let byte = self.screen.recv_timeout(PATIENCE);
            self.shown.push(byte.unwrap_or_else(|_| panic!("{words} is not in {}", self.shown)).into());
        }
    }

    pub fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}
