//! The peer port as strangers meet it: without proof no node joins a cluster that has a secret or auth on, and none speaks
//! for a member of one that has a secret. With a token a node joins once.

use crate::auth::with_auth;
use crate::process::{Member, PATIENCE, Plan, althing, free_port, until};
use crate::verbs::{run, text};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// How TLS says that a connection is not what it expects.
const TLS_ALERT: u8 = 21;

/// A node that joins the cluster of the member that listens there.
fn joiner(name: &str, ask: u16, flags: &[&str]) -> Plan {
    let peer_port = free_port();
    let plan = Plan {
        name: name.to_owned(),
        peer_port,
        http_port: 0,
        cluster: format!("{name}=127.0.0.1:{peer_port}"),
        dir: Arc::new(TempDir::new().unwrap()),
        extra: vec!["--join".into(), format!("127.0.0.1:{ask}")],
    };
    plan.with(flags)
}

fn verb(member: &Member, args: &[&str]) -> String {
    let mut command = althing();
    command.args(args).args(["--endpoints", &member.endpoint()]);
    let output = run(command, "");
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn members(member: &Member, who: &[&str]) -> usize {
    verb(member, &[&["member", "list"], who].concat()).lines().count()
}

/// What the peer port answers to these bytes, until it closes.
fn say(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut heard = Vec::new();
    // A connection that is cut was answered by that.
    let _ = stream.read_to_end(&mut heard);
    heard
}

/// Asks to be added as a voter, or as a node that keeps data alone.
fn question(wish: u8) -> Vec<u8> {
    let url = b"http://127.0.0.1:9";
    let mut body = vec![1, wish, url.len() as u8];
    body.extend_from_slice(url);
    let mut bytes = b"ALTHINGJ".to_vec();
    bytes.extend_from_slice(&1u16.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The answer says that the node is refused, whatever it asks for.
fn assert_refused(port: u16) {
    for wish in [1, 2] {
        let heard = say(port, &question(wish));
        let (length, why) = heard.split_at_checked(4).expect("an answer");
        assert_eq!(u32::from_le_bytes(length.try_into().unwrap()) as usize, why.len());
        assert_eq!(why[0], 6, "{}", String::from_utf8_lossy(why));
        assert!(String::from_utf8_lossy(why).contains("with a token alone"));
    }
}

fn secret_file(dir: &TempDir, letter: &str) -> PathBuf {
    let path = dir.path().join(format!("secret-{letter}"));
    fs::write(&path, letter.repeat(40)).unwrap();
    path
}

#[test]
fn a_single_node_makes_a_secret_and_no_node_joins_it_without_proof() {
    let plan = Plan::single();
    let member = plan.start_ready();
    let kept = plan.data_dir().join("cluster-secret");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_refused(plan.peer_port);
    let stranger = joiner("stranger", plan.peer_port, &[]);
    assert!(!stranger.spawn().wait().unwrap().success());
    assert!(stranger.log().contains("with a token alone"), "{}", stranger.log());
    assert_eq!(members(&member, &[]), 1);
    assert_eq!(verb(&member, &["put", "a", "1"]), "OK\n");
}

#[test]
fn no_node_joins_an_open_cluster_without_proof_once_auth_is_on() {
    let plans = Plan::cluster(3);
    let running: Vec<Member> = plans.iter().map(Plan::start).collect();
    running.iter().for_each(Member::wait_ready);
    with_auth(&running[0]);
    let root = ["--user", "root:rpw"];
    for plan in &plans {
        assert_refused(plan.peer_port);
    }
    assert_eq!(members(&running[0], &root), 3);
    let token = verb(&running[0], &[&["ring", "invite"][..], &root].concat());
    let joined = joiner("d", plans[1].peer_port, &["--join-token", token.trim()]).start();
    until("four are members", || (members(&running[2], &root) == 4).then_some(()));
    drop(joined);
}

#[test]
fn a_member_with_the_flags_of_etcd_admits_no_node_once_auth_is_on() {
    let (client, peer) = (free_port(), free_port());
    let [client_url, peer_url] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
    let dir = TempDir::new().unwrap();
    let mut command = althing();
    command
        .args(["etcd", "--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("default={peer_url}"), "--data-dir"])
        .arg(dir.path().join("data"));
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let ask = |args: &[&str]| {
        let mut command = althing();
        command.args(args).args(["--endpoints", &client_url]);
        run(command, "")
    };
    until("the member answers", || ask(&["put", "a", "1"]).status.success().then_some(()));
    for args in
        [&["user", "add", "root:root"][..], &["user", "grant-role", "root", "root"], &["auth", "enable"]]
    {
        assert!(ask(args).status.success(), "{args:?}");
    }
    assert_refused(peer);
    let listed = ask(&["member", "list", "--user", "root:root"]);
    assert_eq!(text(&listed.stdout).lines().count(), 1);
    assert!(!dir.path().join("data/cluster-secret").exists(), "peers are as open as the URLs say");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_token_lets_one_node_in_and_brings_it_the_secret() {
    let plan = Plan::single();
    let first = plan.start_ready();
    let newcomer = joiner("b", plan.peer_port, &[]);
    let url = format!("https://127.0.0.1:{}", newcomer.peer_port);
    let added = verb(&first, &["member", "add", "b", "--peer-urls", &url]);
    let token = added.lines().find_map(|line| line.strip_prefix("ALTHING_JOIN_TOKEN=\"")?.strip_suffix('"'));
    let token = token.expect("it prints a token").to_owned();
    let newcomer = newcomer.with(&["--join-token", &token]);
    let mut second = newcomer.start_ready();
    let secret = |plan: &Plan| fs::read_to_string(plan.data_dir().join("cluster-secret")).unwrap();
    assert_eq!(secret(&plan), secret(&newcomer));
    assert_eq!(verb(&second, &["put", "a", "1"]), "OK\n");

    let late = joiner("c", plan.peer_port, &["--join-token", &token]);
    assert!(!late.spawn().wait().unwrap().success());
    assert!(late.log().contains("is for a node at another address"), "{}", late.log());
    let data_token = verb(&first, &["ring", "invite"]);
    let third = joiner("d", plan.peer_port, &["--data-only", "--join-token", data_token.trim()]);
    let third = third.start();
    until("the ring has three nodes", || {
        let ring = crate::rest::Rest::of(&third).get("/v1/ring").json();
        (ring["nodes"].as_array()?.len() == 3).then_some(())
    });

    let fourth = joiner("e", plan.peer_port, &["--join-token", data_token.trim()]);
    assert!(!fourth.spawn().wait().unwrap().success());
    assert!(fourth.log().contains("was used by another node"), "{}", fourth.log());

    second.kill();
    let again = newcomer.start_ready();
    assert_eq!(verb(&again, &["get", "a"]), "a\n1\n");
    assert_eq!(members(&first, &[]), 2);
}

#[test]
fn an_open_cluster_is_closed_while_it_serves() {
    let plans = Plan::cluster(3);
    let running: Vec<Member> = plans.iter().map(Plan::start).collect();
    running.iter().for_each(Member::wait_ready);
    let data = joiner("data", plans[0].peer_port, &["--data-only"]).start();
    until("four nodes are in the ring", || {
        let ring = crate::rest::Rest::of(&data).get("/v1/ring").json();
        (ring["nodes"].as_array()?.len() == 4).then_some(())
    });
    until("all have told where they serve", || {
        (verb(&running[0], &["member", "list"]).matches("started").count() == 3).then_some(())
    });
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (stop, endpoint) = (stop.clone(), running[0].endpoint());
        std::thread::spawn(move || {
            crate::tour::block_on(async {
                let mut etcd = crate::etcd::Etcd::connect(&endpoint).await;
                let mut acknowledged = 0;
                while !stop.load(Ordering::Relaxed) {
                    let written = etcd.put(crate::etcd::put(format!("key{acknowledged}"), "value")).await;
                    acknowledged += u64::from(written.is_ok());
                }
                acknowledged
            })
        })
    };
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("secret");
    let endpoints = format!("{},{}", running[0].endpoint(), data.endpoint());
    let secure = || {
        let mut command = althing();
        command.args(["cluster", "secure", "--endpoints", &endpoints, "--secret-file"]).arg(&file);
        let output = run(command, "");
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(secure().matches("is closed to nodes without it").count(), 4);
    secure();
    stop.store(true, Ordering::Relaxed);
    let acknowledged = writer.join().unwrap();
    assert!(acknowledged > 0);
    for plan in &plans {
        assert_refused(plan.peer_port);
    }
    let count = verb(&running[2], &["get", "key", "--prefix", "--count-only", "-w", "fields"]);
    let count =
        count.lines().find_map(|line| line.strip_prefix("\"Count\" : ")?.parse::<u64>().ok()).unwrap();
    assert!(count >= acknowledged, "{count} of {acknowledged}");

    let token = verb(&running[1], &["ring", "invite"]);
    joiner("d", plans[1].peer_port, &["--join-token", token.trim()]).start_ready();
    drop(running);
    let again: Vec<Member> = plans.iter().map(Plan::start).collect();
    again.iter().for_each(Member::wait_ready);
    assert_refused(plans[2].peer_port);
}

#[test]
fn members_with_a_secret_refuse_nodes_without_it() {
    let dir = TempDir::new().unwrap();
    let (ours, other) = (secret_file(&dir, "a"), secret_file(&dir, "b"));
    let with =
        |plan: &Plan, file: &PathBuf| plan.clone().with(&["--cluster-secret-file", file.to_str().unwrap()]);
    let plans = Plan::cluster(3);
    let first: Vec<Member> = plans[..2].iter().map(|plan| with(plan, &ours).start()).collect();
    first.iter().for_each(Member::wait_ready);
    let mut wrong = with(&plans[2], &other).start();
    until("the others refuse it", || {
        plans[0].log().contains("refused a connection to the peer port").then_some(())
    });
    assert_ne!(wrong.http("GET", "/health").status, 200);
    wrong.kill();
    drop(wrong);
    fs::remove_dir_all(plans[2].data_dir()).unwrap();
    let _third = with(&plans[2], &ours).start_ready();
    assert_refused(plans[0].peer_port);

    // In the clear, a greeting in the name of a member is answered by a refusal.
    let listed = verb(&first[0], &["endpoint", "status", "-w", "json", "--cluster"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let header = |nth: usize| &listed[nth]["Status"]["header"];
    let id = |nth: usize| header(nth)["member_id"].as_u64().unwrap();
    let cluster = header(0)["cluster_id"].as_u64().unwrap();
    for (from, to) in [(id(0), id(1)), (id(1), id(0)), (id(2), id(0))] {
        let mut hello = b"ALTHINGP".to_vec();
        hello.extend_from_slice(&1u16.to_le_bytes());
        [cluster, from, to].iter().for_each(|number| hello.extend_from_slice(&number.to_le_bytes()));
        let crc = base::checksum::crc32(&[&hello]);
        hello.extend_from_slice(&crc.to_le_bytes());
        let verdicts: Vec<u8> = plans.iter().map(|plan| say(plan.peer_port, &hello)[0]).collect();
        assert!(verdicts.contains(&8) && !verdicts.contains(&1), "{verdicts:?}");
    }
}

#[test]
fn regions_prove_the_secret_that_they_share() {
    let dir = TempDir::new().unwrap();
    let (shared, other) = (secret_file(&dir, "a"), secret_file(&dir, "b"));
    let plans: Vec<Plan> = (0..3).map(|_| Plan::single()).collect();
    let of_region = |plan: &Plan, name: &str, peer: (&str, u16), file: &PathBuf| {
        let flags = [
            ("--region", name.to_owned()),
            ("--region-peers", format!("{}=127.0.0.1:{}", peer.0, peer.1)),
            ("--region-secret", format!("{}={}", peer.0, file.display())),
        ];
        let flags: Vec<&str> = flags.iter().flat_map(|(flag, value)| [*flag, value.as_str()]).collect();
        plan.clone().with(&flags)
    };
    let eu = of_region(&plans[0], "eu", ("us", plans[1].peer_port), &shared).start_ready();
    let us = of_region(&plans[1], "us", ("eu", plans[0].peer_port), &shared).start_ready();
    let hears = |member: &Member| {
        let seen = crate::rest::Rest::of(member).get("/v1/regions").json();
        seen["regions"]
            .as_array()
            .is_some_and(|regions| regions.iter().any(|region| region["healthy"] == true))
    };
    until("the regions hear of each other", || (hears(&eu) && hears(&us)).then_some(()));
    assert!(plans[0].data_dir().join("cluster-secret").exists(), "each is closed by itself");

    let impostor = of_region(&plans[2], "us", ("eu", plans[0].peer_port), &other).start_ready();
    until("it is refused", || plans[0].log().contains("refused a connection to the peer port").then_some(()));
    assert!(!hears(&impostor));
    // In the clear, a question of a region is refused, whatever name it bears.
    for name in ["us", "ap"] {
        let mut body = vec![2, name.len() as u8];
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&7u64.to_le_bytes());
        let mut question = b"ALTHINGJ".to_vec();
        question.extend_from_slice(&1u16.to_le_bytes());
        question.extend_from_slice(&(body.len() as u32).to_le_bytes());
        question.extend(body);
        let heard = say(plans[0].peer_port, &question);
        let heard = String::from_utf8_lossy(&heard);
        assert!(heard.contains("has not proven"), "{heard}");
    }
}

#[test]
fn members_make_certificates_of_their_own() {
    let plans: Vec<Plan> = Plan::cluster(3).into_iter().map(|plan| plan.with(&["--peer-auto-tls"])).collect();
    let running: Vec<Member> = plans.iter().map(Plan::start).collect();
    running.iter().for_each(Member::wait_ready);
    assert!(plans[0].data_dir().join("fixtures/peer/key.pem").exists());
    let heard = say(plans[0].peer_port, &question(0));
    assert!(
        heard.first().is_none_or(|first| *first == TLS_ALERT),
        "nothing is answered in the clear: {heard:?}"
    );
    let mut command = althing();
    command.args(["cluster", "secure", "--endpoints", &running[0].endpoint(), "--secret-file"]);
    command.arg(plans[0].dir.path().join("secret"));
    let refused = run(command, "");
    let told = text(&refused.stderr);
    assert!(!refused.status.success() && told.contains("start them without --peer-auto-tls"), "{told}");

    let plan = Plan::single().with(&["--auto-tls"]);
    let member = plan.start();
    assert!(member.announced.contains("clients on https://"), "{}", member.announced);
    let certificate = plan.data_dir().join("fixtures/client/cert.pem");
    let ask = |args: &[&str]| {
        let mut command = althing();
        command.args(args).args(["--endpoints", &format!("https://{}", member.client), "--cacert"]);
        command.arg(&certificate);
        run(command, "")
    };
    until("the member answers", || ask(&["put", "a", "1"]).status.success().then_some(()));
    assert_eq!(text(&ask(&["get", "a"]).stdout), "a\n1\n");
}
