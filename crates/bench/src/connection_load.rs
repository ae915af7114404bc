//! One connection with a number of clients on it, each of which calls again as soon as it is answered, or, with a
//! rate, when its next call is due.
//! With a rate, latency counts from when the call should have begun: a server that stalls cannot hide it by
//! slowing its clients down.

use crate::calls::{Caller, InFlight};
use crate::stats::Stats;
use crate::wire::{ConnError, Event, GrpcConn};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

pub struct ConnectionLoad {
    pub wire: GrpcConn,
    pub caller: Caller,
    pub clients: usize,
    /// Time between two calls on this connection.
    pub interval: Option<Duration>,
    pub stats: Rc<RefCell<Stats>>,
}

impl ConnectionLoad {
    pub async fn run(mut self) {
        let stats = self.stats.clone();
        let outcome = match self.interval {
            None => self.run_closed().await,
            Some(interval) => self.run_paced(interval).await,
        };
        if let Err(broken) = outcome {
            stats.borrow_mut().fail(broken.to_string());
        }
    }

    async fn run_closed(&mut self) -> Result<(), ConnError> {
        let ConnectionLoad { wire, caller, stats, .. } = self;
        let mut under_way = InFlight::default();
        for _ in 0..self.clients {
            let now = Instant::now();
            if stats.borrow_mut().begin(now) {
                under_way.begin(caller.issue(wire), now);
            }
        }
        while under_way.count() > 0 {
            wire.turn(&mut |wire, event| {
                let Event::End { stream, outcome } = event else { return };
                let Some(began) = under_way.end(stream) else { return };
                let now = Instant::now();
                let mut stats = stats.borrow_mut();
                stats.end(now.duration_since(began), &outcome);
                if stats.begin(now) {
                    under_way.begin(caller.issue(wire), now);
                }
            })
            .await?;
        }
        Ok(())
    }

    async fn run_paced(&mut self, interval: Duration) -> Result<(), ConnError> {
        let ConnectionLoad { wire, caller, stats, clients, .. } = self;
        let mut under_way = InFlight::default();
        let mut due = Instant::now();
        let mut open = true;
        loop {
            while open && under_way.count() < *clients && due <= Instant::now() {
                open = stats.borrow_mut().begin(Instant::now());
                if open {
                    under_way.begin(caller.issue(wire), due);
                    due += interval;
                }
            }
            if !open && under_way.count() == 0 {
                return Ok(());
            }
            let mut take = |_: &mut GrpcConn, event: Event| {
                if let Event::End { stream, outcome } = event
                    && let Some(began) = under_way.end(stream)
                {
                    stats.borrow_mut().end(began.elapsed(), &outcome);
                }
            };
            tokio::select! {
                turned = wire.turn(&mut take) => turned?,
                () = tokio::time::sleep_until(due.into()), if open => {}
            }
        }
    }
}
