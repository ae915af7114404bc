//! Pages of names and of records: in both directions, within their bytes, and never showing what was deleted while a replica was
//! away.

use super::*;

const NAMES: ScanView = ScanView { keys_only: true, reverse: false };

fn scan(view: ScanView, limit: usize) -> Scan {
    Scan { namespace_id: 0, start: Bytes::new(), end: None, limit, r: None, view }
}

fn text(key: &Key) -> String {
    String::from_utf8(key.name().to_vec()).unwrap()
}

/// Every name, page by page.
fn all(world: &mut World, node: u64, mut scan: Scan) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..1_000 {
        let reply = world.call(node, Request::Scan(scan.clone()));
        let Reply::Scanned(page) = reply else { panic!("{reply:?}") };
        assert_eq!(page.n_missing, 0);
        assert!(page.records.len().max(page.names.len()) <= scan.limit);
        assert!(page.records.is_empty() || !scan.view.keys_only);
        found.extend(page.records.iter().map(|(key, _)| text(key)));
        found.extend(page.names.iter().map(text));
        match page.next {
            Some(next) if scan.view.reverse => scan.end = Some(next),
            Some(next) => scan.start = next,
            None => return found,
        }
    }
    panic!("no end of pages");
}

#[test]
fn names_and_records_are_the_same_in_both_directions() {
    for (seed, nodes) in [(21, 1), (22, 3), (23, 5)] {
        let mut world = awake(seed, nodes);
        let mut names: Vec<String> = (0..150).map(|n| format!("k{n:03}")).collect();
        for (nth, name) in names.iter().enumerate() {
            let request = match nth % 3 {
                0 => put(name, "v"),
                1 => write(name, Kind::Counter, Op::Add(1)),
                _ => write(name, Kind::Set, Op::Insert(Bytes::from_static(b"e"))),
            };
            world.call(1, Request::write(request));
        }
        world.call(1, Request::write(write("k007", Kind::Counter, Op::Delete)));
        names.retain(|name| name != "k007");
        for limit in [1_000, 7] {
            assert_eq!(all(&mut world, 1, scan(NAMES, limit)), names);
            assert_eq!(all(&mut world, nodes, scan(ScanView::default(), limit)), names);
            names.reverse();
            assert_eq!(all(&mut world, 1, scan(ScanView { reverse: true, ..NAMES }, limit)), names);
            let records = ScanView { reverse: true, keys_only: false };
            assert_eq!(all(&mut world, nodes, scan(records, limit)), names);
            names.reverse();
        }
        let part = Scan { start: "k010".into(), end: Some("k020".into()), ..scan(NAMES, 4) };
        assert_eq!(all(&mut world, 1, part), names[9..19]);
    }
}

#[test]
fn what_was_deleted_while_a_replica_was_away_is_in_no_page() {
    let mut world = World::with_rounds(24, 3, std::time::Duration::from_secs(1_000));
    world.run(SECOND);
    for name in ["a", "b", "c"] {
        world.call(1, Request::write(put(name, "v")));
    }
    world.run(SECOND);
    world.crash(NodeId(3));
    world.call(1, Request::write(write("b", Kind::Register, Op::Delete)));
    world.call(1, Request::write(put("d", "v")));
    // The node that has hints for it does not reach it.
    world.cut = [(NodeId(1), NodeId(3)), (NodeId(3), NodeId(1))].into();
    world.start(NodeId(3));
    world.run(2 * SECOND);
    for view in [NAMES, ScanView::default(), ScanView { reverse: true, ..NAMES }] {
        let mut found = all(&mut world, 3, scan(view, 10));
        found.sort();
        assert_eq!(found, ["a", "c", "d"], "{view:?}");
    }
}

#[test]
fn names_that_have_expired_are_not_shown() {
    let mut world = awake(25, 3);
    let at = 1_000_000_000 + world.now / MS;
    let attributes = Attributes { expires_ms: Some(at + 3_000), ..Attributes::default() };
    world.call(1, Request::write(Write { attributes, ..put("brief", "v") }));
    world.call(1, Request::write(put("lasting", "v")));
    assert_eq!(all(&mut world, 2, scan(NAMES, 10)), ["brief", "lasting"]);
    world.run(4 * SECOND);
    assert_eq!(all(&mut world, 2, scan(NAMES, 10)), ["lasting"]);
    // It is written again without an end.
    world.call(1, Request::write(put("brief", "v")));
    assert_eq!(all(&mut world, 2, scan(NAMES, 10)), ["brief", "lasting"]);
}

#[test]
fn a_page_of_large_records_ends_early() {
    let mut world = awake(26, 3);
    let large = "x".repeat(700_000);
    for n in 0..7 {
        world.call(1, Request::write(put(&format!("large{n}"), &large)));
    }
    let reply = world.call(2, Request::Scan(scan(ScanView::default(), 100)));
    let Reply::Scanned(page) = reply else { panic!("{reply:?}") };
    assert!((1..=2).contains(&page.records.len()) && page.next.is_some(), "{}", page.records.len());
    assert_eq!(all(&mut world, 2, scan(ScanView::default(), 100)).len(), 7);
    assert_eq!(all(&mut world, 2, scan(NAMES, 100)).len(), 7);
}

#[test]
fn a_page_is_whole_although_frames_are_lost_and_a_node_is_down() {
    let mut world = awake(27, 5);
    let names: Vec<String> = (0..40).map(|n| format!("k{n:03}")).collect();
    for name in &names {
        world.call(1, Request::write(put(name, "v")));
    }
    world.crash(NodeId(4));
    world.run(SECOND);
    assert_eq!(all(&mut world, 2, scan(NAMES, 9)), names);
    // Half of the questions are asked again, in the words of 0.1.0.
    world.loss_per_million = 100_000;
    let mut whole = 0;
    for _ in 0..20 {
        let reply = world.call(2, Request::Scan(scan(NAMES, 100)));
        let Reply::Scanned(page) = reply else { panic!("{reply:?}") };
        if page.n_missing == 0 {
            whole += 1;
            assert_eq!(page.names.iter().map(text).collect::<Vec<_>>(), names);
        }
    }
    assert!(whole >= 5, "{whole}");
}
