//! Who is where: the nodes of this region with the address at which other regions reach each, and the nodes of the
//! other regions as their own region has told. Written by the thread of the machine and by the scout, read by anyone;
//! a node that is not in it is not listened to.

use crate::peer::Stranger;
use base::{ClusterId, NodeId};
use mesh::{RegionId, Regions};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// What a region has told of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charted {
    pub cluster: ClusterId,
    pub nodes: BTreeMap<NodeId, String>,
}

#[derive(Default)]
pub(crate) struct Atlas {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    here: BTreeMap<NodeId, String>,
    abroad: BTreeMap<RegionId, Charted>,
    /// Why a region could not be asked, until it can.
    troubles: BTreeMap<RegionId, String>,
}

impl Atlas {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the atlas")
    }

    /// A node of this region has told where others reach it.
    pub fn learn(&self, node: NodeId, address: &str) {
        let mut state = self.lock();
        if !address.is_empty() && state.here.get(&node).is_none_or(|known| known != address) {
            state.here.insert(node, address.to_owned());
        }
    }

    /// Where other regions reach this node of this one.
    pub fn address(&self, node: NodeId) -> Option<String> {
        self.lock().here.get(&node).cloned()
    }

    /// The region of a node that is not of this one.
    pub fn home(&self, node: NodeId) -> Option<RegionId> {
        let state = self.lock();
        state.abroad.iter().find(|(_, charted)| charted.nodes.contains_key(&node)).map(|(region, _)| *region)
    }

    pub fn nodes(&self, region: RegionId) -> BTreeMap<NodeId, String> {
        self.lock().abroad.get(&region).map(|charted| charted.nodes.clone()).unwrap_or_default()
    }

    pub fn trouble(&self, region: RegionId) -> Option<String> {
        self.lock().troubles.get(&region).cloned()
    }

    /// A region was asked. What it told replaces what it told before.
    pub fn chart(&self, region: RegionId, told: Result<Charted, String>) {
        let mut state = self.lock();
        match told {
            Ok(charted) => {
                state.troubles.remove(&region);
                state.abroad.insert(region, charted);
            }
            Err(trouble) => {
                state.troubles.insert(region, trouble);
            }
        }
    }

    /// Only these regions are known from now on.
    pub fn keep(&self, table: &Regions) {
        let mut state = self.lock();
        state.abroad.retain(|region, _| table.get(*region).is_some());
        state.troubles.retain(|region, _| table.get(*region).is_some());
    }

    /// Whom the peer streams lead to.
    pub fn strangers(&self) -> Vec<Stranger> {
        let state = self.lock();
        let stranger = |charted: &Charted| {
            let cluster = charted.cluster;
            let one = move |(id, address): (NodeId, String)| Stranger { cluster, id, address };
            charted.nodes.clone().into_iter().map(one).collect::<Vec<_>>()
        };
        state.abroad.values().flat_map(stranger).collect()
    }
}
