//! The example of the guide for the Rust client, as it stands there.

use client::{Client, Config, Error, LockOptions};
use proto::etcdserverpb::{PutRequest, RangeRequest, WatchCreateRequest};
use std::time::Duration;

pub async fn tour(endpoint: &str) -> Result<(), Error> {
    let client = Client::new(Config {
        endpoints: vec![endpoint.to_owned()],
        dial_timeout: Duration::from_secs(5),
        call_timeout: Duration::from_secs(10),
        login: None,
        tls: None,
    })?;

    // Write a key, read it, and watch it from the revision of the write.
    let put = PutRequest { key: "color".into(), value: "blue".into(), ..Default::default() };
    let revision = client.put(put).await?.header.map_or(0, |header| header.revision);
    let read = client.range(RangeRequest { key: "color".into(), ..Default::default() }).await?;
    assert_eq!(read.kvs[0].value, "blue");
    let from = WatchCreateRequest { key: "color".into(), start_revision: revision, ..Default::default() };
    let event = client.watch(from).next().await?.events.remove(0);
    assert_eq!(event.kv.map(|kv| kv.mod_revision), Some(revision));

    // A lock. Writes through the guard carry its fencing token: they are refused once the lock is lost.
    let guard = client.lock("jobs", LockOptions { holder_id: "host-7".into(), ..Default::default() }).await?;
    guard.put(PutRequest { key: "job/state".into(), value: "running".into(), ..Default::default() }).await?;
    guard.release().await
}
