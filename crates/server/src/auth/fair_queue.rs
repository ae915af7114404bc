//! Logins that wait to be hashed, each with its address and its user.
//! They go in as they come and come out in turn: by address one time, by user the next. So a flood from one address, for
//! however many users, delays others by its own turn, and so does one for a single user from however many addresses.
//! A source with too many waiting logins is refused; when the queue is full, the longest of its sources loses one.
//! What an authenticated user waits for, as the hash of a new password or the signature of a token, is counted apart and
//! takes every other turn: no flood of logins delays or refuses it.

use crate::network::network_of;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// Logins of one user from one address that wait at a time.
const SOURCE_LEN_MAX: usize = 16;
/// Logins from one address.
const ADDRESS_LEN_MAX: usize = 64;
const LEN_MAX: usize = 1_024;
/// How many addresses, and as many users, have the turn of their last login remembered.
const SERVED_MAX: usize = 4_096;

/// Where a login comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoginSource {
    origin: Origin,
    user: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// The user has authenticated before.
    Authenticated,
    /// `None` where the connection has none, as in tests.
    Address(Option<IpAddr>),
}

impl LoginSource {
    pub fn new(address: Option<IpAddr>, user: &str) -> LoginSource {
        LoginSource { origin: Origin::Address(address.map(network_of)), user: user.into() }
    }

    /// The work of a user that has authenticated.
    pub fn authenticated(user: &str) -> LoginSource {
        LoginSource { origin: Origin::Authenticated, user: user.into() }
    }

    fn is_authenticated(&self) -> bool {
        self.origin == Origin::Authenticated
    }
}

pub(super) struct FairQueue<T> {
    /// In the order in which they came.
    waiting: VecDeque<(LoginSource, T)>,
    /// The turn in which each was served last.
    origins: BTreeMap<Origin, u64>,
    users: BTreeMap<Arc<str>, u64>,
    turn: u64,
    /// The last turn was that of an authenticated user.
    has_served_authenticated: bool,
}

impl<T> FairQueue<T> {
    pub fn new() -> FairQueue<T> {
        FairQueue {
            waiting: VecDeque::new(),
            origins: BTreeMap::new(),
            users: BTreeMap::new(),
            turn: 0,
            has_served_authenticated: false,
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(|(_, item)| keep(item));
    }

    /// Adds a login. If the queue is full, it returns the login that has lost its place, which may be another.
    pub fn push(&mut self, source: LoginSource, item: T) -> Option<T> {
        let of_source = self.count(|other| *other == source);
        let of_origin = self.count(|other| other.origin == source.origin);
        let is_stranger = !source.is_authenticated();
        let origin_len_max = if is_stranger { ADDRESS_LEN_MAX } else { LEN_MAX };
        if is_stranger && of_source >= SOURCE_LEN_MAX {
            return Some(item);
        }
        let crowded = if of_origin >= origin_len_max {
            let among = |other: &LoginSource| other.origin == source.origin;
            self.longest(among, |other| other.user.clone()).filter(|(_, len)| *len > of_source + 1)
        } else if is_stranger && self.count(|other| !other.is_authenticated()) >= LEN_MAX {
            let among = |other: &LoginSource| !other.is_authenticated();
            self.longest(among, |other| other.origin).filter(|(_, len)| *len > of_origin + 1)
        } else {
            self.waiting.push_back((source, item));
            return None;
        };
        let Some((newest, _)) = crowded else { return Some(item) };
        let displaced = self.waiting.remove(newest).map(|(_, item)| item);
        self.waiting.push_back((source, item));
        displaced
    }

    /// The login whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        self.turn += 1;
        let turn_of = |source: &LoginSource| {
            let origin = self.origins.get(&source.origin).copied().unwrap_or(0);
            let user = self.users.get(&source.user).copied().unwrap_or(0);
            let has_had_its_turn = source.is_authenticated() == self.has_served_authenticated;
            let (first, second) = if self.turn.is_multiple_of(2) { (origin, user) } else { (user, origin) };
            (has_had_its_turn, first, second)
        };
        // The first of several whose turn it is.
        let (idx, _) = self.waiting.iter().enumerate().min_by_key(|(_, (source, _))| turn_of(source))?;
        let (source, item) = self.waiting.remove(idx)?;
        self.has_served_authenticated = source.is_authenticated();
        self.origins.insert(source.origin, self.turn);
        self.users.insert(source.user, self.turn);
        forget_oldest(&mut self.origins);
        forget_oldest(&mut self.users);
        Some(item)
    }

    fn count(&self, is_of: impl Fn(&LoginSource) -> bool) -> usize {
        self.waiting.iter().filter(|(source, _)| is_of(source)).count()
    }

    /// The source with most logins waiting among these: where its newest is, and how many there are.
    fn longest<K: Ord>(
        &self,
        among: impl Fn(&LoginSource) -> bool,
        key_of: impl Fn(&LoginSource) -> K,
    ) -> Option<(usize, usize)> {
        let mut counts: BTreeMap<K, (usize, usize)> = BTreeMap::new();
        for (idx, (source, _)) in self.waiting.iter().enumerate().filter(|(_, (source, _))| among(source)) {
            let (newest, count) = counts.entry(key_of(source)).or_default();
            (*newest, *count) = (idx, *count + 1);
        }
        counts.into_values().max_by_key(|(_, count)| *count)
    }
}

fn forget_oldest<K: Ord + Clone>(served: &mut BTreeMap<K, u64>) {
    if served.len() > SERVED_MAX
        && let Some(oldest) = served.iter().min_by_key(|(_, turn)| **turn).map(|(key, _)| key.clone())
    {
        served.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: u8, user: &str) -> LoginSource {
        LoginSource::new(Some(IpAddr::from([10, 0, 0, address])), user)
    }

    /// How many logins are served before this one.
    fn served_before(queue: &mut FairQueue<u32>, item: u32) -> usize {
        std::iter::from_fn(|| queue.pop()).position(|popped| popped == item).unwrap()
    }

    #[test]
    fn a_flood_from_one_address_delays_others_by_its_turn() {
        let mut queue = FairQueue::new();
        for nth in 0..10_000 {
            queue.push(source(1, &format!("user{nth}")), nth);
        }
        assert_eq!(queue.len(), ADDRESS_LEN_MAX);
        assert_eq!(queue.push(source(2, "ann"), 77_777), None);
        assert!(served_before(&mut queue, 77_777) <= 2);
    }

    #[test]
    fn a_flood_for_one_user_delays_others_by_its_turn() {
        let mut queue = FairQueue::new();
        for nth in 0..250 {
            queue.push(source(nth, "root"), u32::from(nth));
        }
        assert_eq!(queue.push(source(255, "ann"), 77_777), None);
        assert!(served_before(&mut queue, 77_777) <= 2);
    }

    #[test]
    fn a_flood_for_one_user_leaves_capacity_for_others_at_the_same_address() {
        let mut queue = FairQueue::new();
        let refused = (0..300).filter_map(|nth| queue.push(source(1, "root"), nth)).count();
        assert_eq!((refused, queue.len()), (300 - SOURCE_LEN_MAX, SOURCE_LEN_MAX));
        assert_eq!(queue.push(source(1, "ann"), 77_777), None);
        assert!(served_before(&mut queue, 77_777) <= 2);
    }

    #[test]
    fn the_longest_queue_gives_way() {
        let mut queue = FairQueue::new();
        for user in ["a", "b", "c", "d"] {
            (0..SOURCE_LEN_MAX as u32).for_each(|nth| assert_eq!(queue.push(source(1, user), nth), None));
        }
        assert_eq!(queue.len(), ADDRESS_LEN_MAX);
        assert_eq!(
            queue.push(source(1, "ann"), 77_777),
            Some(SOURCE_LEN_MAX as u32 - 1),
            "the newest of another"
        );
        assert_eq!(queue.len(), ADDRESS_LEN_MAX);
        let mut queue = FairQueue::new();
        for address in 0..128 {
            for nth in 0..8 {
                queue.push(source(address, "a"), nth);
            }
        }
        assert_eq!(queue.len(), LEN_MAX);
        assert_eq!(queue.push(source(200, "ann"), 77_777), Some(7), "the newest of another address");
        assert!(served_before(&mut queue, 77_777) <= 2);
    }

    #[test]
    fn every_login_is_served_in_the_end_and_old_turns_are_forgotten() {
        let mut queue = FairQueue::new();
        for round in 0..20_000_u32 {
            let address = IpAddr::from(round.to_be_bytes());
            assert_eq!(queue.push(LoginSource::new(Some(address), &round.to_string()), round), None);
            assert_eq!(queue.pop(), Some(round));
        }
        assert_eq!(queue.pop(), None);
        assert!(queue.origins.len() <= SERVED_MAX && queue.users.len() <= SERVED_MAX);
    }

    #[test]
    fn no_flood_delays_or_refuses_what_authenticated_users_wait_for() {
        let mut queue = FairQueue::new();
        for nth in 0..20_000_u32 {
            let address = IpAddr::from((nth % 200).to_be_bytes());
            queue.push(LoginSource::new(Some(address), &nth.to_string()), nth);
        }
        assert_eq!(queue.len(), LEN_MAX);
        let ann = LoginSource::authenticated("ann");
        for nth in 0..2 * SOURCE_LEN_MAX as u32 {
            assert_eq!(queue.push(ann.clone(), 100_000 + nth), None);
        }
        assert_eq!(queue.push(LoginSource::authenticated("bob"), 77_777), None);
        assert!(served_before(&mut queue, 77_777) <= 3);
    }

    #[test]
    fn an_authenticated_user_keeps_no_other_out() {
        let mut queue = FairQueue::new();
        let ann = LoginSource::authenticated("ann");
        let refused = (0..10_000).filter_map(|nth| queue.push(ann.clone(), nth)).count();
        assert_eq!((refused, queue.len()), (10_000 - LEN_MAX, LEN_MAX));
        assert_eq!(queue.push(source(1, "ann"), 66_666), None);
        assert!(queue.push(LoginSource::authenticated("bob"), 77_777).is_some_and(|lost| lost < 10_000));
        assert!(served_before(&mut queue, 66_666) <= 3);
        assert!(served_before(&mut queue, 77_777) <= 3);
    }

    #[test]
    fn the_addresses_of_a_network_are_one() {
        let at = |text: &str| LoginSource::new(Some(text.parse().unwrap()), "");
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.2"), at("10.0.0.1"));
    }
}
