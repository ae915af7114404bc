//! One round: two fresh servers get the same requests until the operations are used up or an answer
//! differs. Events are compared at barriers: a first watch of everything receives what has happened, so that it is
//! known how many events every other watch owes. Whatever would race with events (a compaction, the beginning
//! and the end of a watch) waits for such a barrier.

use crate::Difference;
use crate::auth_round;
use crate::compare::{ComparableAnswer, essence, refusal};
use crate::gateway_round;
use crate::generator::{EtcdRelease, RequestGenerator, STREAMS};
use crate::http::HttpConn;
use crate::side::Side;
use crate::test_call::{Step, TestCall, WatchCall};
use proto::etcdserverpb::watch_create_request::FilterType;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    LeaseGrantRequest, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchResponse,
};
use proto::mvccpb::Event;
use proto::mvccpb::event::EventType;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinSet;
use tonic::Status;

/// The stream and the watch that sees everything.
const REFERENCE: (usize, i64) = (0, 0);
/// Watches on one stream at most; beyond it, the first is cancelled.
const WATCHES_MAX: usize = 6;
/// Events are compared at least so often.
const STEPS_PER_BARRIER: u64 = 64;
/// Of so many seeds, one is for a round with users, and one for a round by JSON.
const KINDS_OF_ROUNDS: u64 = 4;
/// A watch that no stream has.
const UNKNOWN_WATCH: i64 = 1_000;

pub(crate) type Outcome<T> = Result<T, Box<Difference>>;

/// Sends both so many requests; counts them in `done`.
pub async fn run(theirs: &str, ours: &str, seed: u64, ops: u64, done: &AtomicU64) -> Outcome<()> {
    let mut round = Round::connect(theirs, ours, seed).await?;
    match seed % KINDS_OF_ROUNDS {
        2 => return gateway_round::run(theirs, ours, round.generator, ops, done).await,
        3 => return auth_round::run(round.theirs, round.ours, round.generator, ops, done).await,
        _ => {}
    }
    round.create(REFERENCE.0, everything()).await?;
    let mut asked = 0;
    while asked < ops {
        let step = round.generator.step();
        asked += step.len();
        done.fetch_add(step.len(), Ordering::Relaxed);
        round.step += 1;
        round.perform(step).await?;
        if round.step.is_multiple_of(STEPS_PER_BARRIER) {
            round.barrier().await?;
        }
    }
    round.barrier().await
}

struct Round {
    theirs: Side,
    ours: Side,
    generator: RequestGenerator,
    seed: u64,
    step: u64,
    /// The oldest readable revision, as etcd counts it.
    compacted: i64,
    /// Every event, as the reference watch received them.
    history: Vec<EventKey>,
    watches: [BTreeMap<i64, LiveWatch>; STREAMS],
}

/// An event, reduced to what decides which watches receive it.
struct EventKey {
    key: Vec<u8>,
    revision: i64,
    deleted: bool,
}

/// A watch that is alive, and how much of the history it has received.
struct LiveWatch {
    create: WatchCreateRequest,
    heard: usize,
}

/// Whether a watch of this kind receives the event.
fn wants(create: &WatchCreateRequest, event: &EventKey) -> bool {
    let filter = if event.deleted { FilterType::Nodelete } else { FilterType::Noput };
    // An empty key is the first of all.
    let from: &[u8] = if create.key.is_empty() { b"\0" } else { &create.key };
    let in_range = match &create.range_end[..] {
        b"" => event.key == from,
        b"\0" => event.key[..] >= *from,
        end => event.key[..] >= *from && event.key[..] < *end,
    };
    in_range && event.revision >= create.start_revision && !create.filters.contains(&(filter as i32))
}

fn everything() -> WatchCreateRequest {
    WatchCreateRequest { key: "\0".into(), range_end: "\0".into(), prev_kv: true, ..Default::default() }
}

impl Round {
    async fn connect(theirs: &str, ours: &str, seed: u64) -> Outcome<Round> {
        let mut asked = HttpConn::new(theirs);
        let (theirs, ours) = tokio::join!(Side::connect(theirs), Side::connect(ours));
        let version = asked.get("/version").await.map(|answer| answer.body).unwrap_or_default();
        let release = EtcdRelease::of(&version);
        let watches = std::array::from_fn(|_| BTreeMap::new());
        let generator = RequestGenerator::new(seed, release);
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => {
                Ok(Round { theirs, ours, generator, seed, step: 0, compacted: -1, history: vec![], watches })
            }
            (theirs, ours) => {
                let text = |side: Result<Side, String>| side.err().unwrap_or_else(|| "connected".to_owned());
                let (theirs, ours) = (text(theirs), text(ours));
                Err(Box::new(Difference { seed, step: 0, request: "connect".to_owned(), theirs, ours }))
            }
        }
    }

    async fn perform(&mut self, step: Step) -> Outcome<()> {
        match step {
            Step::Reads(reads) => self.read_all(reads).await,
            Step::Alone(ask) => self.ask(ask).await,
            Step::ShortLease(grant) => self.short_lease(grant).await,
            Step::Watch { stream, ask: WatchCall::Create(create) } => self.create(stream, create).await,
            Step::Watch { stream, ask: WatchCall::Cancel { nth } } => {
                let id = self.watches[stream].keys().nth(nth as usize).copied().unwrap_or(UNKNOWN_WATCH);
                self.cancel(stream, id).await
            }
            Step::Watch { stream, ask: WatchCall::Progress } => self.progress(stream).await,
        }
    }

    async fn read_all(&mut self, reads: Vec<TestCall>) -> Outcome<()> {
        let (theirs, ours) = (&self.theirs, &self.ours);
        let answers = async |side: &Side| {
            let mut asked = JoinSet::new();
            for (nth, ask) in reads.iter().cloned().enumerate() {
                let read = side.reader();
                asked.spawn(async move { (nth, read.read(ask).await) });
            }
            let mut answers = asked.join_all().await;
            answers.sort_by_key(|(nth, _)| *nth);
            answers
        };
        let (expected, found) = tokio::join!(answers(theirs), answers(ours));
        for ((nth, expected), (_, found)) in expected.into_iter().zip(found) {
            self.judge(&reads[nth], expected, found)?;
        }
        Ok(())
    }

    async fn ask(&mut self, ask: TestCall) -> Outcome<()> {
        if let TestCall::Compact(_) = ask {
            self.barrier().await?;
        }
        let (expected, found) = tokio::join!(self.theirs.answer(ask.clone()), self.ours.answer(ask.clone()));
        if let (TestCall::Compact(compact), Some(_)) = (&ask, expected.revision) {
            self.compacted = compact.revision;
            self.generator.floor = compact.revision;
        }
        self.judge(&ask, expected, found)
    }

    async fn short_lease(&mut self, grant: LeaseGrantRequest) -> Outcome<()> {
        self.ask(TestCall::Grant(grant)).await?;
        self.ask(TestCall::Revoke(grant.id)).await
    }

    async fn create(&mut self, stream: usize, mut create: WatchCreateRequest) -> Outcome<()> {
        self.barrier().await?;
        // etcd 3.5.1 forgets deletes of the very revision that is compacted (deviation 30).
        if create.start_revision == self.compacted {
            create.start_revision += 1;
        }
        // etcd reads the past for its watches in rounds. One that finds nothing there gives no sign of it, and
        // would race with a compaction: it begins now instead.
        let past = self.compacted.max(1)..=self.generator.now;
        if past.contains(&create.start_revision) && self.owed(&create, 0) == 0 {
            create.start_revision = 0;
        }
        if self.watches[stream].len() >= WATCHES_MAX {
            let first = self.watches[stream].keys().find(|id| (stream, **id) != REFERENCE).copied();
            self.cancel(stream, first.unwrap_or(UNKNOWN_WATCH)).await?;
        }
        let created = self.converse(stream, RequestUnion::CreateRequest(create.clone())).await?;
        if created.canceled {
            return Ok(());
        }
        if create.start_revision != 0 && create.start_revision < self.compacted {
            self.next_response(stream, &create).await?;
            return self.cancel_again(stream, created.watch_id).await;
        }
        // What happened before it began is not sent, unless it was requested.
        let heard = if create.start_revision == 0 { self.history.len() } else { 0 };
        self.watches[stream].insert(created.watch_id, LiveWatch { create, heard });
        Ok(())
    }

    /// etcd holds on to the id of a watch that a compaction ended, until it is cancelled once more (deviation
    /// 28).
    async fn cancel_again(&mut self, stream: usize, id: i64) -> Outcome<()> {
        let watches = &mut self.theirs.watches[stream];
        watches.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: id })).await;
        let word = watches.next_response().await;
        word.map(drop).map_err(|status| self.difference(&id, status.to_string(), "freed".to_owned()))
    }

    /// How many events of the history, from this position on, such a watch receives.
    fn owed(&self, create: &WatchCreateRequest, heard: usize) -> usize {
        self.history[heard..].iter().filter(|event| wants(create, event)).count()
    }

    async fn cancel(&mut self, stream: usize, id: i64) -> Outcome<()> {
        if (stream, id) == REFERENCE {
            return Ok(());
        }
        self.barrier().await?;
        let cancel = RequestUnion::CancelRequest(WatchCancelRequest { watch_id: id });
        if self.watches[stream].remove(&id).is_none() {
            // There is no answer to it; the next response would be out of place.
            self.theirs.watches[stream].send(cancel.clone()).await;
            self.ours.watches[stream].send(cancel).await;
            return Ok(());
        }
        self.converse(stream, cancel).await.map(drop)
    }

    /// As newer versions of etcd, we send nothing unless every watch of the stream has begun (deviation 29).
    async fn progress(&mut self, stream: usize) -> Outcome<()> {
        self.barrier().await?;
        let now = self.generator.now;
        let mut starts = self.watches[stream].values().map(|watched| watched.create.start_revision);
        if self.watches[stream].is_empty() || starts.any(|start| start > now) {
            return Ok(());
        }
        self.converse(stream, RequestUnion::ProgressRequest(WatchProgressRequest {})).await.map(drop)
    }

    /// Sends on both streams, and compares the responses.
    async fn converse(&mut self, stream: usize, union: RequestUnion) -> Outcome<WatchResponse> {
        self.theirs.watches[stream].send(union.clone()).await;
        self.ours.watches[stream].send(union.clone()).await;
        self.next_response(stream, &union).await
    }

    async fn next_response(&mut self, stream: usize, request: &(dyn Debug + Sync)) -> Outcome<WatchResponse> {
        let (expected, found) = tokio::join!(
            self.theirs.watches[stream].next_response(),
            self.ours.watches[stream].next_response()
        );
        let word = found.clone();
        self.judge(request, essence(expected), essence(found))?;
        word.map_err(|status| self.difference(request, "the same".to_owned(), status.to_string()))
    }

    /// Waits until every watch has received what it is owed, and compares that.
    async fn barrier(&mut self) -> Outcome<()> {
        self.read_reference().await?;
        for stream in 0..STREAMS {
            for id in Vec::from_iter(self.watches[stream].keys().copied()) {
                if (stream, id) != REFERENCE {
                    self.compare_events(stream, id).await?;
                }
            }
            self.check_nothing_left(stream)?;
        }
        Ok(())
    }

    async fn read_reference(&mut self) -> Outcome<()> {
        let (stream, id) = REFERENCE;
        let now = self.generator.now;
        if self.watches[stream].is_empty() || self.history.last().map_or(1, |last| last.revision) == now {
            return Ok(());
        }
        let (expected, found) = tokio::join!(
            self.theirs.watches[stream].take_up_to(id, now),
            self.ours.watches[stream].take_up_to(id, now)
        );
        let events = expected.clone().unwrap_or_default();
        self.require_equal_events(&format!("every event up to revision {now}"), expected, found)?;
        self.history.extend(events.iter().map(|event| {
            let kv = event.kv.clone().unwrap_or_default();
            let deleted = event.r#type() == EventType::Delete;
            EventKey { key: kv.key.to_vec(), revision: kv.mod_revision, deleted }
        }));
        Ok(())
    }

    async fn compare_events(&mut self, stream: usize, id: i64) -> Outcome<()> {
        let watched = self.watches[stream].get_mut(&id).expect("only live watches are compared");
        let heard = std::mem::replace(&mut watched.heard, self.history.len());
        let create = watched.create.clone();
        let owed = self.owed(&create, heard);
        if owed == 0 {
            return Ok(());
        }
        let what = format!("{owed} events of watch {id} on stream {stream}: {create:?}");
        let (expected, found) = tokio::join!(
            self.theirs.watches[stream].take_events(id, owed),
            self.ours.watches[stream].take_events(id, owed)
        );
        self.require_equal_events(&what, expected, found)
    }

    /// Events and responses that no request waits for are a difference, whichever server sent them.
    fn check_nothing_left(&mut self, stream: usize) -> Outcome<()> {
        let left = |side: &mut Side| {
            let watches = &mut side.watches[stream];
            let events = Vec::from_iter(watches.with_events().filter(|id| (stream, *id) != REFERENCE));
            format!("{events:?} {:?}", watches.unexpected_response())
        };
        let (theirs, ours) = (left(&mut self.theirs), left(&mut self.ours));
        if theirs == ours && ours == "[] None" {
            return Ok(());
        }
        Err(self.difference(&format!("an unexpected response on stream {stream}"), theirs, ours))
    }

    fn require_equal_events(
        &mut self,
        what: &str,
        expected: Result<Vec<Event>, Status>,
        found: Result<Vec<Event>, Status>,
    ) -> Outcome<()> {
        let text = |outcome: Result<Vec<Event>, Status>| match outcome {
            Ok(events) => ComparableAnswer { text: format!("{events:?}"), revision: None },
            Err(status) => refusal(&status),
        };
        self.judge(&what, text(expected), text(found))
    }

    fn judge(
        &mut self,
        request: &(dyn Debug + Sync),
        expected: ComparableAnswer,
        found: ComparableAnswer,
    ) -> Outcome<()> {
        if expected != found {
            return Err(self.difference(request, expected.text, found.text));
        }
        self.generator.now = self.generator.now.max(found.revision.unwrap_or(0));
        Ok(())
    }

    fn difference(&self, request: &(dyn Debug + Sync), theirs: String, ours: String) -> Box<Difference> {
        let request = format!("{request:#?}");
        Box::new(Difference { seed: self.seed, step: self.step, request, theirs, ours })
    }
}
