//! The nodes of a ring, as a backup and a restore call them: each by a client of its own, and what each says of itself.

use super::super::{Client, Error, Options};
use super::selection::{SavedKey, partition_of};
use bytes::Bytes;
use proto::althing::backup::v1::{DescribeResponse, Shard};
use std::collections::{BTreeMap, BTreeSet};
use tonic::Code;

pub struct Node {
    pub client: Client,
    pub about: DescribeResponse,
}

/// The nodes at the given endpoints and at those of all members, each once. One that cannot be reached is left out, as long as
/// there is another.
pub async fn reachable(options: &Options) -> Result<Vec<Node>, Error> {
    let given = options.client()?;
    let mut clients = given.each();
    let members = given.members().await?.members;
    let endpoints: Vec<String> = members.into_iter().flat_map(|member| member.client_ur_ls).collect();
    if !endpoints.is_empty() {
        clients.extend(options.client_of(endpoints)?.each());
    }
    let mut nodes: BTreeMap<u64, Node> = BTreeMap::new();
    let mut trouble = None;
    for client in clients {
        match client.describe_rows().await {
            Ok(about) => drop(nodes.entry(about.node).or_insert(Node { client, about })),
            Err(client::Error::Refused(status)) if is_final(status.code()) => {
                return Err(client::Error::Refused(status).into());
            }
            Err(error) => trouble = Some(error),
        }
    }
    match trouble {
        Some(error) if nodes.is_empty() => Err(error.into()),
        _ => Ok(nodes.into_values().collect()),
    }
}

/// What no other node would answer otherwise.
fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::PermissionDenied | Code::Unauthenticated | Code::InvalidArgument | Code::Unimplemented
    )
}

/// Asks the nodes again what they go by.
pub async fn refresh(nodes: &mut [Node]) -> Result<(), Error> {
    for node in nodes {
        node.about = node.client.describe_rows().await?;
    }
    Ok(())
}

/// Partitions of which too few replicas are among the nodes, and the nodes of the ring that are not.
pub fn missing(nodes: &[Node]) -> (usize, Vec<u64>) {
    let Some(about) = nodes.iter().map(|node| &node.about).max_by_key(|about| about.epoch) else {
        return (0, Vec::new());
    };
    let serving: BTreeSet<u64> =
        nodes.iter().filter(|node| node.about.is_serving).map(|node| node.about.node).collect();
    let lacks = |replicas: &[u64]| {
        replicas.iter().filter(|node| serving.contains(node)).count() <= replicas.len() / 2
    };
    let partitions: BTreeSet<u32> =
        about.shards.iter().filter(|shard| lacks(&shard.nodes)).map(|shard| shard.partition).collect();
    let absent = about.nodes.iter().copied().filter(|node| !serving.contains(node)).collect();
    (partitions.len(), absent)
}

/// How many replicas of a row's key are among these nodes; 0 if that cannot be told.
pub fn reachable_replicas(nodes: &[&Node], row: &Bytes) -> u32 {
    let Some(about) = nodes.first().map(|node| &node.about) else { return 0 };
    let (Some(key), Some(partition)) = (SavedKey::of_row(row), partition_of(row)) else { return 0 };
    let namespace = about.namespaces.iter().find(|namespace| namespace.id == key.namespace_id);
    let copies = namespace.map(|namespace| namespace.copies);
    let is_its = |shard: &&Shard| shard.partition == u32::from(partition) && Some(shard.copies) == copies;
    let shard = about.shards.iter().find(is_its);
    let is_here = |replica: &&u64| nodes.iter().any(|node| node.about.node == **replica);
    shard.map_or(0, |shard| shard.nodes.iter().filter(is_here).count() as u32)
}
