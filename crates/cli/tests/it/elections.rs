//! Elections, and locks and elections with etcd's own tool, which runs when the variable `ETCDCTL` names it.

use crate::etcdctl::{Etcdctl, binary};
use crate::locks::{ask, connect, lease};
use crate::process::{Member, Plan};
use crate::talking::Talking;
use crate::tour::block_on;
use proto::v3electionpb::election_client::ElectionClient;
use proto::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest,
};
use tonic::transport::Channel;
use tonic::{Code, Status};

async fn campaign(
    election: &mut ElectionClient<Channel>,
    lease: i64,
    value: &str,
) -> Result<CampaignResponse, Status> {
    let request = CampaignRequest { name: "e".into(), lease, value: value.to_owned().into() };
    election.campaign(request).await.map(tonic::Response::into_inner)
}

#[test]
fn an_election_has_one_leader_whose_values_are_observed() {
    let member = Plan::single().start_ready();
    block_on(async {
        let mut locks = connect(&member).await;
        let mut election = ElectionClient::connect(member.endpoint()).await.unwrap();
        let name = || LeaderRequest { name: "e".into() };
        let refusal = election.leader(name()).await.unwrap_err();
        assert_eq!((refusal.code(), refusal.message()), (Code::Unknown, "election: no leader"));
        let mut observed = election.observe(name()).await.unwrap().into_inner();

        let (a, b) = (lease(&mut locks, 60).await, lease(&mut locks, 60).await);
        let first = campaign(&mut election, a, "one").await.unwrap();
        let leader = first.leader.unwrap();
        let expected = LeaderKey { name: "e".into(), key: format!("e/{a:x}").into(), rev: 2, lease: a };
        assert_eq!((leader.clone(), first.header.unwrap().revision), (expected, 2));
        let again = campaign(&mut election, a, "two").await.unwrap();
        assert_eq!((again.leader.unwrap().rev, again.header.unwrap().revision), (2, 3), "a new value");
        let proclaim = ProclaimRequest { leader: Some(leader.clone()), value: "three".into() };
        assert_eq!(election.proclaim(proclaim).await.unwrap().into_inner().header.unwrap().revision, 4);
        let shown = election.leader(name()).await.unwrap().into_inner().kv.unwrap();
        assert_eq!((shown.value, shown.version), ("three".into(), 3));

        let mut candidate = election.clone();
        let waiting = tokio::spawn(async move { campaign(&mut candidate, b, "four").await.unwrap() });
        while locks
            .inspect(proto::lock::InspectRequest { name: "e".into() })
            .await
            .unwrap()
            .into_inner()
            .lock
            .is_none_or(|lock| lock.queue.is_empty())
        {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        election.resign(ResignRequest { leader: Some(leader.clone()) }).await.unwrap();
        let second = waiting.await.unwrap().leader.unwrap();
        assert_eq!(second.lease, b);
        let late = ProclaimRequest { leader: Some(leader.clone()), value: "five".into() };
        let refused = election.proclaim(late).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::Unknown, "election: not leader"));
        election.resign(ResignRequest { leader: Some(leader) }).await.unwrap();
        assert_eq!(election.leader(name()).await.unwrap().into_inner().kv.unwrap().value, "four");
        assert_eq!(
            election.resign(ResignRequest { leader: None }).await.unwrap_err().message(),
            "\"leader\" field must be provided"
        );
        let mut values = Vec::new();
        while values.last().is_none_or(|value| value != "four") {
            let kv = observed.message().await.unwrap().unwrap().kv.unwrap();
            values.push(String::from_utf8(kv.value.to_vec()).unwrap());
        }
        assert_eq!(values.first().unwrap(), "one");
        assert!(
            values.is_sorted_by_key(|value| ["one", "two", "three", "four"].iter().position(|v| v == value))
        );
    });
}

fn etcdctl_locks_and_elects(members: &[Member], binary: &str) {
    let tool = |nth: usize| Etcdctl::of(binary, &members[nth % members.len()..][..1]);
    let (first_tool, second_tool) = (tool(0), tool(1));
    let mut first = Talking::of(first_tool.start(&["lock", "mixed"]));
    let key = first.line();
    assert!(key.starts_with("mixed/"), "{key}");
    // Ours waits for theirs, and theirs for ours.
    let ours = block_on(async {
        let mut locks = connect(&members[0]).await;
        let id = lease(&mut locks, 60).await;
        assert!(!locks.lock(ask("mixed", id, Some(0))).await.unwrap().into_inner().acquired);
        let mut client = locks.clone();
        let waiting =
            tokio::spawn(async move { client.lock(ask("mixed", id, None)).await.unwrap().into_inner() });
        first.interrupt();
        waiting.await.unwrap()
    });
    assert!(ours.acquired);
    let mut second = Talking::of(second_tool.start(&["lock", "mixed"]));
    block_on(async {
        let mut locks = connect(&members[0]).await;
        while locks
            .inspect(proto::lock::InspectRequest { name: "mixed".into() })
            .await
            .unwrap()
            .into_inner()
            .lock
            .is_none_or(|lock| lock.queue.is_empty())
        {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let unlock = proto::lock::UnlockRequest { key: ours.key, ..Default::default() };
        locks.unlock(unlock).await.unwrap();
    });
    assert!(second.line().starts_with("mixed/"));
    second.interrupt();

    // A lock around a command: its status is passed on.
    let ran = first_tool.run(&["lock", "mixed", "echo", "locked"], "");
    assert_eq!(ran, "locked\n");

    let mut leads = Talking::of(first_tool.start(&["elect", "post", "first"]));
    let leader_key = leads.line();
    assert!(leader_key.starts_with("post/"), "{leader_key}");
    assert_eq!(leads.line(), "first");
    let mut listens = Talking::of(second_tool.start(&["elect", "--listen", "post"]));
    assert_eq!((listens.line(), listens.line()), (leader_key, "first".to_owned()));
    let mut follows = Talking::of(second_tool.start(&["elect", "post", "second"]));
    leads.interrupt();
    let next = follows.line();
    assert_eq!(follows.line(), "second");
    assert_eq!((listens.line(), listens.line()), (next, "second".to_owned()));
}

#[test]
fn etcdctl_locks_and_elects_on_one_member() {
    let Some(binary) = binary("etcdctl_locks_and_elects_on_one_member") else { return };
    etcdctl_locks_and_elects(&[Plan::single().start_ready()], &binary);
}

#[test]
fn etcdctl_locks_and_elects_on_three_members() {
    let Some(binary) = binary("etcdctl_locks_and_elects_on_three_members") else { return };
    let members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    etcdctl_locks_and_elects(&members, &binary);
}
