//! Honest clients beside hostile ones: a member, many connections of which half are hostile, and how long the honest ones
//! wait without and with them. The hostile send heads and bodies a byte at a time, are idle, flood with pings and
//! settings, open requests that never become complete, and reconnect when they are cut.

mod attack;
mod honest;

use attack::Attacker;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub const HELP: &str = "
  hostile [--connections N] [--seconds S] [--althing PATH]
             a member with N connections (2000), half of them hostile, for S seconds (20): how long honest requests take
             without and with the hostile ones, and the memory of the member
";

const START_PATIENCE: Duration = Duration::from_secs(60);
/// Threads of each side.
const HONEST_THREADS: usize = 4;
const HOSTILE_THREADS: usize = 4;
/// Tells the second process, which may open as many files as the system allows, from the first.
const RAISED: &str = "ALTHING_HOSTILE_RAISED";

struct HostileOptions {
    connections: usize,
    seconds: u64,
    althing: PathBuf,
}

pub fn run(root: &Path, arguments: Vec<String>) -> ExitCode {
    let outcome = match std::env::var_os(RAISED) {
        None => run_raised(&arguments),
        Some(_) => parse(root, &arguments).and_then(|options| measure(&options)).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|problem| {
        eprintln!("hostile: {problem}\n{HELP}");
        ExitCode::FAILURE
    })
}

/// Runs the same again with a higher limit on open files.
fn run_raised(arguments: &[String]) -> Result<ExitCode, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let status = Command::new("sh")
        .args(["-c", "ulimit -n $(ulimit -Hn); exec \"$0\" hostile \"$@\""])
        .arg(me)
        .args(arguments)
        .env(RAISED, "1")
        .status()
        .map_err(|error| error.to_string())?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(root: &Path, arguments: &[String]) -> Result<HostileOptions, String> {
    let althing = root.join("target/release/althing");
    let mut options = HostileOptions { connections: 2_000, seconds: 20, althing };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = || value.parse::<usize>().map_err(|_| format!("{name} takes a number, not {value}"));
        match name.as_str() {
            "--connections" => options.connections = number()?.max(16),
            "--seconds" => options.seconds = number()?.max(1) as u64,
            "--althing" => options.althing = value.into(),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(options)
}

/// A member of its own, on a directory of its own.
struct TestMember {
    process: Child,
    dir: PathBuf,
    client: SocketAddr,
    rest: SocketAddr,
}

impl TestMember {
    fn start(althing: &Path) -> Result<TestMember, String> {
        let dir = std::env::temp_dir().join(format!("althing-hostile-{}", std::process::id()));
        let ports = free_ports().map_err(|error| error.to_string())?;
        let [client, peer, rest] = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let process = Command::new(althing)
            .arg("serve")
            .args(["--client-addr", &client.to_string(), "--peer-addr", &peer.to_string()])
            .args(["--http-addr", &rest.to_string(), "--log-level", "warn"])
            .arg("--data-dir")
            .arg(&dir)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", althing.display()))?;
        let member = TestMember { process, dir, client, rest };
        let deadline = Instant::now() + START_PATIENCE;
        while !member.takes_data() {
            if Instant::now() > deadline {
                return Err("the member does not serve".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(member)
    }

    fn takes_data(&self) -> bool {
        let asked = |address| {
            let mut client = honest::Client::connect(address)?;
            client.ask(0)
        };
        asked(self.client).is_ok() && asked(self.rest).is_ok()
    }

    fn memory_mib(&self, name: &str) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() >> 10
    }
}

impl Drop for TestMember {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn free_ports() -> std::io::Result<[u16; 3]> {
    let listeners = [
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
        TcpListener::bind("127.0.0.1:0")?,
    ];
    let [a, b, c] = &listeners;
    Ok([a.local_addr()?.port(), b.local_addr()?.port(), c.local_addr()?.port()])
}

fn measure(options: &HostileOptions) -> Result<(), String> {
    let member = TestMember::start(&options.althing)?;
    let half = options.connections / 2;
    let without = honest_for(options, &member, half)?;
    println!("without: {without}, {} MiB", member.memory_mib("VmRSS:"));

    let stop = Arc::new(AtomicBool::new(false));
    let cut = Arc::new(AtomicUsize::new(0));
    let attackers: Vec<_> = (0..HOSTILE_THREADS)
        .map(|nth| {
            let attacker = Attacker::new([member.client, member.rest], half / HOSTILE_THREADS, nth);
            let (stop, cut) = (stop.clone(), cut.clone());
            std::thread::spawn(move || attacker.run(&stop, &cut))
        })
        .collect();
    let with = honest_for(options, &member, half);
    stop.store(true, Ordering::Relaxed);
    for attacker in attackers {
        let _ = attacker.join();
    }
    let with = with?;
    println!(
        "with {half} hostile: {with}, {} MiB, {} MiB at most; hostile connections were cut {} times",
        member.memory_mib("VmRSS:"),
        member.memory_mib("VmHWM:"),
        cut.load(Ordering::Relaxed)
    );
    println!(
        "p99 {:.2} times",
        with.quantile(99.0).as_secs_f64() / without.quantile(99.0).as_secs_f64().max(1e-9)
    );
    Ok(())
}

/// Honest requests for the time of one measurement, spread over so many connections.
fn honest_for(
    options: &HostileOptions,
    member: &TestMember,
    connections: usize,
) -> Result<honest::Report, String> {
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let (client, rest) = (member.client, member.rest);
    let threads: Vec<_> = (0..HONEST_THREADS)
        .map(|nth| {
            let address = if nth % 2 == 0 { client } else { rest };
            std::thread::spawn(move || honest::run(address, connections / HONEST_THREADS, end))
        })
        .collect();
    let mut report = honest::Report::default();
    for thread in threads {
        report.add(thread.join().map_err(|_| "an honest client panicked")?);
    }
    report.sort();
    Ok(report)
}

/// A connection with a bound on how long anything on it may take.
fn connect(address: SocketAddr, patience: Duration) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}
