//! The client verbs as their users meet them: what is printed, and with which exit code; side by side with
//! etcdctl when the variable `ETCDCTL` names the binary.

use crate::process::{Member, Plan, althing, free_port};
use crate::tour::block_on;
use proto::etcdserverpb::LeaseGrantRequest;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs with this on standard input.
pub fn run(mut command: Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A verb that refuses its flags does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn verb(member: &Member, args: &[&str], input: &str) -> Output {
    let mut command = althing();
    command.env_remove("ETCDCTL_ENDPOINTS").args(args).args(["--endpoints", &member.client.to_string()]);
    run(command, input)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a verb that must succeed.
pub fn out(member: &Member, args: &[&str], input: &str) -> String {
    let output = verb(member, args, input);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn verbs_print_what_etcdctl_prints() {
    let member = Plan::single().start_ready();
    let out = |args: &[&str]| out(&member, args, "");
    assert_eq!(out(&["put", "a", "1"]), "OK\n");
    assert_eq!(out(&["put", "a", "2", "--prev-kv"]), "OK\na\n1\n");
    assert_eq!(out(&["get", "a"]), "a\n2\n");
    assert_eq!(out(&["get", "a", "--rev", "2", "--print-value-only"]), "1\n");
    assert_eq!(out(&["put", "b", "x"]), "OK\n");
    assert_eq!(out(&["get", "", "--prefix=true", "--keys-only"]), "a\n\nb\n\n");
    assert_eq!(out(&["get", "a", "c", "--order", "DESCEND"]), "b\nx\na\n2\n");
    assert_eq!(out(&["get", "a", "--from-key", "--limit", "1", "--consistency", "s"]), "a\n2\n");
    assert_eq!(out(&["get", "", "--prefix", "--count-only"]), "2\n");
    let filtered =
        |filter: &str, revision: &str| out(&["get", "", "--prefix", "--print-value-only", filter, revision]);
    assert_eq!(
        (filtered("--min-mod-rev", "4"), filtered("--max-mod-rev", "3")),
        ("x\n".into(), "2\n".into())
    );
    assert_eq!(
        (filtered("--min-create-rev", "3"), filtered("--max-create-rev", "3")),
        ("x\n".into(), "2\n".into())
    );
    assert_eq!(out(&["get", "a", "--hex"]), "\\x61\n\\x32\n");
    assert_eq!(out(&["put", "a", "--ignore-value", "--prev-kv"]), "OK\na\n2\n");
    assert_eq!(out(&["del", "a", "c", "--range", "--prev-kv"]), "2\na\n2\nb\nx\n");
    assert_eq!(out(&["del", "a"]), "0\n");
    assert!(out(&["endpoint", "status"]).contains(", 3.7.0, "));
    assert!(out(&["endpoint", "health"]).contains(" is healthy: successfully committed proposal: took = "));
    assert!(out(&["endpoint", "status", "-w", "table"]).contains("| RAFT APPLIED INDEX |"));
}

#[test]
fn a_downgrade_is_noted_as_etcdctl_does() {
    let member = Plan::single().start_ready();
    let out = |args: &[&str]| out(&member, args, "");
    let told =
        |action: &str, version: &str| format!("Downgrade {action} success, cluster version {version}\n");
    assert_eq!(out(&["downgrade", "validate", "3.6"]), told("validate", "3.7"));
    assert_eq!(out(&["downgrade", "enable", "3.6.0"]), told("enable", "3.7"));
    let json: serde_json::Value = serde_json::from_str(&out(&["downgrade", "cancel", "-w", "json"])).unwrap();
    assert!(json["version"].is_string() && json["header"]["member_id"].is_number(), "{json}");
}

#[test]
fn values_and_transactions_come_from_standard_input() {
    let member = Plan::single().start_ready();
    assert_eq!(out(&member, &["put", "a"], "from\nstdin"), "OK\n");
    assert_eq!(out(&member, &["get", "a", "--print-value-only"], ""), "from\nstdin\n");
    let txn = "val(\"a\") = \"from\\nstdin\"\n\nput won 'yes sir'\nget a\ndel x --prefix\n\nput lost yes\n\n";
    assert_eq!(out(&member, &["txn"], txn), "SUCCESS\n\nOK\n\na\nfrom\nstdin\n\n0\n");
    assert_eq!(out(&member, &["get", "won", "--print-value-only"], ""), "yes sir\n");
    let asked = out(&member, &["txn", "-i"], "ver(\"a\") > \"7\"\n\nget a\n\nget won\n\n");
    assert_eq!(
        asked,
        "compares:\nsuccess requests (get, put, del):\nfailure requests (get, put, del):\nFAILURE\n\nwon\nyes sir\n"
    );
}

#[test]
fn exit_codes_tell_whose_fault_it_was() {
    let member = Plan::single().start_ready();
    let table: &[(&[&str], i32, &str)] = &[
        (&["get"], 2, "required"),
        (&["downgrade", "validate", "3.5"], 2, "etcdserver: invalid downgrade target version"),
        (&["get", "a", "b", "--prefix"], 2, "only accept one argument"),
        (&["get", "a", "--prefix", "--from-key"], 2, "cannot be set at the same time"),
        (&["get", "a", "--rev", "99"], 2, "etcdserver: mvcc: required revision is a future revision"),
        (&["get", "a", "--print-value-only", "-w", "json"], 2, "only for `--write-out=simple`"),
        (&["put", "a", "b", "--lease", "xyz"], 2, "expecting ID in Hex"),
        (&["put", "a", "b", "--lease", "7"], 2, "etcdserver: requested lease not found"),
        (&["put", "a", "b", "--ignore-value"], 2, "needs only 1 argument"),
        (&["put", "", "b"], 2, "etcdserver: key is not provided"),
        (&["get", "a", "--command-timeout", "soon"], 2, "is not a duration"),
        (&["get", "a", "-w", "xml"], 2, "invalid value"),
        (&["get", "a", "--endpoints", "unix://h:1"], 2, "only http and https"),
        (&["watch"], 2, "which key is to be watched?"),
        (&["watch", "a", "b", "--prefix"], 2, "only accept one argument"),
        (&["lease", "grant", "soon"], 2, "bad TTL (soon)"),
        (&["lease", "grant", "9000000001"], 2, "etcdserver: too large lease TTL"),
        (&["lease", "revoke", "xyz"], 2, "expecting ID in Hex"),
        (&["lease", "revoke", "7"], 2, "etcdserver: requested lease not found"),
        (&["lease", "keep-alive", "--once", "7"], 2, "etcdserver: requested lease not found"),
        (&["member", "remove", "xyz"], 2, "expecting ID in Hex"),
        (&["member", "add", "x"], 2, "--peer-urls"),
        (&["move-leader", "1234"], 2, "etcdserver: bad leader transferee"),
        (&["compaction", "99"], 2, "etcdserver: mvcc: required revision is a future revision"),
        (&["endpoint", "hashkv", "--rev", "99"], 2, "required revision is a future revision"),
    ];
    for (args, code, reason) in table {
        let output = verb(&member, args, "");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {told}");
        assert!(told.contains(reason), "{args:?}: {told}");
        assert!(output.stdout.is_empty() || args[0] == "endpoint", "{args:?}");
    }
}

#[test]
fn an_endpoint_that_is_gone_is_passed_over() {
    let member = Plan::single().start_ready();
    let both = format!("127.0.0.1:{},http://{}", free_port(), member.client);
    for args in [&["put", "a", "1"][..], &["get", "a"], &["del", "a"]] {
        let mut command = althing();
        command.env("ETCDCTL_ENDPOINTS", &both).args(args);
        let output = run(command, "");
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    }
    let mut health = althing();
    health.args(["--endpoints", &both, "endpoint", "health", "--dial-timeout", "100ms"]);
    let output = run(health, "");
    assert_eq!(output.status.code(), Some(4));
    let told = text(&output.stdout);
    assert!(told.contains("is unhealthy") && told.contains("is healthy"), "{told}");
}

#[test]
fn without_a_server_the_exit_code_says_try_again() {
    let unused = format!("127.0.0.1:{}", free_port());
    let mut command = althing();
    command.args(["get", "a", "--dial-timeout", "100ms", "--endpoints", &unused]);
    let output = run(command, "");
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains(&unused), "{}", text(&output.stderr));
}

const VERBS: [&str; 29] = [
    "get",
    "put",
    "del",
    "txn",
    "watch",
    "lease grant",
    "lease revoke",
    "lease timetolive",
    "lease list",
    "lease keep-alive",
    "endpoint status",
    "endpoint health",
    "endpoint hashkv",
    "member list",
    "member add",
    "member remove",
    "member update",
    "member promote",
    "member replace",
    "move-leader",
    "compaction",
    "defrag",
    "downgrade validate",
    "downgrade enable",
    "downgrade cancel",
    "alarm list",
    "version",
    "dev",
    "completion",
];

#[test]
fn every_verb_has_an_example_and_every_shell_a_script() {
    for verb in VERBS {
        let output = althing().args(verb.split(' ')).arg("--help").output().unwrap();
        assert!(output.status.success(), "{verb}");
        assert!(text(&output.stdout).contains("Example:"), "{verb}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = althing().args(["completion", shell]).output().unwrap();
        assert!(output.status.success() && text(&output.stdout).contains("print-value-only"), "{shell}");
    }
    let version = text(&althing().arg("version").output().unwrap().stdout);
    assert!(version.contains("API version: 3.7\n"), "{version}");
    assert_eq!(version.contains("planted bugs"), base::mutant::COMPILED_IN, "{version}");
}

/// Verbs that change nothing, so that both tools see the same store.
const READS: &[(&[&str], &str)] = &[
    (&["get", "a"], ""),
    (&["get", "", "--prefix"], ""),
    (&["get", "", "--prefix", "--keys-only"], ""),
    (&["get", "", "--from-key", "--limit", "2"], ""),
    (&["get", "a", "--rev", "2"], ""),
    (&["get", "bin", "--hex"], ""),
    (&["get", "a", "c", "--order", "descend", "--sort-by", "version"], ""),
    (&["get", "none"], ""),
    (&["del", "none", "--prev-kv"], ""),
    (&["txn"], "val(\"a\") = \"2\"\nver(\"b\") > \"0\"\n\nget a\nget bin --keys-only\ndel none\n\nget b\n\n"),
    (&["txn"], "c(\"a\") = \"77\"\nm(\"b\") != \"0\"\n\nget a\n\nget \"b\"\n\n"),
    (&["endpoint", "status"], ""),
    (&["endpoint", "hashkv"], ""),
    (&["endpoint", "hashkv", "--rev", "3"], ""),
    (&["member", "list"], ""),
    (&["alarm", "list"], ""),
    (&["lease", "list"], ""),
    (&["lease", "keep-alive", "--once", "7b"], ""),
    (&["lease", "timetolive", "99"], ""),
    (&["lease", "timetolive", "7b", "--keys"], ""),
];

/// What only etcdctl 3.7 can be asked, simple and as JSON.
const READS_OF_37: &[(&[&str], &str)] = &[
    (&["get", "", "--prefix", "--min-mod-rev", "4", "--max-create-rev", "5"], ""),
    (&["get", "", "--prefix", "--min-create-rev", "3", "--max-mod-rev", "6"], ""),
    (&["get", "", "--prefix", "--stream"], ""),
    (&["downgrade", "validate", "3.6"], ""),
    (&["user", "list"], ""),
    (&["user", "get", "ann"], ""),
    (&["user", "get", "ann", "--detail"], ""),
    (&["user", "get", "bob", "--detail"], ""),
    (&["role", "list"], ""),
    (&["role", "get", "clerk"], ""),
    (&["auth", "status"], ""),
];

/// What etcdctl prints as a table.
const TABLES: [&str; 2] = ["endpoint", "member"];

/// Whether an etcdctl before 3.7 prints less of it than we do.
fn is_longer_in_37(args: &[&str], format: &str) -> bool {
    match args {
        ["endpoint", ..] => format != "json",
        ["member", ..] => format == "fields",
        _ => false,
    }
}

/// Fields that an older etcdctl does not know.
fn without_later_fields(text: &str) -> String {
    let mut text = text.replace(",\"storageVersion\":\"3.7.0\"", "").replace(",\"downgradeInfo\":{}", "");
    if let Some((before, after)) = text.split_once(",\"hash_revision\":") {
        let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
        text = format!("{before}{after}");
    }
    text
}

/// Tables as older releases draw them, and without seconds that pass between the two.
fn without_frames_and_time(text: &str) -> String {
    text.replace('│', "|")
        .replace('─', "-")
        .replace(['┌', '┬', '┐', '├', '┼', '┤', '└', '┴', '┘'], "+")
        .replace("remaining(599s)", "remaining(600s)")
        .replace("\"ttl\":599", "\"ttl\":600")
        .replace("TTL\" : 599", "TTL\" : 600")
}

#[test]
fn side_by_side_with_etcdctl_every_byte_is_the_same() {
    let Ok(etcdctl) = std::env::var("ETCDCTL") else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED side_by_side_with_etcdctl_every_byte_is_the_same: set ETCDCTL to a binary to run it"
        );
        return;
    };
    let version = text(&Command::new(&etcdctl).arg("version").output().unwrap().stdout);
    let is_37 = version.contains("API version: 3.7");
    if version.contains("API version: 3.4") {
        let _ = writeln!(std::io::stderr(), "SKIPPED: etcdctl 3.4 has other names in its JSON");
        return;
    }
    // etcdctl 3.5 does not know that there may be a quota.
    let quota = if is_37 { "8000000000" } else { "0" };
    let member = Plan::single().with(&["--quota-bytes", quota]).start_ready();
    out(&member, &["put", "a", "1"], "");
    out(&member, &["put", "a", "2"], "");
    out(&member, &["put", "b", "x y"], "");
    block_on(async {
        let mut etcd = member.etcd().await;
        etcd.lease.lease_grant(LeaseGrantRequest { ttl: 600, id: 0x7b }).await.unwrap();
    });
    out(&member, &["put", "leased", "x", "--lease", "7b"], "");
    out(&member, &["put", "leased too", "x", "--lease", "7b"], "");
    for change in [
        &["user", "add", "ann:secret"][..],
        &["user", "add", "bob", "--no-password"],
        &["role", "add", "clerk"],
        &["role", "grant-permission", "clerk", "readwrite", "a", "c"],
        &["role", "grant-permission", "clerk", "read", "z", "--from-key"],
        &["user", "grant-role", "ann", "clerk"],
    ] {
        out(&member, change, "");
    }
    out(&member, &["put", "bin"], "tab\t\"quoted\"\\ é\u{1}\u{200b}\n");
    for format in ["simple", "json", "fields", "table"] {
        let newer = if is_37 && ["simple", "json"].contains(&format) { READS_OF_37 } else { &[] };
        for (args, input) in READS.iter().chain(newer) {
            // etcdctl prints a sentence before the JSON of details, and 3.7 ids in hexadecimal where keys and values are.
            let is_ours_alone = match format {
                "json" => args.contains(&"--detail"),
                "fields" => is_37 && args.contains(&"--hex"),
                _ => false,
            };
            if is_ours_alone {
                continue;
            }
            // Other tables are ours alone.
            if format == "table" && !TABLES.contains(&args[0]) || !is_37 && is_longer_in_37(args, format) {
                continue;
            }
            let args = [&args[..], &["-w", format]].concat();
            let ask_theirs = || {
                let mut theirs = Command::new(&etcdctl);
                theirs.args(&args).args(["--endpoints", &member.client.to_string()]);
                let theirs = run(theirs, input);
                assert!(theirs.status.success(), "{args:?}: {}", text(&theirs.stderr));
                text(&theirs.stdout)
            };
            // The store may grow under the questions: what is compared is what did not change around ours.
            let (ours, theirs) = loop {
                let (before, ours, after) = (ask_theirs(), out(&member, &args, input), ask_theirs());
                if before == after {
                    break (ours, after);
                }
            };
            let comparable = |text: &str| {
                let text = without_frames_and_time(text);
                if is_37 { text } else { without_later_fields(&text) }
            };
            assert_eq!(comparable(&ours), comparable(&theirs), "{args:?}");
        }
    }
}
