//! Connections to the peer port that have proven nothing yet: those whose handshake is under way, and questions of nodes
//! that are no members. Each holds a thread and a descriptor, so their number is bounded, in all and of questions also by
//! address. Where one must make place, it is the oldest of the address that has most: a flood from one address keeps no
//! other out. A question that is being answered keeps its place.

use super::cut;
use crate::mutant::Mutant;
use crate::network::network_of;
use base::mutant::planted;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// Connections whose handshake is not done.
pub(super) const HALF_OPEN_MAX: usize = 16;
/// Questions that are read or answered, of senders that have not proven to be of the cluster.
pub(super) const QUESTIONS_MAX: usize = 48;
pub(super) const QUESTIONS_PER_ADDRESS_MAX: usize = 12;

#[derive(Clone, Default)]
pub(super) struct PendingConns(Arc<Mutex<PendingState>>);

#[derive(Default)]
struct PendingState {
    next: u64,
    /// Oldest first.
    conns: VecDeque<PendingConn>,
    last_trouble: String,
}

struct PendingConn {
    number: u64,
    address: IpAddr,
    stage: PendingStage,
    stream: Arc<TcpStream>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PendingStage {
    Handshake,
    Question,
    Answering,
    /// The sender has proven to be of the cluster: it counts no more.
    Proven,
}

impl PendingConn {
    fn is_question(&self) -> bool {
        matches!(self.stage, PendingStage::Question | PendingStage::Answering)
    }
}

impl PendingConns {
    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.0.lock().expect("no thread panics while it holds the pending connections")
    }

    /// Adds a connection that has just been accepted.
    pub fn enter(&self, stream: &Arc<TcpStream>, remote: IpAddr) -> PendingSlot {
        let mut state = self.lock();
        let is_half_open = |conn: &PendingConn| conn.stage == PendingStage::Handshake;
        if state.count(is_half_open) >= HALF_OPEN_MAX {
            state.evict_among(is_half_open);
        }
        state.next += 1;
        let number = state.next;
        let (address, stage) = (network_of(remote), PendingStage::Handshake);
        state.conns.push_back(PendingConn { number, address, stage, stream: stream.clone() });
        PendingSlot { all: self.clone(), number }
    }

    /// True for the first of several equal errors: unknown clients must not fill the log.
    pub fn is_new_error(&self, trouble: &str) -> bool {
        let mut state = self.lock();
        let is_new = state.last_trouble != trouble;
        trouble.clone_into(&mut state.last_trouble);
        is_new
    }

    pub fn cut_all(&self) {
        self.lock().conns.iter().for_each(|conn| cut(&conn.stream));
    }
}

impl PendingState {
    fn count(&self, is_counted: impl Fn(&PendingConn) -> bool) -> usize {
        self.conns.iter().filter(|conn| is_counted(conn)).count()
    }

    /// Cuts the oldest of the address that has most; false if there is none.
    fn evict_among(&mut self, may_go: impl Fn(&PendingConn) -> bool) -> bool {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        self.conns.iter().filter(|conn| may_go(conn)).for_each(|conn| {
            *counts.entry(conn.address).or_default() += 1;
        });
        let most = counts.values().copied().max().unwrap_or(0);
        let goes = |conn: &PendingConn| may_go(conn) && counts.get(&conn.address) == Some(&most);
        let Some(idx) = self.conns.iter().position(goes) else { return false };
        if let Some(conn) = self.conns.remove(idx) {
            cut(&conn.stream);
        }
        true
    }

    fn set_stage(&mut self, number: u64, stage: PendingStage) -> bool {
        let conn = self.conns.iter_mut().find(|conn| conn.number == number);
        conn.map(|conn| conn.stage = stage).is_some()
    }
}

/// The place of one connection, given back when it is dropped.
pub(super) struct PendingSlot {
    all: PendingConns,
    number: u64,
}

impl PendingSlot {
    /// The connection has begun with a question. False if it has to go: all places are taken by questions that are
    /// being answered, or this one had to make place before.
    pub fn begin_question(&self) -> bool {
        let mut state = self.all.lock();
        let Some(address) =
            state.conns.iter().find(|conn| conn.number == self.number).map(|conn| conn.address)
        else {
            return false;
        };
        let is_unread = |conn: &PendingConn| conn.stage == PendingStage::Question;
        let of_address = state.count(|conn| conn.is_question() && conn.address == address);
        let has_place = if planted(Mutant::QuestionsUncounted) {
            true
        } else if of_address >= QUESTIONS_PER_ADDRESS_MAX {
            state.evict_among(|conn| is_unread(conn) && conn.address == address)
        } else if state.count(PendingConn::is_question) >= QUESTIONS_MAX {
            state.evict_among(is_unread)
        } else {
            true
        };
        has_place && state.set_stage(self.number, PendingStage::Question)
    }

    /// The question is whole. False if the connection had to make place.
    pub fn begin_answer(&self) -> bool {
        let mut state = self.all.lock();
        let is_proven = |conn: &PendingConn| conn.number == self.number && conn.stage == PendingStage::Proven;
        state.count(is_proven) > 0 || state.set_stage(self.number, PendingStage::Answering)
    }

    pub fn set_proven(&self) -> bool {
        self.all.lock().set_stage(self.number, PendingStage::Proven)
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        self.all.lock().conns.retain(|conn| conn.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    struct Pair {
        slot: PendingSlot,
        far: TcpStream,
    }

    impl Pair {
        fn is_evicted(&self) -> bool {
            !self.slot.all.lock().conns.iter().any(|conn| conn.number == self.slot.number)
        }
    }

    fn enter(all: &PendingConns, listen: &TcpListener, address: u8) -> Pair {
        let far = TcpStream::connect(listen.local_addr().unwrap()).unwrap();
        let near = Arc::new(listen.accept().unwrap().0);
        Pair { slot: all.enter(&near, IpAddr::from([10, 0, 0, address])), far }
    }

    fn ask(all: &PendingConns, listen: &TcpListener, address: u8) -> Pair {
        let pair = enter(all, listen, address);
        assert!(pair.slot.begin_question());
        pair
    }

    fn places(pairs: &[Pair]) -> usize {
        pairs.iter().filter(|pair| !pair.is_evicted()).count()
    }

    #[test]
    fn a_flood_of_half_open_connections_from_one_address_evicts_its_own() {
        let (all, listen) = (PendingConns::default(), crate::ports::listen().unwrap());
        let other = enter(&all, &listen, 2);
        let mut flood: Vec<Pair> = (0..3 * HALF_OPEN_MAX).map(|_| enter(&all, &listen, 1)).collect();
        assert!(!other.is_evicted());
        assert_eq!(places(&flood), HALF_OPEN_MAX - 1);
        assert!(flood[..2 * HALF_OPEN_MAX].iter().all(Pair::is_evicted), "the oldest");
        assert_eq!(flood[0].far.read(&mut [0]).unwrap(), 0, "it is cut");
        assert_eq!(all.lock().conns.len(), HALF_OPEN_MAX);
    }

    #[test]
    fn questions_are_bounded_by_address_and_in_all() {
        let (all, listen) = (PendingConns::default(), crate::ports::listen().unwrap());
        let flood: Vec<Pair> = (0..200).map(|_| ask(&all, &listen, 1)).collect();
        assert_eq!(places(&flood), QUESTIONS_PER_ADDRESS_MAX);
        let many: Vec<Pair> = (2..100).map(|address| ask(&all, &listen, address)).collect();
        let all_waiting = places(&flood) + places(&many);
        assert_eq!(all_waiting, QUESTIONS_MAX);
        assert!(!many.last().unwrap().is_evicted(), "the newest has its place");
        drop((flood, many));
        assert!(all.lock().conns.is_empty());
    }

    #[test]
    fn a_planted_bug_is_found() {
        let test = questions_are_bounded_by_address_and_in_all;
        assert!(base::mutant::is_caught(Mutant::QuestionsUncounted, test));
    }

    #[test]
    fn a_question_that_is_being_answered_keeps_its_place() {
        let (all, listen) = (PendingConns::default(), crate::ports::listen().unwrap());
        let answered: Vec<Pair> = (0..QUESTIONS_PER_ADDRESS_MAX).map(|_| ask(&all, &listen, 1)).collect();
        assert!(answered.iter().all(|pair| pair.slot.begin_answer()));
        let late = enter(&all, &listen, 1);
        assert!(!late.slot.begin_question(), "every place of the address is taken");
        assert_eq!(places(&answered), QUESTIONS_PER_ADDRESS_MAX);
        let proven = enter(&all, &listen, 1);
        assert!(proven.slot.set_proven() && proven.slot.begin_answer(), "a member is not counted");
        assert!(enter(&all, &listen, 2).slot.begin_question());
    }

    #[test]
    fn a_connection_that_made_place_is_not_answered() {
        let (all, listen) = (PendingConns::default(), crate::ports::listen().unwrap());
        let first = ask(&all, &listen, 1);
        let _more: Vec<Pair> = (0..QUESTIONS_PER_ADDRESS_MAX).map(|_| ask(&all, &listen, 1)).collect();
        assert!(!first.slot.begin_answer() && !first.slot.begin_question());
    }
}
