//! The data plane of whole members: alone, three together, stopped, wiped and started again.

use crate::world::{World, eventually};
use base::{Code, NodeId};
use bytes::Bytes;
use mesh::{Attributes, Body, Key, Kind, Op, Reply, Request, Scan, Write};
use server::{Config, Handle, JoinConfig, Server, Worker};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn quick(config: &mut Config) {
    config.mesh.round_every = Duration::from_millis(300);
    config.mesh.timeout = Duration::from_secs(2);
    config.wal_segment_bytes = 1024 * 1024;
}

fn write(name: &str, op: Op) -> Request {
    Request::write(Write {
        key: Key::new(0, name.as_bytes()),
        kind: Kind::Register,
        op,
        attributes: Attributes::default(),
        expect: None,
        w: None,
        sloppy: false,
    })
}

fn put(name: &str, value: &str) -> Request {
    write(name, Op::Put(Bytes::copy_from_slice(value.as_bytes())))
}

fn read(name: &str) -> Request {
    Request::Read { key: Key::new(0, name.as_bytes()), r: None }
}

fn shown(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Found(Some(record)) => match &record.body {
            Body::Register(value) if !record.is_tombstone() => {
                Some(String::from_utf8(value.to_vec()).unwrap())
            }
            _ => None,
        },
        _ => None,
    }
}

impl World {
    fn ask_mesh(&self, idx: usize, request: Request) -> Result<Reply, Code> {
        self.block_on(self.handle(idx).mesh().request(request, None))
    }

    /// Writes, as often as it takes.
    fn put_mesh(&self, idx: usize, name: &str, value: &str) {
        eventually(|| matches!(self.ask_mesh(idx, put(name, value)), Ok(Reply::Written(_))).then_some(()));
    }

    fn get_mesh(&self, idx: usize, name: &str) -> Option<String> {
        let found = eventually(|| match self.ask_mesh(idx, read(name)) {
            Ok(reply @ Reply::Found(_)) => Some(reply),
            _ => None,
        });
        shown(&found)
    }

    fn serves_mesh(&self, idx: usize) -> bool {
        self.handle(idx).mesh().status().machine.is_some_and(|machine| machine.is_serving)
    }

    fn await_mesh(&self) {
        let running = || (0..self.servers.len()).filter(|idx| self.servers[*idx].is_some());
        eventually(|| running().all(|idx| self.serves_mesh(idx)).then_some(()));
    }

    /// Every record that a member has, read from it alone.
    fn held(&self, idx: usize) -> BTreeMap<Bytes, Body> {
        let mut held = BTreeMap::new();
        let mut start = Bytes::new();
        loop {
            let scan =
                Scan { namespace_id: 0, start, end: None, limit: 500, r: Some(1), view: Default::default() };
            let Ok(Reply::Scanned(page)) = self.ask_mesh(idx, Request::Scan(scan)) else {
                panic!("a member can be scanned");
            };
            assert_eq!(page.n_missing, 0);
            held.extend(page.records.into_iter().map(|(key, record)| (key.name(), record.body)));
            match page.next {
                Some(next) => start = next,
                None => return held,
            }
        }
    }
}

#[test]
fn a_node_alone_serves_and_keeps_what_it_acknowledged() {
    let mut world = World::start(1, quick);
    world.put_mesh(0, "k", "1");
    assert_eq!(world.get_mesh(0, "k").as_deref(), Some("1"));
    assert_eq!(world.get_mesh(0, "absent"), None);
    let before = world.handle(0).mesh().status().incarnation;
    assert_ne!(before, 0);
    world.take(0).stop();
    world.restart(0);
    assert_eq!(world.get_mesh(0, "k").as_deref(), Some("1"));
    assert_eq!(world.handle(0).mesh().status().incarnation, before, "it is the same life");
    let topology = world.handle(0).mesh().topology();
    assert_eq!((topology.epoch.0, topology.members().len()), (1, 1));
    let figures = world.handle(0).maintenance().metrics();
    assert!(figures.contains("althing_mesh_requests_total{kind=\"read\",outcome=\"done\"}"), "{figures}");
    assert!(figures.contains("althing_mesh_serving 1"), "{figures}");
}

#[test]
fn what_is_asked_together_in_a_worker_is_made_durable_together() {
    // A slow disk gathers by itself; a quick one shows whether the worker does.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let world = World::start_in(dir, 1, quick);
    world.put_mesh(0, "ready", "1");
    let n_syncs = || {
        let figures = world.handle(0).maintenance().metrics();
        let count = |line: &str| {
            line.strip_prefix("althing_mesh_log_fsync_duration_seconds_count ")?.parse::<u64>().ok()
        };
        figures.lines().find_map(count).expect("syncs are counted")
    };
    let before = n_syncs();
    let worker = Worker::default();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let resting = worker.clone();
    let runtime = builder.on_thread_park(move || resting.rest()).build().unwrap();
    runtime.block_on(async {
        let (mesh, delivery) = world.handle(0).mesh().in_worker(worker);
        tokio::spawn(delivery);
        let ask = |n: usize| tokio::spawn(mesh.request(put(&format!("k{n}"), "v"), None));
        // Each sends its request when its task runs, as connections do, and not when it is made.
        let ask_later = |n| {
            let mesh = mesh.clone();
            tokio::spawn(async move { mesh.request(put(&format!("k{n}"), "v"), None).await })
        };
        let at_once: Vec<_> = (0..100).map(ask).collect();
        let later: Vec<_> = (100..200).map(ask_later).collect();
        for answer in at_once.into_iter().chain(later) {
            assert!(matches!(answer.await.unwrap(), Ok(Reply::Written(_))));
        }
    });
    let syncs = n_syncs() - before;
    assert!((1..40).contains(&syncs), "{syncs} syncs for 200 writes");
}

#[test]
fn three_nodes_serve_what_any_of_them_took() {
    let world = World::start(3, quick);
    world.await_mesh();
    for writer in 0..3 {
        let name = format!("by-{writer}");
        world.put_mesh(writer, &name, "v");
        for reader in 0..3 {
            assert_eq!(world.get_mesh(reader, &name).as_deref(), Some("v"), "{writer} to {reader}");
        }
    }
    let large = "x".repeat(900_000);
    world.put_mesh(0, "large", &large);
    for reader in 0..3 {
        assert_eq!(world.get_mesh(reader, "large").map(|value| value.len()), Some(large.len()));
    }
}

#[test]
fn requests_go_on_without_one_node_and_it_catches_up() {
    let mut world = World::start(3, quick);
    world.await_mesh();
    world.put_mesh(0, "before", "v");
    world.take(2).stop();
    for nth in 0..50 {
        world.put_mesh(nth % 2, &format!("k{nth}"), &nth.to_string());
    }
    world.restart(2);
    world.await_mesh();
    eventually(|| (world.held(2).len() == 51).then_some(()));
    for nth in 0..50 {
        assert_eq!(world.get_mesh(2, &format!("k{nth}")), Some(nth.to_string()));
    }
}

#[test]
fn a_node_that_lost_its_mesh_is_filled_before_it_serves() {
    let mut world = World::start(3, quick);
    world.await_mesh();
    for nth in 0..100 {
        world.put_mesh(nth % 3, &format!("k{nth}"), "v");
    }
    eventually(|| (world.held(1).len() == 100).then_some(()));
    let before = world.handle(1).mesh().status().incarnation;
    world.take(1).stop();
    std::fs::remove_dir_all(world.config(1).data_dir.join("mesh")).unwrap();
    world.restart(1);
    eventually(|| world.serves_mesh(1).then_some(()));
    assert_ne!(world.handle(1).mesh().status().incarnation, before, "it is another life");
    assert_eq!(world.held(1).len(), 100, "it had everything when it began to serve");
    let me = world.handle(1).identity().member;
    eventually(|| {
        let topology = world.handle(0).mesh().topology();
        (!topology.member(me).unwrap().stale && topology.epoch.0 >= 3).then_some(())
    });
}

#[test]
fn nothing_acknowledged_is_lost_while_nodes_stop_and_start() {
    let mut world = World::start(3, quick);
    world.await_mesh();
    let acked: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let done = Arc::new(AtomicBool::new(false));
    for round in 0..3 {
        let victim = round % 3;
        let writers: Vec<_> = (0..3)
            .filter(|idx| *idx != victim)
            .map(|idx| {
                let (mesh, acked, done) = (world.handle(idx).mesh(), acked.clone(), done.clone());
                world.spawn(async move {
                    for n in 0u64.. {
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                        let name = format!("{idx}/{}", n % 60);
                        let value = (round as u64) * 1_000_000 + n;
                        let reply = mesh.request(put(&name, &value.to_string()), None).await;
                        if matches!(reply, Ok(Reply::Written(_))) {
                            acked.lock().unwrap().insert(name, value);
                        }
                    }
                })
            })
            .collect();
        let wrote = |at_least: usize| eventually(|| (acked.lock().unwrap().len() >= at_least).then_some(()));
        wrote(20);
        world.take(victim).stop();
        acked.lock().unwrap().clear();
        wrote(100);
        world.restart(victim);
        eventually(|| world.serves_mesh(victim).then_some(()));
        done.store(true, Ordering::Relaxed);
        world.join(writers);
        done.store(false, Ordering::Relaxed);
        for (name, value) in acked.lock().unwrap().iter() {
            let shown = world.get_mesh(victim, name).expect("it is there").parse::<u64>().unwrap();
            assert!(shown >= *value, "{name} shows {shown}, although {value} was acknowledged");
        }
    }
    eventually(|| {
        let held = [0, 1, 2].map(|idx| world.held(idx));
        (held[0] == held[1] && held[1] == held[2]).then_some(())
    });
}

#[test]
fn a_document_is_replaced_by_compare_and_set_and_read_everywhere() {
    let world = World::start(3, quick);
    world.put(0, "so that there is a leader", "v");
    let set = |idx: usize, expect: u64, text: &'static str| {
        world.block_on(world.handle(idx).documents().set("test", expect, Bytes::from_static(text.as_bytes())))
    };
    assert_eq!(set(0, 0, "one"), Ok(1));
    assert_eq!(set(1, 0, "two"), Err(Code::DocumentChanged));
    assert_eq!(set(2, 1, "two"), Ok(2));
    for idx in 0..3 {
        let found = world.block_on(world.handle(idx).documents().get("test")).unwrap();
        assert_eq!(found, Some((2, Bytes::from_static(b"two"))));
        assert_eq!(world.block_on(world.handle(idx).documents().get("absent")), Ok(None));
    }
    assert_eq!(world.block_on(world.handle(0).documents().set("", 0, Bytes::new())), Err(Code::BadDocument));
}

#[test]
fn the_ring_follows_the_members() {
    let mut world = World::start(4, quick);
    world.await_mesh();
    for nth in 0..60 {
        world.put_mesh(nth % 4, &format!("k{nth}"), "v");
    }
    let leader = world.leader();
    let leaver = (leader + 1) % 4;
    let id = world.handle(leaver).identity().member;
    eventually(|| world.block_on(world.handle(leader).members().remove(id)).is_ok().then_some(()));
    world.take(leaver).stop();
    eventually(|| {
        let nodes = settled(&world.handle(leader));
        (nodes.len() == 3 && !nodes.contains(&id)).then_some(())
    });
    for nth in 0..60 {
        assert_eq!(world.get_mesh(leader, &format!("k{nth}")).as_deref(), Some("v"));
    }
}

/// A node that joins by a member, on a port of its own.
fn join(world: &World, name: &str, data_only: bool, listener: TcpListener) -> Server {
    let mut config = world.config(0);
    config.name = name.to_owned();
    config.data_dir = world.config(0).data_dir.with_file_name(name);
    config.peer_addr = listener.local_addr().unwrap();
    config.advertise_peer = config.peer_addr.to_string();
    let ask = world.config(0).initial_cluster.into_iter().map(|member| member.peer_addr).collect();
    config.join = Some(JoinConfig { ask, add: true, token: None });
    config.initial_cluster.clear();
    config.mesh.data_only = data_only;
    Server::start_on(listener, config).unwrap()
}

fn some_port() -> TcpListener {
    server::ports::listen().unwrap()
}

/// The nodes of the ring, once nothing moves.
fn settled(handle: &Handle) -> Vec<NodeId> {
    let topology = handle.mesh().topology();
    let still = !topology.is_moving();
    topology.members().iter().map(|member| member.node).filter(|_| still).collect()
}

#[test]
fn a_node_without_coords_data_serves_and_is_filled_again_after_it_lost_everything() {
    let world = World::start(3, quick);
    world.await_mesh();
    for nth in 0..80 {
        world.put_mesh(nth % 3, &format!("k{nth}"), "v");
    }
    let listener = some_port();
    let address = listener.local_addr().unwrap();
    let node = join(&world, "d", true, listener);
    assert!(node.handle().is_data_only());
    let me = node.handle().identity().member;
    eventually(|| settled(&node.handle()).contains(&me).then_some(()));
    assert_eq!(world.handle(0).members().list().len(), 3, "it is no member of coord");
    assert_eq!(node.handle().status().applied.0, 0, "and holds nothing of it");
    let ask = |handle: &Handle, request: Request| world.block_on(handle.mesh().request(request, None));
    eventually(|| matches!(ask(&node.handle(), put("by-it", "v")), Ok(Reply::Written(_))).then_some(()));
    assert_eq!(world.get_mesh(1, "by-it").as_deref(), Some("v"));
    for nth in 0..80 {
        let name = format!("k{nth}");
        let found = eventually(|| ask(&node.handle(), read(&name)).ok());
        assert_eq!(shown(&found).as_deref(), Some("v"), "{name}");
    }
    node.stop();
    std::fs::remove_dir_all(world.config(0).data_dir.with_file_name("d")).unwrap();
    let listener = eventually(|| TcpListener::bind(address).ok());
    let node = join(&world, "d", true, listener);
    assert_eq!(node.handle().identity().member, me, "it is known by its address");
    let serves = || node.handle().mesh().status().machine.is_some_and(|machine| machine.is_serving);
    eventually(|| serves().then_some(()));
    for nth in 0..80 {
        let name = format!("k{nth}");
        let found = eventually(|| ask(&node.handle(), read(&name)).ok());
        assert_eq!(shown(&found).as_deref(), Some("v"), "{name}");
    }
    node.stop();
}

#[test]
fn five_become_six_and_four_under_load_and_nothing_is_lost() {
    let mut world = World::start(5, quick);
    world.await_mesh();
    let acked: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let done = Arc::new(AtomicBool::new(false));
    let writer = |world: &World, idx: usize, round: u64| {
        let (mesh, acked, done) = (world.handle(idx).mesh(), acked.clone(), done.clone());
        world.spawn(async move {
            for n in 0u64.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let name = format!("{idx}/{}", n % 100);
                let value = round * 1_000_000 + n;
                if let Ok(Reply::Written(_)) = mesh.request(put(&name, &value.to_string()), None).await {
                    acked.lock().unwrap().insert(name, value);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let stays = [0, 1, 2];
    let writers: Vec<_> = stays.iter().map(|idx| writer(&world, *idx, 1)).collect();
    eventually(|| (acked.lock().unwrap().len() >= 200).then_some(()));

    let sixth = join(&world, "m5", false, some_port());
    assert!(sixth.handle().is_data_only(), "five votes are enough");
    eventually(|| (settled(&world.handle(0)).len() == 6).then_some(()));

    for leaver in [3, 4] {
        let id = world.handle(leaver).identity().member;
        eventually(|| world.block_on(world.handle(0).let_node_go(id, true)).is_ok().then_some(()));
        eventually(|| {
            let nodes = settled(&world.handle(0));
            (!nodes.is_empty() && !nodes.contains(&id)).then_some(())
        });
        eventually(|| world.block_on(world.handle(0).members().remove(id)).is_ok().then_some(()));
        world.take(leaver).stop();
    }
    assert_eq!(settled(&world.handle(0)).len(), 4);
    done.store(true, Ordering::Relaxed);
    world.join(writers);
    let acked = std::mem::take(&mut *acked.lock().unwrap());
    assert_eq!(acked.len(), 300);
    for (name, value) in &acked {
        let found = eventually(|| world.block_on(sixth.handle().mesh().request(read(name), None)).ok());
        let shown: u64 = shown(&found).expect("it is there").parse().unwrap();
        assert!(shown >= *value, "{name} shows {shown}, although {value} was acknowledged");
    }
    sixth.stop();
}
