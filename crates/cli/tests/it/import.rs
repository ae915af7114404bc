//! Keys brought in and written out: from an etcd, from Redis, from files, of both planes. Our own server is an etcd here; the real ones are
//! used where they are found, by the variables `ETCD` and `REDIS_SERVER` or on the path.

use crate::process::{Member, Plan, althing, free_port, program, until};
use crate::rest::single;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A server of another make, gone with the test.
struct Server {
    child: Child,
    endpoint: String,
    _dir: TempDir,
}

impl Server {
    fn start(command: &mut Command, port: u16, dir: TempDir) -> Server {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Server { child, endpoint: format!("127.0.0.1:{port}"), _dir: dir }
    }

    fn etcd() -> Option<Server> {
        let (binary, dir) = (program("ETCD", "etcd")?, TempDir::new().unwrap());
        let (client, peer) = (free_port(), free_port());
        let url = |port| format!("http://127.0.0.1:{port}");
        let mut command = Command::new(binary);
        command
            .arg("--data-dir")
            .arg(dir.path())
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("default={}", url(peer))]);
        Some(Server::start(&mut command, client, dir))
    }

    fn redis() -> Option<Server> {
        let (binary, dir, port) =
            (program("REDIS_SERVER", "redis-server")?, TempDir::new().unwrap(), free_port());
        let mut command = Command::new(binary);
        command.args(["--bind", "127.0.0.1", "--save", "", "--requirepass", "secret"]);
        command.args(["--port", &port.to_string()]).arg("--dir").arg(dir.path());
        let server = Server::start(&mut command, port, dir);
        until("Redis serves", || TcpStream::connect(&server.endpoint).ok());
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(endpoint: &str, words: &[&str]) -> (bool, String) {
    let output = althing().args(words).args(["--endpoints", endpoint]).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&told).into_owned())
}

/// Must succeed.
fn done(endpoint: &str, words: &[&str]) -> String {
    let (done, told) = ask(endpoint, words);
    assert!(done, "{words:?}: {told}");
    told
}

fn started() -> (Member, String) {
    let member = Plan::single().start_ready();
    let endpoint = member.client.to_string();
    (member, endpoint)
}

fn checksum(told: &str) -> String {
    told.split("checksum ").nth(1).unwrap_or_else(|| panic!("{told}"))[..32].to_owned()
}

fn import_from_etcd(source: &str) {
    until("the source serves", || ask(source, &["put", "a", "1"]).0.then_some(()));
    for n in 0..150 {
        done(source, &["put", &format!("many/{n:03}"), "value"]);
    }
    let granted = done(source, &["lease", "grant", "500"]);
    let lease = granted.split(' ').nth(1).unwrap();
    done(source, &["put", "leased", "x", "--lease", lease]);

    let (_member, target) = started();
    let import = |more: &[&str]| {
        let words = [&["import", "etcd", "--endpoint", source], more].concat();
        ask(&target, &words)
    };
    let (is_done, told) = import(&[]);
    assert!(is_done, "{told}");
    assert!(told.contains("Imported 152 keys and 1 leases") && told.contains("152 written"), "{told}");
    assert_eq!(done(&target, &["get", "many/149", "--print-value-only"]), "value\n");
    let left = done(&target, &["lease", "timetolive", lease, "--keys"]);
    assert!(left.contains("granted with TTL(500s)") && left.contains("leased"), "{left}");
    let (is_done, told) = import(&[]);
    assert!(is_done && told.contains("0 written, 152 were there already"), "{told}");
    done(&target, &["put", "many/007", "mine"]);
    let (is_done, told) = import(&[]);
    assert!(!is_done && told.contains("1 keys hold something else") && told.contains("many/007"), "{told}");
    assert_eq!(done(&target, &["get", "many/007", "--print-value-only"]), "mine\n");
    let (is_done, told) = import(&["--overwrite", "--prefix", "many/"]);
    assert!(is_done && told.contains("Imported 150 keys") && told.contains(" 1 written"), "{told}");
    assert_eq!(done(&target, &["get", "many/007", "--print-value-only"]), "value\n");
}

#[test]
fn keys_and_leases_come_over_from_etcd() {
    if let Some(source) = Server::etcd() {
        import_from_etcd(&source.endpoint);
    }
}

#[test]
fn keys_and_leases_come_over_from_a_cluster_of_ours() {
    let (_member, source) = started();
    import_from_etcd(&source);
}

#[test]
fn what_is_exported_of_coordination_is_imported_with_the_same_checksum() {
    let dir = TempDir::new().unwrap();
    let (_member, source) = started();
    for (key, value) in [("a", "1"), ("b", "two\nlines, \"quoted\""), ("é", ""), ("other", "x")] {
        done(&source, &["put", key, value]);
    }
    let granted = done(&source, &["lease", "grant", "500"]);
    let lease = granted.split(' ').nth(1).unwrap().to_owned();
    done(&source, &["put", "leased", "x", "--lease", &lease]);
    for format in ["jsonl", "csv"] {
        let file = dir.path().join(format);
        let file = file.to_str().unwrap();
        let told = done(&source, &["export", format, file]);
        assert!(told.contains("Exported 5 keys as of revision"), "{told}");
        let (is_done, refused) = ask(&source, &["export", format, file]);
        assert!(!is_done && refused.contains("is there already"), "{refused}");
        let sum = checksum(&told);
        let (_target_member, target) = started();
        let told = done(&target, &["import", format, file, "--checksum", &sum]);
        assert!(told.contains("5 written") && checksum(&told) == sum, "{told}");
        assert_eq!(done(&target, &["get", "b", "--print-value-only"]), "two\nlines, \"quoted\"\n");
        let left = done(&target, &["lease", "timetolive", &lease, "--keys"]);
        assert!(left.contains("granted with TTL(500s)") && left.contains("leased"), "{left}");
        let (is_done, told) = ask(&target, &["import", format, file, "--checksum", &"0".repeat(32)]);
        assert!(!is_done && told.contains("the checksum is"), "{told}");
    }
}

#[test]
fn what_is_exported_of_the_data_plane_is_imported_with_its_types() {
    let dir = TempDir::new().unwrap();
    let (member, rest) = single();
    let source = member.client.to_string();
    let put =
        |key: &str, body: &str| assert!(rest.put(&format!("/v1/data/{key}"), body).status < 300, "{key}");
    put("text", r#"{"value": "a, \"b\""}"#);
    put("json", r#"{"value": {"a": [1, 2.50]}}"#);
    put("brief", r#"{"value": 1, "ttl": 600}"#);
    let photo = rest.call("PUT", "/v1/data/photo", &[("content-type", "image/png")], &[0, 255]);
    assert!(photo.status < 300);
    let crdt = |operation: &str, body: &str| {
        assert!(rest.post(&format!("/v1/crdt/{operation}"), body).status < 300, "{operation}");
    };
    crdt("counter:visits/increment", r#"{"amount": 7}"#);
    crdt("set:tags/add", r#"{"element": "a"}"#);
    crdt("set:tags/add", r#"{"element": "b"}"#);
    crdt("delta_numeric:account/add", r#"{"delta": "19.90"}"#);
    for format in ["jsonl", "csv"] {
        let file = dir.path().join(format);
        let file = file.to_str().unwrap();
        let told = done(&source, &["export", format, file, "--data"]);
        assert!(told.contains("Exported 7 keys"), "{told}");
        let (target, there) = single();
        let endpoint = target.client.to_string();
        let import = ["import", format, file, "--data", "--checksum", &checksum(&told)];
        for (nth, wanted) in ["7 written", "0 written"].into_iter().enumerate() {
            let told = done(&endpoint, &import);
            assert!(told.contains("Imported 7 keys") && told.contains(wanted), "{nth}: {told}");
        }
        assert_eq!(there.get("/v1/data/text").json()["value"], "a, \"b\"");
        assert!(there.get("/v1/data/json").shown().contains("2.50"), "digit for digit");
        assert_eq!(there.get("/v1/data/photo?raw").bytes, [0, 255]);
        assert_eq!(there.get("/v1/crdt/counter:visits").json()["value"], 7);
        assert_eq!(there.get("/v1/crdt/set:tags").json()["elements"], serde_json::json!(["a", "b"]));
        assert_eq!(there.get("/v1/crdt/delta_numeric:account").json()["value"], "19.9");
        let rows = done(
            &endpoint,
            &["export", "jsonl", dir.path().join(format!("{format}.again")).to_str().unwrap(), "--data"],
        );
        assert!(rows.contains("Exported 7 keys"), "{rows}");
        let again = std::fs::read_to_string(dir.path().join(format!("{format}.again"))).unwrap();
        assert!(again.lines().any(|line| line.contains("brief") && line.contains("\"ttl\":")), "{again}");
    }
}

fn numbered(path: &Path, bad: Option<usize>) {
    let line = |n: usize| match bad {
        Some(bad) if bad == n => "{\"key\": \"cut o\n".to_owned(),
        _ => format!("{{\"key\": \"k{n:04}\", \"value\": \"value {n:04}\"}}\n"),
    };
    std::fs::write(path, (0..2_500).map(line).collect::<String>()).unwrap();
}

#[test]
fn an_import_goes_on_where_it_stopped() {
    let dir = TempDir::new().unwrap();
    let (rows, checkpoint) = (dir.path().join("rows"), dir.path().join("checkpoint"));
    let (_member, endpoint) = started();
    let words = ["import", "jsonl", rows.to_str().unwrap(), "--checkpoint", checkpoint.to_str().unwrap()];
    numbered(&rows, Some(1_800));
    let (is_done, told) = ask(&endpoint, &words);
    assert!(!is_done && told.contains("line 1801"), "{told}");
    assert!(checkpoint.exists());
    done(&endpoint, &["del", "k0000"]);
    let (is_done, told) = ask(&endpoint, &[&words[..], &["--overwrite"]].concat());
    assert!(!is_done && told.contains("another transfer"), "{told}");
    numbered(&rows, None);
    let told = done(&endpoint, &words);
    assert!(told.contains("Imported 2500 keys: 2500 written"), "{told}");
    assert!(!checkpoint.exists());
    assert_eq!(done(&endpoint, &["get", "k0000"]), "", "the first rows are not read again");
    assert_eq!(done(&endpoint, &["get", "k2499", "--print-value-only"]), "value 2499\n");
    let told = done(&endpoint, &words);
    assert!(told.contains("1 written, 2499 were there already"), "{told}");
}

#[test]
fn rows_that_are_refused_are_named_and_the_others_come() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("keys.json");
    let value = |text: &str| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.encode(text)
    };
    let text = format!(
        r#"[{{"key": "app/port", "flags": 0, "value": "{}"}}, {{"key": "", "flags": 0, "value": "{}"}},
            {{"key": "big", "flags": 0, "value": "{}"}}, {{"key": "last", "flags": 0, "value": ""}}]"#,
        value("8080"),
        value("x"),
        value(&"x".repeat(2 << 20)),
    );
    std::fs::write(&file, text).unwrap();
    let (_member, endpoint) = started();
    let (is_done, told) = ask(&endpoint, &["import", "consul", file.to_str().unwrap()]);
    assert!(!is_done && told.contains("Imported 2 keys") && told.contains("2 keys were refused"), "{told}");
    assert!(told.contains("big (") && told.contains("the key is empty"), "{told}");
    assert_eq!(done(&endpoint, &["get", "app/port", "--print-value-only"]), "8080\n");
    assert!(done(&endpoint, &["get", "last"]).starts_with("last"));
}

/// The answers to commands, as they come.
fn redis_cli(endpoint: &str, commands: &[&[&[u8]]]) {
    use std::io::Read;
    let mut stream = TcpStream::connect(endpoint).unwrap();
    let mut text = Vec::new();
    for command in commands {
        text.extend(format!("*{}\r\n", command.len()).into_bytes());
        for word in *command {
            text.extend([format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat());
        }
    }
    stream.write_all(&text).unwrap();
    stream.write_all(b"*1\r\n$4\r\nQUIT\r\n").unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert!(!answers.contains("-ERR") && !answers.contains("-NOAUTH"), "{answers}");
}

#[test]
fn keys_come_over_from_redis() {
    let Some(redis) = Server::redis() else { return };
    let mut commands: Vec<Vec<&[u8]>> = vec![
        vec![b"AUTH", b"secret"],
        vec![b"SET", b"text", b"hello"],
        vec![b"SET", b"bytes", &[0, 255]],
        vec![b"SET", b"brief", b"x", b"EX", b"600"],
        vec![b"HSET", b"hash", b"a", b"1", b"b", b"2"],
        vec![b"RPUSH", b"list", b"b", b"a", b"b"],
        vec![b"SADD", b"set", b"y", b"x"],
        vec![b"ZADD", b"scores", b"1.5", b"ann", b"2", b"bob"],
        vec![b"XADD", b"stream", b"*", b"f", b"v"],
    ];
    let many: Vec<String> = (0..1_200).map(|n| format!("many:{n}")).collect();
    commands.extend(many.iter().map(|key| vec![&b"SET"[..], key.as_bytes(), b"v"]));
    redis_cli(&redis.endpoint, &commands.iter().map(Vec::as_slice).collect::<Vec<_>>());

    let (member, rest) = single();
    let endpoint = member.client.to_string();
    let import = |password: &str, more: &[&str]| {
        let output = althing()
            .args(["import", "redis", "--endpoint", &redis.endpoint, "--endpoints", &endpoint])
            .args(more)
            .env("REDISCLI_AUTH", password)
            .output()
            .unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&told).into_owned())
    };
    let (is_done, told) = import("wrong", &["--data"]);
    assert!(!is_done && told.contains("WRONGPASS"), "{told}");
    let (is_done, told) = import("secret", &["--data"]);
    assert!(!is_done && told.contains("Imported 1207 keys"), "{told}");
    assert!(told.contains("1 keys have no counterpart") && told.contains("stream is a stream"), "{told}");
    let value = |key: &str| rest.get(&format!("/v1/data/{key}")).json()["value"].clone();
    assert_eq!((value("text"), value("many:1199")), ("hello".into(), "v".into()));
    assert_eq!(value("hash"), serde_json::json!({"a": "1", "b": "2"}));
    assert_eq!(value("list"), serde_json::json!(["b", "a", "b"]));
    assert_eq!(value("scores"), serde_json::json!([["ann", 1.5], ["bob", 2]]));
    assert_eq!(rest.get("/v1/data/bytes?raw").bytes, [0, 255]);
    assert_eq!(rest.get("/v1/crdt/set:set").json()["elements"], serde_json::json!(["x", "y"]));
    let (is_done, told) = import("secret", &["--prefix", "brief"]);
    assert!(is_done && told.contains("Imported 1 keys: 1 written"), "{told}");
    let leases = done(&endpoint, &["lease", "list"]);
    assert!(leases.contains("found 1 leases"), "{leases}");
    let (is_done, told) = import("secret", &["--prefix", "many:"]);
    assert!(is_done && told.contains("Imported 1200 keys"), "{told}");
    assert_eq!(done(&endpoint, &["get", "many:7", "--print-value-only"]), "v\n");
}
