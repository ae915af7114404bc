//! Scenes between regions: each about one rule, each also told with the bug planted that breaks it. Regions have
//! three nodes each; frames between them take up to thirty milliseconds.

use super::scenes::{add, delete, expect};
use super::world::{MS, TIMEOUT, World, member};
use super::{SECOND, counter_value, key, put, read, value, write};
use crate::actor::RegionId;
use crate::context::Context;
use crate::frame::{Envelope, Frame, RegionHeartbeat};
use crate::hlc::Stamp;
use crate::home_election::tests::{a_region_joins_unknown_to_the_owner, no_two_own_a_scope};
use crate::mesh::{Input, Request};
use crate::mutant::Mutant;
use crate::op::{Attributes, Op};
use crate::record::Kind;
use crate::request::{Get, Level, Reply, Write};
use crate::session::Session;
use crate::topology::Epoch;
use base::NodeId;
use bytes::Bytes;

fn get(name: &str, level: Level, session: &Session) -> Request {
    let (session, min) = (session.clone(), Context::default());
    Request::Get(Box::new(Get { key: key(name), r: None, level, session, min }))
}

fn finish_session_read(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Got(finish_session_read) => value(&Reply::Found(finish_session_read.record.clone())),
        _ => None,
    }
}

fn globally(write: Write) -> Request {
    let attributes = Attributes { level: Level::GlobalQuorum, ..write.attributes };
    Request::write(Write { attributes, ..write })
}

fn total(world: &mut World, node: u64, name: &str) -> Option<i128> {
    match world.call(node, read(name)) {
        Reply::Found(record) => Some(record.map_or(0, |record| counter_value(&record))),
        _ => None,
    }
}

/// The origin of a count forgets it in a crash after another region has it.
fn a_count_is_forgotten_here(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    // Its peers here are away, so only the log could carry it.
    [2, 3].iter().for_each(|node| world.isolate(NodeId(*node)));
    world.sync_max = 200 * MS;
    world.crossing_max = MS;
    world.ask(NodeId(1), add("c", 5));
    world.run(20 * MS);
    world.crash(NodeId(1));
    world.sync_max = 2 * MS;
    world.cut.clear();
    world.cut_region("r1");
    let first = total(&mut world, 11, "c")?;
    world.start(NodeId(1));
    world.run(300 * MS);
    let second = world.call(1, add("c", 3));
    world.cut.clear();
    world.run(8 * SECOND);
    let (last, written) = (total(&mut world, 11, "c")?, matches!(second, Reply::Written(_)));
    let least = first + if written { 3 } else { 0 };
    (last < least).then(|| format!("counted {last}, not {least}"))
}

/// A later entry arrives, an earlier one does not; who has seen both must not be shown less.
fn entries_overtake_each_other(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    let mut session = Session::default();
    for n in 0..30 {
        world.loss_per_million = 0;
        let name = format!("k{n}");
        let token = world.ask(NodeId(1), Request::write(put(&name, "v")));
        world.run(4 * MS);
        world.loss_per_million = 500_000;
        world.run(12 * MS);
        world.loss_per_million = 0;
        world.run(30 * MS);
        let Some(Reply::Written(record)) = world.replies.remove(&token) else { continue };
        session.observe(&record);
        let reply = world.call(11, get(&name, Level::LocalQuorum, &session));
        if finish_session_read(&reply).is_none() && !matches!(reply, Reply::Lagging { .. }) {
            return Some(format!("{name}: {reply:?}"));
        }
    }
    None
}

/// A node of a region that is cut off says that its neighbour's log has arrived, which it has not.
fn a_node_speaks_for_another(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    world.cut_region("r1");
    let Reply::Written(record) = world.call(1, Request::write(put("k", "v"))) else { return None };
    let mut session = Session::default();
    session.observe(&record);
    let (actor, far) = (record.header.dot.actor, u64::MAX);
    let heartbeat =
        RegionHeartbeat { actor, at_ms: far, position: far, last: far, waiting: Stamp::ZERO, digest: 0 };
    let envelope = Envelope { epoch: Epoch(1), frame: Frame::Heartbeat(Box::new(heartbeat)) };
    for to in 11..=13 {
        let (region, envelope) = (actor.region, envelope.clone());
        world.step(NodeId(to), Input::RemoteFrame { region, from: NodeId(2), envelope });
    }
    let reply = world.call(11, get("k", Level::LocalQuorum, &session));
    (!matches!(reply, Reply::Lagging { .. }))
        .then(|| format!("what was written is not there, and: {reply:?}"))
}

/// A region was away until the log was cut; it must not be said to have what was cut.
fn the_log_was_cut(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    world.cut_region("r1");
    for node in 1..=3 {
        world.hosts.get_mut(&NodeId(node)).unwrap().mesh.as_mut().unwrap().remote.log_bytes_max = 300;
    }
    let mut session = Session::default();
    for n in 0..40 {
        if let Reply::Written(record) = world.call(1 + n % 3, Request::write(put(&format!("k{n}"), "v"))) {
            session.observe(&record);
        }
    }
    world.run(SECOND);
    if world.leftovers(5) > 20 {
        return Some(format!("{} entries stay", world.leftovers(5)));
    }
    world.cut.clear();
    for n in 0..40 {
        let name = format!("k{n}");
        let reply = world.call(11 + n % 3, get(&name, Level::LocalQuorum, &session));
        if finish_session_read(&reply).is_none() && !matches!(reply, Reply::Lagging { .. }) {
            return Some(format!("{name} is not there: {reply:?}"));
        }
    }
    world.run(15 * SECOND);
    let reply = world.call(11, get("k7", Level::LocalQuorum, &session));
    if finish_session_read(&reply).is_none() {
        return Some(format!("the gap stays open: {reply:?}"));
    }
    let differences = world.differences();
    (!differences.is_empty()).then(|| format!("{} differ", differences.len()))
}

/// An entry reaches one replica of the other region, and then that replica is away.
fn one_remote_replica_is_not_enough(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    let mut session = Session::default();
    let taker = NodeId(11 + seed % 3);
    let others: Vec<NodeId> = (11..=13).map(NodeId).filter(|node| *node != taker).collect();
    // The others hear neither from home nor from their peer.
    for other in &others {
        world.cut.extend([(taker, *other), (*other, taker)]);
        world.cut.extend((1..=3).flat_map(|node| [(NodeId(node), *other), (*other, NodeId(node))]));
    }
    for n in 0..6 {
        if let Reply::Written(record) = world.call(1, Request::write(put(&format!("k{n}"), "v"))) {
            session.observe(&record);
        }
    }
    world.run(SECOND);
    world.cut.clear();
    world.run(60 * MS);
    world.isolate(taker);
    world.run(20 * MS);
    for n in 0..6 {
        let reply = world.call(others[0].0, get(&format!("k{n}"), Level::LocalQuorum, &session));
        if finish_session_read(&reply).is_none() && !matches!(reply, Reply::Lagging { .. }) {
            return Some(format!("k{n}: {reply:?}"));
        }
    }
    None
}

/// A region is away while others delete; the deletes are kept until it has heard, and nothing comes back.
fn a_delete_not_heard_of(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    (0..20).for_each(|n| drop(world.call(1, Request::write(put(&format!("k{n}"), "v")))));
    world.call(1, Request::write(write("s", Kind::Set, Op::Insert(Bytes::from_static(b"e")))));
    world.run(3 * SECOND);
    world.cut_region("r1");
    (0..20).for_each(|n| drop(world.call(1, delete(&format!("k{n}")))));
    world.call(2, Request::write(write("s", Kind::Set, Op::Remove(Bytes::from_static(b"e")))));
    world.run(8 * SECOND);
    if world.n_purged > 0 {
        return Some(format!("{} are forgotten too early", world.n_purged));
    }
    world.cut.clear();
    world.run(25 * SECOND);
    if let Some(wrong) = (0..20).find_map(|n| expect(&mut world, 12, &format!("k{n}"), None)) {
        return Some(wrong);
    }
    if let Reply::Found(Some(record)) = world.call(11, read("s"))
        && matches!(&record.body, crate::record::Body::Set(set) if !set.is_empty())
    {
        return Some("a removed element is back".into());
    }
    // The set itself stays.
    let left = (world.leftovers(1), world.leftovers(2));
    (left != (6, 0)).then(|| format!("{left:?} records and tombstones stay"))
}

/// One region is gone; after its eviction neither logs nor tombstones wait for it.
fn a_region_is_stopped_for_good(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 3);
    world.cut_region("r2");
    for n in 0..20 {
        world.call(1, Request::write(put(&format!("k{n}"), "v")));
        world.call(11, delete(&format!("k{n}")));
    }
    world.run(6 * SECOND);
    if (world.leftovers(2), world.leftovers(5)) == (0, 0) {
        return Some("it was not waited for".into());
    }
    let without = world.regions.without(RegionId::of("r2")).unwrap();
    world.agree(without);
    for n in 20..30 {
        world.call(2, Request::write(put(&format!("k{n}"), "v")));
        world.call(12, delete(&format!("k{n}")));
    }
    world.run(25 * SECOND);
    let left = (world.leftovers(2), world.leftovers(5));
    if left != (0, 0) {
        return Some(format!("{left:?} tombstones and entries stay"));
    }
    // It comes back with what the others have deleted.
    let again = crate::regions::Region::new("r2", vec![]);
    let with = world.regions.with(again).unwrap();
    world.cut.clear();
    world.agree(with);
    world.run(25 * SECOND);
    (0..30).find_map(|n| expect(&mut world, 1 + n % 3, &format!("k{n}"), None))
}

/// What a node wrote and had not sent is with its peers only, and its log is gone with its disk.
fn a_sender_loses_its_disk(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    world.cut_region("r1");
    for n in 0..30 {
        world.call(1, Request::write(put(&format!("k{n}"), "v")));
        world.call(1, add("c", 1));
    }
    world.run(SECOND);
    for node in 1..=3 {
        world.wipe(NodeId(node));
        world.start(NodeId(node));
        world.run(8 * SECOND);
    }
    world.cut.clear();
    world.run(12 * SECOND);
    if let Some(wrong) = (0..30).find_map(|n| expect(&mut world, 11, &format!("k{n}"), Some("v"))) {
        return Some(wrong);
    }
    let counted = total(&mut world, 12, "c");
    (counted != Some(30)).then(|| format!("counted {counted:?}"))
}

/// A client that writes here and reads there never reads less than it wrote.
fn a_client_moves(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    let (mut session, mut shown) = (Session::default(), 0);
    for n in 0..20u64 {
        let (writer, reader) = if n % 2 == 0 { (1, 11) } else { (12, 2) };
        let Reply::Written(record) = world.call(writer, Request::write(put("k", &n.to_string()))) else {
            continue;
        };
        session.observe(&record);
        let reply = world.call(reader, get("k", Level::LocalQuorum, &session));
        match (&reply, finish_session_read(&reply)) {
            (Reply::Lagging { .. }, _) => {}
            (Reply::Got(found), Some(read)) if read == n.to_string() => {
                shown += 1;
                session.observe(found.record.as_ref().unwrap());
            }
            _ => return Some(format!("wrote {n} and read {reply:?}")),
        }
    }
    (shown < 15).then(|| format!("only {shown} of 20 were shown"))
}

/// Its clock is behind, and it has not heard of what the client wrote elsewhere; the later write wins all the same.
fn a_client_moves_and_writes(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    for node in 11..=13 {
        world.hosts.get_mut(&NodeId(node)).unwrap().skew_ms = -400;
    }
    let mut session = Session::default();
    for n in 0..8 {
        world.cut_region("r1");
        let (name, first) = (format!("k{n}"), world.call(1, Request::write(put(&format!("k{n}"), "first"))));
        let Reply::Written(first) = first else { continue };
        session.observe(&first);
        let attributes = Attributes { after: session.latest(), ..Attributes::default() };
        let second = world.call(11, Request::write(Write { attributes, ..put(&name, "second") }));
        let Reply::Written(second) = second else { continue };
        session.observe(&second);
        world.cut.clear();
        world.run(2 * SECOND);
        if let Some(wrong) = expect(&mut world, 2, &name, Some("second")) {
            return Some(wrong);
        }
    }
    None
}

/// A write that a majority of regions has acknowledged is read by any majority, whatever the clocks.
fn a_write_for_all(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 3);
    for node in 11..=13 {
        world.hosts.get_mut(&NodeId(node)).unwrap().skew_ms = -400;
    }
    let mut acked = 0;
    for n in 0..12u64 {
        let away = if n % 3 == 2 { "r2" } else { "here" };
        world.cut_region(away);
        let writer = if away == "here" { 11 + n % 3 } else { 1 + n % 3 };
        let reply = world.call(writer, globally(put("k", &n.to_string())));
        // A read that shows it now shows it from two regions.
        world.cut.clear();
        let gone = if away == "here" { "r1" } else { "here" };
        world.cut_region(gone);
        world.run(5 * MS);
        if matches!(reply, Reply::Written(_)) {
            acked += 1;
            let reader = if gone == "here" { 12 } else { 22 };
            let reply = world.call(reader, get("k", Level::GlobalQuorum, &Session::default()));
            let shown = finish_session_read(&reply);
            if matches!(reply, Reply::Got(_)) && shown.as_ref() != Some(&n.to_string()) {
                return Some(format!("wrote {n} and read {shown:?}"));
            }
        }
        world.cut.clear();
        world.run(TIMEOUT.as_micros() as u64);
    }
    (acked < 6).then(|| format!("only {acked} of 12 were acknowledged"))
}

/// The origin of writes that others here have acknowledged crashes before they are in its log; it writes on, and the
/// other region hears of that.
fn a_log_forgets(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    let mut session = Session::default();
    world.sync_max = 300 * MS;
    let tokens: Vec<_> =
        (0..12).map(|n| world.ask(NodeId(1), Request::write(put(&format!("k{n}"), "v")))).collect();
    world.run(40 * MS);
    world.crash(NodeId(1));
    for token in tokens {
        if let Some(Reply::Written(record)) = world.replies.remove(&token) {
            session.observe(&record);
        }
    }
    world.sync_max = 2 * MS;
    world.start(NodeId(1));
    world.run(120 * MS);
    let seen: Vec<String> = (0..12).map(|n| format!("k{n}")).collect();
    let seen: Vec<String> = seen
        .into_iter()
        .filter(|name| match world.call(2, read(name)) {
            Reply::Found(Some(record)) => {
                session.observe(&record);
                true
            }
            _ => false,
        })
        .collect();
    for n in 0..6 {
        world.call(1, Request::write(put(&format!("later{n}"), "v")));
    }
    world.run(60 * MS);
    for name in seen {
        let reply = world.call(12, get(&name, Level::LocalQuorum, &session));
        if finish_session_read(&reply).is_none() && !matches!(reply, Reply::Lagging { .. }) {
            return Some(format!("{name} was seen and is not shown: {reply:?}"));
        }
    }
    None
}

/// Two regions write the same keys while they are apart; who loses is in the log, and can be brought back.
fn two_write_unseen(seed: u64) -> Option<String> {
    let mut world = World::of_regions(seed, 2);
    world.cut_region("r1");
    let (mut dots, mut conflicts) = (Vec::new(), Vec::new());
    for n in 0..10 {
        for node in [1, 11] {
            let reply = world.call(node, Request::write(put(&format!("k{n}"), &format!("{node}"))));
            let Reply::Written(record) = reply else { return Some(format!("{reply:?}")) };
            dots.push(record.header.dot);
        }
    }
    world.cut.clear();
    world.run(2 * SECOND);
    for pair in dots.chunks(2) {
        if !pair.iter().any(|dot| world.losers.contains(dot)) {
            return Some("one is lost in silence".into());
        }
    }
    conflicts.extend(world.conflicts(NodeId(2)));
    let conflict = conflicts.iter().find(|conflict| conflict.key == key("k3"))?;
    let restored = world.call(12, Request::write(conflict.restore().unwrap()));
    if !matches!(restored, Reply::Written(_)) {
        return Some(format!("{restored:?}"));
    }
    world.run(SECOND);
    let wanted = value(&Reply::Found(Some(Box::new(conflict.loser.clone()))));
    expect(&mut world, 1, "k3", wanted.as_deref())
}

/// Scenes in which a rule between regions matters, and the bug that breaks it.
pub const SCENES: [(&str, super::Scene, Mutant); 16] = [
    ("a count is forgotten here", a_count_is_forgotten_here, Mutant::StreamedBeforePersist),
    ("entries overtake each other", entries_overtake_each_other, Mutant::HolesAcknowledged),
    ("the log was cut", the_log_was_cut, Mutant::GapVouched),
    ("one remote replica is not enough", one_remote_replica_is_not_enough, Mutant::AdoptedByOne),
    ("a delete that a region has not heard of", a_delete_not_heard_of, Mutant::PurgedBeforeRemoteRegions),
    ("a region is stopped for good", a_region_is_stopped_for_good, Mutant::EvictedWaitedFor),
    ("a sender loses its disk", a_sender_loses_its_disk, Mutant::RegionsNotCompared),
    ("a client moves", a_client_moves, Mutant::TokenIgnored),
    ("a client moves and writes", a_client_moves_and_writes, Mutant::SessionStampIgnored),
    ("a write for all", a_write_for_all, Mutant::RegionsNotCounted),
    ("a log forgets", a_log_forgets, Mutant::LastWriteSentEarly),
    ("two write what the other has not seen", two_write_unseen, Mutant::LoserNotKept),
    ("an owner that is still there", no_two_own_a_scope, Mutant::HomePromiseForgotten),
    ("an owner that is cut off", no_two_own_a_scope, Mutant::HomeUnconfirmed),
    ("a node speaks for another", a_node_speaks_for_another, Mutant::HeartbeatOfAnother),
    ("an owner and a region that joins", a_region_joins_unknown_to_the_owner, Mutant::ElectorateNotAgreed),
];

#[test]
fn scenes_between_regions_end_well() {
    super::end_well(&SCENES, 1);
}

#[test]
fn every_planted_bug_between_regions_shows_in_its_scene() {
    super::show(&SCENES);
}

mod ends {
    use super::*;

    #[test]
    fn custom_values_written_apart_come_to_what_their_handler_says() {
        let mut world = World::of_regions(7, 2);
        let custom = |name: &str, handler: &'static str, value: &str| {
            let handler = Some(Bytes::from_static(handler.as_bytes()));
            let op = Op::Put(Bytes::copy_from_slice(value.as_bytes()));
            let attributes = Attributes { handler, ..Attributes::default() };
            Request::write(Write { attributes, ..write(name, Kind::Custom, op) })
        };
        let shown = |reply: Reply| match reply {
            Reply::Found(Some(record)) | Reply::Written(record) => match &record.body {
                crate::record::Body::Siblings(siblings) => {
                    siblings.values().iter().map(|sibling| sibling.value.clone()).collect::<Vec<_>>()
                }
                _ => vec![],
            },
            _ => vec![],
        };
        world.cut_region("r1");
        world.call(1, custom("high", "max", "41"));
        world.call(11, custom("high", "max", "7"));
        assert_eq!(
            shown(world.call(12, custom("high", "max", "5"))),
            [Bytes::from_static(b"7")],
            "builds on it"
        );
        world.call(2, custom("doc", "json_merge", r#"{"a":1}"#));
        world.call(12, custom("doc", "json_merge", r#"{"b":2}"#));
        world.cut.clear();
        world.run(3 * SECOND);
        for node in [3, 13] {
            assert_eq!(shown(world.call(node, read("high"))), [Bytes::from_static(b"41")]);
            assert_eq!(shown(world.call(node, read("doc"))), [Bytes::from_static(br#"{"a":1,"b":2}"#)]);
        }
        assert_eq!((world.differences(), world.n_conflicts), (vec![], 0));
    }

    #[test]
    fn a_region_grows_and_the_others_follow_its_topology() {
        let mut world = World::of_regions(9, 2);
        world.add(NodeId(4));
        let joining = world.topology.begin(Epoch(2), &[member(4)], &[]).unwrap();
        world.publish(joining);
        let mut n = 0;
        for _ in 0..60 {
            for node in [1, 11, 12] {
                n += 1;
                world.call(node, Request::write(put(&format!("k{}", n % 50), &format!("{n}"))));
                world.call(node, add("c", 1));
            }
            world.advance_move();
            world.run(SECOND / 4);
        }
        assert!(!world.topology.is_moving());
        world.run(6 * SECOND);
        assert_eq!(world.differences(), []);
        assert_eq!((total(&mut world, 4, "c"), total(&mut world, 13, "c")), (Some(n), Some(n)));
        assert_eq!(world.leftovers(5), 0, "and the logs are empty");
    }

    #[test]
    fn small_deltas_travel_however_large_the_state() {
        let mut world = World::of_regions(8, 2);
        let insert = |n: u32| write("s", Kind::Set, Op::Insert(Bytes::from(format!("element {n}"))));
        (0..300).for_each(|n| drop(world.call(1, Request::write(insert(n)))));
        world.run(SECOND);
        world.replicated_bytes = 0;
        (300..310).for_each(|n| drop(world.call(1, Request::write(insert(n)))));
        world.run(100 * MS);
        let Reply::Found(Some(record)) = world.call(12, read("s")) else { panic!("not there") };
        assert!(matches!(&record.body, crate::record::Body::Set(set) if set.elements().len() == 310));
        let (state, sent) = (record.encode().len(), world.replicated_bytes);
        assert!(state > 6_000 && sent < 10 * 200, "{sent} bytes were sent for a state of {state}");
    }

    #[test]
    fn a_level_over_regions_needs_both_of_two() {
        let mut world = World::of_regions(3, 2);
        let attributes = Attributes { request: Some(7), ..Attributes::default() };
        let write = Write { attributes, ..put("k", "v") };
        assert!(matches!(world.call(1, globally(write.clone())), Reply::Written(_)));
        assert!(
            matches!(world.call(1, globally(write)), Reply::Written(_)),
            "and when it is asked for again"
        );
        assert_eq!(
            finish_session_read(&world.call(12, get("k", Level::GlobalQuorum, &Session::default())))
                .as_deref(),
            Some("v")
        );
        world.cut_region("r1");
        assert!(matches!(world.call(1, globally(put("k", "w"))), Reply::Indeterminate { .. }));
        let reply = world.call(2, get("k", Level::GlobalQuorum, &Session::default()));
        assert!(matches!(reply, Reply::Unavailable { acks: 1, needed: 2, .. }), "{reply:?}");
        assert_eq!(
            finish_session_read(&world.call(2, get("k", Level::LocalQuorum, &Session::default()))).as_deref(),
            Some("w")
        );
    }

    #[test]
    fn a_level_over_each_region_needs_all_of_three() {
        let mut world = World::of_regions(3, 3);
        let each = |write: Write| {
            let attributes = Attributes { level: Level::EachQuorum, ..write.attributes };
            Request::write(Write { attributes, ..write })
        };
        world.cut_region("r2");
        assert!(matches!(world.call(1, globally(put("k", "v"))), Reply::Written(_)), "two of three");
        world.run(6 * SECOND);
        let before = world.now;
        for reply in [
            world.call(1, each(put("k", "u"))),
            world.call(2, get("k", Level::EachQuorum, &Session::default())),
        ] {
            let (Reply::Indeterminate { acks, needed, missing }
            | Reply::Unavailable { acks, needed, missing }) = reply
            else {
                panic!("{reply:?}")
            };
            assert_eq!((acks, needed, missing.regions), (2, 3, vec![RegionId::of("r2")]));
        }
        assert!(world.now - before < 200 * MS, "a region that is known to be away is not waited for");
        let reply = world.call(1, each(put("k", "w")));
        assert!(matches!(reply, Reply::Indeterminate { .. }), "{reply:?}");
        let reply = world.call(2, get("k", Level::EachQuorum, &Session::default()));
        assert!(matches!(reply, Reply::Unavailable { acks: 2, needed: 3, .. }), "{reply:?}");
        world.heal();
        world.run(SECOND);
        assert!(matches!(world.call(1, each(put("k", "x"))), Reply::Written(_)));
        for reader in [2, 12, 22] {
            let reply = world.call(reader, get("k", Level::LocalQuorum, &Session::default()));
            assert_eq!(finish_session_read(&reply).as_deref(), Some("x"), "at {reader}");
        }
    }

    #[test]
    fn regions_tell_how_they_are_doing() {
        let mut world = World::of_regions(4, 2);
        world.call(1, Request::write(put("k", "v")));
        world.run(4 * SECOND);
        let states = |world: &World| {
            let host = &world.hosts[&NodeId(1)];
            let now =
                crate::mesh::Now { at: base::Instant(world.now), wall_ms: 1_000_000_000 + world.now / MS };
            host.mesh.as_ref().unwrap().regions(now)
        };
        let [state] = &states(&world)[..] else { panic!("one other region") };
        assert!(state.is_healthy && state.name == "r1" && state.acked == state.last, "{state:?}");
        assert_eq!((state.lag_in_ms, state.lag_out_ms, state.positions.len()), (0, 0, 3), "{state:?}");
        assert_eq!(state.n_same, 256, "{state:?}");
        world.cut_region("r1");
        world.call(1, Request::write(put("k", "w")));
        world.run(7 * SECOND);
        let [state] = &states(&world)[..] else { panic!("one other region") };
        assert!(!state.is_healthy && state.lag_out_ms > 5_000 && state.lag_in_ms > 5_000, "{state:?}");
    }

    #[test]
    fn a_write_reaches_the_other_region_within_a_moment_and_the_log_empties() {
        let mut world = World::of_regions(5, 3);
        let before = world.n_crossed;
        for n in 0..50 {
            world.call(1 + n % 3, Request::write(put(&format!("k{n}"), "v")));
        }
        world.run(100 * MS);
        let lacking = (0..50).filter(|n| value(&world.call(21, read(&format!("k{n}")))).is_none()).count();
        assert_eq!(lacking, 0);
        world.run(SECOND);
        assert_eq!(world.leftovers(5), 0, "entries that every region has are gone");
        assert!(world.n_crossed > before);
        world.run(2 * SECOND);
        assert_eq!(world.differences(), []);
        assert_eq!(world.n_conflicts, 0);
    }

    #[test]
    fn what_a_client_demands_to_see_is_waited_for_or_fetched() {
        let mut world = World::of_regions(6, 2);
        let Reply::Written(record) = world.call(1, Request::write(put("k", "v"))) else {
            panic!("not written")
        };
        let demand = |min: &Context| {
            let (level, session) = (Level::LocalQuorum, Session::default());
            Request::Get(Box::new(Get { key: key("k"), r: None, level, session, min: min.clone() }))
        };
        assert_eq!(finish_session_read(&world.call(11, demand(&record.context))).as_deref(), Some("v"));
        // The other region cannot send, but it answers.
        for node in 1..=3 {
            let mesh = world.hosts.get_mut(&NodeId(node)).unwrap().mesh.as_mut().unwrap();
            mesh.remote
                .others
                .values_mut()
                .for_each(|other| other.stream.skip(u64::MAX / 2, crate::Stamp::MAX));
        }
        let Reply::Written(record) = world.call(2, Request::write(put("fresh", "v"))) else {
            panic!("not written")
        };
        let fresh = Request::Get(Box::new(Get {
            key: key("fresh"),
            r: None,
            level: Level::LocalQuorum,
            session: Session::default(),
            min: record.context.clone(),
        }));
        let reply = world.call(12, fresh);
        assert!(
            matches!(&reply, Reply::Got(_)) && finish_session_read(&reply).as_deref() == Some("v"),
            "{reply:?}"
        );
    }
}

#[test]
fn what_was_on_its_way_to_a_node_that_was_lost_is_sent_again_at_once() {
    let mut world = World::of_regions(3, 2);
    world.cut_region("r1");
    assert!(matches!(world.call(1, Request::write(put("k", "v"))), Reply::Written(_)));
    world.run(20 * MS);
    for (node, lost) in (1..=3).flat_map(|node| (11..=13).map(move |lost| (node, lost))) {
        world.step(NodeId(node), Input::Lost(NodeId(lost)));
    }
    world.cut.clear();
    world.run(250 * MS);
    assert_eq!(value(&world.call(11, read("k"))).as_deref(), Some("v"));
}
