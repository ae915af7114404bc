use super::*;
use crate::Config;
use proto::etcdserverpb::ResponseHeader;
use proto::mvccpb::KeyValue;
use std::time::Duration;

fn watcher(start: i64) -> Watcher {
    let config = Config {
        endpoints: vec!["127.0.0.1:1".to_owned()],
        dial_timeout: Duration::ZERO,
        call_timeout: Duration::ZERO,
        login: None,
        tls: None,
    };
    let create = WatchCreateRequest { start_revision: start, ..Default::default() };
    Client::new(config).unwrap().watch(create)
}

fn response(revision: i64, events: &[i64]) -> WatchResponse {
    let event = |revision: &i64| Event {
        kv: Some(KeyValue { mod_revision: *revision, ..Default::default() }),
        ..Default::default()
    };
    WatchResponse {
        header: Some(ResponseHeader { revision, ..Default::default() }),
        events: events.iter().map(event).collect(),
        ..Default::default()
    }
}

#[test]
fn what_comes_next_is_counted_from_the_beginning_the_events_and_the_progress() {
    let mut watcher = watcher(0);
    let created = WatchResponse { created: true, ..response(7, &[]) };
    assert_eq!(watcher.accept(created).unwrap(), None);
    assert_eq!(watcher.create.start_revision, 8);
    assert!(watcher.accept(response(12, &[9, 9])).unwrap().is_some());
    assert_eq!(watcher.create.start_revision, 10, "the header may be ahead of the events");
    assert!(watcher.accept(response(20, &[])).unwrap().is_some());
    assert_eq!(watcher.create.start_revision, 21);
}

#[test]
fn a_watch_that_begins_later_is_not_moved_back() {
    let mut watcher = watcher(50);
    assert_eq!(watcher.accept(WatchResponse { created: true, ..response(7, &[]) }).unwrap(), None);
    assert!(watcher.accept(response(30, &[])).unwrap().is_some());
    assert_eq!(watcher.create.start_revision, 50);
}

#[test]
fn parts_are_joined_and_a_revision_counts_when_it_is_whole() {
    let mut watcher = watcher(5);
    let part = WatchResponse { fragment: true, ..response(6, &[5]) };
    assert_eq!(watcher.accept(part).unwrap(), None);
    assert_eq!(watcher.create.start_revision, 5);
    let whole = watcher.accept(response(6, &[5, 6])).unwrap().unwrap();
    assert_eq!(whole.events.len(), 3);
    assert_eq!(watcher.create.start_revision, 7);
}

#[test]
fn a_compaction_ends_the_watch() {
    let canceled = WatchResponse { canceled: true, compact_revision: 9, ..response(10, &[]) };
    let refusal = watcher(5).accept(canceled).unwrap_err();
    assert!(matches!(refusal, Error::Compacted { revision: 9 }), "{refusal}");
}
