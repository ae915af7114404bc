mod amounts;
mod backups;
mod bounded;
mod collections;
mod contest;
mod declined;
mod elements;
mod feed;
mod forged;
mod full;
mod kept;
mod linear;
mod lives;
mod passed_over;
mod promises;
mod reading;
mod refused;
mod regions;
mod scans;
mod scenes;
mod storm;
mod tempest;
mod unenrolled;
mod world;

use super::*;
use crate::actor::RegionId;
use crate::context::Context;
use crate::hlc::Stamp;
use crate::key::Key;
use crate::mutant::Mutant;
use crate::op::{Attributes, Op};
use crate::query::Query;
use crate::record::{Body, Kind, Record};
use crate::request::{Scan, ScanView, Write};
use crate::topology::Epoch;
use base::mutant::plant;
use std::collections::BTreeMap;
use world::{MS, World, member};

const SECOND: u64 = 1_000 * MS;

fn key(name: &str) -> Key {
    Key::new(0, name.as_bytes())
}

fn write(name: &str, kind: Kind, op: Op) -> Write {
    Write {
        key: key(name),
        kind,
        op,
        attributes: Attributes::default(),
        expect: None,
        w: None,
        sloppy: false,
    }
}

fn put(name: &str, value: &str) -> Write {
    write(name, Kind::Register, Op::Put(Bytes::copy_from_slice(value.as_bytes())))
}

fn read(name: &str) -> Request {
    Request::Read { key: key(name), r: None }
}

fn value(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Found(Some(record)) | Reply::Written(record) if !record.is_tombstone() => match &record.body {
            Body::Register(value) => Some(String::from_utf8(value.to_vec()).unwrap()),
            _ => None,
        },
        _ => None,
    }
}

fn counter_value(record: &Record) -> i128 {
    match &record.body {
        Body::Counter(tally) => tally.value(),
        _ => panic!("not a tally"),
    }
}

fn awake(seed: u64, nodes: u64) -> World {
    let mut world = World::new(seed, nodes);
    world.run(SECOND);
    world
}

#[test]
fn one_node_alone_serves() {
    let mut world = awake(1, 1);
    assert_eq!(value(&world.call(1, Request::write(put("k", "v")))).as_deref(), Some("v"));
    assert_eq!(value(&world.call(1, read("k"))).as_deref(), Some("v"));
    assert_eq!(world.call(1, read("other")), Reply::Found(None));
    world.crash(NodeId(1));
    world.start(NodeId(1));
    world.run(SECOND);
    assert_eq!(value(&world.call(1, read("k"))).as_deref(), Some("v"));
}

#[test]
fn any_node_coordinates() {
    let mut world = awake(2, 5);
    for n in 0..20 {
        let name = format!("k{n}");
        for node in 1..=5 {
            let wrote = format!("{n}:{node}");
            assert_eq!(value(&world.call(node, Request::write(put(&name, &wrote)))), Some(wrote.clone()));
            assert_eq!(value(&world.call(node % 5 + 1, read(&name))), Some(wrote));
        }
    }
    assert_eq!(world.n_conflicts, 0, "one after the other is no conflict");
}

#[test]
fn a_write_that_too_few_acknowledge_is_indeterminate_and_survives() {
    let mut world = awake(3, 3);
    world.isolate(NodeId(1));
    let reply = world.call(1, Request::write(put("k", "v")));
    assert!(matches!(reply, Reply::Indeterminate { acks: 1, needed: 2, .. }));
    assert!(matches!(world.call(1, read("k")), Reply::Unavailable { acks: 1, needed: 2, .. }));
    world.heal();
    world.run(2 * SECOND);
    assert_eq!(value(&world.call(2, read("k"))).as_deref(), Some("v"), "the hint was replayed");
    assert!(world.n_hints > 0);
    assert_eq!(world.leftovers(3), 0, "and removed");
}

#[test]
fn others_stand_in_for_replicas_that_are_down_if_the_client_likes() {
    let mut world = awake(21, 5);
    let placement = world.topology.placement();
    let list = placement.now.of(key("k").partition(), 3).to_vec();
    list[1..].iter().for_each(|node| world.crash(*node));
    // Until the silence of the two is noticed.
    for _ in 0..4 {
        world.call(list[0].0, Request::write(put("k", "strict")));
    }
    let strict = world.call(list[0].0, Request::write(put("k", "strict")));
    assert!(matches!(strict, Reply::Indeterminate { .. }), "{strict:?}");
    let sloppy = world.call(list[0].0, Request::write(Write { sloppy: true, ..put("k", "sloppy") }));
    assert_eq!(value(&sloppy).as_deref(), Some("sloppy"));
    world.crash(list[0]);
    list[1..].iter().for_each(|node| world.start(*node));
    world.run(3 * SECOND);
    assert_eq!(value(&world.call(list[1].0, read("k"))).as_deref(), Some("sloppy"), "handed over");
    assert_eq!(world.leftovers(3), 0);
}

#[test]
fn a_dead_node_delays_no_request_by_its_timeout() {
    let mut world = awake(4, 3);
    world.crash(NodeId(3));
    for n in 0..20 {
        world.call(1, Request::write(put(&format!("w{n}"), "v")));
    }
    world.run(SECOND);
    for n in 0..20 {
        let before = world.now;
        assert!(value(&world.call(1, Request::write(put(&format!("k{n}"), "v")))).is_some());
        assert!(value(&world.call(2, read(&format!("k{n}")))).is_some());
        assert!(world.now - before < 120 * MS, "{} ms", (world.now - before) / MS);
    }
}

#[test]
fn quorums_that_cannot_be_are_refused() {
    let mut world = awake(5, 3);
    let too_many = Write { w: Some(4), ..put("k", "v") };
    assert_eq!(world.call(1, Request::write(too_many)), Reply::Refused(Code::BadQuorum));
    assert_eq!(world.call(1, Request::Read { key: key("k"), r: Some(4) }), Reply::Refused(Code::BadQuorum));
    let metadata = vec![(Bytes::from_static(b"n"), Bytes::from_static(b"v")); 65];
    let crowded = Write { attributes: Attributes { metadata, ..Attributes::default() }, ..put("k", "v") };
    assert_eq!(world.call(1, Request::write(crowded)), Reply::Refused(Code::RequestTooLarge));
    let elsewhere = Request::Read { key: Key::new(9, b"k"), r: None };
    assert_eq!(world.call(1, elsewhere), Reply::Refused(Code::UnknownSpace));
}

#[test]
fn a_retry_is_recognised_by_any_node() {
    let mut world = awake(7, 3);
    let attributes = Attributes { request: Some(77), ..Attributes::default() };
    let add = Write { attributes, ..write("c", Kind::Counter, Op::Add(5)) };
    for node in 1..=3 {
        match world.call(node, Request::write(add.clone())) {
            Reply::Written(record) => assert_eq!(counter_value(&record), 5),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_id_stands_for_one_request() {
    let mut world = awake(73, 4);
    let attributes = Attributes { request: Some(7), ..Attributes::default() };
    let add = |amount| {
        let attributes = attributes.clone();
        Request::write(Write { attributes, ..write("c", Kind::Counter, Op::Add(amount)) })
    };
    assert!(matches!(world.call(1, add(5)), Reply::Written(_)));
    for node in 1..=4 {
        assert_eq!(world.call(node, add(6)), Reply::Refused(Code::RequestIdReused));
        assert!(matches!(world.call(node, add(5)), Reply::Written(record) if counter_value(&record) == 5));
    }
    let put = |value| Request::write(Write { attributes: attributes.clone(), ..put("k", value) });
    assert!(matches!(world.call(1, put("v")), Reply::Written(_)), "another key, another request");
    assert_eq!(world.call(2, put("w")), Reply::Refused(Code::RequestIdReused));
}

#[test]
fn requests_are_remembered_over_crashes_and_lost_disks_and_forgotten_in_the_end() {
    let mut world = World::with_rounds(74, 3, std::time::Duration::from_secs(120));
    world.run(SECOND);
    let attributes = Attributes { request: Some(7), ..Attributes::default() };
    let add = Request::write(Write { attributes, ..write("c", Kind::Counter, Op::Add(5)) });
    world.call(1, add.clone());
    (1..=3).for_each(|node| world.crash(NodeId(node)));
    (1..=3).for_each(|node| world.start(NodeId(node)));
    world.run(SECOND);
    assert!(matches!(world.call(2, add.clone()), Reply::Written(record) if counter_value(&record) == 5));
    world.wipe(NodeId(1));
    world.start(NodeId(1));
    world.run(600 * SECOND);
    assert!(
        matches!(world.call(1, add), Reply::Written(record) if counter_value(&record) == 5),
        "after ten minutes"
    );
    assert_eq!(world.leftovers(1), 6, "the counter and the request, three times");
    world.run(700 * SECOND);
    assert_eq!(world.leftovers(1), 3, "only the counter is left");
}

#[test]
fn what_the_network_repeats_is_done_once() {
    let mut world = awake(22, 5);
    world.repeats = true;
    for n in 0..40 {
        let reply = world.call(n % 5 + 1, Request::write(write("c", Kind::Counter, Op::Add(1))));
        assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    }
    let Reply::Found(Some(record)) = world.call(1, read("c")) else { panic!("not found") };
    assert_eq!(counter_value(&record), 40);
}

#[test]
fn a_condition_is_judged_by_what_a_quorum_has() {
    let mut world = awake(8, 3);
    world.isolate(NodeId(3));
    let Reply::Written(first) = world.call(1, Request::write(put("k", "1"))) else { panic!("not written") };
    world.cut.clear();
    let stale = Write { expect: Some(Context::default()), ..put("k", "2") };
    assert!(
        matches!(world.call(3, Request::write(stale)), Reply::Conflict(found) if found.body == first.body)
    );
    let fresh = Write { expect: Some(first.context.clone()), ..put("k", "2") };
    assert_eq!(value(&world.call(3, Request::write(fresh))).as_deref(), Some("2"));
}

#[test]
fn a_batch_says_what_became_of_each() {
    let mut world = awake(10, 5);
    let writes = (0..50).map(|n| put(&format!("b{n}"), "v")).collect();
    let Reply::Batch(replies) = world.call(2, Request::Batch(writes)) else { panic!("not a batch") };
    assert!(replies.len() == 50 && replies.iter().all(|reply| value(reply).is_some()));
    world.cut.extend((2..=5).flat_map(|node| [(NodeId(1), NodeId(node)), (NodeId(node), NodeId(1))]));
    let writes = vec![put("b0", "w"), write("b1", Kind::Set, Op::Insert(Bytes::from_static(b"e")))];
    let Reply::Batch(replies) = world.call(2, Request::Batch(writes)) else { panic!("not a batch") };
    assert!(replies.contains(&Reply::Refused(Code::WrongType)), "{replies:?}");
}

#[test]
fn a_scan_walks_all_partitions_in_order_and_says_what_is_missing() {
    let mut world = awake(11, 5);
    let names: Vec<String> = (0..300).map(|n| format!("user_{n:03}")).collect();
    for name in &names {
        world.call(1, Request::write(put(name, name)));
    }
    world.call(1, Request::write(write("user_007", Kind::Register, Op::Delete)));
    let (mut found, mut start) = (Vec::new(), Bytes::from_static(b"user_"));
    loop {
        let scan = Scan {
            namespace_id: 0,
            start,
            end: Some(Bytes::from_static(b"user_2")),
            limit: 30,
            r: None,
            view: ScanView::default(),
        };
        let Reply::Scanned(page) = world.call(3, Request::Scan(scan)) else { panic!("not scanned") };
        assert_eq!(page.n_missing, 0);
        assert!(page.records.len() <= 30);
        found.extend(page.records.iter().map(|(key, _)| String::from_utf8(key.name().to_vec()).unwrap()));
        match page.next {
            Some(next) => start = next,
            None => break,
        }
    }
    let expected: Vec<String> =
        names.iter().filter(|n| n.as_str() < "user_2" && *n != "user_007").cloned().collect();
    assert_eq!(found, expected);
    world.crash(NodeId(4));
    world.crash(NodeId(5));
    let scan = Scan {
        namespace_id: 0,
        start: Bytes::new(),
        end: None,
        limit: 30,
        r: None,
        view: ScanView::default(),
    };
    let Reply::Scanned(page) = world.call(3, Request::Scan(scan)) else { panic!("not scanned") };
    assert!(page.n_missing > 0, "two of five are down");
}

/// Everything that a query finds, page by page, by name.
fn query_all(world: &mut World, query: Query) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let query = Query { after, limit: 7, ..query.clone() };
        let reply = world.call(2, Request::Query(Box::new(query)));
        let Reply::Scanned(page) = reply else { panic!("{reply:?}") };
        assert!(page.n_missing == 0 && page.records.len() <= 7);
        found.extend(page.records.iter().map(|(key, _)| String::from_utf8(key.name().to_vec()).unwrap()));
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

#[test]
fn records_are_found_by_what_they_are() {
    let mut world = awake(31, 5);
    let home = RegionId::of("here");
    let names = |range: std::ops::Range<u32>, step| {
        range.step_by(step).map(|n| format!("k{n:03}")).collect::<Vec<_>>()
    };
    for name in names(0..60, 1) {
        let attributes = Attributes { home: name.ends_with('0').then_some(home), ..Attributes::default() };
        world.call(1, Request::write(Write { attributes, ..put(&name, "v") }));
    }
    for name in names(100..120, 1) {
        world.call(3, Request::write(write(&name, Kind::Counter, Op::Add(1))));
    }
    assert_eq!(
        query_all(&mut world, Query { kind: Some(Kind::Counter), ..Query::default() }),
        names(100..120, 1)
    );
    assert_eq!(query_all(&mut world, Query { home: Some(home), ..Query::default() }), names(0..60, 10));
    world.run(70 * SECOND);
    let since = Some(Stamp::at_ms(1_000_000_000 + world.now / MS));
    world.call(4, Request::write(put("k007", "later")));
    world.call(4, Request::write(write("k105", Kind::Counter, Op::Add(1))));
    let mut later = query_all(&mut world, Query { since, ..Query::default() });
    later.sort();
    assert_eq!(later, ["k007", "k105"]);
    let counters = Query { since, kind: Some(Kind::Counter), ..Query::default() };
    assert_eq!(query_all(&mut world, counters), ["k105"]);
    for name in names(0..60, 10) {
        world.call(5, Request::write(write(&name, Kind::Register, Op::Delete)));
    }
    assert_eq!(query_all(&mut world, Query { home: Some(home), ..Query::default() }), [""; 0]);
    // What is remembered of additions that were passed on is forgotten after some minutes.
    world.run(400 * SECOND);
    let left = (world.leftovers(1), world.leftovers(6), world.leftovers(7), world.leftovers(8));
    assert_eq!(left, (3 * 74, 3 * 74, 0, 3 * 74), "no row is left behind");
}

#[test]
fn a_node_that_lost_its_disk_gets_everything_back() {
    let mut world = awake(14, 3);
    for n in 0..100 {
        world.call(1, Request::write(put(&format!("k{n}"), &format!("{n}"))));
    }
    world.wipe(NodeId(2));
    world.start(NodeId(2));
    world.run(10 * SECOND);
    assert_eq!(world.differences(), []);
    world.isolate(NodeId(1));
    for n in 0..100 {
        assert_eq!(value(&world.call(2, read(&format!("k{n}")))), Some(format!("{n}")));
    }
}

#[test]
fn what_expires_is_gone_for_all_and_leaves_nothing_behind() {
    let mut world = awake(15, 3);
    let expires_ms = Some(1_000_000_000 + world.now / MS + 2_000);
    let attributes = Attributes { expires_ms, ..Attributes::default() };
    world.call(1, Request::write(Write { attributes, ..put("k", "v") }));
    assert!(value(&world.call(2, read("k"))).is_some());
    world.run(15 * SECOND);
    assert_eq!(world.call(2, read("k")), Reply::Found(None));
    assert_eq!((world.leftovers(1), world.leftovers(2)), (0, 0));
}

#[test]
fn five_become_six_and_then_four_and_nothing_is_lost() {
    let mut world = awake(16, 5);
    let mut last = BTreeMap::new();
    let mut n = 0;
    let mut churn = |world: &mut World, last: &mut BTreeMap<String, String>, span: u64| {
        let until = world.now + span;
        while world.now < until {
            n += 1;
            let (name, wrote) = (format!("k{}", n % 120), format!("{n}"));
            let nodes: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
            let node = world.rng.pick(&nodes).0;
            let reply = world.call(node, Request::write(put(&name, &wrote)));
            match reply {
                Reply::Written(_) => drop(last.insert(name, wrote)),
                _ => drop(last.remove(&name)),
            }
            world.advance_move();
        }
    };
    churn(&mut world, &mut last, 2 * SECOND);
    world.add(NodeId(6));
    let joining = world.topology.begin(Epoch(2), &[member(6)], &[]).unwrap();
    world.publish(joining);
    churn(&mut world, &mut last, 20 * SECOND);
    assert!(!world.topology.is_moving(), "six: {:?}", world.topology);
    let epoch = Epoch(world.topology.epoch.0 + 1);
    let leaving = world.topology.begin(epoch, &[], &[NodeId(1), NodeId(2)]).unwrap();
    world.publish(leaving);
    churn(&mut world, &mut last, 20 * SECOND);
    assert!(!world.topology.is_moving(), "four");
    world.crash(NodeId(1));
    world.crash(NodeId(2));
    world.hosts.retain(|node, _| node.0 > 2);
    world.run(8 * SECOND);
    assert_eq!(world.differences(), []);
    assert!(last.len() > 100);
    for (name, wrote) in last {
        assert_eq!(value(&world.call(3, read(&name))), Some(wrote), "{name}");
    }
}

/// What went wrong in storms of these seeds, and how many writes were acknowledged.
fn storms(seeds: std::ops::RangeInclusive<u64>) -> (Vec<String>, usize) {
    let (mut wrong, mut acked) = (Vec::new(), 0);
    for seed in seeds {
        let verdict = storm::storm(seed);
        wrong.extend(verdict.violations.into_iter().map(|violation| format!("seed {seed}: {violation}")));
        acked += verdict.n_acked;
    }
    (wrong, acked)
}

#[test]
fn storms_lose_nothing_and_end_in_agreement() {
    let (wrong, acked) = storms(1..=8);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(acked > 900, "{acked} writes were acknowledged");
}

/// A few, or as many as `MESH_TEMPESTS` says.
#[expect(clippy::disallowed_methods, reason = "a test may be told to take its time")]
fn n_tempests() -> u64 {
    std::env::var("MESH_TEMPESTS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4)
}

#[test]
fn tempests_over_three_regions_end_in_agreement() {
    let (mut wrong, mut acked, mut losers) = (Vec::new(), 0, 0);
    for seed in 1..=n_tempests() {
        let verdict = tempest::tempest(seed);
        wrong.extend(verdict.violations.into_iter().map(|violation| format!("seed {seed}: {violation}")));
        acked += verdict.n_acked;
        losers += verdict.n_losers;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(acked > 500 && losers > 5, "{acked} writes were acknowledged, {losers} lost a conflict");
}

/// Says what went wrong, if anything did.
type Scene = fn(u64) -> Option<String>;

/// Scenes in which a rule matters, and the bug that breaks it.
const SCENES: [(&str, Scene, Mutant); 25] = [
    ("a restart counts on", scenes::a_restart_counts_on, Mutant::DotsReused),
    ("a disk without space", scenes::a_disk_without_space, Mutant::FullMeshDiskIgnored),
    ("deletes without space", scenes::deletes_without_space, Mutant::DeletesUnbounded),
    ("a move meets a lost disk", scenes::a_move_meets_a_lost_disk, Mutant::LostDiskCounted),
    ("readers of the old list", scenes::readers_of_the_old_list, Mutant::EpochSkipped),
    ("a disk is lost in a power cut", scenes::a_disk_is_lost_in_a_power_cut, Mutant::StoredBeforePersist),
    ("a count is forgotten", scenes::a_count_is_forgotten, Mutant::MergeableSentEarly),
    ("a reader alone", scenes::a_reader_alone, Mutant::ReadNotCounted),
    ("what was read is read again", scenes::what_was_read_is_read_again, Mutant::ReadNotRepaired),
    ("a delete without its hint", scenes::a_delete_without_its_hint, Mutant::TombstoneNotSynced),
    ("one has not heard of the delete", scenes::one_has_not_heard_of_the_delete, Mutant::PurgeUnstable),
    ("away for too long", scenes::away_for_too_long, Mutant::PurgedReturns),
    ("a passed fence", scenes::a_passed_fence, Mutant::FenceIgnored),
    ("clocks disagree", scenes::clocks_disagree, Mutant::SkewKept),
    ("a forged context", scenes::a_forged_context, Mutant::ForgedContextJoined),
    ("a poisoned record", scenes::a_poisoned_record, Mutant::ForgedContextJoined),
    ("a first attempt comes late", scenes::a_first_attempt_comes_late, Mutant::RetryRestamped),
    ("a forwarded write comes late", scenes::a_forwarded_write_comes_late, Mutant::ForwardStampedLate),
    (
        "a paused replica is passed over",
        passed_over::a_paused_replica_is_passed_over,
        Mutant::SlowReplicaAwaited,
    ),
    ("refusals come at once", reading::refusals_come_at_once_and_name_the_missing, Mutant::RefusedAtDeadline),
    (
        "refusals name the missing",
        reading::refusals_come_at_once_and_name_the_missing,
        Mutant::MissingUnnamed,
    ),
    ("a handler that is unknown", scenes::a_handler_that_is_unknown, Mutant::UnknownHandlerTaken),
    ("a request comes again later", scenes::a_request_comes_again_later, Mutant::RequestForgotten),
    ("two attempts meet", scenes::two_attempts_meet, Mutant::RepeatCounted),
    ("a coordinator stands still", scenes::a_coordinator_stands_still, Mutant::RestampedAfterDeadline),
];

#[test]
fn scenes_without_a_planted_bug_end_well() {
    for seed in 0..12 {
        assert_eq!(scenes::a_write_is_forgotten(seed), None, "seed {seed}");
        assert_eq!(scenes::a_key_is_two_things(seed), None, "seed {seed}");
    }
}

#[test]
fn late_writes_stay_behind() {
    for seed in 0..12 {
        assert_eq!(scenes::a_forwarded_write_comes_late(seed), None, "seed {seed}");
        assert_eq!(scenes::a_forwarded_delete_comes_late(seed), None, "seed {seed}");
    }
}

#[test]
fn scenes_end_well() {
    end_well(&SCENES, 2);
}

fn end_well(scenes: &[(&str, Scene, Mutant)], seeds: u64) {
    let tell = |name, scene: Scene| (0..seeds).map(move |seed| (name, seed, scene(seed)));
    let ends = scenes.iter().flat_map(|(name, scene, _)| tell(*name, *scene));
    let badly: Vec<_> = ends.filter(|(_, _, wrong)| wrong.is_some()).collect();
    assert!(badly.is_empty(), "{badly:#?}");
}

#[test]
fn every_planted_bug_shows_in_its_scene() {
    show(&SCENES);
}

fn show(scenes: &[(&str, Scene, Mutant)]) {
    let shows = |scene: Scene, mutant: Mutant| {
        plant(Some(mutant.into()));
        let wrong = |seed| std::panic::catch_unwind(|| scene(seed)).map_or(true, |wrong| wrong.is_some());
        let shows = (0..10).any(wrong);
        plant(None);
        shows
    };
    let hidden = scenes.iter().filter(|(_, scene, mutant)| !shows(*scene, *mutant));
    let hidden: Vec<&str> = hidden.map(|(name, ..)| *name).collect();
    assert!(hidden.is_empty(), "not noticed in {hidden:?}");
}

/// Found by the tests of single modules.
const FOUND_WITHOUT_SCENES: [Mutant; 10] = [
    Mutant::TopologyOfOne,
    Mutant::RemovalUnseen,
    Mutant::SeenReturns,
    Mutant::ClearTakesUnseen,
    Mutant::ClearedShown,
    Mutant::SurvivorsUncounted,
    Mutant::OldScoreStays,
    Mutant::RunsMixed,
    Mutant::RightsUnchecked,
    Mutant::LostRangeBeginOverlooked,
];

#[test]
fn every_planted_bug_of_the_mesh_has_a_scene() {
    let scenes = || {
        let more = regions::SCENES.iter().chain(&contest::SCENES).chain(&kept::SCENES).chain(&forged::SCENES);
        let more = more
            .chain(&collections::SCENES)
            .chain(&lives::SCENES)
            .chain(&backups::SCENES)
            .chain(&bounded::SCENES)
            .chain(&refused::SCENES);
        SCENES.iter().chain(more)
    };
    let has = |mutant: &&Mutant| scenes().any(|(_, _, other)| other == *mutant);
    let elsewhere = |mutant: &&Mutant| FOUND_WITHOUT_SCENES.contains(mutant);
    assert_eq!(Mutant::FOUND_BY_TESTS.iter().find(|mutant| !has(mutant) && !elsewhere(mutant)), None);
}
