//! The health of the other nodes, inferred only from their answers.
//! A peer that leaves a few requests in a row unanswered is taken for down: it gets one probe a second, and all other requests
//! go elsewhere at once. Any frame from it ends that. Round trips are averaged, so that the quickest replica is asked first.
//! When an answer is later than nearly all before it, other replicas are asked as well, and its peer is asked last until a
//! frame comes from it.

use base::{Instant, NodeId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Requests left unanswered in a row, after which a peer is taken for down.
const FAILURES_MAX: u32 = 3;
/// How often one that is down is tried.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const HEDGE_MIN: Duration = Duration::from_millis(5);
const HEDGE_MAX: Duration = Duration::from_millis(50);
/// How far one answer moves the estimate of the slowest, at least.
const QUANTILE_STEP_MIN: Duration = Duration::from_micros(100);

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    failures: u32,
    /// Down, and when to try it again.
    probe_at: Option<Instant>,
    /// The peer has not answered for longer than nearly all its answers took, and was silent since.
    is_slow: bool,
    /// Its connection broke, and the peer was silent since.
    is_lost: bool,
    /// A moving average; zero before the first answer.
    rtt: Duration,
    /// An estimate of the time within which 99 of 100 answers come.
    p99: Duration,
}

impl Peer {
    /// One of 100 answers is above the estimate and moves it up by 99 parts, 99 are below and move it down by one each:
    /// it comes to rest where that is so.
    fn learn(&mut self, rtt: Duration) {
        if self.p99.is_zero() {
            (self.rtt, self.p99) = (rtt, rtt * 2);
            return;
        }
        self.rtt = (self.rtt * 7 + rtt) / 8;
        let step = (self.p99 / 8).max(QUANTILE_STEP_MIN);
        if rtt > self.p99 {
            self.p99 += step * 99 / 100;
        } else {
            self.p99 = self.p99.saturating_sub(step / 100);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct PeerHealth {
    peers: BTreeMap<NodeId, Peer>,
}

impl PeerHealth {
    /// A frame has come from it.
    pub fn mark_alive(&mut self, node: NodeId) {
        let peer = self.peers.entry(node).or_default();
        (peer.failures, peer.probe_at, peer.is_slow, peer.is_lost) = (0, None, false, false);
    }

    /// An answer of it takes long.
    pub fn mark_slow(&mut self, node: NodeId) {
        self.peers.entry(node).or_default().is_slow = true;
    }

    /// The connection to it broke.
    pub fn mark_lost(&mut self, node: NodeId, now: Instant) {
        self.mark_unanswered(node, now);
        let peer = self.peers.entry(node).or_default();
        (peer.is_slow, peer.is_lost) = (true, true);
    }

    pub fn record_rtt(&mut self, node: NodeId, rtt: Duration) {
        self.peers.entry(node).or_default().learn(rtt);
    }

    pub fn mark_unanswered(&mut self, node: NodeId, now: Instant) {
        let peer = self.peers.entry(node).or_default();
        peer.failures += 1;
        if peer.failures >= FAILURES_MAX && peer.probe_at.is_none() {
            peer.probe_at = Some(now.after(PROBE_INTERVAL));
        }
    }

    /// Whether to send it a request now. One that is down gets one now and then.
    pub fn may_ask(&mut self, node: NodeId, now: Instant) -> bool {
        let peer = self.peers.entry(node).or_default();
        match peer.probe_at {
            None => true,
            Some(at) if at <= now => {
                peer.probe_at = Some(now.after(PROBE_INTERVAL));
                true
            }
            Some(_) => false,
        }
    }

    pub fn is_down(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| peer.probe_at.is_some())
    }

    /// Whether its connection broke and nothing came from it since.
    pub fn is_lost(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| peer.is_lost)
    }

    pub fn is_slow_or_down(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| peer.probe_at.is_some() || peer.is_slow)
    }

    /// The order in which to ask: those that are up and answer in time, the quickest first.
    pub fn order(&self, nodes: &mut [NodeId]) {
        let key = |node: &NodeId| {
            let peer = self.peers.get(node).copied().unwrap_or_default();
            (peer.probe_at.is_some(), peer.is_slow, peer.rtt)
        };
        nodes.sort_by_key(key);
    }

    /// How long to wait for these before others are asked as well.
    pub fn hedge_delay(&self, nodes: &[NodeId]) -> Duration {
        let p99 = |node: &NodeId| self.peers.get(node).map_or(Duration::ZERO, |peer| peer.p99);
        let slowest = nodes.iter().map(p99).max().unwrap_or_default();
        slowest.clamp(HEDGE_MIN, HEDGE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_silent_peer_is_tried_once_a_second_until_it_is_heard() {
        let (node, mut peers) = (NodeId(1), PeerHealth::default());
        (0..3).for_each(|_| peers.mark_unanswered(node, Instant(0)));
        assert!(peers.is_down(node) && !peers.may_ask(node, Instant(SECOND / 2)));
        assert!(peers.may_ask(node, Instant(SECOND)));
        assert!(!peers.may_ask(node, Instant(SECOND + 1)), "one probe");
        peers.mark_alive(node);
        assert!(peers.may_ask(node, Instant(SECOND + 2)));
    }

    #[test]
    fn the_quick_and_living_are_asked_first() {
        let mut peers = PeerHealth::default();
        peers.record_rtt(NodeId(1), Duration::from_millis(9));
        peers.record_rtt(NodeId(2), Duration::from_millis(2));
        (0..3).for_each(|_| peers.mark_unanswered(NodeId(3), Instant(0)));
        let mut order = [NodeId(3), NodeId(1), NodeId(2)];
        peers.order(&mut order);
        assert_eq!(order, [NodeId(2), NodeId(1), NodeId(3)]);
        assert_eq!(peers.hedge_delay(&order[..2]), Duration::from_millis(18));
        peers.mark_slow(NodeId(2));
        peers.order(&mut order);
        assert_eq!(order, [NodeId(1), NodeId(2), NodeId(3)], "the slow one after those in time");
        peers.mark_alive(NodeId(2));
        peers.order(&mut order);
        assert_eq!(order, [NodeId(2), NodeId(1), NodeId(3)], "until it is heard");
    }

    #[test]
    fn one_answer_of_a_hundred_takes_longer_than_the_estimate() {
        let (node, mut peers) = (NodeId(1), PeerHealth::default());
        let mut n_late = 0;
        for n in 0..20_000_u64 {
            // Evenly between 10 and 30 ms, in no order.
            let rtt = Duration::from_micros(10_000 + base::rng::mix(n) % 20_000);
            if n >= 10_000 && rtt > peers.hedge_delay(&[node]) {
                n_late += 1;
            }
            peers.record_rtt(node, rtt);
        }
        assert!((40..400).contains(&n_late), "{n_late} of 10,000 were later than the estimate");
    }
}
