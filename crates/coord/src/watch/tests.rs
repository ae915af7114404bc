//! The rules of watches, each by its name, on a hub with a small store of its own.

use super::*;
use crate::auth::Caller;
use crate::change::{Change, ChangeKind, Record};
use base::{Instant, LeaseId, RangeEnd};
use bytes::Bytes;
use std::collections::BTreeMap;

const STREAM: StreamId = StreamId(1);
const PLENTY: Credit = Credit { responses: 1_000_000, bytes: 1 << 40 };

/// All changes ever made, by revision.
#[derive(Default)]
struct Store(BTreeMap<Revision, Vec<Change>>);

impl Records for Store {
    fn record(&self, key: &[u8], revision: Revision) -> Option<Record> {
        let change = self.0.get(&revision)?.iter().find(|change| change.key.as_ref() == key)?;
        match &change.kind {
            ChangeKind::Put(record) => Some(record.clone()),
            ChangeKind::Delete => None,
        }
    }
}

impl ChangeLog for Store {
    fn log(&self, from: Revision, upto: Revision, visit: &mut dyn FnMut(Revision, LoggedChange)) {
        for (revision, changes) in self.0.range(from..=upto) {
            for change in changes {
                visit(*revision, LoggedChange::of(change));
            }
        }
    }
}

struct World {
    hub: Hub,
    store: Store,
    revision: Revision,
    compacted: Revision,
    time: Instant,
    out: Vec<Response>,
}

impl World {
    fn new() -> World {
        World::with(|_| {})
    }

    fn with(tune: impl FnOnce(&mut Params)) -> World {
        let mut params = Params {
            progress_interval: Duration::from_secs(600),
            fragment_bytes: 2 * 1024 * 1024,
            batch_revisions: 1_000,
            batch_bytes: 1024 * 1024,
            watches_max: 100,
        };
        tune(&mut params);
        let mut world = World {
            hub: Hub::new(params, Revision::EMPTY_STORE),
            store: Store::default(),
            revision: Revision::EMPTY_STORE,
            compacted: Revision::ZERO,
            time: Instant::ZERO,
            out: Vec::new(),
        };
        world.open(STREAM, PLENTY);
        world
    }

    fn act(&mut self, act: impl FnOnce(&mut Hub, &HubContext<'_>, &mut Vec<Response>)) -> &mut World {
        let now = HubContext { time: self.time, compacted: self.compacted, change_log: &self.store };
        act(&mut self.hub, &now, &mut self.out);
        self.hub.turn(&now, &mut self.out);
        self
    }

    fn input(&mut self, input: Input) -> &mut World {
        self.act(|hub, now, out| hub.step(now, input, out))
    }

    fn open(&mut self, stream: StreamId, credit: Credit) {
        self.input(Input::Open { stream, credit });
    }

    /// One transaction: `key=value` puts, a key alone is deleted.
    fn txn(&mut self, ops: &[&str]) -> &mut World {
        let revision = self.revision.next();
        let changes: Vec<Change> =
            ops.iter().enumerate().map(|(sub, op)| self.change(revision, sub as u32, op)).collect();
        self.store.0.insert(revision, changes.clone());
        self.revision = revision;
        self.act(|hub, now, out| hub.observe(now, &changes, out))
    }

    fn change(&self, revision: Revision, sub: u32, op: &str) -> Change {
        let (key, value) = op.split_once('=').map_or((op, None), |(key, value)| (key, Some(value)));
        let last = self.store.0.values().flatten().rfind(|change| change.key == key);
        let living = last.and_then(|change| match &change.kind {
            ChangeKind::Put(record) => Some((change.revision, record.clone())),
            ChangeKind::Delete => None,
        });
        let prev = living.as_ref().map_or(Revision::ZERO, |(revision, _)| *revision);
        let kind = value.map_or(ChangeKind::Delete, |value| {
            let (create, version) =
                living.map_or((revision, 1), |(_, record)| (record.create, record.version + 1));
            let value = Bytes::copy_from_slice(value.as_bytes());
            ChangeKind::Put(Record { create, version, lease: LeaseId::NONE, value })
        });
        Change { key: Bytes::copy_from_slice(key.as_bytes()), revision, sub, prev, kind }
    }

    fn watch(&mut self, create: Create) -> &mut World {
        self.input(Input::Create(create))
    }

    /// What was sent since the last look, in words.
    fn sent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.out).iter().map(words).collect()
    }

    fn settle_down(&mut self) -> &mut World {
        while self.hub.is_busy() {
            self.act(|_, _, _| {});
        }
        self
    }
}

fn words(response: &Response) -> String {
    let Response { stream, watch, revision, kind } = response;
    let stream = if *stream == STREAM { String::new() } else { format!("s{} ", stream.0) };
    let what = match kind {
        ResponseKind::Created => "created".to_owned(),
        ResponseKind::Refused(refusal) => format!("refused: {}", refusal.reason()),
        ResponseKind::Denied(code) => format!("denied: {}", denied(*code)),
        ResponseKind::Canceled { compacted: None } => "canceled".to_owned(),
        ResponseKind::Canceled { compacted: Some(at) } => format!("compacted {at}"),
        ResponseKind::Progress => "progress".to_owned(),
        ResponseKind::Events { batch, fragment } => {
            let events: Vec<_> = batch.events().iter().map(event_words).collect();
            events.join(" ") + if *fragment { " ..." } else { "" }
        }
    };
    format!("{stream}w{}@{revision} {what}", watch.0)
}

fn event_words(event: &Event) -> String {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    let kv = &event.kv;
    let prev = event.prev.as_ref().map_or(String::new(), |prev| format!("<{}", text(&prev.value)));
    if event.deleted {
        format!("-{}@{}{prev}", text(&kv.key), kv.mod_revision)
    } else {
        format!("{}={}@{}{prev}", text(&kv.key), text(&kv.value), kv.mod_revision)
    }
}

fn key(key: &str) -> Create {
    Create {
        stream: STREAM,
        caller: Caller::Anonymous,
        id: None,
        keys: KeyRange::single(Bytes::copy_from_slice(key.as_bytes())),
        start: Revision::ZERO,
        prev_kv: false,
        filters: Filters::default(),
        progress_notify: false,
        fragment: false,
    }
}

fn range(from: &str, to: &str) -> Create {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Create { keys: KeyRange::from_wire(bytes(from), bytes(to)), ..key("") }
}

fn from(revision: i64, create: Create) -> Create {
    Create { start: Revision(revision), ..create }
}

#[test]
fn created_comes_first_and_says_where_now_is() {
    let mut world = World::new();
    world.txn(&["a=1"]).watch(key("a")).txn(&["a=2"]);
    assert_eq!(world.sent(), ["w0@2 created", "w0@3 a=2@3"]);
    world.watch(from(2, key("a"))).settle_down();
    assert_eq!(world.sent(), ["w1@3 created", "w1@3 a=1@2 a=2@3"]);
}

#[test]
fn ids_count_from_zero_and_pass_over_chosen_ones() {
    let mut world = World::new();
    world.watch(key("a")).watch(Create { id: Some(WatchId(1)), ..key("a") }).watch(key("a"));
    world.watch(Create { id: Some(WatchId(-7)), ..key("a") });
    assert_eq!(world.sent(), ["w0@1 created", "w1@1 created", "w2@1 created", "w-7@1 created"]);
}

#[test]
fn a_chosen_id_that_is_taken_is_refused() {
    let mut world = World::new();
    let chosen = || Create { id: Some(WatchId(5)), ..key("a") };
    world.watch(chosen()).watch(chosen());
    let refused = "w-1@1 refused: mvcc: duplicate watch ID provided on the WatchStream";
    assert_eq!(world.sent(), ["w5@1 created", refused]);
    world.input(Input::Cancel { stream: STREAM, watch: WatchId(5) }).watch(chosen());
    assert_eq!(world.sent(), ["w5@1 canceled", "w5@1 created"]);
}

#[test]
fn a_stream_has_no_more_watches_than_it_may() {
    let mut world = World::with(|params| params.watches_max = 2);
    world.watch(key("a")).watch(key("a")).watch(key("a"));
    let last = world.out.last().unwrap();
    assert_eq!(last.watch, WatchId::NONE);
    assert!(matches!(last.kind, ResponseKind::Refused(Refusal::TooMany)));
    world.input(Input::Cancel { stream: STREAM, watch: WatchId(0) }).watch(key("a"));
    assert!(matches!(world.out.last().unwrap().kind, ResponseKind::Created));
}

#[test]
fn an_empty_range_and_a_negative_start_are_refused() {
    let mut world = World::new();
    world.watch(range("b", "a")).watch(range("a", "a")).watch(from(-1, range("b", "a")));
    let empty = "w-1@1 refused: mvcc: watcher range is empty";
    let negative = "w-1@1 refused: etcdserver: mvcc: required revision has been compacted";
    assert_eq!(world.sent(), [empty, empty, negative]);
}

#[test]
fn ranges_and_keys_hear_of_their_own_and_nothing_else() {
    let mut world = World::new();
    world.watch(range("b", "d")).watch(range("c", "\0")).watch(key("c"));
    world.sent();
    world.txn(&["a=1"]).txn(&["b=1"]).txn(&["c=1"]).txn(&["d=1"]);
    let expected = ["w0@3 b=1@3", "w2@4 c=1@4", "w0@4 c=1@4", "w1@4 c=1@4", "w1@5 d=1@5"];
    let mut sent = world.sent();
    let mut expected = expected.map(str::to_owned).to_vec();
    sent.sort();
    expected.sort();
    assert_eq!(sent, expected);
}

#[test]
fn a_future_start_hears_nothing_before_it() {
    let mut world = World::new();
    world.watch(from(4, key("a"))).input(Input::Progress(STREAM));
    world.txn(&["a=1"]).txn(&["a=2"]).input(Input::Progress(STREAM));
    assert_eq!(world.sent(), ["w0@1 created"]);
    world.txn(&["a=3"]).input(Input::Progress(STREAM));
    assert_eq!(world.sent(), ["w0@4 a=3@4", "w-1@4 progress"]);
}

#[test]
fn a_future_start_that_is_passed_over_in_one_turn_hears_all_from_it_on() {
    let mut world = World::new();
    world.watch(from(3, key("a"))).watch(from(5, key("a")));
    world.sent();
    let changes: Vec<_> = (2..=4).map(|revision| world.change(Revision(revision), 0, "a=x")).collect();
    for change in &changes {
        world.store.0.insert(change.revision, vec![change.clone()]);
    }
    world.revision = Revision(4);
    world.act(|hub, now, out| {
        changes.iter().for_each(|change| hub.observe(now, std::slice::from_ref(change), out));
    });
    world.settle_down().txn(&["a=y"]);
    assert_eq!(world.sent(), ["w0@4 a=x@3 a=x@4", "w0@5 a=y@5", "w1@5 a=y@5"]);
}

#[test]
fn a_compacted_start_is_created_and_then_canceled_with_the_compacted_revision() {
    let mut world = World::new();
    world.txn(&["a=1"]).txn(&["a=2"]).txn(&["a=3"]);
    world.compacted = Revision(3);
    world.watch(from(2, key("a"))).watch(from(3, key("a"))).settle_down();
    assert_eq!(world.sent(), ["w0@4 created", "w0@4 compacted 3", "w1@4 created", "w1@4 a=2@3 a=3@4"]);
    world.txn(&["a=4"]);
    assert_eq!(world.sent(), ["w1@5 a=4@5"]);
}

#[test]
fn a_watch_that_falls_behind_a_compaction_is_canceled_with_it() {
    let mut world = World::new();
    world.open(StreamId(2), Credit { responses: 1, bytes: 1 });
    world.watch(Create { stream: StreamId(2), ..key("a") });
    world.txn(&["a=1"]).txn(&["a=2"]);
    world.compacted = Revision(3);
    world.act(|_, _, _| {});
    assert_eq!(world.sent(), ["s2 w0@1 created", "s2 w0@3 compacted 3"]);
}

#[test]
fn a_cancel_is_answered_once_and_ends_the_events() {
    let mut world = World::new();
    world.watch(key("a")).input(Input::Cancel { stream: STREAM, watch: WatchId(0) }).txn(&["a=1"]);
    world.input(Input::Cancel { stream: STREAM, watch: WatchId(0) });
    world.input(Input::Cancel { stream: StreamId(9), watch: WatchId(0) });
    assert_eq!(world.sent(), ["w0@1 created", "w0@1 canceled"]);
}

#[test]
fn the_events_of_a_revision_come_together() {
    let mut world = World::with(|params| params.batch_bytes = 1);
    world.watch(range("a", "z")).txn(&["a=1", "b=1", "c=1"]).txn(&["a", "b=2"]);
    world.watch(from(2, range("a", "z"))).settle_down();
    let expected = [
        "w0@1 created",
        "w0@2 a=1@2 b=1@2 c=1@2",
        "w0@3 -a@3 b=2@3",
        "w1@3 created",
        "w1@3 a=1@2 b=1@2 c=1@2",
        "w1@3 -a@3 b=2@3",
    ];
    assert_eq!(world.sent(), expected);
}

#[test]
fn only_watches_that_asked_get_fragments_and_all_but_the_last_say_so() {
    let mut world = World::with(|params| params.fragment_bytes = 60);
    world.watch(range("a", "z")).watch(Create { fragment: true, ..range("a", "z") });
    world.sent();
    world.txn(&["a=1", "b=1", "c=1"]);
    assert_eq!(world.sent(), ["w0@2 a=1@2 b=1@2 c=1@2", "w1@2 a=1@2 b=1@2 ...", "w1@2 c=1@2"]);
}

#[test]
fn previous_versions_are_those_that_were_replaced() {
    let mut world = World::new();
    world.txn(&["a=1"]).watch(Create { prev_kv: true, ..key("a") });
    world.txn(&["a=2"]).txn(&["b=9"]).txn(&["a"]).txn(&["a=3"]);
    world.watch(from(2, Create { prev_kv: true, ..key("a") })).settle_down();
    let expected = [
        "w0@2 created",
        "w0@3 a=2@3<1",
        "w0@5 -a@5<2",
        "w0@6 a=3@6",
        "w1@6 created",
        "w1@6 a=1@2 a=2@3<1 -a@5<2 a=3@6",
    ];
    assert_eq!(world.sent(), expected);
}

#[test]
fn a_previous_version_below_the_compacted_revision_is_not_shown() {
    let mut world = World::new();
    world.txn(&["a=1"]).txn(&["a=2"]).txn(&["a=3"]);
    world.compacted = Revision(3);
    world.watch(from(3, Create { prev_kv: true, ..key("a") })).settle_down();
    assert_eq!(world.sent(), ["w0@4 created", "w0@4 a=2@3 a=3@4<2"]);
}

#[test]
fn a_delete_tells_the_key_and_the_revision_alone() {
    let mut world = World::new();
    world.txn(&["a=1"]).watch(key("a")).txn(&["a"]);
    let ResponseKind::Events { batch, .. } = &world.out.last().unwrap().kind else {
        panic!("an event was due")
    };
    let kv = &batch.events()[0].kv;
    assert_eq!((kv.create_revision, kv.version, kv.mod_revision), (Revision::ZERO, 0, Revision(3)));
    assert!(kv.value.is_empty());
}

#[test]
fn what_is_filtered_out_is_not_sent() {
    let mut world = World::new();
    let only = |no_put, no_delete| Create { filters: Filters { no_put, no_delete }, ..range("a", "z") };
    world.watch(only(true, false)).watch(only(false, true)).watch(only(true, true));
    world.sent();
    world.txn(&["a=1"]).txn(&["a", "b=1"]);
    world.watch(from(2, only(true, false))).settle_down();
    let mut sent = world.sent();
    sent.sort();
    assert_eq!(sent, ["w0@3 -a@3", "w1@2 a=1@2", "w1@3 b=1@3", "w3@3 -a@3", "w3@3 created"]);
}

#[test]
fn history_comes_in_pieces_and_then_live_without_gap_or_repetition() {
    let mut world = World::with(|params| params.batch_revisions = 3);
    for nth in 0..10 {
        world.txn(&[&format!("a={nth}")]);
    }
    world.watch(from(2, key("a")));
    // Changes come while it still reads.
    world.txn(&["a=10"]).settle_down().txn(&["a=11"]);
    let revisions: Vec<i64> = world
        .out
        .iter()
        .filter_map(|response| match &response.kind {
            ResponseKind::Events { batch, .. } => Some(batch),
            _ => None,
        })
        .flat_map(|batch| batch.events().iter().map(|event| event.kv.mod_revision.0))
        .collect();
    assert_eq!(revisions, (2..=13).collect::<Vec<_>>());
}

#[test]
fn a_slow_client_misses_nothing() {
    let mut world = World::new();
    world.open(StreamId(2), Credit { responses: 2, bytes: 1 << 20 });
    world.watch(Create { stream: StreamId(2), ..key("a") });
    world.txn(&["a=1"]).txn(&["a=2"]).txn(&["b=1"]).txn(&["a=3"]);
    assert_eq!(world.sent(), ["s2 w0@1 created", "s2 w0@2 a=1@2"]);
    let refill = |world: &mut World| {
        let credit = Credit { responses: 1, bytes: 0 };
        world.input(Input::Credit { stream: StreamId(2), credit }).settle_down();
    };
    refill(&mut world);
    assert_eq!(world.sent(), ["s2 w0@5 a=2@3 a=3@5"]);
    world.txn(&["a=4"]);
    assert_eq!(world.sent(), Vec::<String>::new());
    refill(&mut world);
    refill(&mut world);
    world.txn(&["a=5"]);
    assert_eq!(world.sent(), ["s2 w0@6 a=4@6", "s2 w0@7 a=5@7"]);
}

#[test]
fn watches_of_one_shape_share_one_batch() {
    let mut world = World::new();
    world.watch(key("a")).watch(key("a")).txn(&["a=1"]);
    let batches: Vec<_> = world
        .out
        .iter()
        .filter_map(|response| match &response.kind {
            ResponseKind::Events { batch, .. } => Some(batch.clone()),
            _ => None,
        })
        .collect();
    assert!(Arc::ptr_eq(&batches[0], &batches[1]));
    assert_eq!(batches[0].encoded(|_| Bytes::from_static(b"x")), "x");
    assert_eq!(batches[1].encoded(|_| unreachable!("encoded already")), "x");
}

#[test]
fn progress_on_request_waits_for_every_watch_of_the_stream() {
    let mut world = World::with(|params| params.batch_revisions = 1);
    world.input(Input::Progress(STREAM));
    assert_eq!(world.sent(), Vec::<String>::new(), "a stream without watches has no progress");
    world.txn(&["a=1"]).txn(&["a=2"]).txn(&["a=3"]).watch(key("a")).watch(from(2, key("a")));
    world.sent();
    world.input(Input::Progress(STREAM));
    assert!(!world.sent().iter().any(|words| words.contains("progress")));
    world.settle_down().sent();
    world.input(Input::Progress(STREAM));
    assert_eq!(world.sent(), ["w-1@4 progress"]);
}

#[test]
fn quiet_watches_that_asked_hear_of_progress_in_rounds() {
    let mut world = World::with(|params| params.progress_interval = Duration::from_secs(10));
    world.watch(Create { progress_notify: true, ..key("a") }).watch(key("a")).txn(&["b=1"]);
    world.sent();
    let after = |world: &mut World, seconds| {
        world.time = world.time.after(Duration::from_secs(seconds));
        world.act(|_, _, _| {}).sent()
    };
    assert_eq!(after(&mut world, 9), Vec::<String>::new());
    assert_eq!(after(&mut world, 1), ["w0@2 progress"]);
    world.txn(&["a=1"]).sent();
    assert_eq!(after(&mut world, 10), Vec::<String>::new(), "it has just heard something");
    assert_eq!(after(&mut world, 10), ["w0@3 progress"]);
}

#[test]
fn after_a_snapshot_all_watches_go_on_from_where_they_were() {
    let mut world = World::new();
    world.txn(&["a=1"]).watch(key("a")).watch(from(5, key("a"))).watch(from(9, key("a")));
    world.sent();
    for revision in 3..=6 {
        let change = world.change(Revision(revision), 0, &format!("a={revision}"));
        world.store.0.insert(Revision(revision), vec![change]);
    }
    world.revision = Revision(6);
    world.hub.installed(Revision(6));
    world.settle_down().txn(&["a=7"]);
    let mut sent = world.sent();
    sent.sort();
    let expected = ["w0@6 a=3@3 a=4@4 a=5@5 a=6@6", "w0@7 a=7@7", "w1@6 a=5@5 a=6@6", "w1@7 a=7@7"];
    assert_eq!(sent, expected);
}

#[test]
fn a_closed_stream_leaves_nothing_behind() {
    let mut world = World::new();
    world.txn(&["a=1"]);
    world.watch(Create { progress_notify: true, ..range("a", "\0") });
    world.watch(from(2, key("a"))).watch(from(99, key("a")));
    assert_eq!(world.hub.counts(), WatchCounts { streams: 1, watches: 3, behind: 0 });
    world.input(Input::Close(STREAM)).input(Input::Close(STREAM));
    world.watch(key("a")).txn(&["a=2"]);
    assert_eq!(world.hub.counts(), WatchCounts::default());
    assert!(!world.hub.is_busy());
    let debris = format!("{:?}", world.hub);
    assert!(!debris.contains("Shape"), "{debris}");
    assert!(debris.contains("future: {}") && debris.contains("progress_due: {}"), "{debris}");
}

#[test]
fn watches_are_described_page_by_page_and_by_what_they_watch() {
    let mut world = World::new();
    let ann = || Caller::User { name: "ann".into(), revision: 1 };
    world.txn(&["a=1"]);
    world.watch(key("a")).watch(Create { caller: ann(), ..key("b") }).watch(from(1, key("apple")));
    let ids = |selection: WatchSelection| {
        world
            .hub
            .describe(&selection)
            .into_iter()
            .map(|found| (found.stream, found.watch))
            .collect::<Vec<_>>()
    };
    let all = WatchSelection { at_most: 10, ..WatchSelection::default() };
    let every = ids(all.clone());
    assert_eq!(every.len(), 3);
    let mut paged = Vec::new();
    while let Some(found) =
        ids(WatchSelection { after: paged.last().copied(), at_most: 1, ..all.clone() }).pop()
    {
        paged.push(found);
    }
    assert_eq!(paged, every);
    assert_eq!(ids(WatchSelection { text: "pp".into(), ..all.clone() }), every[2..]);
    assert_eq!(ids(WatchSelection { text: "ann".into(), ..all.clone() }), every[1..2]);
    assert_eq!(ids(WatchSelection { streams: Some([StreamId(99)].into()), ..all }), []);
    let sizes = world.hub.sizes_of(&[STREAM, StreamId(99)].into());
    assert_eq!(sizes, [(STREAM, 3)].into());
    let behind: Vec<_> = world.hub.describe_behind().map(|found| (found.stream, found.watch)).collect();
    let counted = world.hub.counts().behind;
    assert_eq!(behind.len(), counted);
}

#[test]
fn a_range_with_an_open_end_is_never_empty() {
    let open = KeyRange { start: Bytes::from_static(b"z"), end: RangeEnd::Open };
    assert!(!open.is_empty());
}

#[test]
fn a_watch_that_loses_permission_gets_earlier_events_and_no_later_ones() {
    let mut world = World::new();
    let ann = || Caller::User { name: "ann".into(), revision: 1 };
    world.watch(Create { caller: ann(), ..key("a") }).watch(Create { caller: ann(), ..key("b") });
    world.watch(key("a"));
    world.sent();
    let changes = [world.change(Revision(2), 0, "a=1")];
    world.store.0.insert(Revision(2), changes.to_vec());
    world.revision = Revision(2);
    let cancel_denied = |caller: &Caller, keys: &KeyRange| match caller {
        Caller::User { .. } if keys.contains(b"a") => Err(Code::PermissionDenied),
        _ => Ok(()),
    };
    world.act(|hub, now, out| {
        hub.observe(now, &changes, out);
        hub.cancel_denied(out, cancel_denied);
    });
    let denied = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
    let sent = world.sent();
    assert_eq!(sent.len(), 3, "{sent:?}");
    assert!(sent[2].contains(&format!("denied: {denied}")), "{sent:?}");
    world.txn(&["a=2"]).txn(&["b=1"]);
    assert_eq!(world.sent().len(), 2, "the watch of b goes on, and so does the other of a");
    world.input(Input::Refuse { stream: STREAM, refusal: Refusal::Denied(Code::InvalidAuthToken) });
    assert!(world.sent()[0].contains("invalid auth token"));
}
