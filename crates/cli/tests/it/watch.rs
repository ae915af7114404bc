//! Watches over the wire, with the generated client: what etcd's clients rely on, on real processes.

use crate::etcd::{Etcd, delete, op, put};
use crate::process::{Member, PATIENCE, Plan};
use crate::tour::block_on;
use proto::etcdserverpb::request_op::Request as Op;
use proto::etcdserverpb::watch_client::WatchClient;
use proto::etcdserverpb::watch_create_request::FilterType;
use proto::etcdserverpb::watch_request::RequestUnion;
use proto::etcdserverpb::{
    TxnRequest, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use proto::mvccpb::event::EventType;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::transport::Endpoint;
use tonic::{Request, Status, Streaming};

/// One stream of watches, from the client's side.
pub struct Watches {
    requests: mpsc::UnboundedSender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

fn requests(mut inbox: mpsc::UnboundedReceiver<WatchRequest>) -> impl Stream<Item = WatchRequest> {
    let poll = move |cx: &mut std::task::Context<'_>| inbox.poll_recv(cx);
    FromPoll(poll)
}

struct FromPoll<F>(F);

impl<T, F> Stream for FromPoll<F>
where
    F: FnMut(&mut std::task::Context<'_>) -> std::task::Poll<Option<T>> + Unpin,
{
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        (self.0)(cx)
    }
}

impl Watches {
    pub async fn open(member: &Member) -> Watches {
        Watches::open_with(member, false).await.unwrap()
    }

    pub async fn open_with(member: &Member, leader_required: bool) -> Result<Watches, Status> {
        let channel = Endpoint::from_shared(member.endpoint()).unwrap().connect().await.unwrap();
        let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
        let (sender, inbox) = mpsc::unbounded_channel();
        let mut request = Request::new(requests(inbox));
        if leader_required {
            request.metadata_mut().insert("hasleader", "true".parse().unwrap());
        }
        let responses = client.watch(request).await?.into_inner();
        Ok(Watches { requests: sender, responses })
    }

    fn send(&self, union: RequestUnion) {
        self.requests.send(WatchRequest { request_union: Some(union) }).unwrap();
    }

    pub async fn create(&mut self, create: WatchCreateRequest) -> WatchResponse {
        self.send(RequestUnion::CreateRequest(create));
        self.next().await
    }

    pub async fn next(&mut self) -> WatchResponse {
        self.try_next().await.unwrap()
    }

    async fn try_next(&mut self) -> Result<WatchResponse, Status> {
        let next = tokio::time::timeout(PATIENCE, self.responses.next()).await;
        next.expect("a response was due").expect("the stream goes on")
    }
}

pub fn watch(key: &str) -> WatchCreateRequest {
    WatchCreateRequest { key: key.to_owned().into(), ..Default::default() }
}

fn prefix(key: &str) -> WatchCreateRequest {
    WatchCreateRequest { range_end: base::key_range::prefix_end(key.as_bytes()), ..watch(key) }
}

fn told(response: &WatchResponse) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let event = |event: &proto::mvccpb::Event| {
        let kv = event.kv.as_ref().unwrap();
        let prev = event.prev_kv.as_ref().map_or(String::new(), |prev| format!("<{}", text(&prev.value)));
        match event.r#type() {
            EventType::Put => format!("{}={}@{}{prev}", text(&kv.key), text(&kv.value), kv.mod_revision),
            EventType::Delete => format!("-{}@{}{prev}", text(&kv.key), kv.mod_revision),
        }
    };
    response.events.iter().map(event).collect()
}

async fn put_all(etcd: &mut Etcd, pairs: &[(&'static str, &'static str)]) {
    for (key, value) in pairs {
        etcd.put(put(*key, *value)).await.unwrap();
    }
}

#[test]
fn history_comes_first_and_then_what_happens() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        put_all(&mut etcd, &[("a", "1"), ("b", "x"), ("a", "2")]).await;
        let mut watches = Watches::open(&member).await;
        let create = WatchCreateRequest { start_revision: 2, prev_kv: true, ..watch("a") };
        let created = watches.create(create).await;
        assert!(created.created && !created.canceled && created.watch_id == 0);
        let header = created.header.unwrap();
        assert_eq!(header.revision, 4);
        assert!(header.cluster_id != 0 && header.member_id != 0 && header.raft_term > 0);
        let history = watches.next().await;
        assert_eq!(told(&history), ["a=1@2", "a=2@4<1"]);
        etcd.delete(delete("a")).await.unwrap();
        let live = watches.next().await;
        assert_eq!(told(&live), ["-a@5<2"]);
        assert_eq!(live.header.unwrap().revision, 5);
        let kv = live.events[0].kv.as_ref().unwrap();
        assert_eq!((kv.create_revision, kv.version, kv.value.len()), (0, 0, 0));
    });
}

#[test]
fn many_watches_share_a_stream() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let mut watches = Watches::open(&member).await;
        assert_eq!(watches.create(prefix("a/")).await.watch_id, 0);
        let chosen = WatchCreateRequest { watch_id: 7, ..watch("a/1") };
        assert_eq!(watches.create(chosen.clone()).await.watch_id, 7);
        let twice = watches.create(chosen).await;
        assert!(twice.created && twice.canceled && twice.watch_id == -1);
        assert_eq!(twice.cancel_reason, "mvcc: duplicate watch ID provided on the WatchStream");
        let empty = WatchCreateRequest { range_end: "a".into(), ..watch("b") };
        assert_eq!(watches.create(empty).await.cancel_reason, "mvcc: watcher range is empty");
        let no_put = FilterType::Noput as i32;
        assert_eq!(
            watches.create(WatchCreateRequest { filters: vec![no_put], ..watch("a/1") }).await.watch_id,
            1
        );

        put_all(&mut etcd, &[("a/1", "x")]).await;
        let mut ids = [watches.next().await.watch_id, watches.next().await.watch_id];
        ids.sort();
        assert_eq!(ids, [0, 7]);
        watches.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: 99 }));
        watches.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: 7 }));
        let canceled = watches.next().await;
        assert!(canceled.canceled && canceled.watch_id == 7 && canceled.cancel_reason.is_empty());
        let both = [Op::RequestPut(put("a/2", "y")), Op::RequestPut(put("a/3", "z"))];
        let txn = TxnRequest { success: both.map(op).to_vec(), ..Default::default() };
        etcd.txn(txn).await.unwrap();
        assert_eq!(told(&watches.next().await), ["a/2=y@3", "a/3=z@3"]);
    });
}

#[test]
fn progress_is_told_when_asked_for_and_in_rounds() {
    let member = Plan::single().with(&["--watch-progress-interval-ms", "100"]).start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let mut watches = Watches::open(&member).await;
        watches.create(watch("a")).await;
        put_all(&mut etcd, &[("b", "1")]).await;
        watches.send(RequestUnion::ProgressRequest(WatchProgressRequest {}));
        let progress = watches.next().await;
        assert_eq!((progress.watch_id, progress.header.unwrap().revision), (-1, 2));
        assert!(progress.events.is_empty() && !progress.created && !progress.canceled);
        let id = watches.create(WatchCreateRequest { progress_notify: true, ..watch("c") }).await.watch_id;
        let progress = watches.next().await;
        assert_eq!((progress.watch_id, progress.header.unwrap().revision), (id, 2));
    });
}

#[test]
fn a_slow_client_gets_everything_in_the_end() {
    const PUTS: usize = 400;
    // Kept, for the log outgrows its first file.
    let plan = Plan::single();
    let member = plan.start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        let mut watches = Watches::open(&member).await;
        watches.create(watch("a")).await;
        let value = "x".repeat(100_000);
        for _ in 0..PUTS {
            etcd.put(put("a", value.clone())).await.unwrap();
        }
        let rss = member.rss_bytes();
        let mut revision = 2;
        while revision < 2 + PUTS as i64 {
            for event in watches.next().await.events {
                assert_eq!(event.kv.unwrap().mod_revision, revision);
                revision += 1;
            }
        }
        assert!(rss < 700 << 20, "40 MB of unread events took {rss} bytes");
    });
}

#[test]
fn watches_on_every_member_hear_the_same() {
    let plans = Plan::cluster(3);
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    block_on(async {
        let mut streams = vec![];
        for member in &members {
            let mut watches = Watches::open_with(member, true).await.unwrap();
            watches.create(WatchCreateRequest { start_revision: 1, ..prefix("k") }).await;
            streams.push(watches);
        }
        let mut etcd = members[0].etcd().await;
        put_all(&mut etcd, &[("k1", "a"), ("k2", "b"), ("k1", "c")]).await;
        for watches in &mut streams {
            let mut heard = vec![];
            while heard.len() < 3 {
                heard.extend(told(&watches.next().await));
            }
            assert_eq!(heard, ["k1=a@2", "k2=b@3", "k1=c@4"]);
        }
    });
}

#[test]
fn a_stream_that_requires_a_leader_ends_when_there_is_none() {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    block_on(async {
        let mut insisting = Watches::open_with(&members[0], true).await.unwrap();
        let mut content = Watches::open_with(&members[0], false).await.unwrap();
        insisting.create(watch("a")).await;
        content.create(watch("a")).await;
        members.truncate(1);
        let status = insisting.try_next().await.unwrap_err();
        assert_eq!(status.message(), "etcdserver: no leader");
        assert_eq!(status.code(), tonic::Code::Unavailable);
        let refused = Watches::open_with(&members[0], true).await.err().unwrap();
        assert_eq!(refused.message(), "etcdserver: no leader");
        assert!(content.create(watch("b")).await.created);
    });
}

#[test]
fn sigterm_ends_streams_of_watches_at_once() {
    let mut member = Plan::single().with(&["--drain-timeout-ms", "600000"]).start_ready();
    block_on(async {
        let mut watches = Watches::open(&member).await;
        watches.create(watch("a")).await;
        member.signal("TERM");
        assert_eq!(watches.try_next().await.unwrap_err().message(), "etcdserver: server stopped");
    });
    assert!(member.wait_exit().success());
}

#[test]
fn many_watches_on_many_streams_all_hear_of_a_change() {
    const STREAMS: usize = 8;
    const WATCHES: i64 = 100;
    let member = Plan::single().start_ready();
    block_on(async {
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            let mut watches = Watches::open(&member).await;
            for _ in 0..WATCHES {
                assert!(watches.create(watch("a")).await.created);
            }
            streams.push(watches);
        }
        let mut etcd = member.etcd().await;
        put_all(&mut etcd, &[("a", "1")]).await;
        for watches in &mut streams {
            let mut heard = Vec::new();
            for _ in 0..WATCHES {
                let response = watches.next().await;
                assert_eq!(told(&response), ["a=1@2"]);
                heard.push(response.watch_id);
            }
            heard.sort();
            assert!(heard.into_iter().eq(0..WATCHES));
        }
    });
}
