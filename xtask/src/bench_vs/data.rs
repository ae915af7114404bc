//! The load on the data API, beside the same load on Redis and on etcd: what a durable write and a read cost each.

use super::cluster::{Cluster, System};
use super::figures::Measurements;
use super::{BenchOptions, bench};
use std::path::Path;
use std::time::Duration;

const SHAPE: &[&str] = &["--clients", "64", "--value-size", "100", "--key-space", "100000"];
const READS: u64 = 200_000;
/// Long enough that deferred work for a write (flushes, mostly) is done within the measurement, as often as it is when
/// writes continue for ever.
const WRITES_FOR: Duration = Duration::from_secs(20);
/// After that, until the deferred work of the writes is done: reads are not charged with it.
const REST: Duration = Duration::from_secs(12);
/// Every key once, before anything is measured.
const FILL: &[&str] = &["--sequential", "--total", "100000"];

struct DataSystem {
    system: System,
    nodes: usize,
    put: &'static [&'static str],
    get: &'static [&'static str],
    /// The same from one replica, where a read asks several.
    get_one: Option<&'static [&'static str]>,
}

const SIDES: [DataSystem; 4] = [
    DataSystem {
        system: System::Redis,
        nodes: 1,
        put: &["data", "put", "--protocol", "redis"],
        get: &["data", "get", "--protocol", "redis"],
        get_one: None,
    },
    DataSystem {
        system: System::Althing,
        nodes: 1,
        put: &["data", "put"],
        get: &["data", "get"],
        get_one: None,
    },
    DataSystem {
        system: System::Althing,
        nodes: 3,
        put: &["data", "put"],
        get: &["data", "get"],
        get_one: Some(&["data", "get", "--r", "1"]),
    },
    DataSystem {
        system: System::Etcd,
        nodes: 3,
        put: &["put", "--connections", "64"],
        get: &["range", "--connections", "64"],
        get_one: Some(&["range", "--consistency", "s", "--connections", "64"]),
    },
];

const LOADS: [&str; 3] = ["write", "read", "read of one copy"];

/// The median of the rounds, with a title for each load and system.
pub fn measure(options: &BenchOptions) -> Result<Vec<(String, Measurements)>, String> {
    let mut found = Vec::new();
    for (parent, place) in [(&options.tmpfs, "tmpfs"), (&options.disk, "disk")] {
        let mut rounds: Vec<[Vec<Measurements>; LOADS.len()]> =
            SIDES.iter().map(|_| Default::default()).collect();
        for _ in 0..options.rounds {
            for (side, of_loads) in SIDES.iter().zip(&mut rounds) {
                for (load, figures) in run_side(options, side, parent)? {
                    println!(
                        "data · {} of {} · {place}: {} {figures}",
                        side.system.name(),
                        side.nodes,
                        LOADS[load]
                    );
                    of_loads[load].push(figures);
                }
            }
        }
        for (load, what) in LOADS.into_iter().enumerate() {
            for (side, rounds) in SIDES.iter().zip(&rounds).filter(|(_, rounds)| !rounds[load].is_empty()) {
                let nodes = if side.nodes == 1 { "1 node" } else { "3 nodes" };
                let title = format!("{what}, {place} · {}, {nodes}", side.system.name());
                found.push((title, Measurements::median(&rounds[load])));
            }
        }
    }
    Ok(found)
}

/// The figures of each load, by its place in `LOADS`.
fn run_side(
    options: &BenchOptions,
    side: &DataSystem,
    parent: &Path,
) -> Result<Vec<(usize, Measurements)>, String> {
    let cluster = Cluster::start_with_data(options, side.system, side.nodes, parent)?;
    bench(options, &cluster, &[side.put, SHAPE, FILL].concat())?;
    let scaled = |full: u64| full * options.scale_percent / 100;
    let reads = scaled(READS).max(100).to_string();
    let writes_for = format!("{}ms", scaled(WRITES_FOR.as_millis() as u64).max(100));
    let put = [side.put, SHAPE, &["--duration", &writes_for]].concat();
    let mut found = vec![(0, bench(options, &cluster, &put)?)];
    std::thread::sleep(REST * options.scale_percent as u32 / 100);
    let gets = [Some(side.get), side.get_one].into_iter().zip(1..);
    for (get, load) in gets.filter_map(|(get, load)| Some((get?, load))) {
        found.push((load, bench(options, &cluster, &[get, SHAPE, &["--total", &reads]].concat())?));
    }
    Ok(found)
}
