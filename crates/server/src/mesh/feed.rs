//! The change feed of the data plane on this node: one follower for all consumers, which runs while there are any.
//! Every change is read once, and every consumer gets the same value. A consumer that takes too little is let go: its stream
//! ends, and it begins again at its cursor. `mesh::Follower` decides; this file asks nodes and hands changes out.

use crate::mesh::handle::MeshHandle;
use base::limits::{FEED_CONSUMERS_MAX, FEED_INBOX_BYTES_MAX, FEED_INBOX_MESSAGES_MAX};
use base::{Code, NodeId};
use mesh::{
    ChangeKind, FeedAnswer, FeedAsk, FeedChange, FeedCursor, FeedOutput, FeedRange, Follower, Key, Reply,
    Request, Subscription, SubscriptionId, Target,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How often the follower looks at the clock and the topology.
const TICK: Duration = Duration::from_millis(50);
/// How long a node may take to answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the follower goes on without consumers.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// A change, the same for all consumers.
#[derive(Debug)]
pub struct FeedEvent {
    pub kind: ChangeKind,
    pub key: Key,
    pub change: FeedChange,
    /// A page of state, and not a change that has just happened.
    pub is_state: bool,
    bytes: usize,
    shown: OnceLock<Arc<str>>,
}

impl FeedEvent {
    /// What it is shown as, made once for all consumers.
    pub fn shown(&self, show: impl FnOnce(&FeedEvent) -> String) -> Arc<str> {
        self.shown.get_or_init(|| show(self).into()).clone()
    }
}

#[derive(Clone, Debug)]
pub enum FeedMessage {
    Change(Arc<FeedEvent>),
    /// The follower was sent every change up to now, and resumes at this cursor.
    Live(FeedCursor),
    Cursor(FeedCursor),
    /// Deletes since the consumer's cursor may be forgotten: it has to take the state again.
    Gap,
}

/// The stream of one consumer. It ends when the consumer is too slow.
pub struct FeedReceiver {
    inbox: Receiver<FeedMessage>,
    waiting_bytes: Arc<AtomicUsize>,
}

impl FeedReceiver {
    pub async fn recv(&mut self) -> Option<FeedMessage> {
        let message = self.inbox.recv().await?;
        self.waiting_bytes.fetch_sub(bytes_of(&message), Relaxed);
        Some(message)
    }
}

fn bytes_of(message: &FeedMessage) -> usize {
    match message {
        FeedMessage::Change(event) => event.bytes,
        FeedMessage::Live(_) | FeedMessage::Cursor(_) | FeedMessage::Gap => 0,
    }
}

struct Join {
    subscription: Subscription,
    outlet: Outlet,
}

struct Outlet {
    sender: Sender<FeedMessage>,
    waiting_bytes: Arc<AtomicUsize>,
    _slot: ConsumerSlot,
}

/// One of the consumers that there may be, from when it asks until it is let go.
struct ConsumerSlot {
    taken: Arc<AtomicUsize>,
}

impl ConsumerSlot {
    /// None if all are taken.
    fn take(taken: &Arc<AtomicUsize>) -> Option<ConsumerSlot> {
        let more = |taken: usize| (taken < FEED_CONSUMERS_MAX).then_some(taken + 1);
        taken.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(ConsumerSlot { taken: taken.clone() })
    }
}

impl Drop for ConsumerSlot {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Relaxed);
    }
}

impl Outlet {
    /// False if the consumer is gone or too slow.
    fn send(&self, message: FeedMessage) -> bool {
        let bytes = bytes_of(&message);
        if self.waiting_bytes.load(Relaxed) + bytes > FEED_INBOX_BYTES_MAX {
            // One change that is larger than the bound is let through alone.
            if self.waiting_bytes.load(Relaxed) > 0 {
                return false;
            }
        }
        self.waiting_bytes.fetch_add(bytes, Relaxed);
        match self.sender.try_send(message) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => false,
        }
    }

    /// Whether a page of state may be asked for.
    fn has_space(&self) -> bool {
        self.sender.capacity() > FEED_INBOX_MESSAGES_MAX * 3 / 4
            && self.waiting_bytes.load(Relaxed) < FEED_INBOX_BYTES_MAX / 4
    }
}

/// Lets consumers in. The follower runs while there are any.
#[derive(Default)]
pub(crate) struct FeedHub {
    joins: Mutex<Option<Sender<Join>>>,
    consumers: Arc<AtomicUsize>,
}

impl FeedHub {
    fn joins(&self) -> MutexGuard<'_, Option<Sender<Join>>> {
        self.joins.lock().expect("no thread panics while it holds the list")
    }
}

impl MeshHandle {
    /// A stream of the changes of the data plane, as far as the subscription goes.
    pub fn follow(&self, subscription: Subscription) -> Result<FeedReceiver, Code> {
        let hub = &self.core.mesh.feed;
        let slot = ConsumerSlot::take(&hub.consumers).ok_or(Code::TooManyRequests)?;
        let (sender, inbox) = channel(FEED_INBOX_MESSAGES_MAX);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let outlet = Outlet { sender, waiting_bytes: waiting_bytes.clone(), _slot: slot };
        let join = Join { subscription, outlet };
        let mut joins = hub.joins();
        // A follower that has ended takes none in any more.
        let running = joins.take().filter(|joins| !joins.is_closed());
        let running = running.unwrap_or_else(|| {
            // Each that waits to be let in has a slot, so that there is space for all of them.
            let (sender, joins) = channel(FEED_CONSUMERS_MAX);
            tokio::spawn(FeedLoop::new(self.clone_without_worker(), joins).run());
            sender
        });
        let sent = running.try_send(join);
        *joins = Some(running);
        sent.map_err(|_| Code::TooManyRequests)?;
        Ok(FeedReceiver { inbox, waiting_bytes })
    }
}

struct FeedLoop {
    mesh: MeshHandle,
    joins: Receiver<Join>,
    follower: Follower,
    consumers: BTreeMap<SubscriptionId, Consumer>,
    asked: JoinSet<(NodeId, Option<Box<FeedAnswer>>)>,
    idle_since: Instant,
}

struct Consumer {
    range: FeedRange,
    outlet: Outlet,
    is_live: bool,
}

impl FeedLoop {
    fn new(mesh: MeshHandle, joins: Receiver<Join>) -> FeedLoop {
        let me = mesh.status().node;
        FeedLoop {
            mesh,
            joins,
            follower: Follower::new(me),
            consumers: BTreeMap::new(),
            asked: JoinSet::new(),
            idle_since: Instant::now(),
        }
    }

    /// Runs until there has been no consumer for a while.
    async fn run(mut self) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.is_idle() {
            tokio::select! {
                Some(join) = self.joins.recv() => self.join(join),
                Some(answered) = self.asked.join_next(), if !self.asked.is_empty() => self.answered(answered),
                _ = ticks.tick() => self.tick(),
            }
            self.ask();
        }
    }

    /// Closes the way in before the last look, so that no consumer is lost.
    fn is_idle(&mut self) -> bool {
        if !self.consumers.is_empty() || self.idle_since.elapsed() < IDLE_MAX {
            return false;
        }
        self.joins.close();
        while let Ok(join) = self.joins.try_recv() {
            self.join(join);
        }
        self.consumers.is_empty()
    }

    fn join(&mut self, Join { subscription, outlet }: Join) {
        self.follower.set_topology(&self.mesh.topology());
        let range = subscription.range.clone();
        let id = self.follower.subscribe(subscription);
        self.consumers.insert(id, Consumer { range, outlet, is_live: false });
    }

    fn tick(&mut self) {
        let topology = self.mesh.topology();
        if !topology.members().is_empty() {
            self.follower.set_topology(&topology);
        }
        let gone = self.consumers.iter().filter(|(_, consumer)| consumer.outlet.sender.is_closed());
        gone.map(|(id, _)| *id).collect::<Vec<_>>().into_iter().for_each(|id| self.leave(id));
        if !self.consumers.is_empty() {
            self.idle_since = Instant::now();
        }
    }

    fn leave(&mut self, id: SubscriptionId) {
        self.consumers.remove(&id);
        self.follower.unsubscribe(id);
    }

    fn ask(&mut self) {
        let now = self.mesh.core.clock.now();
        let has_space = |id| self.consumers.get(&id).is_none_or(|consumer| consumer.outlet.has_space());
        for (node, ask) in self.follower.asks(now, has_space) {
            let mesh = self.mesh.clone();
            self.asked.spawn(async move { (node, ask_node(&mesh, node, ask).await) });
        }
    }

    fn answered(&mut self, answered: Result<(NodeId, Option<Box<FeedAnswer>>), tokio::task::JoinError>) {
        let Ok((node, answer)) = answered else { return };
        let mut out = Vec::new();
        match answer {
            Some(answer) => self.follower.answered(node, *answer, &mut out),
            None => self.follower.failed(self.mesh.core.clock.now(), node),
        }
        out.into_iter().for_each(|output| self.hand_out(output));
    }

    fn hand_out(&mut self, output: FeedOutput) {
        match output {
            FeedOutput::Change { to, kind, key, change, sent, is_state, .. } => {
                let bytes = key.bytes().len() + size_of_change(&change);
                let (change, shown) = (*change, OnceLock::new());
                let event = Arc::new(FeedEvent { kind, key, change, is_state, bytes, shown });
                self.send(to, sent, &FeedMessage::Change(event));
            }
            FeedOutput::Gap(to) => self.send(to, None, &FeedMessage::Gap),
            FeedOutput::Ready(id) => {
                if let Some(consumer) = self.consumers.get_mut(&id) {
                    consumer.is_live = true;
                }
                let message = FeedMessage::Live(self.follower.cursor().clone());
                self.send(Target::One(id), None, &message);
            }
            FeedOutput::Moved => {
                let message = FeedMessage::Cursor(self.follower.cursor().clone());
                self.send(Target::All, None, &message);
            }
        }
    }

    /// A consumer that cannot take it is let go.
    fn send(&mut self, to: Target, sent: Option<u64>, message: &FeedMessage) {
        let is_addressed = |id: &SubscriptionId| to == Target::All || to == Target::One(*id);
        let mut gone = Vec::new();
        for (id, consumer) in self.consumers.iter().filter(|(id, _)| is_addressed(id)) {
            let is_wanted = match message {
                FeedMessage::Change(event) => {
                    consumer.range.contains(event.key.namespace_id(), event.key.name_slice())
                        && self.follower.is_news(*id, sent)
                }
                FeedMessage::Cursor(_) => consumer.is_live,
                FeedMessage::Live(_) | FeedMessage::Gap => true,
            };
            if is_wanted && !consumer.outlet.send(message.clone()) {
                gone.push(*id);
            }
        }
        gone.into_iter().for_each(|id| self.leave(id));
    }
}

async fn ask_node(mesh: &MeshHandle, node: NodeId, ask: FeedAsk) -> Option<Box<FeedAnswer>> {
    match mesh.request(Request::Feed { node, ask: Box::new(ask) }, Some(ASK_TIMEOUT)).await {
        Ok(Reply::Feed(answer)) => Some(answer),
        _ => None,
    }
}

/// About what a change takes in memory.
fn size_of_change(change: &FeedChange) -> usize {
    let size = |record: &mesh::Record| match &record.body {
        mesh::Body::Register(value) => value.len(),
        _ => record.encode().len(),
    };
    size_of::<FeedEvent>()
        + match change {
            FeedChange::Record(record) => size(record),
            FeedChange::Conflict(conflict) => size(&conflict.winner) + size(&conflict.loser),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_consumers_are_let_in_as_there_may_be_and_each_gives_its_slot_back() {
        let taken = Arc::new(AtomicUsize::new(0));
        let mut slots: Vec<ConsumerSlot> =
            std::iter::from_fn(|| ConsumerSlot::take(&taken)).take(2 * FEED_CONSUMERS_MAX).collect();
        assert_eq!(slots.len(), FEED_CONSUMERS_MAX);
        slots.pop();
        assert!(ConsumerSlot::take(&taken).is_some());
        drop(slots);
        assert_eq!(taken.load(Relaxed), 0);
    }
}
