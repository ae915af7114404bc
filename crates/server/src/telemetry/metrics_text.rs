//! The text that `/metrics` answers with, taken apart again: samples by the name of their metric.
//! Samples of the past are the same values that Prometheus would keep, so that a chart and a dashboard agree.

use std::collections::BTreeMap;

/// A sample: its labels as they are written, and its value.
type LabelledSample<'a> = (&'a str, f64);

#[derive(Default)]
pub struct MetricsText<'a> {
    by_name: BTreeMap<&'a str, Vec<LabelledSample<'a>>>,
}

/// The buckets of a histogram, summed over its labels: upper bound and how many were not above it.
pub type Buckets = Vec<(f64, f64)>;

impl<'a> MetricsText<'a> {
    pub fn parse(text: &'a str) -> MetricsText<'a> {
        let mut by_name: BTreeMap<&str, Vec<LabelledSample<'_>>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse() else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            by_name.entry(name).or_default().push((labels.trim_end_matches('}'), value));
        }
        MetricsText { by_name }
    }

    pub fn samples(&self, name: &str) -> &[LabelledSample<'a>] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Over all labels that pass.
    pub fn sum(&self, name: &str, wanted: impl Fn(&str) -> bool) -> f64 {
        self.samples(name).iter().filter(|(labels, _)| wanted(labels)).map(|(_, value)| value).sum()
    }

    pub fn max(&self, name: &str) -> f64 {
        self.samples(name).iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }

    pub fn buckets(&self, name: &str) -> Buckets {
        let mut buckets: Buckets = Vec::new();
        for (labels, count) in self.samples(&format!("{name}_bucket")) {
            let bound =
                label(labels, "le").map_or(f64::INFINITY, |bound| bound.parse().unwrap_or(f64::INFINITY));
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, sum)) => *sum += count,
                None => buckets.push((bound, *count)),
            }
        }
        buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
        buckets
    }
}

/// The value of one label.
pub fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = labels.split(',');
    let value = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix("=\""))?;
    value.strip_suffix('"')
}

/// The bound that `share` of what came between two readings did not exceed; none if nothing came.
pub fn quantile(before: &Buckets, now: &Buckets, share: f64) -> Option<f64> {
    let earlier =
        |bound: f64| before.iter().find(|(known, _)| *known == bound).map_or(0.0, |(_, count)| *count);
    let came: Vec<(f64, f64)> = now.iter().map(|(bound, count)| (*bound, count - earlier(*bound))).collect();
    let total = came.last().map_or(0.0, |(_, count)| *count);
    if total <= 0.0 {
        return None;
    }
    let mut below = (0.0, 0.0);
    for (bound, count) in came {
        if count >= share * total {
            if bound.is_infinite() {
                return Some(below.0);
            }
            // As Prometheus does: evenly spread within the bucket.
            let inside = (share * total - below.1) / (count - below.1).max(f64::MIN_POSITIVE);
            return Some(below.0 + (bound - below.0) * inside);
        }
        below = (bound, count);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP x A counter\n# TYPE x counter\nx_total{kind=\"read\",outcome=\"done\"} 3\n\
        x_total{kind=\"write\",outcome=\"done\"} 4\ny 2.5\nz_bucket{le=\"0.001\",To=\"a\"} 1\n\
        z_bucket{le=\"0.002\",To=\"a\"} 3\nz_bucket{le=\"+Inf\",To=\"a\"} 4\nz_bucket{le=\"0.001\",To=\"b\"} 1\n";

    #[test]
    fn samples_are_found_by_name_and_label() {
        let metrics = MetricsText::parse(TEXT);
        assert_eq!(metrics.sum("x_total", |_| true), 7.0);
        assert_eq!(metrics.sum("x_total", |labels| label(labels, "kind") == Some("read")), 3.0);
        assert_eq!((metrics.max("y"), metrics.max("absent")), (2.5, 0.0));
        assert_eq!(metrics.buckets("z"), [(0.001, 2.0), (0.002, 3.0), (f64::INFINITY, 4.0)]);
    }

    #[test]
    fn a_quantile_is_of_what_came_since_and_lies_within_its_bucket() {
        let before = vec![(1.0, 10.0), (2.0, 10.0), (f64::INFINITY, 10.0)];
        let now = vec![(1.0, 10.0), (2.0, 20.0), (f64::INFINITY, 20.0)];
        assert_eq!(quantile(&before, &now, 0.5), Some(1.5));
        assert_eq!(quantile(&now, &now, 0.5), None, "nothing came");
        let slow = vec![(1.0, 10.0), (2.0, 10.0), (f64::INFINITY, 11.0)];
        assert_eq!(quantile(&before, &slow, 0.99), Some(2.0), "the last bound is all that is known");
    }
}
