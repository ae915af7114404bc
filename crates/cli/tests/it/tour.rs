//! A tour of the KV service: one member, then three with writes sent to each.

use crate::etcd::{Answer, Etcd, delete, everything, get, op, prefix, put, value_is};
use crate::process::{Member, Plan};
use proto::etcdserverpb::range_request::{SortOrder, SortTarget};
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::response_op::Response as OpReply;
use proto::etcdserverpb::{DeleteRangeRequest, PutRequest, RangeRequest, ResponseHeader, TxnRequest};
use proto::mvccpb::KeyValue;
use tonic::Code;

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn refusal<T>(outcome: Answer<T>) -> (Code, String) {
    match outcome {
        Err(status) => (status.code(), status.message().to_owned()),
        Ok(_) => panic!("it was not refused"),
    }
}

fn keys(kvs: &[KeyValue]) -> Vec<&str> {
    kvs.iter().map(|kv| std::str::from_utf8(&kv.key).unwrap()).collect()
}

fn revision(header: Option<ResponseHeader>) -> i64 {
    header.unwrap().revision
}

#[test]
fn a_single_member_counts_revisions_as_etcd_does() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let empty = etcd.range(get("a")).await.unwrap();
        let header = empty.header.unwrap();
        assert_eq!((header.revision, empty.count, empty.more), (1, 0, false));
        assert!(header.cluster_id != 0 && header.member_id != 0 && header.raft_term > 0);

        assert_eq!(revision(etcd.put(put("a", "1")).await.unwrap().header), 2);
        let again = etcd.put(PutRequest { prev_kv: true, ..put("a", "2") }).await.unwrap();
        assert_eq!(revision(again.header), 3);
        assert_eq!(again.prev_kv.unwrap().value, "1");

        let kv = etcd.range(get("a")).await.unwrap().kvs[0].clone();
        assert_eq!((kv.create_revision, kv.mod_revision, kv.version, kv.lease), (2, 3, 2, 0));
        assert_eq!(kv.value, "2");

        let nothing = etcd.delete(delete("missing")).await.unwrap();
        assert_eq!((nothing.deleted, revision(nothing.header)), (0, 3));
        let gone = etcd.delete(DeleteRangeRequest { prev_kv: true, ..delete("a") }).await.unwrap();
        assert_eq!((gone.deleted, revision(gone.header)), (1, 4));
        assert_eq!(gone.prev_kvs[0].value, "2");

        etcd.put(put("a", "3")).await.unwrap();
        let kv = etcd.range(get("a")).await.unwrap().kvs[0].clone();
        assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (5, 5, 1));
    });
}

#[test]
fn ranges_are_limited_counted_sorted_and_read_in_the_past() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        for (key, value) in [("k/a", "3"), ("k/b", "1"), ("k/c", "2"), ("l", "9")] {
            etcd.put(put(key, value)).await.unwrap();
        }
        let limited = etcd.range(RangeRequest { limit: 2, ..prefix("k/") }).await.unwrap();
        assert_eq!(keys(&limited.kvs), ["k/a", "k/b"]);
        assert_eq!((limited.more, limited.count), (true, 3));
        let counted = etcd.range(RangeRequest { count_only: true, ..prefix("k/") }).await.unwrap();
        assert_eq!((counted.kvs.len(), counted.count), (0, 3));
        let bare = etcd.range(RangeRequest { keys_only: true, ..prefix("k/") }).await.unwrap();
        assert!(bare.kvs.len() == 3 && bare.kvs.iter().all(|kv| kv.value.is_empty()));
        let by_value = RangeRequest {
            sort_order: SortOrder::Descend as i32,
            sort_target: SortTarget::Value as i32,
            ..prefix("k/")
        };
        assert_eq!(keys(&etcd.range(by_value).await.unwrap().kvs), ["k/a", "k/c", "k/b"]);
        let past = etcd.range(RangeRequest { revision: 3, ..prefix("k/") }).await.unwrap();
        assert_eq!(keys(&past.kvs), ["k/a", "k/b"]);
        assert_eq!(revision(past.header), 5, "the header tells the present");
        let from = RangeRequest { range_end: "\0".into(), serializable: true, ..get("k/c") };
        assert_eq!(keys(&etcd.range(from).await.unwrap().kvs), ["k/c", "l"]);
        assert_eq!(etcd.range(everything()).await.unwrap().count, 4);
    });
}

#[test]
fn a_transaction_decides_and_its_answers_tell_the_revision() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        etcd.put(put("a", "1")).await.unwrap();
        let read = || op(Op::RequestRange(get("a")));
        let swap = || TxnRequest {
            compare: vec![value_is("a", "1")],
            success: vec![read(), op(Op::RequestPut(put("a", "2"))), read()],
            failure: vec![read()],
        };
        let won = etcd.txn(swap()).await.unwrap();
        assert!(won.succeeded);
        assert_eq!(revision(won.header), 3);
        let [
            Some(OpReply::ResponseRange(before)),
            Some(OpReply::ResponsePut(put)),
            Some(OpReply::ResponseRange(after)),
        ] = [0, 1, 2].map(|i| won.responses[i].response.clone())
        else {
            panic!("a get, a put and a get were asked: {won:?}")
        };
        let only = |revision| Some(ResponseHeader { revision, ..Default::default() });
        assert_eq!((&before.kvs[0].value[..], before.header), (&b"1"[..], only(2)));
        assert_eq!(put.header, only(3));
        assert_eq!((&after.kvs[0].value[..], after.header), (&b"2"[..], only(3)));

        let lost = etcd.txn(swap()).await.unwrap();
        assert!(!lost.succeeded);
        assert_eq!(revision(lost.header), 3, "a transaction without a change moves nothing");
    });
}

#[test]
fn refusals_carry_etcds_codes_and_words() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let invalid = |message: &str| (Code::InvalidArgument, format!("etcdserver: {message}"));
        assert_eq!(refusal(etcd.put(put("", "v")).await), invalid("key is not provided"));
        let keep = PutRequest { ignore_value: true, ..put("a", "") };
        assert_eq!(refusal(etcd.put(keep.clone()).await), invalid("key not found"));
        let contradicts = PutRequest { value: "v".into(), ..keep };
        assert_eq!(refusal(etcd.put(contradicts).await), invalid("value is provided"));
        let leased = PutRequest { lease: 7, ..put("a", "v") };
        let unknown = (Code::NotFound, "etcdserver: requested lease not found".to_owned());
        assert_eq!(refusal(etcd.put(leased).await), unknown);
        let future =
            (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision".to_owned());
        assert_eq!(refusal(etcd.range(RangeRequest { revision: 99, ..get("a") }).await), future);

        let puts = |keys: &mut dyn Iterator<Item = String>| TxnRequest {
            success: keys.map(|key| op(Op::RequestPut(put(key, "v")))).collect(),
            ..Default::default()
        };
        let twice = puts(&mut ["a", "a"].into_iter().map(str::to_owned));
        assert_eq!(refusal(etcd.txn(twice).await), invalid("duplicate key given in txn request"));
        let many = puts(&mut (0..129).map(|i| i.to_string()));
        assert_eq!(refusal(etcd.txn(many).await), invalid("too many operations in txn request"));
        assert_eq!(refusal(etcd.put(put("a", vec![0; 1_600_000])).await), invalid("request is too large"));

        assert_eq!(refusal(etcd.compact(99).await), future);
        etcd.compact(1).await.unwrap();
        let compacted = "etcdserver: mvcc: required revision has been compacted".to_owned();
        assert_eq!(refusal(etcd.compact(1).await), (Code::OutOfRange, compacted));
        let sorted = RangeRequest { sort_order: SortOrder::Descend as i32, ..get("a") };
        assert_eq!(refusal(etcd.range_stream(sorted).await).0, Code::Unimplemented);
        let status = etcd.status().await.unwrap();
        assert_eq!(revision(status.header), 1, "nothing that was refused has changed anything");
        assert_ne!(status.leader, 0);
    });
}

async fn put_and_read_everywhere(clients: &mut [Etcd]) {
    let n = clients.len();
    for round in 0..30 {
        let key = format!("key{round}");
        let answer = clients[round % n].put(put(key.clone(), "value")).await.unwrap();
        let written = revision(answer.header);
        assert_eq!(written, round as i64 + 2, "one total order on every member");
        for reader in clients.iter_mut() {
            let read = reader.range(get(key.clone())).await.unwrap();
            assert_eq!(read.kvs[0].mod_revision, written, "a read sees every write before it");
        }
    }
}

#[test]
fn three_members_are_one_store() {
    let members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    block_on(async {
        let mut clients = vec![];
        for member in &members {
            clients.push(member.etcd().await);
        }
        put_and_read_everywhere(&mut clients).await;

        let mut views = vec![];
        let mut ids = std::collections::BTreeSet::new();
        for client in &mut clients {
            let status = client.status().await.unwrap();
            views.push((status.header.unwrap().cluster_id, status.leader));
            ids.insert(status.header.unwrap().member_id);
        }
        assert!(views.windows(2).all(|pair| pair[0] == pair[1]), "one cluster, one leader: {views:?}");
        assert!(ids.len() == 3 && ids.contains(&views[0].1), "{ids:?} {views:?}");
    });
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        for i in 0..100 {
            etcd.put(put(format!("key{i}"), "value")).await.unwrap();
        }
        etcd.delete(delete("key0")).await.unwrap();
    });
    member.signal("KILL");
    member.wait_exit();

    let member = plan.start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let all = etcd.range(RangeRequest { count_only: true, ..everything() }).await.unwrap();
        assert_eq!((all.count, revision(all.header)), (99, 102));
    });
}
