//! Progress of long work, on standard error: a bar on a terminal, a line now and then elsewhere.
//! Short work prints nothing. Of bytes the rate is told, and how long the rest takes at that rate.

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
    /// How many steps there are, if that is known.
    total: u64,
    on_terminal: bool,
    began: Instant,
    next: Instant,
    told: bool,
}

impl Progress {
    pub fn new(what: &'static str, unit: &'static str, total: u64) -> Progress {
        let on_terminal = std::io::stderr().is_terminal();
        let began = Instant::now();
        Progress { what, unit, total, on_terminal, began, next: began + SILENCE, told: false }
    }

    pub fn update(&mut self, done: u64) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + if self.on_terminal { ON_TERMINAL } else { ELSEWHERE };
        self.told = true;
        let (before, behind) = if self.on_terminal { ("\r", "") } else { ("", "\n") };
        let pace =
            if self.unit == "bytes" { pace(done, self.total, now - self.began) } else { String::new() };
        self.write(&format!("{before}{}{pace}{behind}", line(self.what, self.unit, done, self.total)));
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

fn pace(done: u64, total: u64, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    let left = total.saturating_sub(done) as f64 / rate.max(1.0);
    let rest = if total > 0 { format!(", {left:.0} s left") } else { String::new() };
    format!(", {:.1} MB/s{rest}", rate / 1e6)
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
        assert_eq!(pace(5_000_000, 20_000_000, Duration::from_secs(2)), ", 2.5 MB/s, 6 s left");
        assert_eq!(pace(0, 0, Duration::ZERO), ", 0.0 MB/s");
    }
}
