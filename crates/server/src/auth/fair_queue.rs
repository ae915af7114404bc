//! Logins that wait to be hashed, each with its address and its user.
//! They go in as they come and come out in turn: by address one time, by user the next. So a flood from one address, for
//! however many users, delays others by its own turn, and so does one for a single user from however many addresses.
//! A source with too many waiting logins is refused; when the queue is full, the longest of its sources loses one.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Logins of one user from one address that wait at a time.
const SOURCE_LEN_MAX: usize = 16;
/// Logins from one address.
const ADDRESS_LEN_MAX: usize = 64;
const LEN_MAX: usize = 1_024;
/// How many addresses, and as many users, have the turn of their last login remembered.
const SERVED_MAX: usize = 4_096;

/// Where a login comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LoginSource {
    /// `None` for what the member does by itself.
    address: Option<IpAddr>,
    user: Arc<str>,
}

impl LoginSource {
    /// An IPv6 host may use any address of its 64-bit network, so the network counts.
    pub fn new(address: Option<IpAddr>, user: &str) -> LoginSource {
        let network = |address: Ipv6Addr| Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX));
        let address = address.map(|address| match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(network(address)),
            address => address,
        });
        LoginSource { address, user: user.into() }
    }
}

pub(super) struct FairQueue<T> {
    /// In the order in which they came.
    waiting: VecDeque<(LoginSource, T)>,
    /// The turn in which each was served last.
    addresses: BTreeMap<Option<IpAddr>, u64>,
    users: BTreeMap<Arc<str>, u64>,
    turn: u64,
}

impl<T> FairQueue<T> {
    pub fn new() -> FairQueue<T> {
        FairQueue { waiting: VecDeque::new(), addresses: BTreeMap::new(), users: BTreeMap::new(), turn: 0 }
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
        let of_address = self.count(|other| other.address == source.address);
        if of_source >= SOURCE_LEN_MAX {
            return Some(item);
        }
        let crowded = if of_address >= ADDRESS_LEN_MAX {
            let among = |other: &LoginSource| other.address == source.address;
            self.longest(among, |other| other.user.clone()).filter(|(_, len)| *len > of_source + 1)
        } else if self.waiting.len() >= LEN_MAX {
            self.longest(|_| true, |other| other.address).filter(|(_, len)| *len > of_address + 1)
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
            let address = self.addresses.get(&source.address).copied().unwrap_or(0);
            let user = self.users.get(&source.user).copied().unwrap_or(0);
            if self.turn.is_multiple_of(2) { (address, user) } else { (user, address) }
        };
        // The first of several whose turn it is.
        let (idx, _) = self.waiting.iter().enumerate().min_by_key(|(_, (source, _))| turn_of(source))?;
        let (source, item) = self.waiting.remove(idx)?;
        self.addresses.insert(source.address, self.turn);
        self.users.insert(source.user, self.turn);
        forget_oldest(&mut self.addresses);
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
        assert!(queue.addresses.len() <= SERVED_MAX && queue.users.len() <= SERVED_MAX);
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
