//! Progress of long work, on standard error: a bar on a terminal, a line now and then elsewhere.
//! Short work prints nothing.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// No progress is printed before this.
const SILENCE: Duration = Duration::from_secs(1);
const ON_TERMINAL: Duration = Duration::from_millis(100);
const ELSEWHERE: Duration = Duration::from_secs(5);
const BAR_WIDTH: usize = 30;

pub struct Progress {
    what: &'static str,
    unit: &'static str,
    /// How many it takes, if that is known.
    total: u64,
    on_terminal: bool,
    next: Instant,
    told: bool,
}

impl Progress {
    pub fn new(what: &'static str, unit: &'static str, total: u64) -> Progress {
        let on_terminal = std::io::stderr().is_terminal();
        Progress { what, unit, total, on_terminal, next: Instant::now() + SILENCE, told: false }
    }

    pub fn tell(&mut self, done: u64) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + if self.on_terminal { ON_TERMINAL } else { ELSEWHERE };
        self.told = true;
        let (before, behind) = if self.on_terminal { ("\r", "") } else { ("", "\n") };
        self.write(&format!("{before}{}{behind}", line(self.what, self.unit, done, self.total)));
    }

    /// Leaves the terminal's line clean.
    pub fn end(&self) {
        if self.told && self.on_terminal {
            self.write("\n");
        }
    }

    fn write(&self, text: &str) {
        // Standard error may be closed.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

fn line(what: &str, unit: &str, done: u64, total: u64) -> String {
    if total == 0 {
        return format!("{what}: {done} {unit}");
    }
    let part = done.min(total) as f64 / total as f64;
    let filled = (part * BAR_WIDTH as f64) as usize;
    let bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR_WIDTH - filled));
    format!("{what} [{bar}] {:3.0} % ({done} of {total} {unit})", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_to_its_end_and_not_beyond() {
        assert!(line("saving", "bytes", 0, 10).contains("[..............................]   0 %"));
        assert!(line("saving", "bytes", 5, 10).contains("[###############...............]  50 %"));
        assert!(line("saving", "bytes", 11, 10).contains("[##############################] 100 %"));
        assert_eq!(line("copying", "keys", 7, 0), "copying: 7 keys");
    }
}
