//! Large ranges read in pieces: they show one revision, whatever happens meanwhile, and keep within the budget.

use crate::world::{World, eventually, range};
use base::limits::{RANGE_PIECE_BYTES, RANGE_WHOLE_BYTES_MAX};
use base::{Code, KeyRange, Revision};
use bytes::Bytes;
use coord::Compact;
use coord::call::{InPieces, RangeOutcome};
use coord::reply::{KeyValue, RangeReply};
use coord::request::{Bounds, Range};
use server::pieces::{Content, HoldKind, KeyEncoder, KeyValueRef, RangePieces, RangeTotal, Version};
use server::{Config, Handle};
use std::sync::Arc;

const BUDGET_BYTES: usize = 3 * RANGE_PIECE_BYTES;

fn tune(config: &mut Config) {
    config.response_bytes_max = BUDGET_BYTES;
    config.flush_bytes = 64 * 1024;
}

/// Every field with its length, so that what is read back is what was put.
struct Plain;

impl KeyEncoder for Plain {
    fn size(&self, key_len: usize, _: &Version, content: Content) -> usize {
        4 + key_len + 4 + content.value_len as usize + 32
    }

    fn put(&self, out: &mut Vec<u8>, kv: KeyValueRef<'_>) {
        for bytes in [kv.key, kv.value] {
            out.extend((bytes.len() as u32).to_le_bytes());
            out.extend(bytes);
        }
        let numbers = [kv.version.create.0, kv.version.modified.0, kv.version.version, kv.lease.0];
        out.extend(numbers.map(i64::to_le_bytes).as_flattened());
    }
}

fn decode(mut bytes: &[u8]) -> Vec<KeyValue> {
    let mut kvs = Vec::new();
    while !bytes.is_empty() {
        let mut take = |len: usize| {
            let (taken, rest) = bytes.split_at(len);
            bytes = rest;
            taken
        };
        let mut text = || {
            let len = u32::from_le_bytes(take(4).try_into().unwrap());
            Bytes::copy_from_slice(take(len as usize))
        };
        let (key, value) = (text(), text());
        let mut number = || i64::from_le_bytes(take(8).try_into().unwrap());
        kvs.push(KeyValue {
            key,
            value,
            create_revision: Revision(number()),
            mod_revision: Revision(number()),
            version: number(),
            lease: base::LeaseId(number()),
        });
    }
    kvs
}

fn everything() -> Range {
    range(KeyRange::from_wire(Bytes::from_static(b"\0"), Bytes::from_static(b"\0")))
}

/// Keys that were written in an order of their own: some neighbours one after the other, some the other way round, some
/// far apart.
fn filled(keys: usize, value_bytes: usize) -> World {
    let world = World::start(1, tune);
    let (in_order, rest) = (0..keys / 4, keys / 4..keys);
    let scattered = rest.clone().map(|nth| rest.start + (nth * 7_919) % rest.len());
    for nth in in_order.rev().step_by(2).chain((0..keys / 4).skip(keys / 4 % 2).step_by(2)).chain(scattered) {
        world.put(0, &format!("key-{nth:05}"), &format!("{nth}").repeat(value_bytes));
    }
    world
}

fn whole(world: &World, range: Range) -> RangeReply {
    world.ask(0, range).unwrap().body
}

async fn begin(handle: &Handle, range: Range, keep: HoldKind) -> Result<RangePieces, Code> {
    let large = match handle.kv().submit(InPieces(range)).await?.body {
        RangeOutcome::Large(large) => *large,
        RangeOutcome::Whole(reply) => panic!("not large: {reply:?}"),
    };
    handle.kv().pieces(large, keep, Arc::new(Plain)).await
}

/// All keys, and how large they were together.
async fn read_all(pieces: &mut RangePieces) -> Result<(Vec<KeyValue>, u64), Code> {
    let (mut kvs, mut bytes) = (Vec::new(), 0);
    while let Some(piece) = pieces.next().await? {
        assert!(piece.bytes.len() <= BUDGET_BYTES);
        bytes += piece.bytes.len() as u64;
        kvs.extend(decode(&piece.bytes));
    }
    Ok((kvs, bytes))
}

#[test]
fn pieces_make_up_what_would_be_answered_at_once() {
    let world = filled(3_000, 60);
    world.put(0, "key-00100", &"large".repeat(RANGE_PIECE_BYTES / 4));
    let revisions = |min, max| Bounds { min: Revision(min), max: Revision(max) };
    let ranges = [
        everything(),
        Range { limit: 2_000, ..everything() },
        Range { limit: 9_999, ..everything() },
        Range { revision: Revision(2_500), ..everything() },
        Range { mod_revisions: revisions(500, 2_500), ..everything() },
        Range { mod_revisions: revisions(500, 2_900), limit: 1_000, ..everything() },
        Range { keys_only: true, ..everything() },
        range(KeyRange::single("key-00100".into())),
    ];
    for range in ranges {
        let expected = whole(&world, range.clone());
        let (total, (kvs, bytes), count) = world.block_on(async {
            let mut pieces =
                begin(&world.handle(0), range.clone(), HoldKind::BlocksCompaction).await.unwrap();
            let total = pieces.survey().await.unwrap();
            (total, read_all(&mut pieces).await.unwrap(), pieces.count())
        });
        assert_eq!(total, RangeTotal { bytes, keys: kvs.len() as u64, more: expected.more }, "{range:?}");
        assert_eq!(RangeReply { kvs, more: total.more, count }, expected, "{range:?}");
    }
}

#[test]
fn small_answers_come_at_once() {
    let world = filled(10, 1);
    let reply = world.ask(0, InPieces(everything())).unwrap();
    assert!(matches!(reply.body, RangeOutcome::Whole(range) if range.count == 10));
}

#[test]
fn what_is_written_meanwhile_is_not_seen() {
    let world = filled(2_000, 60);
    let expected = whole(&world, everything());
    let mut pieces = world
        .block_on(async { begin(&world.handle(0), everything(), HoldKind::BlocksCompaction).await.unwrap() });
    let total = world.block_on(pieces.survey()).unwrap();
    let first = world.block_on(pieces.next()).unwrap().unwrap();
    for nth in (0..2_000).step_by(7) {
        world.put(0, &format!("key-{nth:05}"), "replaced");
        world.put(0, &format!("key-{nth:05}-new"), "added");
    }
    assert_eq!(world.block_on(pieces.survey()).unwrap(), total);
    let mut kvs = decode(&first.bytes);
    drop(first);
    kvs.extend(world.block_on(read_all(&mut pieces)).unwrap().0);
    assert_eq!(kvs, expected.kvs);
}

fn flushes(world: &World) -> u64 {
    let metrics = world.handle(0).maintenance().metrics();
    let count =
        |line: &str| line.strip_prefix("etcd_disk_backend_commit_duration_seconds_count ")?.parse().ok();
    metrics.lines().find_map(count).unwrap()
}

fn compact(world: &World, revision: Revision) {
    let compact = Compact { revision, physical: false };
    world.block_on(world.handle(0).kv().compact(compact)).unwrap();
}

#[test]
fn a_compaction_waits_for_those_who_hold_and_ends_those_who_do_not() {
    let world = filled(2_000, 60);
    let expected = whole(&world, everything());
    let (mut firm, mut loose) = world.block_on(async {
        let firm = begin(&world.handle(0), everything(), HoldKind::BlocksCompaction).await.unwrap();
        let loose = begin(&world.handle(0), everything(), HoldKind::EndsWithCompaction).await.unwrap();
        (firm, loose)
    });
    assert!(world.block_on(loose.next()).unwrap().is_some());
    let mut newest = Revision::ZERO;
    for nth in 0..2_000 {
        newest = world.put(0, &format!("key-{nth:05}"), "replaced");
    }
    compact(&world, newest);
    assert_eq!(world.block_on(loose.next()).unwrap_err(), Code::Compacted);
    let past = Range { revision: firm.range().revision, ..everything() };
    assert_eq!(world.ask(0, past).unwrap_err(), Code::Compacted);
    // Several flushes pass, each of which would sweep.
    let before = flushes(&world);
    for nth in 0.. {
        world.put(0, "more", &nth.to_string());
        if flushes(&world) > before + 3 {
            break;
        }
    }
    assert_eq!(world.block_on(read_all(&mut firm)).unwrap().0, expected.kvs);
    drop((firm, loose));
    // Now nothing holds it up.
    let physical = Compact { revision: newest.next(), physical: true };
    world.block_on(world.handle(0).kv().compact(physical)).unwrap();
}

#[test]
fn many_readers_share_a_small_budget_and_all_are_answered() {
    let world = filled(2_000, 120);
    let expected = Arc::new(whole(&world, everything()).kvs);
    assert!(expected.iter().map(|kv| kv.value.len()).sum::<usize>() > 2 * BUDGET_BYTES);
    let readers = (0..24).map(|_| {
        let (handle, expected) = (world.handle(0), expected.clone());
        world.spawn(async move {
            let mut pieces = begin(&handle, everything(), HoldKind::BlocksCompaction).await.unwrap();
            let mut kvs = Vec::new();
            while let Some(piece) = pieces.next().await.unwrap() {
                kvs.extend(decode(&piece.bytes));
                // Others take their turn while this one holds its piece.
                tokio::task::yield_now().await;
            }
            assert_eq!(kvs, *expected);
        })
    });
    world.join(readers.collect());
    let given_back =
        || world.handle(0).maintenance().metrics().contains("althing_response_reserved_bytes 0\n");
    eventually(|| given_back().then_some(()));
}

#[test]
fn what_is_sorted_is_read_at_once_and_counts_all_the_same() {
    use coord::request::{Order, Sort, SortTarget};
    let world = filled(2_000, 60);
    let sort = Some(Sort { target: SortTarget::Mod, order: Order::Descending });
    let sorted = Range { sort, limit: 1_500, ..everything() };
    let expected = whole(&world, sorted.clone());
    let found = world.block_on(async {
        let pieces = begin(&world.handle(0), sorted, HoldKind::BlocksCompaction).await.unwrap();
        let total = pieces.survey().await.unwrap();
        assert!(total.bytes as usize > RANGE_WHOLE_BYTES_MAX);
        pieces.whole(total).await.unwrap()
    });
    assert_eq!(found.reply, expected);
    assert!(found.share.bytes() <= BUDGET_BYTES);
}

#[test]
fn what_comes_whole_waits_for_space() {
    let world = filled(2_000, 60);
    let encode: Arc<dyn KeyEncoder> = Arc::new(Plain);
    let handle = world.handle(0);
    world.block_on(async {
        let one = Range { keys: KeyRange::single("key-00001".into()), ..everything() };
        assert!(
            handle.kv().reserve_for(vec![one.clone()], &encode).await.unwrap().is_none(),
            "small answers need none"
        );
        // Of the future, or compacted: the read refuses them.
        let future = Range { revision: Revision(1_000_000), ..everything() };
        assert!(handle.kv().reserve_for(vec![future], &encode).await.unwrap().is_none());
        let part = Range { limit: 400, ..everything() };
        let share = handle.kv().reserve_for(vec![one, part.clone()], &encode).await.unwrap().unwrap();
        assert!(
            share.bytes() > 2 * RANGE_WHOLE_BYTES_MAX && share.bytes() < BUDGET_BYTES,
            "{}",
            share.bytes()
        );
        let waiting = tokio::spawn({
            let (handle, encode) = (handle.clone(), encode.clone());
            async move { handle.kv().reserve_for(vec![everything()], &encode).await.unwrap().unwrap().bytes() }
        });
        tokio::task::yield_now().await;
        drop(share);
        assert_eq!(waiting.await.unwrap(), BUDGET_BYTES, "more than everything is everything");
    });
    assert!(handle.maintenance().metrics().contains("althing_response_reserved_bytes 0\n"));
}
