//! The registry of metrics, which keeps a table of what was registered beside the metrics themselves.
//! Prometheus' own registry tells only metrics that have a sample; the table has all of them, for the reference.

use prometheus_client::encoding::{EncodeMetric, text};
use prometheus_client::registry::Metric;

#[derive(Debug, Default)]
pub struct Registry {
    metrics: prometheus_client::registry::Registry,
    table: Vec<MetricDescription>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricDescription {
    /// As `/metrics` shows it, with the ending of counters.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    pub help: String,
}

impl Registry {
    pub fn register(&mut self, name: impl Into<String>, help: impl Into<String>, metric: impl Metric) {
        let (name, help) = (name.into(), help.into());
        let kind = EncodeMetric::metric_type(&metric).as_str().to_owned();
        let shown = if kind == "counter" { format!("{name}_total") } else { name.clone() };
        self.table.push(MetricDescription { name: shown, kind, help: help.clone() });
        self.metrics.register(name, help, metric);
    }

    pub fn table(&self) -> Vec<MetricDescription> {
        self.table.clone()
    }

    /// Appends the samples as text for Prometheus, without the mark of its end.
    pub fn append_to(&self, out: &mut String) {
        text::encode_registry(out, &self.metrics).expect("a string takes all text");
    }
}
