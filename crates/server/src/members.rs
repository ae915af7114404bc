//! Who is in the cluster and where each member can be reached.
//! The static list of the configuration goes in, and what members tell each other about where they serve
//! clients; a list for clients comes out. A member that was never met since this process started has no
//! client address here.

use crate::config::Config;
use base::NodeId;
use node::member::member_id;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// One member, as clients are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    pub id: NodeId,
    pub name: String,
    pub peer_url: String,
    /// Where it serves clients, once it has told.
    pub client_url: Option<String>,
}

pub(crate) struct Members {
    me: NodeId,
    own_url: String,
    /// Without their client addresses, by id.
    list: BTreeMap<NodeId, (String, String)>,
    client_urls: Mutex<BTreeMap<NodeId, String>>,
}

impl Members {
    pub fn new(config: &Config) -> Members {
        let id_of = |name: &str| member_id(&config.cluster_token, name);
        let me = id_of(&config.name);
        let own_url = url(&config.advertise_client);
        let listed = config.initial_cluster.iter();
        let list = listed
            .map(|member| (id_of(&member.name), (member.name.clone(), url(&member.peer_addr))))
            .collect();
        Members { me, list, client_urls: Mutex::new(BTreeMap::from([(me, own_url.clone())])), own_url }
    }

    /// Where this member serves clients.
    pub fn own_url(&self) -> &str {
        &self.own_url
    }

    pub fn contains(&self, id: NodeId) -> bool {
        self.list.contains_key(&id)
    }

    /// A member has told where it serves clients.
    pub fn learn(&self, from: NodeId, client_url: String) {
        if from != self.me && self.contains(from) {
            self.lock().insert(from, client_url);
        }
    }

    /// Every member, ordered by id.
    pub fn list(&self) -> Vec<MemberInfo> {
        let client_urls = self.lock();
        let info = |(id, (name, peer_url)): (&NodeId, &(String, String))| MemberInfo {
            id: *id,
            name: name.clone(),
            peer_url: peer_url.clone(),
            client_url: client_urls.get(id).cloned(),
        };
        self.list.iter().map(info).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, String>> {
        self.client_urls.lock().expect("no thread panics while it holds the addresses")
    }
}

fn url(address: &str) -> String {
    format!("http://{address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Members {
        let info = |id, name: &str| (NodeId(id), (name.to_owned(), url(&format!("{name}:2380"))));
        Members {
            me: NodeId(1),
            own_url: url("a:2379"),
            list: BTreeMap::from([info(1, "a"), info(2, "b")]),
            client_urls: Mutex::new(BTreeMap::from([(NodeId(1), url("a:2379"))])),
        }
    }

    #[test]
    fn a_member_is_listed_without_a_client_address_until_it_has_told() {
        let members = members();
        let client_urls = || members.list().into_iter().map(|member| member.client_url).collect::<Vec<_>>();
        assert_eq!(client_urls(), [Some(url("a:2379")), None]);
        members.learn(NodeId(2), url("b:2379"));
        assert_eq!(client_urls(), [Some(url("a:2379")), Some(url("b:2379"))]);
        members.learn(NodeId(2), url("b:9999"));
        assert_eq!(client_urls()[1], Some(url("b:9999")), "it may move");
    }

    #[test]
    fn nobody_speaks_for_this_member_and_strangers_are_not_listed() {
        let members = members();
        members.learn(NodeId(1), url("elsewhere:1"));
        members.learn(NodeId(3), url("c:2379"));
        assert_eq!(members.list().len(), 2);
        assert_eq!(members.list()[0].client_url, Some(url("a:2379")));
    }
}
