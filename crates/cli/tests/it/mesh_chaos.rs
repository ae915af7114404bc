//! Nodes of the mesh as real processes, killed, paused and cut off under load by the data API: nothing that was
//! acknowledged is lost, every operation succeeds while two of three are undisturbed, and in the end every replica holds
//! the same. `MESH_CHAOS_SECONDS` and `MESH_CHAOS_CLIENTS` make it longer; how the machine answers follows from no seed,
//! so figures are told.

use crate::mesh_load::Load;
use crate::process::{Member, Plan, althing, free_port, until};
use crate::proxy::Network;
use crate::rest::Rest;
use serde_json::Value;
use std::io::Write as _;
use std::time::Duration;

const NODES: usize = 3;
const FAULTS: usize = 4;
/// Writes that must be acknowledged before and during each fault.
const WRITES_PER_STEP: u64 = 200;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

struct Nodes {
    plans: Vec<Plan>,
    members: Vec<Option<Member>>,
    network: Network,
}

impl Nodes {
    /// The others know each by the address of its proxy.
    fn start() -> Nodes {
        let network = Network::default();
        let mut plans = Plan::cluster(NODES);
        for plan in &mut plans {
            let known = ([127, 0, 0, 1], plan.peer_port).into();
            plan.peer_port = free_port();
            network.connect(known, ([127, 0, 0, 1], plan.peer_port).into());
        }
        let members = plans.iter().map(|plan| Some(plan.start())).collect();
        let nodes = Nodes { plans, members, network };
        (0..NODES).for_each(|idx| nodes.rest(idx).wait_for_ring(NODES));
        nodes
    }

    fn member(&self, idx: usize) -> &Member {
        self.members[idx].as_ref().expect("it runs")
    }

    fn rest(&self, idx: usize) -> Rest {
        Rest::of(self.member(idx))
    }

    fn all(&self) -> Vec<Rest> {
        (0..NODES).map(|idx| self.rest(idx)).collect()
    }

    fn id(&self, idx: usize) -> u64 {
        let ring = self.rest(idx).get("/v1/ring").json();
        let is_it = |node: &&Value| node["name"] == self.plans[idx].name.as_str();
        let found = ring["nodes"].as_array().unwrap().iter().find(is_it).expect("it is in the ring");
        u64::from_str_radix(found["node"].as_str().unwrap(), 16).unwrap()
    }

    fn disturb(&mut self, round: usize, load: &Load) {
        let victim = round % NODES;
        match round % FAULTS {
            0 => {
                load.book.strike(victim);
                self.members[victim].take().unwrap().kill();
                load.wait_for_writes(WRITES_PER_STEP);
                self.members[victim] = Some(self.plans[victim].start());
            }
            1 => {
                load.book.strike(victim);
                self.member(victim).signal("STOP");
                load.wait_for_writes(WRITES_PER_STEP);
                self.member(victim).signal("CONT");
            }
            // Once without its clients, and once with them.
            fault => {
                if fault == 2 {
                    load.book.strike(victim);
                }
                self.network.cut_off(self.id(victim));
                load.wait_for_writes(WRITES_PER_STEP);
                self.network.heal();
            }
        }
        self.rest(victim).wait_for_ring(NODES);
        load.book.enter(victim, self.rest(victim));
    }
}

#[test]
fn nodes_are_killed_paused_and_cut_off_under_load_and_nothing_acknowledged_is_lost() {
    let mut nodes = Nodes::start();
    let seconds = Duration::from_secs(setting("MESH_CHAOS_SECONDS", 0));
    let load = Load::start(setting("MESH_CHAOS_CLIENTS", 6), nodes.all().into_iter().enumerate());
    let mut rounds = 0;
    while rounds < FAULTS || load.elapsed() < seconds {
        load.wait_for_writes(WRITES_PER_STEP);
        nodes.disturb(rounds, &load);
        rounds += 1;
    }
    load.wait_for_writes(WRITES_PER_STEP);
    let told = load.finish(&nodes.all());
    let _ = writeln!(std::io::stderr(), "{rounds} faults: {told}");
    until("all replicas hold the same", || {
        let digest = |node: &Rest| node.get("/v1/ring").json()["here"]["digest"].clone();
        let digests: Vec<Value> = nodes.all().iter().map(digest).collect();
        (digests[0].is_string() && digests.iter().all(|digest| *digest == digests[0])).then_some(())
    });
    for (plan, member) in nodes.plans.iter().zip(nodes.members) {
        member.unwrap().kill();
        let output = althing().arg("verify").arg(plan.data_dir()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let sound = output.status.success() && text.contains("sound: mesh store");
        assert!(sound, "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}
