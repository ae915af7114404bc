//! Watch requests as they come over the wire.

use super::*;
use base::RangeEnd;

const STREAM: StreamId = StreamId(3);

fn create(wire: WatchCreateRequest) -> Create {
    let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(wire)) };
    let Some(Input::Create(create)) = parse(request, STREAM) else { panic!("it asks for a watch") };
    create
}

#[test]
fn an_empty_key_is_the_smallest_one() {
    let all = create(WatchCreateRequest { range_end: "\0".into(), ..Default::default() });
    assert_eq!(all.keys, KeyRange { start: Bytes::from_static(b"\0"), end: RangeEnd::Open });
    let one = create(WatchCreateRequest::default());
    assert_eq!(one.keys, KeyRange::single(Bytes::from_static(b"\0")));
}

#[test]
fn an_id_of_zero_lets_the_server_choose() {
    assert_eq!(create(WatchCreateRequest::default()).id, None);
    assert_eq!(create(WatchCreateRequest { watch_id: -4, ..Default::default() }).id, Some(WatchId(-4)));
}

#[test]
fn unknown_filters_and_unknown_requests_are_ignored() {
    let filters = create(WatchCreateRequest { filters: vec![1, 9], ..Default::default() }).filters;
    assert_eq!(filters, Filters { no_put: false, no_delete: true });
    assert!(parse(WatchRequest { request_union: None }, STREAM).is_none());
}
