//! `cargo xtask bench-vs`: the same loads on etcd and on Althing, in turn, several rounds, and a page about it.
//! Paths of the two binaries go in; `docs/benchmarks.md` and its plots come out. Systems alternate within every
//! round, so what else the machine does meets both; of the rounds the median is reported.

mod cluster;
mod data;
mod figures;
mod large;
mod page;
mod plot;
mod secured;

use cluster::{Cluster, System};
use figures::Measurements;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

pub const HELP: &str = "\
  bench-vs --etcd PATH [--althing PATH] [--rounds N] [--tmpfs DIR] [--disk DIR] [--scale PERCENT] [--large] [--secured] [--redis PATH]
             loads that etcd and Althing in turn (locks: etcd by transaction and watch, Althing by its service), and writes docs/benchmarks.md; --large adds a million keys,
             --secured measures what auth and TLS cost instead, and both systems with both, and writes docs/benchmarks-secured.md;
             --redis loads the data API beside that redis-server instead, and writes docs/benchmarks-data.md
";

/// One kind of load on one kind of cluster.
pub struct Scenario {
    pub title: &'static str,
    pub nodes: usize,
    pub on: Medium,
    pub load: &'static [&'static str],
    /// The arguments for etcd instead.
    pub of_etcd: &'static [&'static str],
    /// Operations at full scale.
    pub total: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    Tmpfs,
    Disk,
}

const PUT: &[&str] =
    &["put", "--clients", "1000", "--connections", "100", "--value-size", "256", "--key-space", "100000"];
const RANGE: &[&str] = &["range", "--clients", "1000", "--connections", "100", "--key-space", "100000"];
const ONE: &[&str] = &["put", "--clients", "1", "--value-size", "256"];
const WATCH: &[&str] = &["watch", "--watchers", "1000", "--streams", "10"];
const LOCK: &[&str] = &["lock", "--locks", "100", "--clients", "100", "--connections", "100"];
/// etcd's lock service is slower than its client without it.
const LOCK_OF_ETCD: &[&str] = &["--by", "keys"];
const RENEW: &[&str] = &["lease-keep-alive", "--clients", "100", "--connections", "10"];

const fn scenario(
    title: &'static str,
    nodes: usize,
    on: Medium,
    load: &'static [&'static str],
    total: u64,
) -> Scenario {
    Scenario { title, nodes, on, load, of_etcd: &[], total }
}

const fn lock(title: &'static str, nodes: usize) -> Scenario {
    Scenario { of_etcd: LOCK_OF_ETCD, ..scenario(title, nodes, Medium::Tmpfs, LOCK, 20_000) }
}

const SCENARIOS: &[Scenario] = &[
    scenario("put, 1000 clients, 1 node, tmpfs", 1, Medium::Tmpfs, PUT, 200_000),
    scenario("put, 1000 clients, 3 nodes, tmpfs", 3, Medium::Tmpfs, PUT, 150_000),
    scenario("put, 1000 clients, 1 node, disk", 1, Medium::Disk, PUT, 100_000),
    scenario("put, 1000 clients, 3 nodes, disk", 3, Medium::Disk, PUT, 100_000),
    scenario("linearizable range, 1000 clients, 1 node", 1, Medium::Tmpfs, RANGE, 300_000),
    scenario("linearizable range, 1000 clients, 3 nodes", 3, Medium::Tmpfs, RANGE, 200_000),
    scenario("put, one client, 1 node, tmpfs", 1, Medium::Tmpfs, ONE, 5_000),
    scenario("put, one client, 3 nodes, tmpfs", 3, Medium::Tmpfs, ONE, 5_000),
    scenario("watch, 1000 watchers of one key, 10 streams", 1, Medium::Tmpfs, WATCH, 2_000),
    scenario("lease keep-alive, 100 clients, 1 node", 1, Medium::Tmpfs, RENEW, 100_000),
    lock("lock and unlock, 100 locks, 100 clients, 1 node", 1),
    lock("lock and unlock, 100 locks, 100 clients, 3 nodes", 3),
];

struct BenchOptions {
    etcd: PathBuf,
    althing: PathBuf,
    rounds: usize,
    tmpfs: PathBuf,
    disk: PathBuf,
    scale_percent: u64,
    large: bool,
    secured: bool,
    redis: Option<PathBuf>,
}

pub fn run(root: &Path, args: Vec<String>) -> ExitCode {
    match parse(root, args).and_then(|options| measure(root, &options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("bench-vs: {problem}");
            ExitCode::from(2)
        }
    }
}

fn parse(root: &Path, args: Vec<String>) -> Result<BenchOptions, String> {
    let mut options = BenchOptions {
        etcd: PathBuf::new(),
        althing: root.join("target/dist/althing"),
        rounds: 3,
        tmpfs: "/dev/shm".into(),
        disk: root.join("target"),
        scale_percent: 100,
        large: false,
        secured: false,
        redis: None,
    };
    let mut args = args.into_iter();
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or(format!("{flag} needs a value"));
        match flag.as_str() {
            "--etcd" => options.etcd = value()?.into(),
            "--althing" => options.althing = value()?.into(),
            "--tmpfs" => options.tmpfs = value()?.into(),
            "--disk" => options.disk = value()?.into(),
            "--rounds" => options.rounds = number(&value()?)? as usize,
            "--scale" => options.scale_percent = number(&value()?)?,
            "--large" => options.large = true,
            "--secured" => options.secured = true,
            "--redis" => options.redis = Some(value()?.into()),
            other => return Err(format!("`{other}` is not known\n{HELP}")),
        }
    }
    for (path, what) in [(&options.etcd, "--etcd PATH"), (&options.althing, "--althing PATH")] {
        if !path.is_file() {
            return Err(format!("give {what}: there is no program at `{}`", path.display()));
        }
    }
    Ok(options)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or(format!("`{text}` is not a number above zero"))
}

fn measure(root: &Path, options: &BenchOptions) -> Result<(), String> {
    if options.redis.is_some() {
        return page::write_data(root, options, &data::measure(options)?);
    }
    if options.secured {
        return page::write_secured(root, options, &secured::measure(root, options)?);
    }
    let mut results: Vec<(String, [Vec<Measurements>; 2])> = Vec::new();
    for scenario in SCENARIOS {
        let mut rounds = [Vec::new(), Vec::new()];
        for round in 0..options.rounds {
            for (system, into) in System::BOTH.into_iter().zip(&mut rounds) {
                let figures = run_once(options, scenario, system)?;
                println!("{} · {} · round {}: {figures}", scenario.title, system.name(), round + 1);
                into.push(figures);
            }
        }
        results.push((scenario.title.to_owned(), rounds));
    }
    let large = if options.large { Some(large::measure(options)?) } else { None };
    page::write(root, options, &results, large.as_ref())
}

fn run_once(options: &BenchOptions, scenario: &Scenario, system: System) -> Result<Measurements, String> {
    let parent = match scenario.on {
        Medium::Tmpfs => &options.tmpfs,
        Medium::Disk => &options.disk,
    };
    let cluster = Cluster::start(options, system, scenario.nodes, parent)?;
    let total = (scenario.total * options.scale_percent / 100).max(100).to_string();
    let mut args: Vec<&str> = scenario.load.to_vec();
    if system == System::Etcd {
        args.extend(scenario.of_etcd);
    }
    args.extend(["--total", &total]);
    bench(options, &cluster, &args)
}

/// Runs the load generator against a cluster.
fn bench(options: &BenchOptions, cluster: &Cluster, args: &[&str]) -> Result<Measurements, String> {
    let output = Command::new(&options.althing)
        .arg("bench")
        .args(args)
        .args(["--json", "--endpoints", &cluster.endpoints(), "--server-pid", &cluster.pids()])
        .env("ALTHING_HTTP_ENDPOINTS", cluster.http_endpoints())
        .output()
        .map_err(|error| format!("cannot run the load generator: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Measurements::parse(&text)
        .ok_or_else(|| format!("the load generator said: {text}{}", String::from_utf8_lossy(&output.stderr)))
}
