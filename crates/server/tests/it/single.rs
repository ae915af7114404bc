//! One member by itself.

use crate::world::{World, eventually, put};
use base::Code;
use server::{Error, Server};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn a_single_node_waits_for_no_election_and_remembers_after_a_restart() {
    const ELECTION: Duration = Duration::from_secs(600);
    let start = Instant::now();
    let mut world = World::start(1, |config| config.election = ELECTION);
    let revision = world.put(0, "k", "v");
    assert!(start.elapsed() < ELECTION, "took {:?}", start.elapsed());
    assert_eq!(world.value(0, "k").unwrap(), "v");
    world.take(0).stop();
    world.restart(0);
    assert_eq!(world.value(0, "k").unwrap(), "v");
    world.take(0).drain();
    world.restart(0);
    assert_eq!(world.value(0, "k").unwrap(), "v");
    assert_eq!(world.put(0, "k", "w").0, revision.0 + 1);
}

#[test]
fn a_data_directory_of_another_member_is_refused() {
    let mut world = World::start(1, |_| {});
    world.put(0, "k", "v");
    let busy = start_anyhow(world.config(0)).err().unwrap();
    assert!(matches!(busy, Error::InUse { .. }), "{busy}");
    world.take(0).stop();
    let mut other = world.config(0);
    other.name = "other".to_owned();
    other.initial_cluster[0].name = "other".to_owned();
    let mut elsewhere = world.config(0);
    elsewhere.cluster_token = "elsewhere".to_owned();
    for config in [other, elsewhere] {
        let refused = start_anyhow(config).err().unwrap();
        assert!(matches!(refused, Error::Stranger { .. }), "{refused}");
    }
    world.restart(0);
    assert_eq!(world.value(0, "k").unwrap(), "v");
}

fn start_anyhow(config: server::Config) -> Result<Server, Error> {
    Server::start_on(TcpListener::bind("127.0.0.1:0").unwrap(), config)
}

#[test]
fn a_taken_port_is_named_with_its_setting() {
    let world = World::start(1, |_| {});
    let refused = Server::start(world.config(0)).err().unwrap().to_string();
    assert!(refused.contains("--peer-addr"), "{refused}");
    assert!(refused.contains(&world.config(0).peer_addr.to_string()), "{refused}");
}

#[test]
fn a_name_outside_the_cluster_is_refused() {
    let world = World::start(1, |_| {});
    let mut config = world.config(0);
    config.name = "stranger".to_owned();
    assert!(matches!(start_anyhow(config).err().unwrap(), Error::NotAMember { .. }));
}

#[test]
fn a_command_beyond_the_limit_is_refused() {
    let world = World::start(1, |config| config.request_bytes_max = 100);
    assert_eq!(world.ask(0, put("k", &"v".repeat(100))).unwrap_err(), Code::RequestTooLarge);
    world.put(0, "k", "short");
}

#[test]
fn every_put_acknowledged_before_or_during_a_drain_is_there_after_it() {
    let mut world = World::start(1, |config| config.flush_interval = Duration::from_secs(3600));
    let acknowledged = put_until(&mut world, Server::drain);
    restart_and_find(&mut world, &acknowledged);
}

#[test]
fn every_put_acknowledged_before_a_sudden_stop_is_there_after_it() {
    let mut world = World::start(1, |config| {
        config.flush_interval = Duration::from_millis(5);
        config.wal_segment_bytes = 64 * 1024;
        config.log_keep_entries = 10;
    });
    let acknowledged = put_until(&mut world, Server::stop);
    restart_and_find(&mut world, &acknowledged);
}

/// Many callers put keys of their own until the member is ended under them.
fn put_until(world: &mut World, end: fn(Server)) -> BTreeSet<String> {
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    let caller = |number: usize| {
        let (handle, acknowledged) = (world.handle(0), acknowledged.clone());
        world.spawn(async move {
            for count in 0.. {
                let key = format!("{number}-{count}");
                match handle.kv().submit(put(&key, "v")).await {
                    Ok(_) => assert!(acknowledged.lock().unwrap().insert(key)),
                    Err(code) => return assert_eq!(code, Code::Stopped),
                }
            }
        })
    };
    let tasks = (0..32).map(caller).collect();
    eventually(|| (acknowledged.lock().unwrap().len() > 2_000).then_some(()));
    end(world.take(0));
    world.join(tasks);
    std::mem::take(&mut *acknowledged.lock().unwrap())
}

fn restart_and_find(world: &mut World, acknowledged: &BTreeSet<String>) {
    world.restart(0);
    for key in acknowledged {
        assert!(world.value(0, key).is_some(), "{key} was acknowledged");
    }
}

#[test]
fn figures_have_the_names_that_dashboards_read() {
    let world = World::start(1, |_| {});
    world.put(0, "k", "v");
    let text = world.handle(0).maintenance().metrics();
    for line in [
        "etcd_server_has_leader 1",
        "etcd_server_is_leader 1",
        "etcd_server_leader_changes_seen_total 1",
        "etcd_server_proposals_failed_total 0",
        "etcd_server_proposals_pending 0",
        "etcd_debugging_mvcc_current_revision 2",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
    for name in [
        "etcd_server_proposals_committed_total ",
        "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"}",
        "etcd_disk_backend_commit_duration_seconds_count",
        "etcd_mvcc_db_total_size_in_bytes",
        "etcd_server_id{",
        "process_resident_memory_bytes",
    ] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} is not in\n{text}");
    }
}
