//! A cluster of one of the systems on this machine, from its start until it is dropped.
//! Ports are free ones, data lies in a directory of its own that is removed with it.

use super::BenchOptions;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const READY_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum System {
    Etcd,
    Althing,
    /// Only for the load on data, and only one.
    Redis,
}

impl System {
    pub const BOTH: [System; 2] = [System::Etcd, System::Althing];

    pub fn name(self) -> &'static str {
        match self {
            System::Etcd => "etcd",
            System::Althing => "Althing",
            System::Redis => "Redis",
        }
    }
}

/// What a cluster of it is like.
#[derive(Clone, Copy)]
pub struct Setup {
    pub nodes: usize,
    /// Althing serves the data API only where it is asked to.
    pub serves_data: bool,
    /// The certificate and key of the client port: files `server.pem` and `server.key` below the workspace's.
    pub tls: bool,
}

impl Setup {
    pub fn of(nodes: usize) -> Setup {
        Setup { nodes, serves_data: false, tls: false }
    }
}

/// Where the certificates of the tests lie.
pub const PEM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/tls/tests/pem");

pub struct Cluster {
    system: System,
    program: PathBuf,
    members: Vec<ClusterProcess>,
    directory: PathBuf,
    setup: Setup,
}

struct ClusterProcess {
    client: u16,
    peer: u16,
    /// Of the data API.
    http: u16,
    /// Tells whether it is healthy, and is never inside TLS.
    metrics: u16,
    process: Option<Child>,
}

impl Cluster {
    pub fn start(
        options: &BenchOptions,
        system: System,
        nodes: usize,
        parent: &Path,
    ) -> Result<Cluster, String> {
        Cluster::start_as(options, system, Setup::of(nodes), parent)
    }

    pub fn start_with_data(
        options: &BenchOptions,
        system: System,
        nodes: usize,
        parent: &Path,
    ) -> Result<Cluster, String> {
        Cluster::start_as(options, system, Setup { serves_data: true, ..Setup::of(nodes) }, parent)
    }

    pub fn start_as(
        options: &BenchOptions,
        system: System,
        setup: Setup,
        parent: &Path,
    ) -> Result<Cluster, String> {
        let program = match system {
            System::Etcd => options.etcd.clone(),
            System::Althing => options.althing.clone(),
            System::Redis => options.redis.clone().ok_or("give --redis PATH")?,
        };
        let directory = parent.join(format!("bench-vs-{}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let mut ports = free_ports(setup.nodes * 4)?.into_iter();
        let mut port = || ports.next().expect("as many as were asked for");
        let member = |_| {
            let (client, peer, http, metrics) = (port(), port(), port(), port());
            ClusterProcess { client, peer, http, metrics, process: None }
        };
        let members = (0..setup.nodes).map(member).collect();
        let mut cluster = Cluster { system, program, members, directory, setup };
        cluster.spawn()?;
        cluster.wait_until_ready()?;
        Ok(cluster)
    }

    /// Starts every member, on the data that is there.
    pub fn spawn(&mut self) -> Result<(), String> {
        for nth in 0..self.members.len() {
            let log =
                fs::File::create(self.directory.join(format!("n{nth}.log"))).map_err(|e| e.to_string())?;
            let data = self.directory.join(format!("n{nth}"));
            let mut command = Command::new(&self.program);
            match self.system {
                System::Redis => self.add_redis_flags(nth, &data, &mut command)?,
                System::Etcd | System::Althing => self.add_etcd_flags(nth, &data, &mut command),
            }
            let process = command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
            self.members[nth].process = Some(process);
        }
        Ok(())
    }

    /// Both are started as etcd is: Althing takes its flags.
    fn add_etcd_flags(&self, nth: usize, data: &Path, command: &mut Command) {
        let ClusterProcess { client, peer, http, metrics, .. } = self.members[nth];
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let client = format!("{}127.0.0.1:{client}", self.scheme());
        let peers = self.members.iter().enumerate();
        let all: Vec<String> = peers.map(|(nth, member)| format!("n{nth}={}", url(member.peer))).collect();
        if self.system == System::Althing {
            command.arg("etcd");
        }
        if self.setup.serves_data {
            command.env("ALTHING_HTTP_ADDR", format!("127.0.0.1:{http}"));
        }
        command
            .args(["--name", &format!("n{nth}"), "--data-dir"])
            .arg(data)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-metrics-urls", &url(metrics)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &all.join(","), "--quota-backend-bytes", "8589934592"]);
        if self.setup.tls {
            let file = |name: &str| format!("{PEM}/{name}");
            command.args(["--cert-file", &file("server.pem"), "--key-file", &file("server.key")]);
        }
    }

    /// Before the addresses of clients.
    fn scheme(&self) -> &'static str {
        if self.setup.tls { "https://" } else { "http://" }
    }

    /// Every write is durable before it is answered, as with the others.
    fn add_redis_flags(&self, nth: usize, data: &Path, command: &mut Command) -> Result<(), String> {
        fs::create_dir_all(data).map_err(|error| error.to_string())?;
        command
            .args(["--port", &self.members[nth].http.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--dir"])
            .arg(data);
        Ok(())
    }

    pub fn wait_until_ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + READY_WITHIN;
        let is_ready = |member: &ClusterProcess| match self.system {
            System::Redis => TcpStream::connect(("127.0.0.1", member.http)).is_ok(),
            System::Etcd | System::Althing => {
                is_healthy(member.metrics) && (!self.keeps_data() || takes_data(member.http))
            }
        };
        while !self.members.iter().all(is_ready) {
            if Instant::now() > deadline {
                return Err(format!("{} was not ready within {READY_WITHIN:?}", self.system.name()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub fn serves_data(&self) -> bool {
        self.setup.serves_data
    }

    fn keeps_data(&self) -> bool {
        self.setup.serves_data && self.system == System::Althing
    }

    /// Ends every member in good order.
    pub fn stop(&mut self) {
        for process in self.members.iter_mut().filter_map(|member| member.process.take()) {
            end(process, "TERM");
        }
    }

    pub fn endpoints(&self) -> String {
        let all: Vec<String> = self
            .members
            .iter()
            .map(|member| format!("{}127.0.0.1:{}", self.scheme(), member.client))
            .collect();
        all.join(",")
    }

    pub fn http_endpoints(&self) -> String {
        let all: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.http)).collect();
        all.join(",")
    }

    pub fn pids(&self) -> String {
        let all: Vec<String> = self.processes().map(|process| process.id().to_string()).collect();
        all.join(",")
    }

    pub fn nodes(&self) -> usize {
        self.members.len()
    }

    fn processes(&self) -> impl Iterator<Item = &Child> {
        self.members.iter().filter_map(|member| member.process.as_ref())
    }

    /// A line of `/proc/PID/status` in MB, summed over the members.
    pub fn memory_mb(&self, line: &str) -> f64 {
        let of = |process: &Child| {
            let status = fs::read_to_string(format!("/proc/{}/status", process.id())).ok()?;
            let found = status.lines().find_map(|text| text.strip_prefix(line))?;
            found.split_whitespace().next()?.parse::<f64>().ok()
        };
        self.processes().filter_map(of).sum::<f64>() * 1024.0 / 1e6
    }

    /// Bytes that came from clients of the calls, and that went to them.
    pub fn client_bytes(&self) -> [f64; 2] {
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let of = |name: &str| {
            let of_member = |member: &ClusterProcess| {
                let told = ask(member.metrics, request).unwrap_or_default();
                told.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok())
            };
            self.members.iter().filter_map(of_member).sum()
        };
        ["etcd_network_client_grpc_received_bytes_total ", "etcd_network_client_grpc_sent_bytes_total "]
            .map(of)
    }

    /// Forgets the highest memory seen so far.
    pub fn reset_peak(&self) {
        for process in self.processes() {
            // Where it may not be reset, the peak stays the one since the start.
            let _ = fs::write(format!("/proc/{}/clear_refs", process.id()), "5");
        }
    }

    /// Processor time of all members, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let of = |process: &Child| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).ok()?;
            let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
        };
        // The kernel counts in hundredths wherever this has run.
        self.processes().filter_map(of).sum::<f64>() / 100.0
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.members.iter_mut().filter_map(|member| member.process.take()) {
            end(process, "KILL");
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn end(mut process: Child, signal: &str) {
    let _ = Command::new("kill").args([&format!("-{signal}"), &process.id().to_string()]).status();
    let _ = process.wait();
}

fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let listeners: Result<Vec<TcpListener>, _> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let listeners = listeners.map_err(|error| format!("no free port: {error}"))?;
    let ports: Result<Vec<u16>, _> =
        listeners.iter().map(|listener| listener.local_addr().map(|address| address.port())).collect();
    ports.map_err(|error| error.to_string())
}

fn is_healthy(port: u16) -> bool {
    ask(port, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .is_ok_and(|answer| answer.contains("true"))
}

fn takes_data(port: u16) -> bool {
    let body = r#"{"key":"ready","value":"yes"}"#;
    let request = format!(
        "POST /api/v1/store/keys HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    ask(port, &request).is_ok_and(|answer| answer.starts_with("HTTP/1.1 2"))
}

fn ask(port: u16, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
