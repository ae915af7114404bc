//! Gives the free space inside a store's file back to the file system while the member serves: the thread that owns the
//! store rewrites it in pieces between its flushes, and rests after each piece for as long as the piece took.
//! The old file is given back in pieces too, once no view reads it. Callers that ask meanwhile share the outcome.

use crate::fatal::fatal;
use crate::registry::Registry;
use base::Code;
use disk::ReplacedFile;
use engine::{Error, StoreOwner};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Rows that are copied together.
const PIECE_BYTES: usize = 256 * 1024;
/// What is given back of a replaced file at a time.
const RELEASE_BYTES: u64 = 16 * 1024 * 1024;
/// How often that is done, and how often it is looked whether a view still reads the file.
const RELEASE_INTERVAL: Duration = Duration::from_millis(100);
/// Between two pieces.
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(50);
/// What the disk has free beside the reserve while a store is rewritten.
const FREE_BYTES_MIN: u64 = 16 * 1024 * 1024;

/// What a store took of the disk before its free space was given back, and what it takes now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragReport {
    pub before_bytes: u64,
    pub after_bytes: u64,
}

pub(crate) type DefragReply = oneshot::Sender<Result<DefragReport, Code>>;

pub(crate) struct Defrag {
    /// Named in the log.
    store: &'static str,
    metrics: DefragMetrics,
    low_bytes: u64,
    under_way: Option<UnderWay>,
    replaced: Vec<ReplacedFile>,
    due: Instant,
}

struct UnderWay {
    since: Instant,
    before_bytes: u64,
    longest_piece: Duration,
    callers: Vec<DefragReply>,
}

/// As etcd counts them.
#[derive(Clone)]
pub(crate) struct DefragMetrics {
    seconds: Histogram,
    in_flight: Gauge,
}

impl DefragMetrics {
    pub fn registered(registry: &mut Registry) -> DefragMetrics {
        // As in etcd: from a tenth of a second, doubling, up to seven minutes.
        let seconds = Histogram::new(exponential_buckets(0.1, 2.0, 13));
        let metrics = DefragMetrics { seconds, in_flight: Gauge::default() };
        registry.register(
            "etcd_disk_backend_defrag_duration_seconds",
            "How long it takes to give the free space of a store back",
            metrics.seconds.clone(),
        );
        registry.register(
            "etcd_disk_defrag_inflight",
            "Stores whose free space is being given back",
            metrics.in_flight.clone(),
        );
        metrics
    }
}

impl Defrag {
    /// Gives up rather than leave less than `low_bytes` free.
    pub fn new(store: &'static str, metrics: DefragMetrics, low_bytes: u64) -> Defrag {
        let due = Instant::now();
        Defrag { store, metrics, low_bytes, under_way: None, replaced: Vec::new(), due }
    }

    /// When there is work, if there is any.
    pub fn due(&self) -> Option<Instant> {
        (self.under_way.is_some() || !self.replaced.is_empty()).then_some(self.due)
    }

    pub fn ask(&mut self, owner: &mut impl StoreOwner, caller: DefragReply) {
        if let Some(under_way) = &mut self.under_way {
            under_way.callers.push(caller);
            return;
        }
        let before_bytes = begin(owner).unwrap_or_else(|error| fatal("rewriting the store", &error));
        let (since, longest_piece) = (Instant::now(), Duration::ZERO);
        self.metrics.in_flight.inc();
        self.under_way = Some(UnderWay { since, before_bytes, longest_piece, callers: vec![caller] });
        self.due = since;
    }

    /// The store was replaced by another, and with it what was rewritten.
    pub fn stop(&mut self) {
        self.end(Err(Code::Stopped));
    }

    /// Works for a moment if it is time; true when the store is in another file from now on.
    pub fn step(&mut self, owner: &mut impl StoreOwner) -> bool {
        let began = Instant::now();
        if self.due().is_none_or(|due| due > began) {
            return false;
        }
        let switched = self.work(owner, began).unwrap_or_else(|error| fatal("rewriting the store", &error));
        let rest = began.elapsed().clamp(REST_MIN, REST_MAX);
        self.due = Instant::now() + if self.under_way.is_some() { rest } else { RELEASE_INTERVAL };
        switched
    }

    fn work(&mut self, owner: &mut impl StoreOwner, began: Instant) -> Result<bool, Error> {
        let Some(under_way) = &mut self.under_way else {
            return self.release().map(|()| false);
        };
        if owner.store().free_bytes()? < self.low_bytes.saturating_add(FREE_BYTES_MIN) {
            owner.store().abandon_rewrite()?;
            tracing::warn!(store = self.store, "defragmentation aborted: too little free disk space");
            self.end(Err(Code::NoSpace));
            return Ok(false);
        }
        let is_copied = owner.store().rewrite_piece(PIECE_BYTES)?;
        under_way.longest_piece = under_way.longest_piece.max(began.elapsed());
        if is_copied {
            self.replaced.push(owner.store().finish_rewrite()?);
            owner.renew_view()?;
            let after_bytes = owner.store().taken_bytes()?;
            self.report(after_bytes);
        }
        Ok(is_copied)
    }

    fn report(&mut self, after_bytes: u64) {
        let Some(UnderWay { since, before_bytes, longest_piece, .. }) = &self.under_way else { return };
        let report = DefragReport { before_bytes: *before_bytes, after_bytes };
        let (took_ms, longest_piece_ms) = (since.elapsed().as_millis(), longest_piece.as_millis());
        let (store, DefragReport { before_bytes, after_bytes }) = (self.store, report);
        tracing::info!(store, before_bytes, after_bytes, took_ms, longest_piece_ms, "defragmented");
        self.metrics.seconds.observe(since.elapsed().as_secs_f64());
        self.end(Ok(report));
    }

    fn end(&mut self, outcome: Result<DefragReport, Code>) {
        if let Some(under_way) = self.under_way.take() {
            self.metrics.in_flight.dec();
            for caller in under_way.callers {
                // It may have gone away.
                let _ = caller.send(outcome);
            }
        }
    }

    fn release(&mut self) -> Result<(), Error> {
        for at in (0..self.replaced.len()).rev() {
            if self.replaced[at].release(RELEASE_BYTES)? {
                self.replaced.swap_remove(at);
            }
        }
        Ok(())
    }
}

fn begin(owner: &mut impl StoreOwner) -> Result<u64, Error> {
    let before_bytes = owner.store().taken_bytes()?;
    owner.store().begin_rewrite()?;
    Ok(before_bytes)
}
