//! What lies under `deploy/`: its files are well formed, and name only settings, variables and metrics that exist. Linters
//! of others look at them where they are installed.

use crate::process::{Member, Plan, althing, until};
use saphyr_parser::{Event, Parser};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The words of a text that begin with a prefix and go on with letters, digits and underscores.
fn words<'a>(text: &'a str, prefix: &'a str) -> BTreeSet<&'a str> {
    let split = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.split(split).filter(|word| word.starts_with(prefix) && word.len() > prefix.len()).collect()
}

const YAML: [&str; 4] = [
    "deploy/compose/three-nodes.yaml",
    "deploy/compose/two-regions.yaml",
    "deploy/kubernetes/althing.yaml",
    "deploy/monitoring/alerts.yaml",
];

#[test]
fn every_metric_of_the_dashboard_and_of_the_alerts_exists() {
    let reference = read("docs/reference/metrics.md");
    let known: BTreeSet<&str> = ["althing_", "etcd_", "grpc_", "process_"]
        .iter()
        .flat_map(|prefix| words(&reference, prefix))
        .collect();
    for file in ["deploy/monitoring/alerts.yaml", "deploy/monitoring/grafana-dashboard.json"] {
        let text = read(file);
        let named = words(&text, "althing_").into_iter().chain(words(&text, "etcd_"));
        for name in named {
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let exists = known.contains(name) || of_histogram.is_some_and(|name| known.contains(name));
            assert!(exists, "{file} names {name}, which docs/reference/metrics.md does not list");
        }
    }
}

/// What the alerts and the dashboard of etcd's own mixin (contrib/mixin, 3.6) ask for, `up` aside.
const OF_ETCDS_MIXIN: [&str; 21] = [
    "etcd_disk_backend_commit_duration_seconds",
    "etcd_disk_wal_fsync_duration_seconds",
    "etcd_mvcc_db_total_size_in_bytes",
    "etcd_mvcc_db_total_size_in_use_in_bytes",
    "etcd_network_client_grpc_received_bytes_total",
    "etcd_network_client_grpc_sent_bytes_total",
    "etcd_network_peer_received_bytes_total",
    "etcd_network_peer_round_trip_time_seconds",
    "etcd_network_peer_sent_bytes_total",
    "etcd_network_peer_sent_failures_total",
    "etcd_server_has_leader",
    "etcd_server_leader_changes_seen_total",
    "etcd_server_proposals_applied_total",
    "etcd_server_proposals_committed_total",
    "etcd_server_proposals_failed_total",
    "etcd_server_proposals_pending",
    "etcd_server_quota_backend_bytes",
    "grpc_server_handled_total",
    "grpc_server_handling_seconds",
    "grpc_server_started_total",
    "process_resident_memory_bytes",
];

#[test]
fn every_metric_of_etcds_mixin_exists() {
    let reference = read("docs/reference/metrics.md");
    let known: BTreeSet<&str> =
        ["etcd_", "grpc_", "process_"].iter().flat_map(|prefix| words(&reference, prefix)).collect();
    for name in OF_ETCDS_MIXIN {
        assert!(known.contains(name), "{name}");
    }
}

#[test]
fn every_alert_is_explained() {
    let page = read("docs/operations/monitoring.md");
    let explained: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `Althing")?.split('`').next()).collect();
    let rules = read("deploy/monitoring/alerts.yaml");
    let alerts: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: Althing")).collect();
    assert_eq!(explained, alerts);
}

#[test]
fn every_variable_of_the_images_and_manifests_is_a_setting() {
    let settings = read("docs/reference/settings.md");
    let known = words(&settings, "ALTHING_");
    for file in YAML.iter().chain(&["deploy/docker/Dockerfile"]) {
        let text = read(file);
        for name in words(&text, "ALTHING_") {
            // The secret itself has no flag, so that no list of processes shows it.
            let exists = known.contains(name) || name == "ALTHING_CLUSTER_SECRET";
            assert!(exists, "{file} sets {name}, which docs/reference/settings.md does not list");
        }
    }
}

#[test]
fn documents_of_yaml_and_json_are_well_formed() {
    for file in YAML {
        let text = read(file);
        let mut n_scalars = 0;
        for event in Parser::new_from_str(&text) {
            let (event, _) = event.unwrap_or_else(|error| panic!("{file}: {error}"));
            n_scalars += usize::from(matches!(event, Event::Scalar(..)));
        }
        assert!(n_scalars > 10, "{file} has {n_scalars} values");
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("deploy/monitoring/grafana-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have one id");
}

#[test]
fn the_settings_of_the_unit_are_taken() {
    let file = root().join("deploy/systemd/althing.toml");
    let out = althing().args(["serve", "--print-config", "--config"]).arg(file).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8_lossy(&out.stdout).contains("/var/lib/althing"));
}

#[test]
fn the_service_manager_is_told_when_a_member_is_ready_and_when_it_stops() {
    let plan = Plan::single();
    let path = plan.dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let next = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("the member tells something");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let mut command = plan.command();
    let child = command.env("NOTIFY_SOCKET", &path).stderr(Stdio::null()).spawn().unwrap();
    let mut member = Member::from_child(child);
    assert_eq!(next(), "STATUS=Waiting for a leader");
    assert!(next().starts_with("READY=1\n"));
    assert_eq!(member.http("GET", "/health").status, 200, "a member that says it is ready serves");
    member.signal("TERM");
    assert!(next().starts_with("STOPPING=1\n"));
    until("the member has stopped", || (!member.is_running()).then_some(()));
}

/// Runs a linter of others; `None` where it is not installed, which is a failure if `ALTHING_REQUIRE_LINTERS` names it.
fn lint(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let Ok(out) = Command::new(program).args(arguments).arg(file).output() else {
        let required = std::env::var("ALTHING_REQUIRE_LINTERS").unwrap_or_default();
        let is_required = required.split_whitespace().any(|name| name == program);
        assert!(!is_required, "ALTHING_REQUIRE_LINTERS names {program}, which is not installed");
        let _ = writeln!(std::io::stderr(), "skipped: {program} is not installed");
        return None;
    };
    let said = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(out.status.success(), "{program} {}: {said}", file.display());
    Some(said)
}

#[test]
fn linters_of_others_have_no_complaint() {
    lint("promtool", &["check", "rules"], &root().join("deploy/monitoring/alerts.yaml"));
    // The package of the compiler image is pinned by its tag, so its tools need no version of their own.
    lint("hadolint", &["--ignore", "DL3008"], &root().join("deploy/docker/Dockerfile"));
    // The unit names the program where the package puts it; the check wants one that exists.
    let directory = tempfile::tempdir().unwrap();
    let unit = directory.path().join("althing.service");
    let text =
        read("deploy/systemd/althing.service").replace("/usr/bin/althing", env!("CARGO_BIN_EXE_althing"));
    std::fs::write(&unit, text).unwrap();
    lint("systemd-analyze", &["verify", "--man=no"], &unit);
}
