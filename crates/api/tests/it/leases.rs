//! The calls of leases mean the same in etcd's service and in the lock service; the messages of both have the same bytes.

use crate::auth::{Secured, code, put};
use crate::client::{Answer, Client, GRPC, framed};
use crate::world::World;
use prost::Message;
use proto::etcdserverpb as wire;
use proto::inspect;

const SERVICES: [&str; 2] = ["/etcdserverpb.Lease/", "/althing.lock.v1.LockService/"];

async fn call(client: &Client, path: String, fields: &[(&str, &str)], message: &impl Message) -> Answer {
    client.post(&path, &[&[GRPC], fields].concat(), framed(message)).await.unwrap()
}

#[tokio::test]
async fn a_call_with_a_request_id_that_is_sent_again_is_carried_out_once() {
    let world = World::start().await;
    let client = Client::connect(world.address).await;
    for (idx, service) in SERVICES.iter().enumerate() {
        let session = wire::LeaseGrantRequest { ttl: 600, id: 5 + idx as i64 };
        call(&client, format!("{service}LeaseGrant"), &[], &session).await;
        let (first_id, second_id) = (format!("{}-1", session.id), format!("{}-2", session.id));
        let chosen_by_server = wire::LeaseGrantRequest { ttl: 600, id: 0 };
        let grant = async || {
            let fields = [("althing-request-id", first_id.as_str())];
            let answer = call(&client, format!("{service}LeaseGrant"), &fields, &chosen_by_server).await;
            answer.message::<wire::LeaseGrantResponse>().id
        };
        let granted = grant().await;
        assert_eq!(grant().await, granted, "{service}");
        for _ in 0..2 {
            let revoke = wire::LeaseRevokeRequest { id: granted };
            let fields = [("althing-request-id", second_id.as_str())];
            let answer = call(&client, format!("{service}LeaseRevoke"), &fields, &revoke).await;
            assert_eq!(code(&answer), "0", "{service}");
        }
    }
}

#[tokio::test]
async fn a_lease_is_listed_with_the_client_that_granted_or_renewed_it() {
    let world = World::start().await;
    for (idx, service) in SERVICES.iter().enumerate() {
        let (granted, renewed) = (50 + idx as i64, 60 + idx as i64);
        let [granting, renewing] =
            [Client::connect(world.address).await, Client::connect(world.address).await];
        let grant = async |client: &Client, id| {
            let request = wire::LeaseGrantRequest { ttl: 600, id };
            call(client, format!("{service}LeaseGrant"), &[], &request).await;
        };
        grant(&granting, granted).await;
        grant(&Client::connect(world.address).await, renewed).await;
        let renew = wire::LeaseKeepAliveRequest { id: renewed };
        let answer = call(&renewing, format!("{service}LeaseKeepAlive"), &[], &renew).await;
        assert_eq!(answer.message::<wire::LeaseKeepAliveResponse>().ttl, 600);
        let path = "/althing.inspect.v1.InspectService/Clients".to_owned();
        let listed = call(&granting, path, &[], &inspect::ClientsRequest::default()).await;
        let clients = listed.message::<inspect::ClientsResponse>().clients;
        for lease in [granted, renewed] {
            assert!(clients.iter().any(|client| client.leases == [lease]), "{service} {lease}: {clients:?}");
        }
    }
}

#[tokio::test]
async fn a_renewal_asks_for_the_keys_that_hang_on_the_lease() {
    let secured = Secured::start().await;
    let (client, ann) = (&secured.client, secured.log_in("ann", "apw").await);
    for (idx, service) in SERVICES.iter().enumerate() {
        let (of_ann, of_root) = (70 + idx as i64, 80 + idx as i64);
        for (lease, key) in [(of_ann, "a"), (of_root, "x")] {
            let fields = [("token", secured.root.as_str())];
            let grant = wire::LeaseGrantRequest { ttl: 600, id: lease };
            call(client, format!("{service}LeaseGrant"), &fields, &grant).await;
            let put = wire::PutRequest { lease, ..put(key) };
            call(client, "/etcdserverpb.KV/Put".to_owned(), &fields, &put).await;
        }
        for (lease, status) in [(of_ann, "0"), (of_root, "7")] {
            let renew = wire::LeaseKeepAliveRequest { id: lease };
            let fields = [("token", ann.as_str())];
            let answer = call(client, format!("{service}LeaseKeepAlive"), &fields, &renew).await;
            assert_eq!(code(&answer), status, "{service} {lease}");
        }
    }
}
