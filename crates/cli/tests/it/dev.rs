//! `althing dev`: a cluster of real processes that heals itself and leaves nothing behind.

use crate::etcd::{Etcd, get, put};
use crate::process::{althing, until};
use crate::tour::block_on;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

struct Dev {
    child: Child,
    endpoints: Vec<String>,
}

impl Dev {
    fn start(args: &[&str]) -> Dev {
        let mut child =
            althing().arg("dev").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.find_map(|line| line.strip_prefix("endpoints: ").map(str::to_owned));
        let endpoints = line.expect("the endpoints are told").split(',').map(str::to_owned).collect();
        assert!(lines.next().is_some_and(|line| line.starts_with("try: althing put")));
        Dev { child, endpoints }
    }

    /// The members' process ids, by the children that the kernel lists; another child cleans up if this one is killed.
    fn members(&self) -> Vec<u32> {
        let id = self.child.id();
        let listed = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let serves = |id: &&str| {
            std::fs::read_to_string(format!("/proc/{id}/cmdline"))
                .is_ok_and(|line| line.contains("\0serve\0"))
        };
        listed.split_whitespace().filter(serves).map(|id| id.parse().unwrap()).collect()
    }

    fn stop(mut self) -> String {
        signal("INT", self.child.id());
        let ended = until("the cluster stops", || self.child.try_wait().unwrap());
        assert!(ended.success(), "{ended}");
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }
}

fn signal(name: &str, id: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status().unwrap().success());
}

async fn write_and_read(dev: &Dev, value: &'static str) {
    let mut first = Etcd::connect(&format!("http://{}", dev.endpoints[0])).await;
    first.put(put("a", value)).await.unwrap();
    for endpoint in &dev.endpoints {
        let mut etcd = Etcd::connect(&format!("http://{endpoint}")).await;
        assert_eq!(etcd.range(get("a")).await.unwrap().kvs[0].value, value);
    }
}

fn wait_reachable(dev: &Dev) {
    for endpoint in &dev.endpoints {
        until("the member listens", || std::net::TcpStream::connect(endpoint).ok());
    }
}

#[test]
fn a_member_that_dies_is_started_again_and_all_stop_together() {
    let dev = Dev::start(&[]);
    assert_eq!(dev.endpoints.len(), 3);
    wait_reachable(&dev);
    block_on(write_and_read(&dev, "1"));
    let before = dev.members();
    assert_eq!(before.len(), 3);
    signal("KILL", before[0]);
    let after = until("the member is started again", || {
        let members = dev.members();
        (members.len() == 3 && !members.contains(&before[0])).then_some(members)
    });
    wait_reachable(&dev);
    block_on(write_and_read(&dev, "2"));

    let log = dev.stop();
    assert!(log.contains("ended") && log.contains("starting it again"), "{log}");
    for id in after {
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "member {id} was left behind");
    }
}

#[test]
fn nothing_is_left_behind_by_one_that_is_killed_or_hung_up() {
    for name in ["KILL", "HUP"] {
        let mut child = althing()
            .args(["dev", "--nodes", "1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let data = lines.find_map(|line| line.split_once("data in ").map(|(_, dir)| dir.to_owned()));
        let data = std::path::PathBuf::from(data.unwrap());
        let root = data.parent().unwrap();
        assert!(root.exists());
        signal(name, child.id());
        until("it has ended", || child.try_wait().unwrap());
        until("its directory is gone", || (!root.exists()).then_some(()));
        let runs = |entry: std::fs::DirEntry| {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(root.to_str().unwrap())
        };
        until("no member is left", || {
            (!std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).any(runs)).then_some(())
        });
    }
}

#[test]
fn data_that_was_kept_is_there_again() {
    let dir = TempDir::new().unwrap();
    let args = ["--nodes", "1", "--data-dir", dir.path().to_str().unwrap()];
    let dev = Dev::start(&args);
    wait_reachable(&dev);
    block_on(write_and_read(&dev, "kept"));
    dev.stop();
    let dev = Dev::start(&args);
    wait_reachable(&dev);
    block_on(async {
        let mut etcd = Etcd::connect(&format!("http://{}", dev.endpoints[0])).await;
        assert_eq!(etcd.range(get("a")).await.unwrap().kvs[0].value, "kept");
    });
    dev.stop();
}

fn say(words: &[&str], endpoint: &str) -> String {
    let output = althing().args(words).args(["--http-endpoints", endpoint]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn regions_of_a_development_cluster_find_each_other_and_hold_the_same() {
    let mut child = althing()
        .args(["dev", "--nodes", "1", "--regions", "2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let told = lines.filter_map(|line| line.split_once("REST endpoints: ").map(|(_, one)| one.to_owned()));
    let [here, there]: [String; 2] = told.take(2).collect::<Vec<_>>().try_into().unwrap();
    until("the regions find each other", || {
        let healthy =
            |at: &str, other: &str| say(&["region", "ls"], at).starts_with(&format!("{other}, true"));
        (healthy(&here, "r2") && healthy(&there, "r1")).then_some(())
    });
    assert_eq!(say(&["data", "put", "greeting", "hello"], &here), "OK\n");
    until("it is there as well", || {
        (say(&["data", "get", "greeting"], &there) == "greeting\nhello\n").then_some(())
    });
    assert!(say(&["handlers", "ls"], &here).contains("json_merge: built in"));
    assert_eq!(say(&["region", "remove", "r2"], &here), "region r2 is evicted\n");
    assert_eq!(say(&["region", "ls"], &here), "");
    assert_eq!(say(&["region", "add", "r2", "127.0.0.1:1"], &here), "region r2 is listed\n");
    signal("INT", child.id());
    assert!(until("the cluster stops", || child.try_wait().unwrap()).success());
}
