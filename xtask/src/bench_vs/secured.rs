//! What security costs: the same loads on a node that is open, with auth on, inside TLS, and with both; etcd beside them,
//! open and with both; and requests of the data API with and without the headers that a secured program sends. What TLS costs stands
//! beside what its cipher must cost, measured in memory for the same bytes.
//! Everything runs in turn in every round; of the rounds the medians of the processor time are reported.

use super::cluster::{Cluster, PEM, Setup, System};
use super::figures::{Measurements, number};
use super::{BenchOptions, bench};
use std::path::Path;
use std::process::Command;

const PUT: &[&str] =
    &["put", "--clients", "256", "--connections", "32", "--value-size", "256", "--key-space", "100000"];
const RANGE: &[&str] = &["range", "--clients", "256", "--connections", "32", "--key-space", "100000"];
const DATA_PUT: &[&str] = &["data", "put", "--clients", "64", "--value-size", "100", "--key-space", "100000"];
const DATA_GET: &[&str] = &["data", "get", "--clients", "64", "--key-space", "100000"];
/// What a program that is traced and logged in sends, beside `Authorization`.
const HEADERS: &[&str] =
    &["--session", "--header", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"];
const TOTAL: u64 = 400_000;
/// Name and password of a user of this cluster alone.
const USER: &str = "load:load-password";

struct Load {
    title: &'static str,
    args: &'static [&'static str],
    sides: &'static [Side],
}

struct Side {
    title: &'static str,
    system: System,
    auth: bool,
    tls: bool,
    more: &'static [&'static str],
}

const fn side(title: &'static str, system: System, auth: bool, tls: bool) -> Side {
    Side { title, system, auth, tls, more: &[] }
}

const CALLS: &[Side] = &[
    side("Althing", System::Althing, false, false),
    side("Althing, auth", System::Althing, true, false),
    side("Althing, TLS", System::Althing, false, true),
    side("Althing, auth and TLS", System::Althing, true, true),
    side("etcd", System::Etcd, false, false),
    side("etcd, auth and TLS", System::Etcd, true, true),
];

const REQUESTS: &[Side] = &[
    side("Althing", System::Althing, false, false),
    Side { more: HEADERS, ..side("Althing, auth and all three headers", System::Althing, true, false) },
];

const LOADS: &[Load] = &[
    Load { title: "put, 256 clients", args: PUT, sides: CALLS },
    Load { title: "linearizable range, 256 clients", args: RANGE, sides: CALLS },
    Load { title: "write of the data API, 64 clients", args: DATA_PUT, sides: REQUESTS },
    Load { title: "read of the data API, 64 clients", args: DATA_GET, sides: REQUESTS },
];

/// Processor time for each operation, in microseconds.
pub struct SecuredRow {
    pub load: &'static str,
    pub side: &'static str,
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// The median beside that of the first side of the load.
    pub ratio: f64,
    pub errors: f64,
}

/// What TLS adds to an operation, and what its cipher needs, in microseconds of the processor.
pub struct CipherRow {
    pub load: &'static str,
    /// Bytes of a call and of its answer, with what HTTP/2 puts around them.
    pub bytes: [f64; 2],
    /// The median inside TLS without that in clear.
    pub tls: f64,
    /// For the bytes alone, in records as long as they can be.
    pub cipher: f64,
    /// With a record for each call and each answer.
    pub records: f64,
}

pub struct Secured {
    pub rows: Vec<SecuredRow>,
    pub ciphers: Vec<CipherRow>,
}

pub fn measure(root: &Path, options: &BenchOptions) -> Result<Secured, String> {
    let mut secured = Secured { rows: Vec::new(), ciphers: Vec::new() };
    for load in LOADS {
        let (rows, bytes) = measure_load(options, load)?;
        let median = |auth, tls| {
            let is_side =
                |side: &&Side| side.system == System::Althing && (side.auth, side.tls) == (auth, tls);
            let title = load.sides.iter().find(is_side)?.title;
            Some(rows.iter().find(|row| row.side == title)?.median)
        };
        if let (Some(open), Some(sealed)) = (median(false, false), median(false, true)) {
            let [cipher, records] = cipher_us(root, bytes)?;
            secured.ciphers.push(CipherRow { load: load.title, bytes, tls: sealed - open, cipher, records });
        }
        secured.rows.extend(rows);
    }
    Ok(secured)
}

/// What the TLS library needs in memory for so many bytes.
fn cipher_us(root: &Path, bytes: [f64; 2]) -> Result<[f64; 2], String> {
    let bytes = bytes.map(|bytes| format!("{bytes:.0}"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["run", "--release", "-p", "bench", "--example", "cipher", "--"])
        .args(bytes)
        .output()
        .map_err(|error| format!("cannot measure the cipher: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let figures = [number(&told, "cipher_us"), number(&told, "record_us")];
    let [Some(cipher), Some(records)] = figures else {
        return Err(format!("cannot measure the cipher: {told}{}", String::from_utf8_lossy(&output.stderr)));
    };
    Ok([cipher, records])
}

/// The rows, and the bytes of an operation on the first side.
fn measure_load(options: &BenchOptions, load: &'static Load) -> Result<(Vec<SecuredRow>, [f64; 2]), String> {
    let mut rounds: Vec<Vec<Measurements>> = load.sides.iter().map(|_| Vec::new()).collect();
    let mut bytes_of_first = [0.0; 2];
    for round in 0..options.rounds {
        for (nth, (side, into)) in load.sides.iter().zip(&mut rounds).enumerate() {
            let (figures, bytes) = run_side(options, load, side)?;
            println!("{} · {} · round {}: {figures}", load.title, side.title, round + 1);
            into.push(figures);
            if nth == 0 {
                bytes_of_first = bytes;
            }
        }
    }
    let first = Measurements::median(&rounds[0]).cpu_us;
    let row = |(side, rounds): (&Side, &Vec<Measurements>)| {
        let Measurements { cpu_us: median, errors, .. } = Measurements::median(rounds);
        let all = || rounds.iter().map(|figures| figures.cpu_us);
        SecuredRow {
            load: load.title,
            side: side.title,
            median,
            least: all().fold(f64::INFINITY, f64::min),
            most: all().fold(0.0, f64::max),
            ratio: median / first,
            errors,
        }
    };
    Ok((load.sides.iter().zip(&rounds).map(row).collect(), bytes_of_first))
}

/// A new cluster, the load once to warm it, and the load that counts. With the bytes of an operation, received and sent.
fn run_side(options: &BenchOptions, load: &Load, side: &Side) -> Result<(Measurements, [f64; 2]), String> {
    let serves_data = load.args[0] == "data";
    let setup = Setup { serves_data, tls: side.tls, ..Setup::of(1) };
    let cluster = Cluster::start_as(options, side.system, setup, &options.tmpfs)?;
    let trust = ["--cacert".to_owned(), format!("{PEM}/ca.pem")];
    let trust: Vec<&str> = trust.iter().map(String::as_str).filter(|_| side.tls).collect();
    if side.auth {
        turn_on(options, &cluster, &trust)?;
    }
    let who: &[&str] = if side.auth { &["--user", USER] } else { &[] };
    let total = (TOTAL * options.scale_percent / 100).max(100);
    let (warm, counted) = ((total / 4).to_string(), total.to_string());
    let with = |total: &str| {
        bench(options, &cluster, &[load.args, side.more, who, &trust, &["--total", total]].concat())
    };
    with(&warm)?;
    let before = cluster.client_bytes();
    let figures = with(&counted)?;
    let after = cluster.client_bytes();
    Ok((figures, [0, 1].map(|way| (after[way] - before[way]) / total as f64)))
}

/// A user whose role permits everything but to manage, and auth turned on.
fn turn_on(options: &BenchOptions, cluster: &Cluster, trust: &[&str]) -> Result<(), String> {
    let (name, password) = USER.split_once(':').expect("a constant with both");
    let everything = ["role", "grant-permission", name, "readwrite", "", "--from-key"];
    let data = ["role", "grant-permission", name, "readwrite", "--data", "*"];
    let mut steps: Vec<&[&str]> = vec![
        &["user", "add", "root", "--new-user-password", "root-password"],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "load"],
        &everything,
    ];
    if cluster.serves_data() {
        steps.push(&data);
    }
    let add = ["user", "add", name, "--new-user-password", password];
    steps.extend([&add[..], &["user", "grant-role", "load", "load"], &["auth", "enable"]]);
    for step in steps {
        let output = Command::new(&options.althing)
            .args(step)
            .args(trust)
            .args(["--endpoints", &cluster.endpoints()])
            .output()
            .map_err(|error| format!("cannot run {}: {error}", options.althing.display()))?;
        if !output.status.success() {
            return Err(format!("{step:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(())
}
