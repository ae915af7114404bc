//! The figures of one run, as the load generator prints them.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurements {
    pub ops_per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    pub cpu_us: f64,
    pub rss_mb: f64,
    pub errors: f64,
}

impl Measurements {
    /// From one JSON object on one line, of which only numbers are looked at.
    pub fn parse(json: &str) -> Option<Measurements> {
        Some(Measurements {
            ops_per_s: number(json, "ops_per_s")?,
            p50_ms: number(json, "p50_ms")?,
            p99_ms: number(json, "p99_ms")?,
            max_ms: number(json, "max_ms")?,
            cpu_us: number(json, "server_cpu_us_per_op")?,
            rss_mb: number(json, "rss_mb")?,
            errors: number(json, "errors")?,
        })
    }

    /// Of each figure the median.
    pub fn median(rounds: &[Measurements]) -> Measurements {
        let median = |of: fn(&Measurements) -> f64| {
            let mut all: Vec<f64> = rounds.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        Measurements {
            ops_per_s: median(|figures| figures.ops_per_s),
            p50_ms: median(|figures| figures.p50_ms),
            p99_ms: median(|figures| figures.p99_ms),
            max_ms: median(|figures| figures.max_ms),
            cpu_us: median(|figures| figures.cpu_us),
            rss_mb: median(|figures| figures.rss_mb),
            errors: rounds.iter().map(|figures| figures.errors).sum(),
        }
    }
}

/// One number of an object.
pub fn number(json: &str, name: &str) -> Option<f64> {
    let rest = json.split_once(&format!("\"{name}\":"))?.1;
    let end = rest.find([',', '}'])?;
    rest[..end].trim().parse().ok()
}

impl fmt::Display for Measurements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measurements { ops_per_s, p50_ms, p99_ms, cpu_us, rss_mb, errors, .. } = self;
        write!(
            f,
            "{ops_per_s:.0}/s, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, {cpu_us:.2} µs CPU, {rss_mb:.0} MB"
        )?;
        if *errors > 0.0 { write!(f, ", {errors} errors") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_generators_line() {
        let line = r#"{"errors":0,"max_ms":9.5,"ops_per_s":12.5,"p50_ms":1,"p99_ms":2.25,"rss_mb":7,"server_cpu_us_per_op":3.5}"#;
        let figures = Measurements::parse(line).expect("whole");
        assert_eq!((figures.ops_per_s, figures.p99_ms, figures.cpu_us), (12.5, 2.25, 3.5));
        assert_eq!(Measurements::parse("{}"), None);
    }

    #[test]
    fn of_rounds_the_median_counts_and_errors_add_up() {
        let of = |speed, errors| Measurements {
            ops_per_s: speed,
            errors,
            ..Measurements::parse(LINE).expect("whole")
        };
        let median = Measurements::median(&[of(1.0, 1.0), of(9.0, 0.0), of(5.0, 2.0)]);
        assert_eq!((median.ops_per_s, median.errors), (5.0, 3.0));
    }

    const LINE: &str =
        r#"{"errors":0,"max_ms":0,"ops_per_s":0,"p50_ms":0,"p99_ms":0,"rss_mb":0,"server_cpu_us_per_op":0}"#;
}
