//! What a cluster of three tells about itself: its members, its hashes, its leader.

use crate::etcd::{Etcd, delete, put};
use crate::process::{Member, PATIENCE, Plan, until};
use crate::tour::block_on;
use proto::health::health_check_response::ServingStatus;
use std::collections::BTreeSet;
use tonic::Code;

fn three() -> Vec<Member> {
    let members: Vec<Member> = Plan::cluster(3).iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    members
}

async fn connect(members: &[Member]) -> Vec<Etcd> {
    let mut clients = vec![];
    for member in members {
        clients.push(member.etcd().await);
    }
    clients
}

async fn leader_of(clients: &mut [Etcd]) -> (usize, u64) {
    let leader = clients[0].status().await.unwrap().leader;
    for (i, client) in clients.iter_mut().enumerate() {
        if client.status().await.unwrap().header.unwrap().member_id == leader {
            return (i, leader);
        }
    }
    panic!("there is no leader");
}

#[test]
fn every_member_knows_where_all_members_serve() {
    let members = three();
    let expected: BTreeSet<(String, String)> =
        (0..3).map(|i| (format!("m{i}"), members[i].endpoint())).collect();
    for member in &members {
        // Members tell each other when their streams come up, which may be a moment later.
        let known = until("all members have told where they serve", || {
            let known = block_on(async { member.etcd().await.members().await.unwrap() });
            known.iter().all(|member| !member.client_ur_ls.is_empty()).then_some(known)
        });
        let found: BTreeSet<(String, String)> =
            known.iter().map(|member| (member.name.clone(), member.client_ur_ls[0].clone())).collect();
        assert_eq!(found, expected);
        assert!(known.iter().all(|member| member.peer_ur_ls[0].starts_with("http://127.0.0.1:")));
    }
}

#[test]
fn equal_states_have_equal_hashes_on_every_member() {
    let members = three();
    block_on(async {
        let mut clients = connect(&members).await;
        // More than a page, of different sizes.
        for i in 0..100 {
            clients[i % 3].put(put(format!("key{i}"), vec![b'x'; i * 100])).await.unwrap();
        }
        clients[0].delete(delete("key7")).await.unwrap();
        let mut hashes = vec![];
        for client in &mut clients {
            client.members().await.unwrap();
            let (now, before) = (client.hash_kv(0).await.unwrap(), client.hash_kv(50).await.unwrap());
            assert_eq!((now.hash_revision, now.compact_revision, before.hash_revision), (102, -1, 50));
            assert_eq!(now.hash, client.hash_kv(102).await.unwrap().hash);
            assert_ne!(now.hash, before.hash);
            assert_ne!(before.hash, client.hash_kv(49).await.unwrap().hash);
            hashes.push((now.hash, before.hash));
            assert_eq!(client.hash_kv(103).await.unwrap_err().code(), Code::OutOfRange);
        }
        assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
        // This one covers all that was ever applied, what members order by themselves included: it moves on between one
        // question and the next, but those of members that once differed never meet again.
        let begun = std::time::Instant::now();
        loop {
            let mut hashes = vec![];
            for client in &mut clients {
                hashes.push(client.hash().await.unwrap().hash);
            }
            if hashes.windows(2).all(|pair| pair[0] == pair[1]) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{hashes:?}");
        }
    });
}

#[test]
fn leadership_moves_where_it_is_told_to() {
    let members = three();
    block_on(async {
        let mut clients = connect(&members).await;
        let (leads, leader) = leader_of(&mut clients).await;
        let (heir, follows) = ((leads + 1) % 3, (leads + 2) % 3);
        let target = clients[heir].status().await.unwrap().header.unwrap().member_id;

        let refused = clients[follows].move_leader(target).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::FailedPrecondition, "etcdserver: not leader"));
        let refused = clients[leads].move_leader(5).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::FailedPrecondition, "etcdserver: bad leader transferee")
        );
        clients[leads].move_leader(leader).await.unwrap();
        assert_eq!(clients[leads].status().await.unwrap().leader, leader, "it leads already");

        clients[leads].move_leader(target).await.unwrap();
        assert_eq!(clients[leads].status().await.unwrap().leader, target, "known when it is answered");
        clients[follows].put(put("a", "1")).await.unwrap();
    });
}

#[test]
fn health_is_told_in_grpcs_own_words_until_the_end() {
    let mut member = Plan::single().start_ready();
    block_on(async {
        let mut etcd = member.etcd().await;
        assert_eq!(etcd.health("").await.unwrap().status(), ServingStatus::Serving);
        assert_eq!(etcd.health("unknown").await.unwrap_err().code(), Code::NotFound);
        let mut watch = etcd.watch_health().await.unwrap();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        member.signal("TERM");
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
        assert_eq!(watch.message().await.unwrap(), None);
    });
    assert!(member.wait_exit().success());
}
