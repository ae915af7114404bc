//! Real `althing` processes for tests: started, waited for, signalled, and killed when the test ends.

use crate::etcd::Etcd;
use differ::server::Server;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take that ought to take a moment.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn althing() -> Command {
    let binary = env!("CARGO_BIN_EXE_althing");
    let mut command = if signals_are_ignored() {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT,QUIT", binary]);
        command
    } else {
        Command::new(binary)
    };
    let ours = |name: &str| name.starts_with("ALTHING_") || name == "HTTP_PORT";
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

/// A program of others: the one that the variable names, or that lies on the path. A line says so if there is none.
pub fn program(variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    let found = named.or_else(on_path);
    if found.is_none() {
        let told = format!("SKIPPED: there is no {name}: set {variable}, or put it on the path");
        let _ = writeln!(std::io::stderr(), "{told}");
    }
    found
}

/// Whether this process was started to ignore SIGHUP, SIGINT or SIGQUIT, as `nohup` and `&` in a script do: what it starts would inherit that.
fn signals_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 0b111 != 0)
}

/// A port that stays free until a process listens on it.
pub fn free_port() -> u16 {
    server::ports::free_port().unwrap()
}

/// Tries again until it works; panics when it takes too long.
/// A connection from this address of loopback, another one than other clients have.
pub fn connect_from(address: [u8; 4], to: SocketAddr) -> Option<TcpStream> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().ok()?;
        socket.bind(SocketAddr::from((address, 0))).ok()?;
        socket.connect(to).await.ok()?.into_std().ok()
    })?;
    stream.set_nonblocking(false).ok()?;
    Some(stream)
}

pub fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An etcd that answers. It is started again if another process has taken one of its ports before it could.
pub fn start_etcd(binary: &str, flags: &[&str]) -> Server {
    let mut etcd = None;
    until("etcd answers", || {
        let server = etcd.get_or_insert_with(|| Server::etcd_with(Path::new(binary), flags).unwrap());
        if server.is_over() {
            etcd = None;
            return None;
        }
        TcpStream::connect(server.address()).ok()?;
        let read = http_at(server.address(), "POST", "/v3/kv/range", r#"{"key":"YQ=="}"#);
        (read.status == 200).then_some(())
    });
    etcd.expect("it has answered")
}

/// What a member needs to be started, and started again.
#[derive(Clone)]
pub struct Plan {
    pub name: String,
    pub peer_port: u16,
    /// Where it serves REST; zero for another port at each start.
    pub http_port: u16,
    pub cluster: String,
    pub dir: Arc<TempDir>,
    pub extra: Vec<String>,
}

impl Plan {
    pub fn single() -> Plan {
        Plan::cluster(1).remove(0)
    }

    pub fn cluster(n: usize) -> Vec<Plan> {
        let ports: Vec<u16> = (0..n).map(|_| free_port()).collect();
        let members: Vec<String> =
            ports.iter().enumerate().map(|(i, port)| format!("m{i}=127.0.0.1:{port}")).collect();
        let plan = |(i, port): (usize, &u16)| Plan {
            name: format!("m{i}"),
            peer_port: *port,
            http_port: 0,
            cluster: members.join(","),
            dir: Arc::new(TempDir::new().unwrap()),
            extra: vec![],
        };
        ports.iter().enumerate().map(plan).collect()
    }

    pub fn with(mut self, flags: &[&str]) -> Plan {
        self.extra.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// What the member has logged so far, over all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap()
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    pub fn command(&self) -> Command {
        let mut command = althing();
        command
            .arg("serve")
            .args(["--name", &self.name])
            .args(["--client-addr", "127.0.0.1:0"])
            .args(["--http-addr", &format!("127.0.0.1:{}", self.http_port)])
            .args(["--peer-addr", &format!("127.0.0.1:{}", self.peer_port)])
            .args(["--initial-cluster", &self.cluster])
            .args(["--election-ms", "500", "--heartbeat-ms", "50"])
            .arg("--data-dir")
            .arg(self.data_dir())
            .args(&self.extra)
            .stdout(Stdio::piped());
        command
    }

    /// Starts the member and reads its one line.
    pub fn start(&self) -> Member {
        match Member::read_line_of(self.spawn()) {
            Ok(mut member) => {
                member.log = Some(self.log_path());
                member.dir = Some(self.dir.clone());
                member
            }
            Err(why) => panic!("{why}; its log:\n{}", self.log()),
        }
    }

    /// Starts the member and waits for nothing.
    pub fn spawn(&self) -> Child {
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        self.command().stderr(log).spawn().unwrap()
    }

    /// Starts the member and waits until it can serve.
    pub fn start_ready(&self) -> Member {
        let member = self.start();
        member.wait_ready();
        member
    }
}

pub struct Member {
    child: Child,
    pub client: SocketAddr,
    /// Where the data API is, if it is served.
    pub rest: Option<SocketAddr>,
    /// The line that it printed on starting.
    pub announced: String,
    /// Shown when the test fails.
    log: Option<PathBuf>,
    /// Stays for as long as the member lives.
    dir: Option<Arc<TempDir>>,
}

impl Member {
    pub fn from_child(child: Child) -> Member {
        Member::read_line_of(child).unwrap()
    }

    /// The member, unless it does not say that it serves.
    fn read_line_of(mut child: Child) -> Result<Member, String> {
        let mut announced = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut announced).unwrap();
        let address = |before: &str| {
            let (_, url) = announced.split_once(before)?;
            let (_, address) = url.split_once("://")?;
            address.split(',').next()?.parse().ok()
        };
        let (client, rest) = (address("clients on "), address("REST on "));
        let Some(client) = client else {
            let _ = child.kill();
            return Err(format!("not the line of a member that serves: {announced:?}, {:?}", child.wait()));
        };
        Ok(Member { child, client, rest, announced, log: None, dir: None })
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.client)
    }

    pub async fn etcd(&self) -> Etcd {
        Etcd::connect(&self.endpoint()).await
    }

    pub fn wait_ready(&self) {
        until("the member is healthy", || (self.http("GET", "/health").status == 200).then_some(()));
    }

    /// One request over plain HTTP/1.1.
    pub fn http(&self, method: &str, target: &str) -> HttpAnswer {
        self.http_with(method, target, "")
    }

    pub fn http_with(&self, method: &str, target: &str, body: &str) -> HttpAnswer {
        http_at(self.client, method, target, body)
    }

    pub fn rss_bytes(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most that it was, since it was forgotten.
    pub fn peak_rss_bytes(&self) -> u64 {
        self.memory("VmHWM:")
    }

    pub fn forget_peak_rss(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
    }

    fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024
    }

    /// Descriptors that the process has open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// One figure of `/metrics`.
    pub fn metric(&self, name: &str) -> f64 {
        let metrics = self.http("GET", "/metrics").body;
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// SIGKILL, and gone when this returns.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether the member says that it leads.
    pub fn leads(&self) -> bool {
        self.http("GET", "/metrics").body.lines().any(|line| line == "etcd_server_is_leader 1")
    }

    pub fn wait_exit(&mut self) -> ExitStatus {
        until("the process ends", || self.child.try_wait().unwrap())
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = self.log.as_ref().filter(|_| std::thread::panicking());
        if let Some(text) = log.and_then(|path| std::fs::read_to_string(path).ok()) {
            let _ = writeln!(std::io::stderr(), "the log of {}:\n{text}", self.announced);
        }
    }
}

/// One request over plain HTTP/1.1, to any server.
pub fn http_at(address: SocketAddr, method: &str, target: &str, body: &str) -> HttpAnswer {
    exchange(address, &format!("{method} {target}"), "", body)
}

/// A post with headers of its own, each line of which ends as HTTP has it.
pub fn http_with_headers(address: SocketAddr, target: &str, headers: &str, body: &str) -> HttpAnswer {
    exchange(address, &format!("POST {target}"), headers, body)
}

fn exchange(address: SocketAddr, line: &str, headers: &str, body: &str) -> HttpAnswer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    HttpAnswer::parse(&text)
}

pub struct HttpAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl HttpAnswer {
    fn parse(text: &str) -> HttpAnswer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        HttpAnswer { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}
