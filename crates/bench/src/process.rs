//! What server processes have cost so far, as the kernel counts it.
//! Process ids go in; processor time, memory and written bytes come out, summed. A process that is not there
//! is an error at the start and counts as nothing later.

use std::fs;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub cpu: Duration,
    pub rss_bytes: u64,
    /// Bytes that reached the storage layer.
    pub written_bytes: u64,
}

pub fn usage(pids: &[u32]) -> Option<Usage> {
    let mut sum = Usage::default();
    for pid in pids {
        let one = of_process(*pid)?;
        sum.cpu += one.cpu;
        sum.rss_bytes += one.rss_bytes;
        sum.written_bytes += one.written_bytes;
    }
    Some(sum)
}

fn of_process(pid: u32) -> Option<Usage> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let status = read("status")?;
    // Not readable for every user; then it counts as nothing.
    let io = read("io").unwrap_or_default();
    Some(Usage {
        cpu: cpu_time(&read("stat")?)?,
        rss_bytes: figure(&status, "VmRSS:").unwrap_or(0) * 1024,
        written_bytes: figure(&io, "write_bytes:").unwrap_or(0),
    })
}

/// User and system time. The name of the program may hold anything, so fields are counted behind it.
fn cpu_time(stat: &str) -> Option<Duration> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

fn figure(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_some_of_everything() {
        let usage = usage(&[std::process::id()]).expect("this process is there");
        assert!(usage.rss_bytes > 0);
    }

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0";
        assert_eq!(cpu_time(stat), Some(Duration::from_secs(2)));
        assert_eq!(cpu_time("nonsense"), None);
    }

    #[test]
    fn a_missing_process_is_an_error() {
        assert!(usage(&[u32::MAX]).is_none());
    }
}
