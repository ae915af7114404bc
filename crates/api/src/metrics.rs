//! The metrics of this crate: calls by method and outcome, bytes on the client port, health checks.
//! The names are etcd's, so that its dashboards and alerts work. Every method of the API has its counters from
//! the start; counting is a map lookup and an addition.

mod client_versions;

use crate::ETCD_VERSION;
use crate::connections::Connections;
use crate::limits::ClientLimits;
use crate::serve::described;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use server::{DurationHistogram, MetricDescription, Registry};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tonic::Code;

type Labels = Vec<(&'static str, String)>;

pub struct ApiMetrics {
    registry: Registry,
    /// By path.
    methods: BTreeMap<String, Arc<MethodMetrics>>,
    pub traffic: Traffic,
    /// Calls that went from their connection straight to the core.
    pub fast_calls: Counter,
    pub versions: Arc<ClientVersions>,
    /// etcd's counters without the ending that ours would get.
    pub health_success: Gauge,
    pub health_failures: Gauge,
    check: Family<Labels, Gauge>,
    checks: Family<Labels, Counter>,
    certificates: Family<Labels, Gauge>,
    /// Shared by all client ports.
    pub connections: Arc<Connections>,
}

pub use client_versions::{ClientVersions, VERSION, VersionCache};

/// Bytes of all client connections, HTTP and what frames it included.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    pub received: Counter,
    pub sent: Counter,
}

/// The counters of one method.
#[derive(Debug)]
pub struct MethodMetrics {
    labels: Labels,
    has_request_stream: bool,
    has_response_stream: bool,
    started: Counter,
    received: Counter,
    sent: Counter,
    /// Only where it is configured.
    seconds: Option<Histogram>,
    /// Refused and carried out; of calls that etcd takes the time of.
    request: Option<[DurationHistogram; 2]>,
    handled: Family<Labels, Counter>,
    by_code: [OnceLock<Counter>; CODE_NAMES.len()],
}

/// As grpc-go spells them, by number.
pub const CODE_NAMES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// Every metric of the client ports, those without a sample included.
pub fn metric_table() -> Vec<MetricDescription> {
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect("compiled descriptors are sound");
    ApiMetrics::new(&pool, true, &ClientLimits::default()).registry.table()
}

/// What the ports of one process tell alike, whichever of them is asked.
#[derive(Clone)]
pub struct ClientMetrics(pub(crate) Arc<ApiMetrics>);

impl ClientMetrics {
    /// The duration of calls is observed if `timed`.
    pub fn new(timed: bool, limits: &ClientLimits) -> ClientMetrics {
        ClientMetrics(Arc::new(ApiMetrics::new(&described(), timed, limits)))
    }
}

impl ApiMetrics {
    /// With counters for every method that `pool` describes; the duration of calls is observed if `timed`.
    pub fn new(pool: &DescriptorPool, timed: bool, limits: &ClientLimits) -> ApiMetrics {
        let mut registry = Registry::default();
        limits.register(&mut registry);
        let calls = CallMetrics::registered(&mut registry, timed);
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let metrics = ApiMetrics {
            methods: methods.map(|method| MethodMetrics::new(&method, &calls)).collect(),
            traffic: Traffic::default(),
            fast_calls: Counter::default(),
            versions: Arc::default(),
            health_success: Gauge::default(),
            health_failures: Gauge::default(),
            check: Family::default(),
            checks: Family::default(),
            certificates: Family::default(),
            connections: limits.connections.clone(),
            registry: Registry::default(),
        };
        let counters = [
            (&metrics.traffic.received, "etcd_network_client_grpc_received_bytes", "Bytes from clients"),
            (&metrics.traffic.sent, "etcd_network_client_grpc_sent_bytes", "Bytes to clients"),
            (&metrics.fast_calls, "althing_grpc_fast_calls", "Calls that went straight to the core"),
        ];
        for (counter, name, help) in counters {
            registry.register(name, help, counter.clone());
        }
        let gauges = [
            (&metrics.health_success, "etcd_server_health_success", "Times that /health was well"),
            (&metrics.health_failures, "etcd_server_health_failures", "Times that /health was not well"),
        ];
        for (gauge, name, help) in gauges {
            registry.register(name, help, gauge.clone());
        }
        registry.register(
            "etcd_server_healthcheck",
            "The last outcome of each check: 1 is well",
            metrics.check.clone(),
        );
        registry.register("etcd_server_healthchecks", "Outcomes of each check", metrics.checks.clone());
        registry.register(
            "althing_certificate_expiry_seconds",
            "When the certificate that a port shows ends, in seconds since 1970",
            metrics.certificates.clone(),
        );
        registry.register(
            "etcd_server_client_requests",
            "Calls by the version that their client names",
            metrics.versions.requests.clone(),
        );
        registry.register("etcd_cluster_version", "The release whose API is spoken, as a label", cluster());
        ApiMetrics { registry, ..metrics }
    }

    /// The counters of the method at this path, if there is one.
    pub fn method(&self, path: &str) -> Option<Arc<MethodMetrics>> {
        self.methods.get(path).cloned()
    }

    /// A check of `/livez` or `/readyz` was made.
    pub fn count_check(&self, kind: &'static str, name: &'static str, well: bool) {
        let labels = |more: &[(&'static str, &str)]| -> Labels {
            let known = [("type", kind), ("name", name)];
            known.iter().chain(more).map(|(key, value)| (*key, (*value).to_owned())).collect()
        };
        let status = if well { "success" } else { "error" };
        self.check.get_or_create(&labels(&[])).set(i64::from(well));
        self.checks.get_or_create(&labels(&[("status", status)])).inc();
    }

    /// Adds them to a text for Prometheus, and ends it.
    /// When the certificate that a port shows ends, in seconds since 1970.
    pub fn set_expiry(&self, port: &'static str, expiry: Option<u64>) {
        if let Some(expiry) = expiry.and_then(|expiry| i64::try_from(expiry).ok()) {
            self.certificates.get_or_create(&vec![("port", port.to_owned())]).set(expiry);
        }
    }

    pub fn append_to(&self, out: &mut String) {
        self.registry.append_to(out);
        text::encode_eof(out).expect("a string takes all text");
    }
}

fn cluster() -> Family<Labels, Gauge> {
    let family = Family::<Labels, Gauge>::default();
    let minor = ETCD_VERSION.rsplit_once('.').map_or(ETCD_VERSION, |(minor, _)| minor);
    family.get_or_create(&vec![("cluster_version", minor.to_owned())]).set(1);
    family
}

type DurationFamily = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of all calls, by method.
#[derive(Default)]
struct CallMetrics {
    started: Family<Labels, Counter>,
    handled: Family<Labels, Counter>,
    received: Family<Labels, Counter>,
    sent: Family<Labels, Counter>,
    seconds: Option<DurationFamily>,
    requests: Option<RequestFamily>,
}

type RequestFamily = Family<Labels, DurationHistogram, fn() -> DurationHistogram>;

/// etcd's name for the kind of request that a call makes, for those that go through the log or read keys.
fn request_type(path: &str) -> Option<&'static str> {
    Some(match path {
        "/etcdserverpb.KV/Range" => "Range",
        "/etcdserverpb.KV/Put" => "Put",
        "/etcdserverpb.KV/DeleteRange" => "DeleteRange",
        "/etcdserverpb.KV/Txn" => "Txn",
        "/etcdserverpb.KV/Compact" => "Compaction",
        "/etcdserverpb.Lease/LeaseGrant" => "LeaseGrant",
        "/etcdserverpb.Lease/LeaseRevoke" => "LeaseRevoke",
        "/etcdserverpb.Maintenance/Alarm" => "Alarm",
        _ => return None,
    })
}

/// Prometheus' own choice, which etcd takes as it is.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

impl CallMetrics {
    fn registered(registry: &mut Registry, timed: bool) -> CallMetrics {
        let mut calls = CallMetrics::default();
        let families = [
            (&calls.started, "grpc_server_started", "Calls that began"),
            (&calls.handled, "grpc_server_handled", "Calls that ended, with their outcome"),
            (&calls.received, "grpc_server_msg_received", "Messages of calls from clients"),
            (&calls.sent, "grpc_server_msg_sent", "Messages of calls to clients"),
        ];
        for (family, name, help) in families {
            registry.register(name, help, family.clone());
        }
        if timed {
            let seconds: DurationFamily = Family::new_with_constructor(|| Histogram::new(SECONDS));
            registry.register("grpc_server_handling_seconds", "How long calls take", seconds.clone());
            calls.seconds = Some(seconds);
        }
        // As in etcd: from one millisecond, doubling, up to eight seconds.
        let requests: RequestFamily =
            Family::new_with_constructor(|| DurationHistogram::new(Duration::from_millis(1), 14));
        registry.register(
            "etcd_server_request_duration_seconds",
            "How long requests take, by their kind",
            requests.clone(),
        );
        calls.requests = Some(requests);
        calls
    }

    fn request_histograms(&self, kind: &'static str) -> [DurationHistogram; 2] {
        ["false", "true"].map(|success| {
            let labels = vec![("type", kind.to_owned()), ("success", success.to_owned())];
            let requests = self.requests.as_ref();
            requests.expect("registered before the methods").get_or_create(&labels).clone()
        })
    }
}

impl MethodMetrics {
    fn new(method: &MethodDescriptor, calls: &CallMetrics) -> (String, Arc<MethodMetrics>) {
        let service = method.parent_service().full_name();
        let (has_request_stream, has_response_stream) =
            (method.is_client_streaming(), method.is_server_streaming());
        let kind = match (has_request_stream, has_response_stream) {
            (false, false) => "unary",
            (true, false) => "client_stream",
            (false, true) => "server_stream",
            (true, true) => "bidi_stream",
        };
        let labels = vec![
            ("grpc_type", kind.to_owned()),
            ("grpc_service", service.to_owned()),
            ("grpc_method", method.name().to_owned()),
        ];
        let of = |family: &Family<Labels, Counter>| family.get_or_create(&labels).clone();
        let path = format!("/{service}/{}", method.name());
        let counters = MethodMetrics {
            has_request_stream,
            has_response_stream,
            started: of(&calls.started),
            received: of(&calls.received),
            sent: of(&calls.sent),
            seconds: calls.seconds.as_ref().map(|seconds| seconds.get_or_create(&labels).clone()),
            request: request_type(&path).map(|kind| calls.request_histograms(kind)),
            handled: calls.handled.clone(),
            by_code: Default::default(),
            labels,
        };
        (path, Arc::new(counters))
    }

    pub fn is_request_stream(&self) -> bool {
        self.has_request_stream
    }

    pub fn is_response_stream(&self) -> bool {
        self.has_response_stream
    }

    /// The service and the method.
    pub fn name(&self) -> String {
        let value = |label: &str| self.labels.iter().find(|(name, _)| *name == label).map(|(_, value)| value);
        let [service, method] =
            ["grpc_service", "grpc_method"].map(|label| value(label).map_or("", String::as_str));
        format!("{service}/{method}")
    }

    /// A call that is not asked by a stream begins with its one message.
    pub fn count_start(&self) {
        self.started.inc();
        if !self.has_request_stream {
            self.received.inc();
        }
    }

    /// As etcd tells calls apart.
    pub fn version_kind(&self) -> &'static str {
        if self.has_request_stream || self.has_response_stream { "stream" } else { "unary" }
    }

    pub fn count_received(&self, messages: u64) {
        self.received.inc_by(messages);
    }

    pub fn count_sent(&self, messages: u64) {
        self.sent.inc_by(messages);
    }

    /// A call that is not answered by a stream has one message if all is well.
    pub fn count_end(&self, code: Code, begun: Instant) {
        let counter = self.by_code[code as usize].get_or_init(|| {
            let mut labels = self.labels.clone();
            labels.push(("grpc_code", CODE_NAMES[code as usize].to_owned()));
            self.handled.get_or_create(&labels).clone()
        });
        counter.inc();
        if code == Code::Ok && !self.has_response_stream {
            self.sent.inc();
        }
        if let Some(seconds) = &self.seconds {
            seconds.observe(begun.elapsed().as_secs_f64());
        }
        if let Some(request) = &self.request {
            request[usize::from(code == Code::Ok)].observe(begun.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> ApiMetrics {
        ApiMetrics::new(&DescriptorPool::decode(proto::DESCRIPTORS).unwrap(), true, &ClientLimits::default())
    }

    fn text(metrics: &ApiMetrics) -> String {
        let mut text = String::new();
        metrics.append_to(&mut text);
        text
    }

    #[test]
    fn calls_are_counted_by_method_and_outcome() {
        let metrics = metrics();
        let range = metrics.method("/etcdserverpb.KV/Range").unwrap();
        range.count_start();
        range.count_end(Code::Ok, Instant::now());
        range.count_end(Code::OutOfRange, Instant::now());
        let stream = metrics.method("/grpc.health.v1.Health/Watch").unwrap();
        stream.count_end(Code::Cancelled, Instant::now());
        stream.count_sent(3);
        let text = text(&metrics);
        for line in [
            r#"grpc_server_started_total{grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Range"} 1"#,
            r#"grpc_server_handled_total{grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Range",grpc_code="OutOfRange"} 1"#,
            r#"grpc_service="grpc.health.v1.Health",grpc_method="Watch",grpc_code="Canceled"} 1"#,
            r#"grpc_server_msg_received_total{grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Range"} 1"#,
            r#"grpc_server_msg_sent_total{grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Range"} 1"#,
            r#"grpc_server_msg_sent_total{grpc_type="server_stream",grpc_service="grpc.health.v1.Health",grpc_method="Watch"} 3"#,
            r#"grpc_server_handling_seconds_count{grpc_type="unary",grpc_service="etcdserverpb.KV",grpc_method="Range"} 2"#,
            r#"etcd_cluster_version{cluster_version="3.7"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing from {text}");
        }
        assert!(text.ends_with("# EOF\n"));
        assert!(metrics.method("/etcdserverpb.KV/Nothing").is_none());
    }

    #[test]
    fn the_last_outcome_of_a_check_is_shown_beside_the_counts() {
        let metrics = metrics();
        metrics.count_check("readyz", "linearizable_read", true);
        metrics.count_check("readyz", "linearizable_read", false);
        let text = text(&metrics);
        for line in [
            r#"etcd_server_healthcheck{type="readyz",name="linearizable_read"} 0"#,
            r#"etcd_server_healthchecks_total{type="readyz",name="linearizable_read",status="error"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing from {text}");
        }
    }
}
