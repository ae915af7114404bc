//! The page: tables with both systems and their ratio, the machine, the versions, and how to repeat it.

use super::BenchOptions;
use super::figures::Measurements;
use super::large::LargeRow;
use super::plot::{self, rounded};
use super::secured::{CipherRow, Secured, SecuredRow};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

type Results = [(String, [Vec<Measurements>; 2])];

pub fn write(
    root: &Path,
    options: &BenchOptions,
    results: &Results,
    large: Option<&Vec<LargeRow>>,
) -> Result<(), String> {
    let docs = root.join("docs");
    let medians: Vec<(String, [Measurements; 2])> = results
        .iter()
        .map(|(title, rounds)| {
            (title.clone(), [Measurements::median(&rounds[0]), Measurements::median(&rounds[1])])
        })
        .collect();
    let mut page = head(options);
    page += "## Loads\n\nCPU is that of all server processes together, for each operation or event. Locks \
             are taken from etcd as its own client does it, by a transaction and a watch, and from Althing by its lock \
             service. The data API is compared with Redis and etcd in benchmarks-data.md; what auth and TLS cost is in \
             benchmarks-secured.md.\n\n";
    page += "| load | system | ops/s | p50 | p99 | max | CPU | memory | errors |\n|---|---|---|---|---|---|---|---|---|\n";
    for (title, [etcd, althing]) in &medians {
        line(&mut page, title, "etcd", etcd);
        line(&mut page, "", "Althing", althing);
        let ratio = |of: fn(&Measurements) -> f64| format!("{:.2}x", of(althing) / of(etcd));
        let _ = writeln!(
            page,
            "| | **ratio** | {} | {} | {} | {} | {} | {} | |",
            ratio(|f| f.ops_per_s),
            ratio(|f| f.p50_ms),
            ratio(|f| f.p99_ms),
            ratio(|f| f.max_ms),
            ratio(|f| f.cpu_us),
            ratio(|f| f.rss_mb)
        );
    }
    page += "\n![operations per second](benchmarks-throughput.svg)\n\n![CPU](benchmarks-cpu.svg)\n";
    if let Some(rows) = large {
        page += "\n## A million keys\n\nKeys of 32 and values of 256 bytes, one node, tmpfs.\n\n";
        page += "| figure | etcd | Althing | ratio |\n|---|---|---|---|\n";
        for LargeRow { title, unit, figures } in rows {
            let show =
                |figure: Option<f64>| figure.map_or("–".into(), |f| format!("{} {unit}", rounded(f)));
            let ratio = figures[0].zip(figures[1]).filter(|(etcd, _)| *etcd > 0.0);
            let ratio = ratio.map_or("–".into(), |(etcd, althing)| format!("{:.2}x", althing / etcd));
            let _ = writeln!(page, "| {title} | {} | {} | {ratio} |", show(figures[0]), show(figures[1]));
        }
    }
    let groups = |of: fn(&Measurements) -> f64| -> Vec<(String, [f64; 2])> {
        medians.iter().map(|(title, [etcd, althing])| (title.clone(), [of(etcd), of(althing)])).collect()
    };
    let files = [
        ("benchmarks.md", page),
        (
            "benchmarks-throughput.svg",
            plot::bars("Throughput", "operations per second", &groups(|f| f.ops_per_s)),
        ),
        ("benchmarks-cpu.svg", plot::bars("Processor time", "µs per operation", &groups(|f| f.cpu_us))),
    ];
    for (name, text) in files {
        fs::write(docs.join(name), text).map_err(|error| format!("cannot write docs/{name}: {error}"))?;
    }
    Ok(())
}

/// The page of the data API, beside the other.
pub fn write_data(
    root: &Path,
    options: &BenchOptions,
    data: &[(String, Measurements)],
) -> Result<(), String> {
    let mut page = head(options);
    page += "## The data API\n\n64 clients with a connection each, values of 100 bytes, 100,000 keys. Redis is one process \
             with `appendfsync always`, spoken to in its own protocol; Althing is spoken to over HTTP with JSON, and with \
             three nodes a write is durable on two of them before it is answered, a read has heard two, unless it asks for one copy \
             (`?r=1`; of etcd, a serializable range), as a read from Redis always does. All keys are there before anything is measured. Writes go on for 20 s, so that what is done for them later counts; reads come when that is done.\n\n";
    page += "| load | system | ops/s | p50 | p99 | max | CPU | memory | errors |\n|---|---|---|---|---|---|---|---|---|\n";
    for (title, figures) in data {
        let (title, system) = title.split_once(" · ").unwrap_or((title, ""));
        line(&mut page, title, system, figures);
    }
    let path = root.join("docs/benchmarks-data.md");
    fs::write(path, page).map_err(|error| format!("cannot write docs/benchmarks-data.md: {error}"))
}

/// The page of what auth and TLS cost, beside the others.
pub fn write_secured(root: &Path, options: &BenchOptions, secured: &Secured) -> Result<(), String> {
    let mut page = head(options);
    page += "## With auth and TLS\n\nOne node, tmpfs, values of 256 bytes. CPU is that of the server process for each operation: the \
             median of the rounds, with the least and the most. Every round runs all rows in turn. With auth on, the calls are those of a user that is not \
             root, whose role permits all keys; etcd has the same user, role, certificate and load generator. Requests of the data API carry \
             `Authorization`, `traceparent` and the session token of the last answer, or none of them.\n\n";
    page +=
        "| load | system | CPU | least to most | beside the first | errors |\n|---|---|---|---|---|---|\n";
    for SecuredRow { load, side, median, least, most, ratio, errors } in &secured.rows {
        let _ = writeln!(
            page,
            "| {load} | {side} | {} µs | {} to {} | {ratio:.2}x | {errors} |",
            rounded(*median),
            rounded(*least),
            rounded(*most),
        );
    }
    page += "\n## TLS and its cipher\n\nWhat TLS adds to the median of a call, and the processor time in which the same library opens and seals \
             the same bytes in memory: in records as long as they can be, which is the least that the cipher needs, and with a record for each \
             call and each answer. A call is its bytes on the connection in clear, and those of its answer.\n\n";
    page += "| load | bytes | TLS adds | cipher alone | beyond the cipher | a record each |\n|---|---|---|---|---|---|\n";
    for CipherRow { load, bytes: [received, sent], tls, cipher, records } in &secured.ciphers {
        let _ = writeln!(
            page,
            "| {load} | {received:.0} and {sent:.0} | {tls:.2} µs | {cipher:.2} µs | {:.2} µs | {records:.2} µs |",
            tls - cipher
        );
    }
    let path = root.join("docs/benchmarks-secured.md");
    fs::write(path, page).map_err(|error| format!("cannot write docs/benchmarks-secured.md: {error}"))
}

fn line(page: &mut String, title: &str, system: &str, f: &Measurements) {
    let ms = |ms: f64| format!("{} ms", rounded(ms));
    let _ = writeln!(
        page,
        "| {title} | {system} | {} | {} | {} | {} | {} µs | {} MB | {} |",
        rounded(f.ops_per_s),
        ms(f.p50_ms),
        ms(f.p99_ms),
        ms(f.max_ms),
        rounded(f.cpu_us),
        rounded(f.rss_mb),
        f.errors
    );
}

fn head(options: &BenchOptions) -> String {
    let version = |program: &Path, flag: &str| {
        let output = Command::new(program).arg(flag).output().ok();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().next().unwrap_or("unknown").to_owned()
    };
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name"));
    let processor = processor.map_or("unknown", |name| name.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "# Benchmarks\n\nWritten by `cargo xtask bench-vs`; do not edit.\n\n\
         The two systems run in turn on the same machine, {rounds} rounds of each, and the median counts. Clients and \
         servers share the processor, so CPU per operation is the steadier judge, and throughput depends on the load \
         generator too: `althing bench` for both.\n\n\
         | | |\n|---|---|\n| machine | {cores} cores, {processor} |\n| etcd | {etcd} |\n| Althing | {althing} |\n\
         | a flush of 4 KiB | tmpfs {tmpfs:.2} ms, disk {disk:.2} ms |\n\n\
         ```sh\ncargo build --profile dist -p althing\ncargo xtask bench-vs --etcd PATH-OF-ETCD{more}\n```\n\n",
        rounds = options.rounds,
        etcd = version(&options.etcd, "--version"),
        althing = version(&options.althing, "--version"),
        tmpfs = flush_ms(&options.tmpfs),
        disk = flush_ms(&options.disk),
        more = match (options.redis.is_some(), options.secured, options.large) {
            (true, ..) => " --redis PATH-OF-REDIS-SERVER",
            (_, true, _) => " --secured",
            (.., true) => " --large",
            _ => "",
        },
    )
}

/// How long a small write takes to be durable there: the median of some.
fn flush_ms(directory: &Path) -> f64 {
    use std::io::Write as _;
    let path = directory.join(format!("bench-vs-flush-{}", std::process::id()));
    let mut times: Vec<f64> = Vec::new();
    if let Ok(mut file) = fs::File::create(&path) {
        for _ in 0..50 {
            let start = Instant::now();
            if file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).is_ok() {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    let _ = fs::remove_file(&path);
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
