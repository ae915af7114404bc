//! The result of a run, for people and for programs.
//! Measurements go in; a table or one JSON object comes out. What was not measured is left out of the one and null
//! in the other.

use crate::process::Usage;
use crate::stats::Stats;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

pub struct Report {
    pub load: String,
    pub stats: Stats,
    pub took: Duration,
    /// What the servers had used before and after.
    pub usage: Option<(Usage, Usage)>,
    /// Events that watchers got, when that is what is counted.
    pub events: Option<u64>,
}

impl Report {
    pub fn ops(&self) -> u64 {
        self.events.unwrap_or_else(|| self.stats.latencies.count())
    }

    fn ops_per_s(&self) -> f64 {
        self.ops() as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }

    fn cpu_us_per_op(&self) -> Option<f64> {
        let (before, after) = self.usage?;
        Some(after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / self.ops().max(1) as f64)
    }

    fn written_bytes_per_op(&self) -> Option<f64> {
        let (before, after) = self.usage?;
        Some(after.written_bytes.saturating_sub(before.written_bytes) as f64 / self.ops().max(1) as f64)
    }

    pub fn to_json(&self) -> Value {
        let quantile = |fraction| rounded(millis(self.stats.latencies.quantile(fraction)));
        json!({
            "load": self.load,
            "ops": self.ops(),
            "seconds": rounded(self.took.as_secs_f64()),
            "ops_per_s": rounded(self.ops_per_s()),
            "p50_ms": quantile(0.5),
            "p90_ms": quantile(0.9),
            "p99_ms": quantile(0.99),
            "p999_ms": quantile(0.999),
            "max_ms": rounded(millis(self.stats.latencies.max())),
            "errors": self.stats.errors,
            "first_error": self.stats.first_error,
            "server_cpu_us_per_op": self.cpu_us_per_op().map(rounded),
            "rss_mb": self.usage.map(|(_, after)| rounded(after.rss_bytes as f64 / 1e6)),
            "written_bytes_per_op": self.written_bytes_per_op().map(rounded),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, value: String| writeln!(f, "{name:<22}{value}");
        let quantile = |fraction| format!("{:.3} ms", millis(self.stats.latencies.quantile(fraction)));
        line(f, "load", self.load.clone())?;
        line(f, "operations", format!("{} in {:.2} s", self.ops(), self.took.as_secs_f64()))?;
        line(f, "throughput", format!("{:.0}/s", self.ops_per_s()))?;
        for (name, fraction) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
            line(f, name, quantile(fraction))?;
        }
        line(f, "max", format!("{:.3} ms", millis(self.stats.latencies.max())))?;
        if let (Some(cpu), Some(written), Some((_, after))) =
            (self.cpu_us_per_op(), self.written_bytes_per_op(), self.usage)
        {
            line(f, "server CPU", format!("{cpu:.2} µs per operation"))?;
            line(f, "server memory", format!("{:.0} MB resident", after.rss_bytes as f64 / 1e6))?;
            line(f, "server writes", format!("{written:.0} bytes per operation"))?;
        }
        line(f, "errors", self.stats.errors.to_string())?;
        if let Some(error) = &self.stats.first_error {
            line(f, "first error", error.clone())?;
        }
        Ok(())
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Three digits after the point are more than the precision of any of these numbers.
fn rounded(figure: f64) -> f64 {
    (figure * 1e3).round() / 1e3
}
