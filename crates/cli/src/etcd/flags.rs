//! Every flag of etcd 3.4 to 3.7, with its treatment here.
//! A flag is honoured, accepted without effect, or refused because a user must not rely on it. The
//! table in COMPAT.md has the same rows.

/// The treatment of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagTreatment {
    Honoured,
    /// Accepted; the text says why it needs no effect.
    NoEffect(&'static str),
    /// Refused unless it is given empty, `false` or `off`; the text says what to do.
    Refused(&'static str),
}

/// How a flag takes its value, after Go's `flag` package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// May stand alone, and takes a value only behind an equal sign.
    Switch,
    Value,
}

#[derive(Clone, Copy, Debug)]
pub struct Flag {
    pub name: &'static str,
    pub shape: Shape,
    pub treatment: FlagTreatment,
}

impl Flag {
    pub fn find(name: &str) -> Option<&'static Flag> {
        TABLE.iter().find(|flag| flag.name == name)
    }

    /// The variable of the environment that sets it.
    pub fn variable(&self) -> String {
        format!("ETCD_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

/// Flags that come and go between releases; one of them that is not in the table is accepted without effect.
pub const EXPERIMENTAL: &str = "experimental-";

const NAMES: FlagTreatment = FlagTreatment::Refused("a client's certificate is believed by who signed it");
const ONE_PEER_CERTIFICATE: FlagTreatment = FlagTreatment::Refused(
    "a member shows one certificate to its peers, good for both ends: give it as --peer-cert-file",
);
const DISCOVERY: FlagTreatment =
    FlagTreatment::Refused("discovery services are not asked; list the members in --initial-cluster");
const UNASKED: FlagTreatment = FlagTreatment::NoEffect("discovery services are not asked");
const V2: FlagTreatment = FlagTreatment::NoEffect("the v2 API is not served");
const OTHER_STORE: FlagTreatment = FlagTreatment::NoEffect("the storage engine is another one");
const WATCHED: FlagTreatment = FlagTreatment::NoEffect("there is nothing here that it would set");
const DIALS_NOTHING: FlagTreatment =
    FlagTreatment::NoEffect("the JSON gateway is part of the member and does not dial it");
const TRACING: FlagTreatment = FlagTreatment::NoEffect("distributed tracing is not exported");

const fn switch(name: &'static str, treatment: FlagTreatment) -> Flag {
    Flag { name, shape: Shape::Switch, treatment }
}

const fn value(name: &'static str, treatment: FlagTreatment) -> Flag {
    Flag { name, shape: Shape::Value, treatment }
}

use FlagTreatment::{Honoured, NoEffect, Refused};

pub static TABLE: &[Flag] = &[
    // Member
    value("name", Honoured),
    value("data-dir", Honoured),
    value("listen-client-urls", Honoured),
    value("listen-client-http-urls", Honoured),
    value("listen-peer-urls", Honoured),
    value("heartbeat-interval", Honoured),
    value("election-timeout", Honoured),
    value("max-request-bytes", Honoured),
    value("max-txn-ops", Honoured),
    value("snapshot-count", NoEffect("the log is cut as soon as the store holds what it says")),
    value("quota-backend-bytes", Honoured),
    value("wal-dir", NoEffect("the log is kept in the data directory")),
    value("max-snapshots", OTHER_STORE),
    value("max-wals", OTHER_STORE),
    value("max-concurrent-streams", NoEffect("4096 streams a connection")),
    value("backend-bbolt-freelist-type", OTHER_STORE),
    value("backend-batch-interval", OTHER_STORE),
    value("backend-batch-limit", OTHER_STORE),
    value("grpc-keepalive-min-time", NoEffect("frequent pings are answered")),
    value("grpc-keepalive-interval", NoEffect("a ping every 30 seconds")),
    value("grpc-keepalive-timeout", NoEffect("a ping is waited for 20 seconds")),
    value("raft-read-timeout", NoEffect("a peer that is silent is dropped after its pings fail")),
    value("raft-write-timeout", NoEffect("a peer that takes nothing is dropped after its pings fail")),
    switch("initial-election-tick-advance", WATCHED),
    switch("socket-reuse-port", WATCHED),
    switch("socket-reuse-address", WATCHED),
    switch("unsafe-no-fsync", NoEffect("every write is synced")),
    switch("force-new-cluster", Honoured),
    // Clustering
    value("initial-advertise-peer-urls", Honoured),
    value("initial-cluster", Honoured),
    value("initial-cluster-token", Honoured),
    value("initial-cluster-state", Honoured),
    value("advertise-client-urls", Honoured),
    switch("pre-vote", NoEffect("candidates always ask first")),
    switch("strict-reconfig-check", Honoured),
    value("auto-compaction-mode", Honoured),
    value("auto-compaction-retention", Honoured),
    value("discovery", DISCOVERY),
    value("discovery-fallback", UNASKED),
    value("discovery-proxy", DISCOVERY),
    value("discovery-srv", DISCOVERY),
    value("discovery-srv-name", DISCOVERY),
    value("discovery-endpoints", DISCOVERY),
    value("discovery-token", DISCOVERY),
    value("discovery-dial-timeout", UNASKED),
    value("discovery-request-timeout", UNASKED),
    value("discovery-keepalive-time", UNASKED),
    value("discovery-keepalive-timeout", UNASKED),
    switch("discovery-insecure-transport", UNASKED),
    switch("discovery-insecure-skip-tls-verify", UNASKED),
    value("discovery-cert", UNASKED),
    value("discovery-key", UNASKED),
    value("discovery-cacert", UNASKED),
    value("discovery-user", UNASKED),
    value("discovery-password", UNASKED),
    switch("enable-v2", V2),
    value("v2-deprecation", V2),
    value("proxy", Refused("this is a member, not a proxy")),
    value("proxy-failure-wait", V2),
    value("proxy-refresh-interval", V2),
    value("proxy-dial-timeout", V2),
    value("proxy-write-timeout", V2),
    value("proxy-read-timeout", V2),
    value("config-file", Honoured),
    value("feature-gates", WATCHED),
    // Security
    value("cert-file", Honoured),
    value("key-file", Honoured),
    value("client-cert-file", DIALS_NOTHING),
    value("client-key-file", DIALS_NOTHING),
    switch("client-cert-auth", Honoured),
    value("client-crl-file", Honoured),
    value("client-cert-allowed-hostname", NAMES),
    value("trusted-ca-file", Honoured),
    switch("auto-tls", Honoured),
    value("peer-cert-file", Honoured),
    value("peer-key-file", Honoured),
    value("peer-client-cert-file", ONE_PEER_CERTIFICATE),
    value("peer-client-key-file", ONE_PEER_CERTIFICATE),
    switch("peer-client-cert-auth", Honoured),
    value("peer-trusted-ca-file", Honoured),
    value("peer-cert-allowed-cn", Honoured),
    value("peer-cert-allowed-hostname", Honoured),
    switch("peer-auto-tls", Honoured),
    value("peer-crl-file", Honoured),
    switch("peer-skip-client-san-verification", NoEffect("where a connection comes from is not looked up")),
    value("self-signed-cert-validity", Honoured),
    value("cipher-suites", NoEffect("no weak ones are spoken")),
    value("tls-min-version", Honoured),
    value("tls-max-version", Honoured),
    value("cors", Honoured),
    value("host-whitelist", Honoured),
    value("auth-token", Honoured),
    value("auth-token-ttl", Honoured),
    value("bcrypt-cost", Honoured),
    // Logging and monitoring
    value("log-level", Honoured),
    value("log-outputs", Honoured),
    value("log-output", Honoured),
    value("logger", NoEffect("there is one logger")),
    value("log-format", Honoured),
    switch("enable-log-rotation", Honoured),
    value("log-rotation-config-json", Honoured),
    switch("debug", Honoured),
    value("log-package-levels", WATCHED),
    value("listen-metrics-urls", Honoured),
    value("metrics", Honoured),
    switch("enable-pprof", NoEffect("profiles are taken from outside, by `perf`")),
    switch("enable-grpc-gateway", NoEffect("the JSON gateway is always served")),
    switch("enable-distributed-tracing", TRACING),
    value("distributed-tracing-address", TRACING),
    value("distributed-tracing-service-name", TRACING),
    value("distributed-tracing-instance-id", TRACING),
    value("distributed-tracing-sampling-rate", TRACING),
    switch("experimental-enable-distributed-tracing", TRACING),
    // Former experiments, under both names where a release renamed them
    value("snapshot-catchup-entries", Honoured),
    value("experimental-snapshot-catchup-entries", Honoured),
    switch("experimental-initial-corrupt-check", WATCHED),
    switch("experimental-compact-hash-check-enabled", WATCHED),
    switch("experimental-enable-lease-checkpoint", WATCHED),
    switch("experimental-enable-lease-checkpoint-persist", WATCHED),
    switch("experimental-peer-skip-client-san-verification", WATCHED),
    switch("experimental-txn-mode-write-with-shared-buffer", WATCHED),
    switch("experimental-memory-mlock", WATCHED),
    switch("experimental-stop-grpc-service-on-defrag", WATCHED),
    value("corrupt-check-time", WATCHED),
    value("compact-hash-check-time", WATCHED),
    value("compaction-batch-limit", WATCHED),
    value("compaction-sleep-interval", WATCHED),
    value("watch-progress-notify-interval", Honoured),
    value("experimental-watch-progress-notify-interval", Honoured),
    value("warning-apply-duration", WATCHED),
    value("warning-unary-request-duration", WATCHED),
    value("downgrade-check-time", WATCHED),
    value("bootstrap-defrag-threshold-megabytes", OTHER_STORE),
    value("max-learners", WATCHED),
    switch("memory-mlock", WATCHED),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_flag_has_two_rows() {
        let names: BTreeSet<&str> = TABLE.iter().map(|flag| flag.name).collect();
        assert_eq!(names.len(), TABLE.len());
    }

    /// What `etcd --help` of 3.7.1 lists, besides `--config-file`.
    const FLAGS_OF_3_7: &[&str] = &[
        "advertise-client-urls",
        "auth-token",
        "auth-token-ttl",
        "auto-compaction-mode",
        "auto-compaction-retention",
        "auto-tls",
        "backend-batch-interval",
        "backend-batch-limit",
        "backend-bbolt-freelist-type",
        "bcrypt-cost",
        "bootstrap-defrag-threshold-megabytes",
        "cert-file",
        "cipher-suites",
        "client-cert-allowed-hostname",
        "client-cert-auth",
        "client-cert-file",
        "client-crl-file",
        "client-key-file",
        "compact-hash-check-time",
        "compaction-batch-limit",
        "compaction-sleep-interval",
        "corrupt-check-time",
        "cors",
        "data-dir",
        "discovery",
        "discovery-cacert",
        "discovery-cert",
        "discovery-dial-timeout",
        "discovery-endpoints",
        "discovery-fallback",
        "discovery-insecure-skip-tls-verify",
        "discovery-insecure-transport",
        "discovery-keepalive-time",
        "discovery-keepalive-timeout",
        "discovery-key",
        "discovery-password",
        "discovery-proxy",
        "discovery-request-timeout",
        "discovery-srv",
        "discovery-srv-name",
        "discovery-token",
        "discovery-user",
        "distributed-tracing-address",
        "distributed-tracing-instance-id",
        "distributed-tracing-sampling-rate",
        "distributed-tracing-service-name",
        "downgrade-check-time",
        "election-timeout",
        "enable-distributed-tracing",
        "enable-grpc-gateway",
        "enable-log-rotation",
        "enable-pprof",
        "feature-gates",
        "force-new-cluster",
        "grpc-keepalive-interval",
        "grpc-keepalive-min-time",
        "grpc-keepalive-timeout",
        "heartbeat-interval",
        "host-whitelist",
        "initial-advertise-peer-urls",
        "initial-cluster",
        "initial-cluster-state",
        "initial-cluster-token",
        "initial-election-tick-advance",
        "key-file",
        "listen-client-http-urls",
        "listen-client-urls",
        "listen-metrics-urls",
        "listen-peer-urls",
        "log-format",
        "log-level",
        "log-outputs",
        "log-rotation-config-json",
        "logger",
        "max-concurrent-streams",
        "max-learners",
        "max-request-bytes",
        "max-snapshots",
        "max-txn-ops",
        "max-wals",
        "memory-mlock",
        "metrics",
        "name",
        "peer-auto-tls",
        "peer-cert-allowed-cn",
        "peer-cert-allowed-hostname",
        "peer-cert-file",
        "peer-client-cert-auth",
        "peer-client-cert-file",
        "peer-client-key-file",
        "peer-crl-file",
        "peer-key-file",
        "peer-skip-client-san-verification",
        "peer-trusted-ca-file",
        "pre-vote",
        "quota-backend-bytes",
        "raft-read-timeout",
        "raft-write-timeout",
        "self-signed-cert-validity",
        "snapshot-catchup-entries",
        "snapshot-count",
        "socket-reuse-address",
        "socket-reuse-port",
        "strict-reconfig-check",
        "tls-max-version",
        "tls-min-version",
        "trusted-ca-file",
        "unsafe-no-fsync",
        "v2-deprecation",
        "wal-dir",
        "warning-apply-duration",
        "warning-unary-request-duration",
        "watch-progress-notify-interval",
    ];

    #[test]
    fn every_flag_of_etcd_3_7_is_in_the_table() {
        let unknown: Vec<_> = FLAGS_OF_3_7.iter().filter(|name| Flag::find(name).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn the_compatibility_page_has_a_row_for_every_flag() {
        let page = include_str!("../../../../COMPAT.md");
        for flag in TABLE {
            assert!(page.contains(&format!("`--{}`", flag.name)), "COMPAT.md has no --{}", flag.name);
        }
    }
}
