//! The members that are lied to: three of one region and one of another, as real processes with data in a temporary folder.
//! Answers what the liar must know of them, writes and reads on both planes, and sees whether any has ended.

use crate::http;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const HERE: &str = "here";
pub const THERE: &str = "there";
/// How long anything may take that ought to take a moment.
pub const PATIENCE: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Trouble(pub String);

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble(error.to_string())
    }
}

/// What a member says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObservedStatus {
    pub cluster: u64,
    pub id: u64,
    pub leader: u64,
    pub term: u64,
    pub index: u64,
}

pub struct Member {
    binary: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    child: Child,
    pub peer: SocketAddr,
    pub endpoints: Endpoints,
}

/// Where a member serves clients.
#[derive(Clone, Copy, Debug)]
pub struct Endpoints {
    pub client: SocketAddr,
    pub rest: SocketAddr,
}

pub struct Cluster {
    /// Three of one region, then the one of the other.
    pub members: Vec<Member>,
    _folder: TempDir,
}

/// Tries again until it works.
pub fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> Result<T, Trouble> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(value) = attempt() {
            return Ok(value);
        }
        std::thread::sleep(PAUSE);
    }
    Err(Trouble(format!("waited too long until {what}")))
}

impl Cluster {
    /// Ready: both regions serve, and hear of each other.
    pub fn start(binary: &Path) -> Result<Cluster, Trouble> {
        let folder = TempDir::new()?;
        let ports = server::ports::free_ports(4)?;
        let address = |port: &u16| format!("127.0.0.1:{port}");
        let listed = |ports: &[u16]| {
            let named = ports.iter().map(|port| format!("m{port}={}", address(port)));
            named.collect::<Vec<_>>().join(",")
        };
        let nodes_of = |region: &str, ports: &[u16]| {
            let named = ports.iter().map(|port| format!("{region}={}", address(port)));
            named.collect::<Vec<_>>().join(",")
        };
        let (here, there) = ports.split_at(3);
        let mut members = Vec::new();
        for port in &ports {
            let (region, own, other) = if here.contains(port) {
                (HERE, here, nodes_of(THERE, there))
            } else {
                (THERE, there, nodes_of(HERE, here))
            };
            let data = folder.path().join(format!("data-{port}"));
            let arguments = [
                ["--name", &format!("m{port}")],
                ["--client-addr", "127.0.0.1:0"],
                ["--http-addr", "127.0.0.1:0"],
                ["--peer-addr", &address(port)],
                ["--initial-cluster", &listed(own)],
                ["--region", region],
                ["--region-peers", &other],
                ["--advertise-region", &address(port)],
                ["--data-dir", &data.display().to_string()],
            ];
            let arguments: Vec<String> = arguments.concat().iter().map(|word| (*word).to_owned()).collect();
            members.push((arguments, folder.path().join(format!("log-{port}")), *port));
        }
        // All are started before one is waited for: a member alone does not announce itself.
        let started: Vec<_> = members
            .into_iter()
            .map(|(arguments, log, port)| {
                spawn(binary, &arguments, &log).map(|child| (arguments, log, port, child))
            })
            .collect::<io::Result<_>>()?;
        let members = started.into_iter().map(|(arguments, log, port, mut child)| {
            let endpoints = announced(&mut child, &log)?;
            let peer = SocketAddr::from(([127, 0, 0, 1], port));
            Ok(Member { binary: binary.to_owned(), arguments, log, child, peer, endpoints })
        });
        let cluster = Cluster { members: members.collect::<Result<_, Trouble>>()?, _folder: folder };
        cluster.wait_ready()?;
        Ok(cluster)
    }

    /// Every member answers on both planes, and the regions hear of each other.
    pub fn wait_ready(&self) -> Result<(), Trouble> {
        for member in &self.members {
            until("a member is healthy", || {
                (http::call(member.endpoints.client, "GET", "/health", "")?.status == 200).then_some(())
            })?;
            until("the ring is whole", || {
                let ring = http::call(member.endpoints.rest, "GET", "/v1/ring", "")?.json();
                let serves = ring["nodes"].as_array()?.iter().all(|node| node["standing"] == "serving");
                (serves && ring["here"]["serving"] == true).then_some(())
            })?;
            until("the regions hear of each other", || {
                let seen = http::call(member.endpoints.rest, "GET", "/v1/regions", "")?.json();
                seen["regions"].as_array()?.iter().any(|region| region["healthy"] == true).then_some(())
            })?;
        }
        Ok(())
    }

    pub fn here(&self) -> &[Member] {
        &self.members[..3]
    }

    /// Why a member is not what it was, if any is not.
    pub fn find_ended(&mut self) -> Result<(), Trouble> {
        for member in &mut self.members {
            if let Some(status) = member.child.try_wait()? {
                return Err(Trouble(format!(
                    "a member ended: {status}; its log ends so:\n{}",
                    member.log_end()
                )));
            }
            if let Some(line) = member.panic_line()? {
                return Err(Trouble(format!("a thread of a member panicked: {line}")));
            }
        }
        Ok(())
    }
}

fn spawn(binary: &Path, arguments: &[String], log: &Path) -> io::Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    Command::new(binary).arg("serve").args(arguments).stdout(Stdio::piped()).stderr(log).spawn()
}

/// Where a member serves, by the line that it prints.
fn announced(child: &mut Child, log: &Path) -> Result<Endpoints, Trouble> {
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    let address = |before: &str| {
        let (_, url) = line.split_once(before)?;
        url.split_once("://")?.1.split(',').next()?.trim().parse().ok()
    };
    match (address("clients on "), address("REST on ")) {
        (Some(client), Some(rest)) => Ok(Endpoints { client, rest }),
        _ => {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            Err(Trouble(format!("a member does not serve: {line:?}; its log:\n{text}")))
        }
    }
}

impl Endpoints {
    pub fn status(&self) -> Option<ObservedStatus> {
        let answer = http::call(self.client, "POST", "/v3/maintenance/status", "{}")?.json();
        let number = |value: &serde_json::Value| value.as_str()?.parse().ok();
        Some(ObservedStatus {
            cluster: number(&answer["header"]["cluster_id"])?,
            id: number(&answer["header"]["member_id"])?,
            leader: number(&answer["leader"]).unwrap_or(0),
            term: number(&answer["raftTerm"])?,
            index: number(&answer["raftIndex"])?,
        })
    }

    /// Of the mesh's topology.
    pub fn epoch(&self) -> Option<u64> {
        http::call(self.rest, "GET", "/v1/ring", "")?.json()["epoch"].as_u64()
    }

    pub fn put(&self, key: &str, value: &str) -> bool {
        let body = format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key), base64(value));
        http::call(self.client, "POST", "/v3/kv/put", &body).is_some_and(|answer| answer.status == 200)
    }

    pub fn get(&self, key: &str) -> Option<String> {
        let body = format!(r#"{{"key":"{}"}}"#, base64(key));
        let answer = http::call(self.client, "POST", "/v3/kv/range", &body)?;
        let value = answer.json()["kvs"][0]["value"].as_str()?.to_owned();
        (answer.status == 200).then_some(value)
    }

    pub fn put_data(&self, key: &str, value: &str) -> bool {
        let body = format!(r#"{{"value":"{value}"}}"#);
        http::call(self.rest, "PUT", &format!("/v1/data/{key}"), &body)
            .is_some_and(|answer| answer.status == 200)
    }

    pub fn get_data(&self, key: &str) -> Option<String> {
        let answer = http::call(self.rest, "GET", &format!("/v1/data/{key}"), "")?;
        let value = answer.json()["value"].as_str()?.to_owned();
        (answer.status == 200).then_some(value)
    }

    /// A counter of its metrics, summed over its labels.
    pub fn metric(&self, name: &str) -> u64 {
        let Some(answer) = http::call(self.client, "GET", "/metrics", "") else { return 0 };
        let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        let lines = answer
            .body
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
        lines.filter_map(value).sum::<f64>() as u64
    }
}

impl Member {
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// From what its disk has.
    pub fn start_again(&mut self) -> Result<(), Trouble> {
        self.child = spawn(&self.binary, &self.arguments, &self.log)?;
        self.endpoints = announced(&mut self.child, &self.log)?;
        Ok(())
    }

    fn panic_line(&self) -> io::Result<Option<String>> {
        let text = BufReader::new(File::open(&self.log)?);
        let mut lines = text.split(b'\n').map_while(Result::ok);
        let line = lines.find(|line| contains(line, b"panicked"));
        Ok(line.map(|line| String::from_utf8_lossy(&line).into_owned()))
    }

    pub fn log_end(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

fn contains(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|window| window == word)
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of a short text, as the gateway has it.
pub fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let number =
            three.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for nth in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * nth)) as usize & 63] as char;
            out.push(if nth <= three.len() { digit } else { '=' });
        }
    }
    out
}
