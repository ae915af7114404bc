use super::*;
use crate::config::gather::{Sources, gather};

fn checked(flags: &[(&str, &str)]) -> Result<CheckedConfig, Problems> {
    let flag =
        |wanted: &str| flags.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned());
    check(&gather(&Sources { flag: &flag, variable: &|_| None, file: None }).unwrap())
}

/// The only problem that these flags have.
fn problem(flags: &[(&str, &str)]) -> String {
    match checked(flags) {
        Ok(_) => panic!("{flags:?} should be refused"),
        Err(Problems(problems)) => {
            assert_eq!(problems.len(), 1, "{problems:?}");
            problems[0].clone()
        }
    }
}

#[test]
fn the_defaults_are_usable() {
    let CheckedConfig { config, log_filter, log_format, .. } = checked(&[]).unwrap();
    assert_eq!(config.name, "default");
    assert_eq!(config.client_addr.to_string(), "127.0.0.1:2379");
    assert_eq!(config.initial_cluster.len(), 1);
    assert_eq!(config.initial_cluster[0].peer_addr, "127.0.0.1:2380");
    assert_eq!(config.heartbeat, Duration::from_millis(100));
    assert_eq!(config.request_bytes_max, 1_572_864);
    assert_eq!(config.txn_ops_max, 128);
    assert_eq!((log_filter.as_str(), log_format), ("info", LogFormat::Line));
}

#[test]
fn a_cluster_is_read_member_by_member() {
    let flags = [("name", "b"), ("initial-cluster", "a=h1:1,b=[::1]:2,c=h3.example.com:3")];
    let config = checked(&flags).unwrap().config;
    let names: Vec<&str> = config.initial_cluster.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(config.initial_cluster[1].peer_addr, "[::1]:2");
    assert_eq!(config.advertise_peer, "[::1]:2");
}

#[test]
fn each_shape_is_refused_with_what_would_be_right() {
    let table = [
        ("heartbeat-ms", "fast", "a number of milliseconds from 1 to 10000"),
        ("heartbeat-ms", "0", "a number of milliseconds from 1 to 10000"),
        ("heartbeat-ms", "-5", "a number of milliseconds from 1 to 10000"),
        ("request-bytes-max", "99999999999", "a number of bytes from 1024 to 10485760"),
        ("txn-ops-max", "0", "a number of operations"),
        ("client-addr", "localhost:2379", "an IP address and a port, as 127.0.0.1:2379"),
        ("client-addr", "http://127.0.0.1:2379", "an IP address and a port, as 127.0.0.1:2379"),
        ("peer-addr", "127.0.0.1:99999", "an IP address and a port"),
        ("http-addr", "8080", "an IP address and a port, as 127.0.0.1:8080, or none"),
        ("advertise-client", "host", "a host and a port"),
        ("advertise-client", "http://host:1", "a host and a port"),
        ("advertise-client", "::1:1", "a host and a port"),
        ("initial-cluster", "a", "name=host:port for each member"),
        ("initial-cluster", "", "name=host:port for each member"),
        ("initial-cluster", "a=h:1,,b=h:2", "name=host:port for each member"),
        ("name", "", "a word without blanks"),
        ("name", "a=b", "a word without blanks"),
        ("cluster-token", "two words", "a word without blanks"),
        ("data-dir", "", "a path"),
        ("log-format", "xml", "one of line, pretty, json"),
        ("log-level", "info,server=loud", "a level or a list of directives"),
    ];
    for (name, value, right) in table {
        let Err(Problems(problems)) = checked(&[(name, value)]) else { panic!("{name}={value} was taken") };
        let expected = format!("{name} is \"{value}\" (from --{name}); it must be {right}");
        assert!(problems.iter().any(|problem| problem.starts_with(&expected)), "{problems:?}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let Err(Problems(problems)) = checked(&[("heartbeat-ms", "x"), ("log-format", "y")]) else {
        panic!("both are wrong")
    };
    assert_eq!(problems.len(), 2);
}

#[test]
fn an_election_outlasts_five_heartbeats() {
    assert!(checked(&[("heartbeat-ms", "100"), ("election-ms", "500")]).is_ok());
    let told = problem(&[("heartbeat-ms", "100"), ("election-ms", "499")]);
    assert!(told.contains("election-ms (from --election-ms) is 499"), "{told}");
    assert!(told.contains("500 or more would do"), "{told}");
}

#[test]
fn clients_and_peers_may_share_a_port_and_the_data_api_shares_none() {
    assert!(checked(&[("client-addr", "127.0.0.1:2380")]).is_ok());
    for shared in ["127.0.0.1:2379", "127.0.0.1:2380"] {
        let told = problem(&[("http-addr", shared)]);
        assert!(told.contains("the data API needs a port of its own"), "{told}");
    }
    assert_eq!(checked(&[("http-addr", "none")]).unwrap().http_addr, None);
}

#[test]
fn a_member_must_be_in_its_own_cluster_under_its_own_address() {
    let told = problem(&[("name", "d"), ("initial-cluster", "a=h:1,b=h:2")]);
    assert!(told.contains("does not list this member, \"d\""), "{told}");
    let told = problem(&[("name", "a"), ("initial-cluster", "a=h:1,b=h:2"), ("advertise-peer", "h:9")]);
    assert!(told.contains("they must be the same"), "{told}");
}

#[test]
fn names_and_addresses_in_a_cluster_are_unique() {
    let told = problem(&[("name", "a"), ("initial-cluster", "a=h:1,a=h:2")]);
    assert!(told.contains("names \"a\" twice"), "{told}");
    let told = problem(&[("name", "a"), ("initial-cluster", "a=h:1,b=h:1")]);
    assert!(told.contains("has h:1 twice"), "{told}");
}
