//! The table of client connections of the process, whichever port they came by: how many there are in all and from
//! each address, and which of them is closed when a new one finds no slot.
//! A connection without a request under way gives its slot up: first those that never had a complete request, then those
//! that have been idle for longest. A new connection without a slot gets one of a few limited ones for a short while, on
//! which only operators' calls are answered, and all else refused. See docs/adr/0051.

use crate::clients::ClientRecord;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use server::{Registry, network_of};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The bounds on client connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The limit of the process.
    pub all: usize,
    /// From one address; IPv6 addresses count by their /64 network.
    pub per_address: usize,
    /// From this machine.
    pub loopback: usize,
}

impl ConnectionLimits {
    pub const ALL_DEFAULT: usize = 16_384;

    /// Half of all from one address, seven eighths from this machine.
    pub fn of(all: usize) -> ConnectionLimits {
        ConnectionLimits { all, per_address: (all / 2).max(1), loopback: (all - all / 8).max(1) }
    }

    fn from(&self, address: IpAddr) -> usize {
        if address.is_loopback() { self.loopback } else { self.per_address }
    }
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits::of(ConnectionLimits::ALL_DEFAULT)
    }
}

/// Connections that are closing.
const CLOSING_MAX: usize = 64;
/// Connections beyond the limit, for probes and operators.
const LIMITED_MAX: usize = 32;
/// How long such a connection lives.
const LIMITED_TIME: Duration = Duration::from_secs(10);
/// How many descriptors may be open beyond the limit.
pub const BEYOND_LIMIT_MAX: usize = CLOSING_MAX + LIMITED_MAX;
/// One search for idle connections closes one in so many of all, so that a flood of new ones does not search each time.
const CLOSED_SHARE: usize = 256;
const CLOSED_AT_ONCE_MAX: usize = 16;
/// After a search that found nothing, the next one waits.
const SEARCH_PAUSE_MS: u64 = 50;

pub struct Connections {
    limits: ConnectionLimits,
    begun: Instant,
    state: Mutex<TableState>,
    metrics: ConnectionMetrics,
}

#[derive(Default)]
struct TableState {
    next: u64,
    slots: BTreeMap<u64, Arc<Slot>>,
    /// Connections that are not closing.
    open: usize,
    open_from: BTreeMap<IpAddr, usize>,
    /// Connections beyond the limit.
    limited: usize,
    /// When a search found nothing idle.
    searched_ms: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct ConnectionMetrics {
    open: Gauge,
    /// Beyond the limit: those on which only operators' calls are answered, and those that were closed at once.
    limited: Counter,
    refused: Counter,
    closed_idle: Counter,
}

/// The state of one connection is one number, so that a connection that gets a request and a search for
/// idle ones cannot both win: the upper bits say what it does, the lower ones since when.
#[derive(Debug)]
struct Slot {
    address: IpAddr,
    state: AtomicU64,
    closing: Notify,
    client: Arc<ClientRecord>,
}

/// A request is under way.
const BUSY: u64 = 1 << 63;
/// The connection is closing.
const CLOSING: u64 = 1 << 62;
/// It has had a complete request before.
const SERVED: u64 = 1 << 61;
const TIME: u64 = SERVED - 1;

impl Connections {
    pub fn new(limits: ConnectionLimits) -> Arc<Connections> {
        let (begun, metrics) = (Instant::now(), ConnectionMetrics::default());
        Arc::new(Connections { limits, begun, state: Mutex::default(), metrics })
    }

    pub fn register(&self, registry: &mut Registry) {
        let ConnectionMetrics { open, limited, refused, closed_idle } = &self.metrics;
        registry.register("althing_client_connections", "Client connections of the process", open.clone());
        registry.register(
            "althing_client_connections_refused",
            "Client connections that were closed at once because there was no place for them",
            refused.clone(),
        );
        registry.register(
            "althing_client_connections_limited",
            "Client connections beyond the limit, on which only probes and calls about members are answered",
            limited.clone(),
        );
        registry.register(
            "althing_client_connections_closed_idle",
            "Idle client connections that were closed to make place for new ones",
            closed_idle.clone(),
        );
    }

    /// A slot for a connection from there, or none.
    pub fn admit(self: &Arc<Connections>, address: IpAddr) -> Option<SlotGuard> {
        let (address, now_ms) = (network_of(address), self.now_ms());
        let admitted = self.admit_at(address, now_ms).or_else(|| self.admit_beyond(address, now_ms));
        if admitted.is_none() {
            self.metrics.refused.inc();
        }
        admitted
    }

    /// A slot beyond the limit.
    fn admit_beyond(self: &Arc<Connections>, address: IpAddr, now_ms: u64) -> Option<SlotGuard> {
        let mut state = self.lock();
        if state.limited >= LIMITED_MAX {
            return None;
        }
        state.limited += 1;
        self.metrics.limited.inc();
        let number = state.take_number();
        Some(self.slot_guard(None, Slot::new(number, address, now_ms)))
    }

    fn slot_guard(self: &Arc<Connections>, number: Option<u64>, slot: Arc<Slot>) -> SlotGuard {
        self.metrics.open.inc();
        SlotGuard { connections: self.clone(), number, slot }
    }

    fn admit_at(self: &Arc<Connections>, address: IpAddr, now_ms: u64) -> Option<SlotGuard> {
        let mut state = self.lock();
        let from = state.open_from.get(&address).copied().unwrap_or_default();
        if from >= self.limits.from(address) && !self.close_idle(&mut state, Some(address), now_ms) {
            return None;
        }
        if state.open >= self.limits.all && !self.close_idle(&mut state, None, now_ms) {
            return None;
        }
        state.open += 1;
        *state.open_from.entry(address).or_default() += 1;
        let number = state.take_number();
        let slot = Slot::new(number, address, now_ms);
        state.slots.insert(number, slot.clone());
        Some(self.slot_guard(Some(number), slot))
    }

    /// The connections within the limit, the oldest first.
    pub fn clients(&self) -> Vec<Arc<ClientRecord>> {
        self.lock().slots.values().map(|slot| slot.client.clone()).collect()
    }

    /// Closes some idle connections, of one address or of the one that has most. False if none is idle.
    fn close_idle(&self, state: &mut TableState, address: Option<IpAddr>, now_ms: u64) -> bool {
        let closing = state.slots.len() - state.open;
        let searched_lately = state.searched_ms.is_some_and(|then| now_ms < then + SEARCH_PAUSE_MS);
        if closing >= CLOSING_MAX || searched_lately {
            return false;
        }
        let crowded = || state.open_from.iter().max_by_key(|(_, count)| **count).map(|(address, _)| *address);
        let at_once = (self.limits.all / CLOSED_SHARE).clamp(1, CLOSED_AT_ONCE_MAX);
        let mut idle = state.idle_of(address.or_else(crowded), at_once);
        if idle.is_empty() && address.is_none() {
            idle = state.idle_of(None, at_once);
        }
        idle.retain(|slot| slot.mark_closing());
        idle.iter().for_each(|slot| state.count_closed(slot.address));
        state.searched_ms = idle.is_empty().then_some(now_ms);
        self.metrics.closed_idle.inc_by(idle.len() as u64);
        !idle.is_empty()
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64 & TIME
    }

    fn lock(&self) -> MutexGuard<'_, TableState> {
        self.state.lock().expect("no thread panics while it holds the table of connections")
    }
}

impl TableState {
    /// The first is 1.
    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The connections that are closed first.
    fn idle_of(&self, address: Option<IpAddr>, at_most: usize) -> Vec<Arc<Slot>> {
        let of_address = |slot: &&Arc<Slot>| address.is_none_or(|address| slot.address == address);
        let keyed = |slot: &Arc<Slot>| (slot.state.load(Ordering::Relaxed), slot.clone());
        let mut idle: Vec<_> = self.slots.values().filter(of_address).map(keyed).collect();
        idle.retain(|(state, _)| state & (BUSY | CLOSING) == 0);
        // Without `SERVED` before with it, then by time.
        if idle.len() > at_most {
            idle.select_nth_unstable_by_key(at_most, |(state, _)| *state);
            idle.truncate(at_most);
        }
        idle.into_iter().map(|(_, slot)| slot).collect()
    }

    fn count_closed(&mut self, address: IpAddr) {
        self.open -= 1;
        if let Some(count) = self.open_from.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.open_from.remove(&address);
            }
        }
    }
}

impl Slot {
    fn new(number: u64, address: IpAddr, now_ms: u64) -> Arc<Slot> {
        let (state, closing, client) = (AtomicU64::new(now_ms), Notify::new(), ClientRecord::new(number));
        Arc::new(Slot { address, state, closing, client })
    }

    /// False if a request has arrived meanwhile.
    fn mark_closing(&self) -> bool {
        let told = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
            (state & (BUSY | CLOSING) == 0).then_some(state | CLOSING)
        });
        if told.is_ok() {
            self.closing.notify_one();
        }
        told.is_ok()
    }

    fn is_closing(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CLOSING != 0
    }
}

/// The slot of one connection; dropping it frees it.
pub struct SlotGuard {
    connections: Arc<Connections>,
    /// In the table; none beyond the limit.
    number: Option<u64>,
    slot: Arc<Slot>,
}

impl SlotGuard {
    /// What is known of the client.
    pub fn client(&self) -> &Arc<ClientRecord> {
        &self.slot.client
    }

    /// A complete request has arrived. False if the connection is closing: then it must not be executed.
    pub fn begin_request(&self) -> bool {
        let begun = self.slot.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
            (state & CLOSING == 0).then_some(state | BUSY | SERVED)
        });
        begun.is_ok()
    }

    /// No request is under way.
    pub fn end_requests(&self) {
        let now_ms = self.connections.now_ms();
        let _ = self.slot.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
            (state & CLOSING == 0).then_some(SERVED | now_ms)
        });
    }

    /// Whether only operators' calls are answered here.
    pub fn is_limited(&self) -> bool {
        self.number.is_none()
    }

    /// Resolves when the connection must close.
    pub async fn must_close(&self) {
        if self.is_limited() {
            tokio::time::sleep(LIMITED_TIME).await
        } else {
            self.slot.closing.notified().await
        }
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.connections.metrics.open.dec();
        let mut state = self.connections.lock();
        let Some(number) = self.number else {
            state.limited -= 1;
            return;
        };
        if let Some(slot) = state.slots.remove(&number)
            && !slot.is_closing()
        {
            state.count_closed(slot.address);
        }
    }
}

#[cfg(test)]
mod tests;
