//! Metrics of the process under the names that Prometheus' own libraries use: processor time, memory, start.
//! They are read from `/proc` when metrics are asked for, and stay zero where the operating system has none.

use crate::registry::Registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::fs;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The unit of times in `/proc`, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// Behind the name of the process, which ends with a bracket.
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const START_TIME: usize = 19;
const VIRTUAL_BYTES: usize = 20;

#[derive(Default)]
pub(crate) struct ProcessMetrics {
    cpu_seconds: Counter<f64, AtomicU64>,
    start_seconds: Gauge<f64, AtomicU64>,
    virtual_bytes: Gauge,
    files_max: Gauge,
    /// Of all processes of the network namespace, as in Prometheus' own libraries: the kernel counts no others.
    received_bytes: Counter,
    sent_bytes: Counter,
}

impl ProcessMetrics {
    pub fn registered(registry: &mut Registry) -> ProcessMetrics {
        let metrics = ProcessMetrics::default();
        registry.register(
            "process_cpu_seconds",
            "Processor time of the process, in seconds",
            metrics.cpu_seconds.clone(),
        );
        registry.register(
            "process_start_time_seconds",
            "When the process started, in seconds since 1970",
            metrics.start_seconds.clone(),
        );
        registry.register(
            "process_virtual_memory_bytes",
            "Virtual memory of the process",
            metrics.virtual_bytes.clone(),
        );
        registry.register(
            "process_max_fds",
            "File descriptors that the process may open",
            metrics.files_max.clone(),
        );
        registry.register(
            "process_network_receive_bytes",
            "Bytes that the machine or container has received over IP",
            metrics.received_bytes.clone(),
        );
        registry.register(
            "process_network_transmit_bytes",
            "Bytes that the machine or container has sent over IP",
            metrics.sent_bytes.clone(),
        );
        metrics
    }

    pub fn read(&self) {
        let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<&str> =
            text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let number = |nth: usize| fields.get(nth).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        let used = (number(USER_TIME) + number(SYSTEM_TIME)) / TICKS_PER_SECOND;
        self.cpu_seconds.inc_by((used - self.cpu_seconds.get()).max(0.0));
        self.start_seconds.set(boot_seconds() + number(START_TIME) / TICKS_PER_SECOND);
        self.virtual_bytes.set(number(VIRTUAL_BYTES) as i64);
        self.files_max.set(super::super::files_max());
        let netstat = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
        for (counter, name) in [(&self.received_bytes, "InOctets"), (&self.sent_bytes, "OutOctets")] {
            counter.inner().store(ip_octets(&netstat, name).unwrap_or(0), Relaxed);
        }
    }
}

/// A line of names is followed by one of numbers, both for the protocol that they begin with.
fn ip_octets(netstat: &str, name: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let nth = names.split_whitespace().position(|found| found == name)?;
    numbers.split_whitespace().nth(nth)?.parse().ok()
}

fn boot_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|line| line.trim().parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_found_by_their_name() {
        let netstat =
            "TcpExt: InOctets A\nTcpExt: 5 6\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 1 22 333\n";
        assert_eq!(ip_octets(netstat, "InOctets"), Some(22));
        assert_eq!(ip_octets(netstat, "OutOctets"), Some(333));
        assert_eq!(ip_octets(netstat, "Elsewhere"), None);
        assert_eq!(ip_octets("", "InOctets"), None);
    }
}
