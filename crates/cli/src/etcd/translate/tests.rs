use super::*;
use crate::etcd::line::{self, Line};

fn translated(line: &str) -> Result<Checked, Problems> {
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    match line::read(&args, &|_| None) {
        Ok(Line::Flags(given)) => translate(&given),
        _ => panic!("the line has flags"),
    }
}

fn problems(line: &str) -> String {
    translated(line).map(|_| ()).unwrap_err().0.join("\n")
}

#[test]
fn with_no_flags_the_defaults_are_those_of_etcd() {
    let checked = translated("").unwrap();
    let config = checked.config;
    assert_eq!(config.name, "default");
    assert_eq!(config.data_dir.to_str(), Some("default.etcd"));
    assert_eq!(config.client_addr.to_string(), "127.0.0.1:2379");
    assert_eq!(config.peer_addr.to_string(), "127.0.0.1:2380");
    assert_eq!(config.cluster_token, "etcd-cluster");
    assert_eq!(config.request_timeout.as_millis(), 7_000);
    assert_eq!((config.request_bytes_max, config.txn_ops_max), (1_572_864, 128));
    assert_eq!(checked.warnings, Vec::<String>::new());
}

#[test]
fn a_cluster_is_read_from_its_urls() {
    let config = translated(
        "--name b --initial-cluster a=http://10.0.0.1:2380,b=http://10.0.0.2:2380 \
         --initial-advertise-peer-urls http://10.0.0.2:2380 --listen-peer-urls http://0.0.0.0:2380 \
         --advertise-client-urls http://10.0.0.2:2379 --initial-cluster-state existing",
    )
    .unwrap()
    .config;
    assert_eq!(config.data_dir.to_str(), Some("b.etcd"));
    assert_eq!(config.advertise_peer, "10.0.0.2:2380");
    assert_eq!(config.advertise_client, "10.0.0.2:2379");
    assert_eq!(config.peer_addr.to_string(), "0.0.0.0:2380");
    assert_eq!(config.initial_cluster.len(), 2);
    assert_eq!(config.initial_cluster[0].peer_addr, "10.0.0.1:2380");
}

#[test]
fn localhost_may_be_written_in_two_ways() {
    let line = "--initial-cluster default=http://localhost:2380 \
                --initial-advertise-peer-urls http://127.0.0.1:2380";
    assert_eq!(translated(line).unwrap().config.advertise_peer, "localhost:2380");
}

#[test]
fn every_listen_url_gets_a_listener() {
    let line = "--listen-client-urls http://127.0.0.1:1111,http://[::1]:1112 \
                --listen-metrics-urls http://localhost:1113";
    let checked = translated(line).unwrap();
    let texts = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&checked.client_addrs), ["127.0.0.1:1111", "[::1]:1112"]);
    assert_eq!(texts(&checked.metrics_addrs), ["127.0.0.1:1113"]);
}

#[test]
fn progress_intervals_are_durations_in_gos_words() {
    let millis = |line: &str| translated(line).unwrap().config.watch_progress_interval.as_millis();
    assert_eq!(millis("--watch-progress-notify-interval 1m30s"), 90_000);
    assert_eq!(millis("--experimental-watch-progress-notify-interval=2s"), 2_000);
    assert_eq!(millis("--watch-progress-notify-interval 0"), 600_000);
    assert_eq!(millis("--watch-progress-notify-interval 1ms"), 100);
}

#[test]
fn extensive_metrics_tell_how_long_calls_take() {
    assert!(translated("--metrics extensive").unwrap().timed);
    assert!(!translated("--metrics basic").unwrap().timed);
}

#[test]
fn what_has_no_effect_is_named_once() {
    let line = "--logger zap --snapshot-count=5 --experimental-new-thing 7 --enable-pprof";
    let expected =
        "accepted without effect: --logger, --snapshot-count, --experimental-new-thing, --enable-pprof";
    assert_eq!(translated(line).unwrap().warnings, [expected]);
}

#[test]
fn what_cannot_be_honoured_is_refused_with_a_reason() {
    let table = [
        ("--cert-file server.crt", "--cert-file cannot be honoured: TLS"),
        ("--auto-tls", "--auto-tls cannot be honoured: TLS"),
        ("--discovery http://d", "list the members in --initial-cluster"),
        ("--force-new-cluster", "--force-new-cluster cannot be honoured"),
        ("--config-file x.yaml", "the file is not read"),
        ("--listen-client-urls unix://x:1", "Unix sockets are not served"),
        ("--listen-client-urls http://db.example:1", "expected IP in URL for binding"),
        ("--listen-peer-urls http://127.0.0.1:1,http://127.0.0.1:2", "one URL"),
        ("--initial-cluster-state old", "it must be new or existing"),
        ("--initial-cluster a", "name=http://host:port"),
        ("--initial-cluster a=http://h:1", "does not list this member"),
        ("--log-level loud", "it must be debug"),
        ("--metrics some", "it must be basic or extensive"),
        ("--watch-progress-notify-interval soon", "is not a duration"),
        ("--heartbeat-interval fast", "(from --heartbeat-interval)"),
        ("--heartbeat-interval 900", "4500 or more would do"),
    ];
    for (line, reason) in table {
        assert!(problems(line).contains(reason), "{line}: {}", problems(line));
    }
    assert!(
        translated("--auto-tls=false --discovery= --proxy off").is_ok(),
        "turned off, they ask for nothing"
    );
}

#[test]
fn nothing_is_compacted_by_itself_unless_etcd_would() {
    let compaction = |line: &str| translated(line).unwrap().config.compaction;
    let kept = |line: &str| {
        compaction(line).map(|it| (it.keep_age.as_secs(), it.keep_revisions, it.interval.as_secs()))
    };
    assert_eq!(kept(""), None);
    assert_eq!(kept("--auto-compaction-mode revision"), None);
    assert_eq!(kept("--auto-compaction-retention 0"), None);
    assert_eq!(kept("--auto-compaction-retention 2"), Some((7_200, 0, 3_600)), "hours");
    assert_eq!(kept("--auto-compaction-retention 5m"), Some((300, 0, 300)));
    let revisions = "--auto-compaction-mode revision --auto-compaction-retention";
    assert_eq!(kept(&format!("{revisions} 1000")), Some((0, 1_000, 300)));
    assert!(problems(&format!("{revisions} 5m")).contains("not a number of revisions"));
    assert!(problems("--auto-compaction-mode weekly --auto-compaction-retention 1").contains("periodic"));
    assert!(problems("--auto-compaction-retention soon").contains("not a duration"));
}
