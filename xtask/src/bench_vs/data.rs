//! The load on the data API, beside the same load on Redis and on etcd: what a durable write and a read cost each.

use super::cluster::{Cluster, System};
use super::figures::Figures;
use super::{Options, bench};
use std::path::Path;

const SHAPE: &[&str] = &["--clients", "64", "--value-size", "100", "--key-space", "100000"];
const TOTAL: u64 = 100_000;

struct Side {
    system: System,
    nodes: usize,
    put: &'static [&'static str],
    get: &'static [&'static str],
}

const SIDES: [Side; 4] = [
    Side {
        system: System::Redis,
        nodes: 1,
        put: &["data", "put", "--protocol", "redis"],
        get: &["data", "get", "--protocol", "redis"],
    },
    Side { system: System::Althing, nodes: 1, put: &["data", "put"], get: &["data", "get"] },
    Side { system: System::Althing, nodes: 3, put: &["data", "put"], get: &["data", "get"] },
    Side {
        system: System::Etcd,
        nodes: 3,
        put: &["put", "--connections", "64"],
        get: &["range", "--connections", "64"],
    },
];

/// Of the rounds the median, with a title that says what and who.
pub fn measure(options: &Options) -> Result<Vec<(String, Figures)>, String> {
    let mut found = Vec::new();
    for (parent, place) in [(&options.tmpfs, "tmpfs"), (&options.disk, "disk")] {
        let mut rounds: Vec<[Vec<Figures>; 2]> = SIDES.iter().map(|_| Default::default()).collect();
        for _ in 0..options.rounds {
            for (side, [puts, gets]) in SIDES.iter().zip(&mut rounds) {
                let [put, get] = run_side(options, side, parent)?;
                println!("data · {} of {} · {place}: put {put}; get {get}", side.system.name(), side.nodes);
                puts.push(put);
                gets.push(get);
            }
        }
        for (what, of) in [("write", 0), ("read", 1)] {
            for (side, rounds) in SIDES.iter().zip(&rounds) {
                let nodes = if side.nodes == 1 { "1 node" } else { "3 nodes" };
                let title = format!("{what}, {place} · {}, {nodes}", side.system.name());
                found.push((title, Figures::median(&rounds[of])));
            }
        }
    }
    Ok(found)
}

fn run_side(options: &Options, side: &Side, parent: &Path) -> Result<[Figures; 2], String> {
    let cluster = Cluster::start_with_data(options, side.system, side.nodes, parent)?;
    let total = (TOTAL * options.scale_percent / 100).max(100).to_string();
    let run = |load: &[&str]| bench(options, &cluster, &[load, SHAPE, &["--total", &total]].concat());
    Ok([run(side.put)?, run(side.get)?])
}
