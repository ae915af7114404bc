//! The load on the data API, beside the same load on Redis and on etcd: what a durable write and a read cost each.

use super::cluster::{Cluster, System};
use super::figures::Figures;
use super::{Options, bench};
use std::path::Path;

const SHAPE: &[&str] = &["--clients", "64", "--value-size", "100", "--key-space", "100000"];
const TOTAL: u64 = 200_000;
/// Every key once, before anything is measured.
const FILL: &[&str] = &["--sequential", "--total", "100000"];

struct Side {
    system: System,
    nodes: usize,
    put: &'static [&'static str],
    get: &'static [&'static str],
    /// The same from one copy, where a read hears more than one.
    get_one: Option<&'static [&'static str]>,
}

const SIDES: [Side; 4] = [
    Side {
        system: System::Redis,
        nodes: 1,
        put: &["data", "put", "--protocol", "redis"],
        get: &["data", "get", "--protocol", "redis"],
        get_one: None,
    },
    Side { system: System::Althing, nodes: 1, put: &["data", "put"], get: &["data", "get"], get_one: None },
    Side {
        system: System::Althing,
        nodes: 3,
        put: &["data", "put"],
        get: &["data", "get"],
        get_one: Some(&["data", "get", "--r", "1"]),
    },
    Side {
        system: System::Etcd,
        nodes: 3,
        put: &["put", "--connections", "64"],
        get: &["range", "--connections", "64"],
        get_one: Some(&["range", "--consistency", "s", "--connections", "64"]),
    },
];

const LOADS: [&str; 3] = ["write", "read", "read of one copy"];

/// Of the rounds the median, with a title that says what and who.
pub fn measure(options: &Options) -> Result<Vec<(String, Figures)>, String> {
    let mut found = Vec::new();
    for (parent, place) in [(&options.tmpfs, "tmpfs"), (&options.disk, "disk")] {
        let mut rounds: Vec<[Vec<Figures>; LOADS.len()]> = SIDES.iter().map(|_| Default::default()).collect();
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
                found.push((title, Figures::median(&rounds[load])));
            }
        }
    }
    Ok(found)
}

/// The figures of each load, by its place in `LOADS`.
fn run_side(options: &Options, side: &Side, parent: &Path) -> Result<Vec<(usize, Figures)>, String> {
    let cluster = Cluster::start_with_data(options, side.system, side.nodes, parent)?;
    bench(options, &cluster, &[side.put, SHAPE, FILL].concat())?;
    let total = (TOTAL * options.scale_percent / 100).max(100).to_string();
    let loads = [Some(side.put), Some(side.get), side.get_one].into_iter().enumerate();
    loads
        .filter_map(|(load, args)| Some((load, args?)))
        .map(|(load, args)| {
            let figures = bench(options, &cluster, &[args, SHAPE, &["--total", &total]].concat())?;
            Ok((load, figures))
        })
        .collect()
}
