//! The page of metrics, from the registries of the server and of its client ports.

use super::{code, table};

const HEAD: &str = "\
Served as OpenMetrics text at `/metrics` of every client port. Names that begin with `etcd_` and `grpc_` are etcd's, so that its \
dashboards and alerts work; those that begin with `althing_` are ours. [Monitoring](../operations/monitoring.md) says which to alert on.\n\n";

pub fn render() -> String {
    let mut metrics = server::metric_table();
    metrics.extend(api::reference::metric_table());
    metrics.sort();
    metrics.dedup();
    let rows = metrics.into_iter().map(|metric| [code(&metric.name), metric.kind, metric.help]);
    HEAD.to_owned() + &table(["metric", "type", "meaning"], rows)
}
