use super::*;

#[test]
fn a_time_may_be_written_as_a_duration() {
    let text = |flags: &[(&str, &str)], file: &str| {
        gathered(flags, &[], file).unwrap().text(Id::CompactionRetentionMs).to_owned()
    };
    assert_eq!(text(&[("compaction-retention-ms", "1m30s")], ""), "90000");
    assert_eq!(text(&[("compaction-retention-ms", "250")], ""), "250");
    assert_eq!(text(&[], "compaction-retention-ms = \"2h\""), "7200000");
    assert_eq!(text(&[("compaction-retention-ms", "soon")], ""), "soon", "the check refuses it");
}

/// Gathers from pairs; the file is TOML text.
fn gathered(flags: &[(&str, &str)], variables: &[(&str, &str)], file: &str) -> Result<Values, Error> {
    let find = |pairs: &[(&str, &str)], wanted: &str| {
        pairs.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
    };
    let flag = |name: &str| find(flags, name);
    let variable = |name: &str| find(variables, name);
    let file = Some(File { path: "althing.toml".into(), text: file.to_owned() });
    gather(&Sources { flag: &flag, variable: &variable, file })
}

fn refusal(file: &str) -> String {
    gathered(&[], &[], file).expect_err("the file is refused").to_string()
}

#[test]
fn flags_win_over_variables_over_the_file_over_the_default() {
    let file = "heartbeat-ms = 1\nelection-ms = 2\nname = \"three\"\n";
    let variables = [("ALTHING_HEARTBEAT_MS", "10"), ("ALTHING_ELECTION_MS", "20")];
    let values = gathered(&[("heartbeat-ms", "100")], &variables, file).unwrap();
    let seen = |id| (values.text(id), values.get(id).origin.to_string());
    assert_eq!(seen(Id::HeartbeatMs), ("100", "--heartbeat-ms".to_owned()));
    assert_eq!(seen(Id::ElectionMs), ("20", "ALTHING_ELECTION_MS".to_owned()));
    assert_eq!(seen(Id::Name), ("three", "althing.toml".to_owned()));
    assert_eq!(seen(Id::DrainTimeoutMs), ("5000", "the default".to_owned()));
}

#[test]
fn what_is_told_to_others_follows_the_listening_addresses() {
    let values = gathered(&[("client-addr", "10.0.0.1:1"), ("peer-addr", "10.0.0.1:2")], &[], "").unwrap();
    assert_eq!(values.text(Id::AdvertiseClient), "10.0.0.1:1");
    assert_eq!(values.text(Id::AdvertisePeer), "10.0.0.1:2");
    assert_eq!(values.text(Id::InitialCluster), "default=10.0.0.1:2");
}

#[test]
fn the_own_entry_of_the_cluster_is_what_peers_are_told() {
    let flags = [("name", "b"), ("peer-addr", "0.0.0.0:2380"), ("initial-cluster", "a=h1:2380, b=h2:2380")];
    let values = gathered(&flags, &[], "").unwrap();
    assert_eq!(values.text(Id::AdvertisePeer), "h2:2380");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    let refused = refusal("hartbeat-ms = 5");
    assert_eq!(refused, "althing.toml: unknown setting \"hartbeat-ms\"; did you mean \"heartbeat-ms\"?");
    assert!(refusal("colour = 5").contains("--print-config"));
}

#[test]
fn what_is_no_plain_value_is_refused() {
    assert!(refusal("name = [1]").contains("name must be a string or a whole number, not array"));
    assert!(refusal("[name]\nx = 1").contains("not table"));
    assert!(refusal("name = ").contains("is not valid TOML"));
    assert!(refusal("name = 'a'\nname = 'b'").contains("is not valid TOML"));
}
