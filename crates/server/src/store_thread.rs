//! The one loop of a thread that owns a store, for both planes. Orders are carried out as they came, and after each batch of
//! them a piece of a defragmentation that is under way. The space that a flush has taken or freed is published before the
//! flush is reported. A store that cannot be written ends the process.

use crate::defrag::{Defrag, DefragMetrics, DefragReply};
use crate::fatal::fatal;
use crate::queue::Queue;
use engine::{Error, StoreOwner};
use prometheus_client::metrics::histogram::Histogram;
use std::time::{Duration, Instant};

/// How often the disk is measured when there is nothing to do.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// The store of one plane.
pub(crate) trait StoreAdapter: Sized {
    type Owner: StoreOwner;
    type Flush;
    /// What only this store is asked for.
    type Order;
    /// For messages: "the store".
    const NAME: &'static str;
    /// In the log, when the store is defragmented.
    const LABEL: &'static str;

    fn owner(&mut self) -> &mut Self::Owner;

    fn flush(&mut self, flush: &Self::Flush) -> Result<(), Error>;

    fn flush_seconds(&self) -> &Histogram;

    /// The flush is durable.
    fn report_flush(&mut self, flush: &Self::Flush);

    fn carry_out(&mut self, order: Self::Order, defrag: &mut Defrag);

    /// Works on a defragmentation for a moment, and tells the readers if the store is in another file from now on.
    fn step_defrag(&mut self, defrag: &mut Defrag) -> bool;

    fn publish_size(&self, taken_bytes: u64, free_bytes: u64);

    /// The queue is closed and empty.
    fn end(self) {}
}

/// What is asked of the thread.
pub(crate) enum StoreOrder<S: StoreAdapter> {
    Flush(S::Flush),
    /// The free space of the store is to be given back.
    Defrag(DefragReply),
    Other(S::Order),
}

pub(crate) struct StoreThread<S: StoreAdapter> {
    adapter: S,
    defrag: Defrag,
}

impl<S: StoreAdapter> StoreThread<S> {
    /// The size is published from now on.
    pub fn new(mut adapter: S, metrics: DefragMetrics, low_bytes: u64) -> StoreThread<S> {
        measure(&mut adapter);
        StoreThread { adapter, defrag: Defrag::new(S::LABEL, metrics, low_bytes) }
    }

    pub fn run(mut self, orders: &Queue<StoreOrder<S>>) {
        let mut taken = Vec::new();
        let mut measured = Instant::now();
        while orders.take(&mut taken, Some(self.next_work(measured))) {
            if measured.elapsed() >= MEASURE_INTERVAL {
                measure(&mut self.adapter);
                measured = Instant::now();
            }
            for order in taken.drain(..) {
                match order {
                    StoreOrder::Flush(flush) => self.flush(&flush),
                    StoreOrder::Defrag(caller) => self.defrag.ask(self.adapter.owner(), caller),
                    StoreOrder::Other(order) => self.adapter.carry_out(order, &mut self.defrag),
                }
            }
            if self.adapter.step_defrag(&mut self.defrag) {
                measure(&mut self.adapter);
            }
        }
        self.adapter.end();
    }

    fn next_work(&self, measured: Instant) -> Instant {
        let next = measured + MEASURE_INTERVAL;
        self.defrag.due().map_or(next, |due| due.min(next))
    }

    fn flush(&mut self, flush: &S::Flush) {
        let start = Instant::now();
        let flushed = self.adapter.flush(flush);
        flushed.unwrap_or_else(|error| fatal(&format!("flushing to {}", S::NAME), &error));
        self.adapter.flush_seconds().observe(start.elapsed().as_secs_f64());
        measure(&mut self.adapter);
        self.adapter.report_flush(flush);
    }
}

/// Publishes what the store takes of its disk, and what the disk has left.
pub(crate) fn measure<S: StoreAdapter>(adapter: &mut S) {
    let store = adapter.owner().store();
    let measured = store.taken_bytes().and_then(|taken_bytes| Ok((taken_bytes, store.free_bytes()?)));
    let (taken_bytes, free_bytes) =
        measured.unwrap_or_else(|error| fatal(&format!("measuring {}", S::NAME), &Error::from(error)));
    adapter.publish_size(taken_bytes, free_bytes);
}
