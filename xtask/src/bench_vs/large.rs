//! What a million keys cost: memory after loading them and after a restart, the time of the restart, ten full reads
//! at once, the longest stall while a million revisions are compacted, and what an idle cluster spends.

use super::cluster::{Cluster, System};
use super::{BenchOptions, bench};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One measurement of both systems; `None` where it could not be had.
pub struct LargeRow {
    pub title: &'static str,
    pub unit: &'static str,
    pub figures: [Option<f64>; 2],
}

const KEYS: u64 = 1_000_000;
const READERS: usize = 10;
const IDLE: Duration = Duration::from_secs(20);

pub fn measure(options: &BenchOptions) -> Result<Vec<LargeRow>, String> {
    let [etcd, althing] = System::BOTH.map(|system| of_system(options, system));
    let (etcd, althing) = (etcd?, althing?);
    Ok(etcd
        .into_iter()
        .zip(althing)
        .map(|((title, unit, etcd), (_, _, althing))| LargeRow { title, unit, figures: [etcd, althing] })
        .collect())
}

type LargeResult = Vec<(&'static str, &'static str, Option<f64>)>;

fn of_system(options: &BenchOptions, system: System) -> Result<LargeResult, String> {
    let keys = (KEYS * options.scale_percent / 100).to_string();
    let mut found: LargeResult = Vec::new();
    let mut cluster = Cluster::start(options, system, 1, &options.tmpfs)?;
    let load = ["put", "--clients", "1000", "--connections", "100", "--sequential", "--key-size", "32"];
    let size = ["--value-size", "256", "--key-space", &keys, "--total", &keys];
    bench(options, &cluster, &[&load[..], &size[..]].concat())?;
    found.push(("memory after loading 1 million keys", "MB", Some(cluster.memory_mb("VmRSS:"))));
    cluster.stop();
    let start = Instant::now();
    cluster.spawn()?;
    cluster.wait_until_ready()?;
    bench(options, &cluster, &["range", "--total", "1", "--key-size", "32"])?;
    found.push(("restart with them, to the first read", "s", Some(start.elapsed().as_secs_f64())));
    found.push(("memory after the restart", "MB", Some(cluster.memory_mb("VmRSS:"))));
    read_all_at_once(options, &cluster, &mut found)?;
    drop(cluster);
    let stall = stall_while_compacting(options, system, &keys)?;
    found.push(("longest stall of 200 puts/s while 1 million revisions are compacted", "ms", Some(stall)));
    let cluster = Cluster::start(options, system, 3, &options.tmpfs)?;
    let before = cluster.cpu_seconds();
    std::thread::sleep(IDLE);
    let share = (cluster.cpu_seconds() - before) / IDLE.as_secs_f64() / cluster.nodes() as f64 * 100.0;
    found.push(("idle cluster of three, each node", "% of a core", Some(share)));
    found
        .iter()
        .for_each(|(title, unit, figure)| println!("{} · {title}: {figure:.2?} {unit}", system.name()));
    Ok(found)
}

fn client(options: &BenchOptions, cluster: &Cluster, args: &[&str]) -> Result<Child, String> {
    Command::new(&options.althing)
        .args(args)
        .args(["--endpoints", &cluster.endpoints(), "--command-timeout", "120s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run a client: {error}"))
}

fn read_all_at_once(
    options: &BenchOptions,
    cluster: &Cluster,
    found: &mut LargeResult,
) -> Result<(), String> {
    let before = cluster.memory_mb("VmRSS:");
    cluster.reset_peak();
    let start = Instant::now();
    let readers: Result<Vec<Child>, String> = (0..READERS)
        .map(|_| client(options, cluster, &["get", "--from-key", "", "--consistency", "s"]))
        .collect();
    let answered =
        readers?.into_iter().filter_map(|mut reader| reader.wait().ok()).filter(|s| s.success()).count();
    found.push(("10 full reads at once: answered", "of 10", Some(answered as f64)));
    found.push(("10 full reads at once: all done in", "s", Some(start.elapsed().as_secs_f64())));
    found.push(("10 full reads at once: memory grew by", "MB", Some(cluster.memory_mb("VmHWM:") - before)));
    Ok(())
}

/// A million revisions of few keys, then a compaction of all of them under a steady probe.
fn stall_while_compacting(options: &BenchOptions, system: System, revisions: &str) -> Result<f64, String> {
    let cluster = Cluster::start(options, system, 1, &options.tmpfs)?;
    let load =
        ["put", "--clients", "1000", "--connections", "100", "--value-size", "256", "--key-space", "1000"];
    bench(options, &cluster, &[&load[..], &["--total", revisions]].concat())?;
    let mut compaction = None;
    let figures = std::thread::scope(|scope| {
        let probe = scope.spawn(|| {
            let args =
                ["put", "--clients", "100", "--connections", "10", "--rate", "200", "--duration", "20s"];
            bench(options, &cluster, &args)
        });
        std::thread::sleep(Duration::from_secs(3));
        compaction = Some(client(options, &cluster, &["compaction", revisions, "--physical"]));
        probe.join().expect("the probe does not panic")
    })?;
    if let Some(mut compaction) = compaction.transpose()? {
        let _ = compaction.wait();
    }
    Ok(figures.max_ms)
}
