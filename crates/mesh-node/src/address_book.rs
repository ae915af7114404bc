//! The addresses of nodes: of this region's nodes the address at which other regions reach each, and of the other regions'
//! nodes what their own region reported. Frames of a node that is not in it are dropped.

use base::{ClusterId, NodeId};
use mesh::{RegionId, Regions};
use std::collections::BTreeMap;

/// What a region has told of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionNodes {
    pub cluster: ClusterId,
    pub nodes: BTreeMap<NodeId, String>,
}

/// A node of another region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteNode {
    pub cluster: ClusterId,
    pub id: NodeId,
    pub address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressBook {
    here: BTreeMap<NodeId, String>,
    remote: BTreeMap<RegionId, RegionNodes>,
    /// Why a region could not be asked, until it can.
    errors: BTreeMap<RegionId, String>,
}

impl AddressBook {
    /// Where other regions reach a node of this one. True if that is news.
    pub(crate) fn learn(&mut self, node: NodeId, address: &str) -> bool {
        let is_news = !address.is_empty() && self.here.get(&node).is_none_or(|known| known != address);
        if is_news {
            self.here.insert(node, address.to_owned());
        }
        is_news
    }

    /// Where other regions reach this node of this one.
    pub fn address(&self, node: NodeId) -> Option<&String> {
        self.here.get(&node)
    }

    /// The region of a node, if it is another region.
    pub fn region_of(&self, node: NodeId) -> Option<RegionId> {
        let mut regions = self.remote.iter();
        regions.find(|(_, told)| told.nodes.contains_key(&node)).map(|(region, _)| *region)
    }

    pub fn nodes(&self, region: RegionId) -> BTreeMap<NodeId, String> {
        self.remote.get(&region).map(|told| told.nodes.clone()).unwrap_or_default()
    }

    pub fn node_ids(&self, region: RegionId) -> impl Iterator<Item = NodeId> {
        self.remote.get(&region).into_iter().flat_map(|told| told.nodes.keys().copied())
    }

    pub fn trouble(&self, region: RegionId) -> Option<&String> {
        self.errors.get(&region)
    }

    /// What a region told replaces what it told before. True if that changes anything.
    pub(crate) fn set(&mut self, region: RegionId, told: Result<RegionNodes, String>) -> bool {
        match told {
            Ok(nodes) => {
                let had_trouble = self.errors.remove(&region).is_some();
                let before = self.remote.insert(region, nodes.clone());
                had_trouble || before != Some(nodes)
            }
            Err(trouble) => self.errors.insert(region, trouble.clone()) != Some(trouble),
        }
    }

    /// Only these regions are known from now on. True if that changes anything.
    pub(crate) fn keep(&mut self, table: &Regions) -> bool {
        let before = (self.remote.len(), self.errors.len());
        self.remote.retain(|region, _| table.get(*region).is_some());
        self.errors.retain(|region, _| table.get(*region).is_some());
        before != (self.remote.len(), self.errors.len())
    }

    /// The nodes of all other regions.
    pub fn remote_nodes(&self) -> Vec<RemoteNode> {
        let of_region = |told: &RegionNodes| {
            let cluster = told.cluster;
            let node = move |(id, address): (NodeId, String)| RemoteNode { cluster, id, address };
            told.nodes.clone().into_iter().map(node).collect::<Vec<_>>()
        };
        self.remote.values().flat_map(of_region).collect()
    }
}
