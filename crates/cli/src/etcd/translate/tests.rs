use super::*;
use crate::etcd::line::{self, ParsedLine};

fn translated(line: &str) -> Result<CheckedConfig, Problems> {
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    match line::read(&args, &|_| None) {
        Ok(ParsedLine::Flags(given)) => translate(&given),
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
    let texts = |listened: &[ListenAddr]| {
        listened.iter().map(|listen| listen.address.to_string()).collect::<Vec<_>>()
    };
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
        ("--listen-client-urls https://127.0.0.1:1", "a client URL is https, and --cert-file"),
        ("--listen-peer-urls https://127.0.0.1:1", "a peer URL is https, and --peer-cert-file"),
        ("--initial-cluster default=https://127.0.0.1:2380", "all be http or all https"),
        ("--tls-min-version TLS1.0", "it must be TLS1.2 or TLS1.3"),
        ("--tls-max-version TLS1.2", "TLS1.3 is always spoken"),
        (
            "--listen-client-urls https://127.0.0.1:1 --cert-file a --key-file b --client-cert-auth",
            "client-cert-auth (from --client-cert-auth) is given without trusted-ca-file",
        ),
        ("--discovery http://d", "list the members in --initial-cluster"),
        ("--peer-client-cert-file x", "give it as --peer-cert-file"),
        ("--listen-peer-urls unix://x:1", "members reach each other by http or https"),
        ("--initial-cluster default=unix://x:1", "members reach each other by http or https"),
        ("--listen-client-urls http://db.example:1", "expected IP in URL for binding"),
        ("--listen-peer-urls http://127.0.0.1:1,https://127.0.0.1:2", "all be http or all https"),
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
fn further_urls_and_checks_of_members_are_taken() {
    let line = "--listen-client-urls http://127.0.0.1:1,unix://x:1 --listen-client-http-urls http://127.0.0.1:2 \
                --listen-peer-urls http://127.0.0.1:3,http://127.0.0.1:4 --strict-reconfig-check=false";
    let checked = translated(line).unwrap();
    let ports: Vec<u16> = checked.client_addrs.iter().map(|listen| listen.address.port()).collect();
    assert_eq!(ports, [1, 2]);
    assert_eq!(checked.client_sockets[0].path.to_str(), Some("x:1"));
    assert_eq!(checked.config.peer_addr.port(), 3);
    assert_eq!(checked.config.more_peer_addrs[0].port(), 4);
    assert!(!checked.config.strict_reconfig && !checked.config.force_new_cluster);
    let checked = translated("--listen-client-urls unix://x:1 --advertise-client-urls unix://x:1").unwrap();
    assert!(checked.client_addrs.is_empty(), "no port is opened beside it");
    assert_eq!(checked.config.advertise_client, "unix://x:1");
    assert!(translated("--force-new-cluster").unwrap().config.force_new_cluster);
    assert!(translated("").unwrap().config.strict_reconfig, "as in etcd");
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

#[test]
fn an_https_url_takes_its_files_and_without_one_they_have_no_effect() {
    let files = "--cert-file c --key-file k --trusted-ca-file a --client-cert-auth";
    let sealed = translated(&format!(
        "{files} --listen-client-urls https://127.0.0.1:1,http://127.0.0.1:2 \
         --advertise-client-urls https://127.0.0.1:1 --tls-min-version TLS1.3"
    ))
    .unwrap();
    assert_eq!(sealed.client_addrs.iter().map(|listen| listen.sealed).collect::<Vec<_>>(), [true, false]);
    assert!(sealed.config.client_tls);
    let tls = sealed.tls.unwrap();
    assert_eq!((tls.names_users, tls.min), (true, tls::MinVersion::Tls13));
    assert_eq!(tls.files.ca.as_deref(), Some("a".as_ref()));

    let plain = translated(&format!("{files} --peer-cert-file x")).unwrap();
    assert!(plain.tls.is_none() && plain.config.peer_security.files.is_none());
    assert_eq!(plain.warnings.len(), 2, "{:?}", plain.warnings);

    let peers = translated(
        "--listen-peer-urls https://127.0.0.1:3 --initial-advertise-peer-urls https://127.0.0.1:3 \
         --initial-cluster default=https://127.0.0.1:3 --peer-cert-file c --peer-key-file k \
         --peer-trusted-ca-file a --peer-client-cert-auth",
    )
    .unwrap();
    assert_eq!(peers.config.peer_security.files.unwrap().ca, std::path::Path::new("a"));
}
