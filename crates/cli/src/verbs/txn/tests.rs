use super::*;
use proto::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};

fn read(text: &str) -> Result<TxnRequest, String> {
    Txn { interactive: false, fence: FenceOption::default() }
        .read(&mut text.as_bytes())
        .map_err(|error| error.to_string())
}

#[test]
fn three_parts_are_three_lists() {
    let request = read(
        "value(\"a\") = \"1\"\nm(\"b\\n\") < \"7\"\nlease(\"a\") != \"1f\"\n\n\
         put c \"d \\\"e\\\"\" --prev-kv\nget p --prefix\n\ndel 'x y'\n\n",
    )
    .unwrap();
    assert_eq!(request.compare.len(), 3);
    let mod_of_b = &request.compare[1];
    assert_eq!(mod_of_b.key, "b\n");
    assert_eq!(mod_of_b.target_union, Some(TargetUnion::ModRevision(7)));
    assert_eq!((mod_of_b.target(), mod_of_b.result()), (CompareTarget::Mod, CompareResult::Less));
    assert_eq!(request.compare[2].target_union, Some(TargetUnion::Lease(0x1f)));
    let [put, get] = &request.success[..] else { panic!("{:?}", request.success) };
    let Some(Request::RequestPut(put)) = &put.request else { panic!("{put:?}") };
    assert_eq!((&put.value[..], put.prev_kv), (&b"d \"e\""[..], true));
    let Some(Request::RequestRange(get)) = &get.request else { panic!("{get:?}") };
    assert_eq!(get.range_end, "q");
    let Some(Request::RequestDeleteRange(del)) = &request.failure[0].request else { panic!() };
    assert_eq!(del.key, "x y");
}

#[test]
fn the_end_of_the_input_ends_what_is_open() {
    let request = read("\nput a b").unwrap();
    assert_eq!((request.compare.len(), request.success.len(), request.failure.len()), (0, 1, 0));
}

#[test]
fn what_is_malformed_is_shown_and_refused() {
    let table = [
        ("garbage\n\n\n\n", "malformed comparison: garbage"),
        ("value(\"a\") ~ \"1\"\n\n\n\n", "the operator is"),
        ("value(\"a\" = \"1\"\n\n\n\n", "malformed comparison"),
        ("colour(\"a\") = \"1\"\n\n\n\n", "unknown target colour"),
        ("ver(\"a\") = \"x\"\n\n\n\n", "invalid txn compare request"),
        ("\nfly away\n\n\n", "invalid txn request: fly away"),
        ("\nget \"a\n\n\n", "invalid txn request"),
        ("\nput a\n\n\n", "needs its value"),
        ("\nget a --endpoints x\n\n\n", "invalid txn request"),
        ("\nget --help\n\n\n", "invalid txn request"),
    ];
    for (text, reason) in table {
        let refusal = read(text).unwrap_err();
        assert!(refusal.contains(reason), "{text}: {refusal}");
    }
}
