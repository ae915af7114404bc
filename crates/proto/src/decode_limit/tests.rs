use super::*;
use crate::etcdserverpb::{Compare, RequestOp, request_op};
use prost::Message;

fn nested(depth: usize) -> TxnRequest {
    let mut txn = TxnRequest::default();
    for _ in 0..depth {
        let op = RequestOp { request: Some(request_op::Request::RequestTxn(txn)) };
        txn = TxnRequest { success: vec![op], ..Default::default() };
    }
    txn
}

fn code_of(bytes: &[u8]) -> Option<tonic::Code> {
    TxnRequest::check(bytes).err().map(|status| status.code())
}

#[test]
fn ordinary_transactions_pass() {
    let op = RequestOp {
        request: Some(request_op::Request::RequestPut(PutRequest {
            key: "key".into(),
            value: vec![0xff; 1000].into(),
            ..Default::default()
        })),
    };
    let txn = TxnRequest {
        compare: vec![Compare { key: "key".into(), ..Default::default() }; 128],
        success: vec![op; 128],
        failure: nested(10).success,
    };
    assert_eq!(code_of(&txn.encode_to_vec()), None);
}

#[test]
fn parts_are_counted_over_both_branches_and_all_levels() {
    let wide = |n| TxnRequest { failure: vec![RequestOp::default(); n], ..Default::default() };
    assert_eq!(code_of(&wide(PARTS_MAX).encode_to_vec()), None);
    let status = TxnRequest::check(&wide(PARTS_MAX + 1).encode_to_vec()).unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(status.message(), "etcdserver: too many operations in txn request");

    let half = RequestOp { request: Some(request_op::Request::RequestTxn(wide(PARTS_MAX / 2))) };
    let twice = TxnRequest { success: vec![half.clone()], failure: vec![half], ..Default::default() };
    assert_eq!(code_of(&twice.encode_to_vec()), Some(tonic::Code::InvalidArgument));
}

#[test]
fn a_million_empty_operations_are_refused_without_decoding_them() {
    let bytes = [0x12, 0x00].repeat(1_000_000);
    assert_eq!(code_of(&bytes), Some(tonic::Code::InvalidArgument));
}

#[test]
fn depth_is_bounded_below_what_prost_can_decode() {
    let deepest = nested(DEPTH_MAX - 1).encode_to_vec();
    assert_eq!(code_of(&deepest), None);
    assert!(TxnRequest::decode(deepest.as_slice()).is_ok());
    assert_eq!(code_of(&nested(DEPTH_MAX).encode_to_vec()), Some(tonic::Code::InvalidArgument));
}

#[test]
fn what_cannot_be_walked_is_malformed() {
    let groups = [0x0b, 0x12, 0x00, 0x0c];
    let torn_length = [0x12, 0x7f, 0x00];
    let torn_varint = [0x12, 0x80];
    let endless_varint = [0xff; 11];
    let huge_length = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for bytes in [&groups[..], &torn_length, &torn_varint, &endless_varint, &huge_length] {
        assert_eq!(code_of(bytes), Some(tonic::Code::Internal), "{bytes:02x?}");
    }
}
