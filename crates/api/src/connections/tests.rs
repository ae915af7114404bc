use super::*;

const LIMITS: ConnectionLimits = ConnectionLimits { all: 6, per_address: 3, loopback: 5 };

fn host(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn closing(slot_guard: &SlotGuard) -> bool {
    slot_guard.slot.is_closing()
}

#[test]
fn an_address_takes_no_more_than_its_share_while_its_requests_are_under_way() {
    let table = Connections::new(LIMITS);
    let busy: Vec<_> = (0..3).map(|_| table.admit(host(1)).unwrap()).collect();
    busy.iter().for_each(|slot_guard| assert!(slot_guard.begin_request()));
    assert!(table.admit_at(host(1), 0).is_none());
    assert!(table.admit_at(host(2), 0).is_some());
    drop(busy);
    assert!(table.admit(host(1)).is_some());
    assert_eq!(table.metrics.open.get(), 0, "all of them were dropped again");
}

#[test]
fn beyond_the_limit_a_few_connections_are_taken_for_operators() {
    let table = Connections::new(ConnectionLimits::of(1));
    let busy = table.admit(host(1)).unwrap();
    assert!(busy.begin_request() && !busy.is_limited());
    let limited: Vec<_> = (0..LIMITED_MAX).map(|_| table.admit(host(2)).unwrap()).collect();
    assert!(limited.iter().all(SlotGuard::is_limited));
    assert!(table.admit(host(3)).is_none());
    assert_eq!((table.metrics.refused.get(), table.metrics.limited.get()), (1, LIMITED_MAX as u64));
    drop(limited);
    assert!(table.admit(host(3)).is_some());
    drop(busy);
    assert!(!table.admit(host(3)).unwrap().is_limited());
}

#[test]
fn connections_without_a_request_make_place_before_the_oldest_idle_one_and_busy_ones_never() {
    let table = Connections::new(ConnectionLimits { all: 3, per_address: 3, loopback: 3 });
    let at = |now_ms| table.admit_at(host(1), now_ms).unwrap();
    let (served, busy, silent) = (at(1), at(2), at(3));
    assert!(served.begin_request() && busy.begin_request());
    served.end_requests();
    let next = at(4);
    assert!(closing(&silent) && !closing(&served), "it never had a request");
    assert!(next.begin_request());
    let last = at(5);
    assert!(closing(&served) && last.begin_request());
    assert!(table.admit_at(host(1), 6).is_none());
    assert!(!closing(&busy) && !served.begin_request(), "one was told to close, the other never");
}

#[test]
fn a_new_connection_takes_the_place_of_an_idle_one_at_once_but_only_so_many_do() {
    let all = CLOSING_MAX * 2;
    let table = Connections::new(ConnectionLimits { all, per_address: all, loopback: all });
    let idle: Vec<_> = (0..all).map(|_| table.admit_at(host(1), 1).unwrap()).collect();
    let late: Vec<_> = (0..2 * all).filter_map(|_| table.admit_at(host(1), 2)).collect();
    assert_eq!(late.len(), CLOSING_MAX, "those told to close still have their descriptors");
    assert_eq!(idle.iter().filter(|slot_guard| closing(slot_guard)).count(), CLOSING_MAX);
    drop(idle);
    assert!(table.admit_at(host(1), 2).is_some());
}

#[test]
fn the_address_with_most_connections_makes_place_for_others() {
    let table = Connections::new(LIMITS);
    let few = table.admit_at(host(9), 1).unwrap();
    let many: Vec<_> = (0..5).map(|_| table.admit_at(IpAddr::from([127, 0, 0, 1]), 2).unwrap()).collect();
    let new = table.admit_at(host(2), 3).unwrap();
    assert!(many.iter().any(closing) && !closing(&few) && !closing(&new));
}

#[test]
fn a_fruitless_search_is_not_repeated_at_once() {
    let table = Connections::new(ConnectionLimits::of(1));
    let only = table.admit_at(host(1), 1).unwrap();
    assert!(only.begin_request());
    assert!(table.admit_at(host(2), 2).is_none());
    only.end_requests();
    assert!(table.admit_at(host(2), 3).is_none(), "it was searched a moment ago");
    assert!(table.admit_at(host(2), 2 + SEARCH_PAUSE_MS).is_some());
}

#[test]
fn addresses_of_one_network_count_as_one() {
    let parse = |text: &str| network_of(text.parse().unwrap());
    assert_eq!(parse("2001:db8::1"), parse("2001:db8::ffff:1:2"));
    assert_ne!(parse("2001:db8::1"), parse("2001:db8:0:1::1"));
    assert_eq!(parse("::ffff:10.0.0.1"), host(1));
    assert!(parse("::1").is_loopback());
}

#[tokio::test]
async fn a_connection_hears_that_it_must_close() {
    let table = Connections::new(ConnectionLimits::of(1));
    let idle = table.admit(host(1)).unwrap();
    let new = table.admit(host(2)).unwrap();
    idle.must_close().await;
    drop(idle);
    assert_eq!(table.metrics.open.get(), 1);
    drop(new);
    assert_eq!(table.lock().open, 0);
}
