use super::*;
use proto::etcdserverpb as wire;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::response_op::Response as OpReply;
use proto::mvccpb::KeyValue;

fn transcoder() -> Transcoder {
    Transcoder::new(DescriptorPool::decode(proto::DESCRIPTORS).unwrap(), 1024 * 1024)
}

fn read<M: Message + Name + Default + DecodeLimit>(json: &str) -> Result<M, Status> {
    transcoder().read(json.as_bytes())
}

fn write<M: Message + Name>(message: &M) -> String {
    String::from_utf8(transcoder().write(message)).unwrap()
}

#[test]
fn either_spelling_of_a_name_and_of_a_number_is_read() {
    let expected = wire::RangeRequest {
        key: "foo".into(),
        range_end: "\0".into(),
        limit: 5,
        revision: i64::MAX,
        sort_order: 2,
        sort_target: 1,
        keys_only: true,
        ..Default::default()
    };
    for json in [
        r#"{"key":"Zm9v","range_end":"AA==","limit":"5","revision":"9223372036854775807",
            "sort_order":"DESCEND","sort_target":"VERSION","keys_only":true}"#,
        r#"{"key":"Zm9v","rangeEnd":"AA==","limit":5,"revision":9223372036854775807,
            "sortOrder":2,"sortTarget":1,"keysOnly":true,"more_than_we_know":{"a":[1,2]}}"#,
    ] {
        assert_eq!(read::<wire::RangeRequest>(json).unwrap(), expected, "{json}");
    }
}

#[test]
fn nothing_and_null_are_what_is_not_given() {
    for json in ["", " \n", "{}", r#"{"key":null,"limit":null}"#] {
        assert_eq!(read::<wire::RangeRequest>(json).unwrap(), wire::RangeRequest::default(), "{json:?}");
    }
}

#[test]
fn transactions_are_read_whole() {
    let json = r#"{"compare":[{"target":"MOD","key":"Zm9v","modRevision":"7","result":"EQUAL"}],
        "success":[{"requestPut":{"key":"Zm9v","value":"YmFy"}},{"request_txn":{"failure":[{}]}}]}"#;
    let txn = read::<wire::TxnRequest>(json).unwrap();
    assert_eq!(txn.compare[0].target_union, Some(wire::compare::TargetUnion::ModRevision(7)));
    let Some(Op::RequestPut(put)) = &txn.success[0].request else { panic!("{txn:?}") };
    assert_eq!(put.value, "bar");
    let Some(Op::RequestTxn(nested)) = &txn.success[1].request else { panic!("{txn:?}") };
    assert_eq!(nested.failure.len(), 1);
}

#[test]
fn what_cannot_be_read_is_refused_as_an_invalid_argument() {
    for json in [
        "{nojson",
        "[]",
        "7",
        r#"{"key":"%%%"}"#,
        r#"{"key":7}"#,
        r#"{"limit":"x"}"#,
        r#"{"limit":"9223372036854775808"}"#,
        r#"{"key":"Zm9v""#,
        &"[".repeat(10_000),
        &"{\"a\":".repeat(10_000),
    ] {
        let refused = read::<wire::RangeRequest>(json).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{json:.40}");
    }
}

#[test]
fn a_flood_of_operations_is_refused_before_it_is_read() {
    let json = format!(r#"{{"success":[{}{{}}]}}"#, "{},".repeat(OBJECTS_MAX));
    let refused = read::<wire::TxnRequest>(&json).unwrap_err();
    assert_eq!(refused.message(), "etcdserver: too many operations in txn request");
    let fewer = format!(r#"{{"success":[{}{{}}]}}"#, "{},".repeat(20_000));
    let refused = read::<wire::TxnRequest>(&fewer).unwrap_err();
    assert_eq!(refused.message(), "etcdserver: too many operations in txn request");
}

#[test]
fn a_message_beyond_the_bound_is_refused_in_grpcs_words() {
    let json = format!(r#"{{"key":"{}"}}"#, "AAAA".repeat(400_000));
    let refused = read::<wire::RangeRequest>(&json).unwrap_err();
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    assert_eq!(refused.message(), "grpc: received message larger than max (1200004 vs. 1048576)");
}

#[test]
fn answers_are_spelled_as_etcd_spells_them() {
    let header = wire::ResponseHeader { cluster_id: u64::MAX, member_id: 7, revision: 3, raft_term: 2 };
    let kv = KeyValue {
        key: "foo".into(),
        create_revision: 2,
        mod_revision: 3,
        version: 2,
        value: "bar".into(),
        lease: 0,
    };
    let range = wire::RangeResponse { header: Some(header), kvs: vec![kv], more: false, count: 1 };
    assert_eq!(
        write(&range),
        r#"{"header":{"cluster_id":"18446744073709551615","member_id":"7","revision":"3","raft_term":"2"},"kvs":[{"key":"Zm9v","create_revision":"2","mod_revision":"3","version":"2","value":"YmFy"}],"count":"1"}"#
    );
    let txn = wire::TxnResponse {
        header: None,
        succeeded: true,
        responses: vec![wire::ResponseOp { response: Some(OpReply::ResponsePut(Default::default())) }],
    };
    assert_eq!(write(&txn), r#"{"succeeded":true,"responses":[{"response_put":{}}]}"#);
    let member = wire::Member {
        id: 5,
        name: "m0".to_owned(),
        peer_ur_ls: vec!["http://a:1".to_owned()],
        client_ur_ls: vec![],
        is_learner: false,
    };
    assert_eq!(write(&member), r#"{"ID":"5","name":"m0","peerURLs":["http://a:1"]}"#);
    let alarm = wire::AlarmMember { member_id: 1, alarm: wire::AlarmType::Nospace as i32 };
    assert_eq!(write(&alarm), r#"{"memberID":"1","alarm":"NOSPACE"}"#);
    let hash = wire::HashResponse { header: None, hash: u32::MAX };
    assert_eq!(write(&hash), r#"{"hash":4294967295}"#);
}
