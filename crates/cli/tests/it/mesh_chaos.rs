//! Nodes of the mesh as real processes, killed and paused under load by the data API: nothing that was acknowledged is
//! lost, requests go on while a quorum is up, and in the end every replica holds the same. `MESH_CHAOS_ROUNDS` and
//! `MESH_CHAOS_CLIENTS` make it longer; how the machine answers follows from no seed, so figures are told.

use crate::process::{Member, Plan, althing, until};
use crate::rest::Rest;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const NODES: usize = 3;
const KEYS_PER_CLIENT: u64 = 25;
/// Writes that must be acknowledged before and during each fault.
const WRITES_PER_STEP: u64 = 300;
/// Of a hundred requests to nodes that are up, so many may fail: those under way when a fault begins.
const FAILED_PERCENT_MAX: u64 = 10;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// What the clients share.
#[derive(Default)]
struct Scene {
    up: Mutex<[Option<Rest>; NODES]>,
    /// By key: the last value that was acknowledged, and the last that was tried.
    keys: Mutex<BTreeMap<String, (u64, u64)>>,
    written: AtomicU64,
    failed: AtomicU64,
    slowest_us: AtomicU64,
    done: AtomicBool,
}

impl Scene {
    /// One client, the only writer of its keys.
    fn write(&self, client: u64) {
        for n in 1u64.. {
            if self.done.load(Ordering::Relaxed) {
                return;
            }
            let up: Vec<Rest> = self.up.lock().unwrap().iter().flatten().copied().collect();
            let key = format!("c{client}-{}", n % KEYS_PER_CLIENT);
            self.keys.lock().unwrap().entry(key.clone()).or_default().1 = n;
            let body = format!(r#"{{"key":"{key}","value":"{n}"}}"#);
            let head = format!(
                "POST /api/v1/store/keys HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let began = Instant::now();
            let node = up[(client + n) as usize % up.len()];
            let answer = node.try_raw(head.as_bytes());
            let took = began.elapsed().as_micros() as u64;
            if answer.is_some_and(|answer| answer.status < 300) {
                self.keys.lock().unwrap().entry(key).or_default().0 = n;
                self.written.fetch_add(1, Ordering::Relaxed);
                self.slowest_us.fetch_max(took, Ordering::Relaxed);
            } else {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn wait_for_writes(&self, more: u64) {
        let enough = self.written.load(Ordering::Relaxed) + more;
        until("clients are answered", || (self.written.load(Ordering::Relaxed) >= enough).then_some(()));
    }
}

fn value_at(node: Rest, key: &str) -> Option<u64> {
    let answer = node.get(&format!("/api/v1/store/keys/{key}"));
    (answer.status == 200).then(|| answer.json()["value"].as_str().unwrap().parse().unwrap())
}

/// Everything that one node shows of its own replicas.
fn held(node: Rest) -> BTreeMap<String, String> {
    let mut held = BTreeMap::new();
    let mut page = String::new();
    loop {
        let answer = node.get(&format!("/api/v1/store/range?start=c&end=d&limit=500&r=1{page}"));
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.bytes));
        let json = answer.json();
        for entry in json["entries"].as_array().expect("entries") {
            let text = |name: &str| entry[name].as_str().unwrap().to_owned();
            held.insert(text("key"), text("value"));
        }
        match json["next_page"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => return held,
        }
    }
}

#[test]
fn nodes_are_killed_and_paused_under_load_and_nothing_acknowledged_is_lost() {
    let plans: Vec<Plan> = Plan::cluster(NODES);
    let mut members: Vec<Option<Member>> = plans.iter().map(|plan| Some(plan.start())).collect();
    let rest = |members: &[Option<Member>], idx: usize| Rest::of(members[idx].as_ref().unwrap());
    (0..NODES).for_each(|idx| rest(&members, idx).wait_for_ring(NODES));
    let scene = Arc::new(Scene::default());
    *scene.up.lock().unwrap() = [0, 1, 2].map(|idx| Some(rest(&members, idx)));
    let clients = setting("MESH_CHAOS_CLIENTS", 6);
    let began = Instant::now();
    let writers: Vec<_> = (0..clients)
        .map(|client| {
            let scene = scene.clone();
            thread::spawn(move || scene.write(client))
        })
        .collect();
    for round in 0..setting("MESH_CHAOS_ROUNDS", 6) {
        let victim = round as usize % NODES;
        scene.wait_for_writes(WRITES_PER_STEP);
        let away = scene.up.lock().unwrap()[victim].take();
        match round % 2 {
            0 => {
                members[victim].take().unwrap().kill();
                scene.wait_for_writes(WRITES_PER_STEP);
                members[victim] = Some(plans[victim].start());
                scene.up.lock().unwrap()[victim] = Some(rest(&members, victim));
            }
            _ => {
                members[victim].as_ref().unwrap().signal("STOP");
                scene.wait_for_writes(WRITES_PER_STEP);
                members[victim].as_ref().unwrap().signal("CONT");
                scene.up.lock().unwrap()[victim] = away;
            }
        }
        rest(&members, victim).wait_for_ring(NODES);
    }
    scene.wait_for_writes(WRITES_PER_STEP);
    scene.done.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let took = began.elapsed();
    let (written, failed) = (scene.written.load(Ordering::Relaxed), scene.failed.load(Ordering::Relaxed));
    let slowest = Duration::from_micros(scene.slowest_us.load(Ordering::Relaxed));
    let _ = writeln!(
        std::io::stderr(),
        "{written} writes acknowledged in {took:?}, {failed} not, the slowest took {slowest:?}"
    );
    for (key, (acked, tried)) in scene.keys.lock().unwrap().iter() {
        for idx in 0..NODES {
            let shown = value_at(rest(&members, idx), key);
            let right = shown.is_some_and(|shown| (*acked..=*tried).contains(&shown)) || *acked == 0;
            assert!(right, "{key} at node {idx} shows {shown:?}, although {acked} was acknowledged");
        }
    }
    let mut last = String::new();
    until("all replicas hold the same", || {
        let held = [0, 1, 2].map(|idx| held(rest(&members, idx)));
        last = format!("{:?}", held.iter().map(BTreeMap::len).collect::<Vec<_>>());
        (held[0] == held[1] && held[1] == held[2]).then_some(())
    });
    assert!(failed * 100 <= (written + failed) * FAILED_PERCENT_MAX, "{failed} of {}", written + failed);
    for (plan, member) in plans.iter().zip(members) {
        member.unwrap().kill();
        let output = althing().arg("verify").arg(plan.data_dir()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let sound = output.status.success() && text.contains("sound: mesh store");
        assert!(sound, "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}
