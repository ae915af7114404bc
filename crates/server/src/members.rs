//! The members of the cluster and the addresses of each.
//! The replicated table goes in as it is applied; a list for clients and for the peer streams comes out. Until the
//! cluster has founded its table, the configured list stands for it, with the client addresses that members send
//! each other.

use crate::config::{self, Config};
use base::limits::MEMBERS_MAX;
use base::{Instant, NodeId};
use coord::{Member, MemberChange};
use node::member::member_id;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// One member, as clients see it.
pub type MemberInfo = Member;

pub(crate) struct MemberDirectory {
    me: NodeId,
    name: String,
    own_url: String,
    state: Mutex<MembersState>,
}

struct MembersState {
    table: coord::Members,
    /// Stands for the table while that is empty.
    configured: BTreeMap<NodeId, Member>,
    client_urls: BTreeMap<NodeId, String>,
    /// Addresses of members that another member's table has and this one's does not, yet.
    heard: BTreeMap<NodeId, String>,
    published: Option<Instant>,
    /// Data-only nodes, with their peer addresses.
    nodes: BTreeMap<NodeId, String>,
    /// The members that say that this one was removed.
    removed_by: BTreeSet<NodeId>,
}

/// Between two attempts to publish this member's name and client address.
const PUBLISH_PAUSE: Duration = Duration::from_secs(1);

impl MemberDirectory {
    pub fn new(me: NodeId, config: &Config, configured: &[Member], table: coord::Members) -> MemberDirectory {
        let own_url = url(&config.advertise_client, config.client_tls);
        let state = MembersState {
            table,
            configured: configured.iter().map(|member| (member.id, member.clone())).collect(),
            client_urls: BTreeMap::from([(me, own_url.clone())]),
            heard: BTreeMap::new(),
            published: None,
            nodes: BTreeMap::new(),
            removed_by: BTreeSet::new(),
        };
        MemberDirectory { me, name: config.name.clone(), own_url, state: Mutex::new(state) }
    }

    pub fn me(&self) -> NodeId {
        self.me
    }

    /// The client URL of this member.
    pub fn own_url(&self) -> &str {
        &self.own_url
    }

    pub fn contains(&self, id: NodeId) -> bool {
        self.list().iter().any(|member| member.id == id)
    }

    /// A member has sent its client URL.
    pub fn set_client_url(&self, from: NodeId, client_url: String) {
        if from != self.me && self.contains(from) {
            self.lock().client_urls.insert(from, client_url);
        }
    }

    /// The table has changed.
    pub fn set_table(&self, table: coord::Members) {
        let mut state = self.lock();
        state.heard.retain(|id, _| table.get(*id).is_none() && !table.is_removed(*id));
        state.table = table;
    }

    /// Another member has sent its table. True if there are new members in it.
    pub fn merge_table(&self, told: &coord::Members) -> bool {
        let mut state = self.lock();
        let mut news = false;
        for member in told.iter().filter(|member| member.id != self.me) {
            let is_known = state.table.get(member.id).is_some() || state.table.is_removed(member.id);
            let is_known = is_known || state.table.is_empty() && state.configured.contains_key(&member.id);
            // A table of more members than a cluster has is forged: each would be dialled.
            let fits = state.heard.len() < MEMBERS_MAX || state.heard.contains_key(&member.id);
            if let (false, true, Some(url)) = (is_known, fits, member.peer_urls.first()) {
                let address = host_and_port(url).to_owned();
                news |= state.heard.insert(member.id, address.clone()) != Some(address);
            }
        }
        news
    }

    pub fn table(&self) -> coord::Members {
        self.lock().table.clone()
    }

    /// The cluster has removed this member.
    pub fn was_removed(&self) -> bool {
        self.lock().table.is_removed(self.me)
    }

    /// A member says that this one was removed, and its store holds that. True when those who say so are a quorum
    /// without it.
    pub fn on_removed_by(&self, by: NodeId) -> bool {
        let mut state = self.lock();
        state.removed_by.insert(by);
        if state.table.is_empty() {
            2 * state.removed_by.len() + 1 > state.configured.len()
        } else {
            state.table.can_release_removed(self.me, &state.removed_by)
        }
    }

    pub fn removed(&self) -> BTreeSet<NodeId> {
        self.lock().table.removed().clone()
    }

    /// Every member, ordered by id.
    pub fn list(&self) -> Vec<MemberInfo> {
        let state = self.lock();
        let listed: Vec<&Member> = if state.table.is_empty() {
            state.configured.values().collect()
        } else {
            state.table.iter().collect()
        };
        // What a member sends directly comes a little earlier than what it publishes in the table.
        let client_urls_of = |member: &Member| {
            if member.client_urls.is_empty() && !member.name.is_empty() {
                state.client_urls.get(&member.id).cloned().into_iter().collect()
            } else {
                member.client_urls.clone()
            }
        };
        listed
            .into_iter()
            .map(|member| Member { client_urls: client_urls_of(member), ..member.clone() })
            .collect()
    }

    /// The others with their addresses, including those that only other members' tables have.
    pub fn others(&self) -> Vec<(NodeId, String)> {
        let listed = self.list().into_iter().filter(|member| member.id != self.me);
        let mut others: Vec<(NodeId, String)> = listed
            .filter_map(|member| Some((member.id, host_and_port(member.peer_urls.first()?).to_owned())))
            .collect();
        let state = self.lock();
        let known = |id: &NodeId| *id == self.me || others.iter().any(|(other, _)| other == id);
        let more: BTreeMap<NodeId, String> =
            state.heard.clone().into_iter().chain(state.nodes.clone()).collect();
        let more: Vec<_> = more.into_iter().filter(|(id, _)| !known(id)).collect();
        others.extend(more);
        others
    }

    /// Sets the data-only nodes. True if they have changed.
    pub fn set_nodes(&self, nodes: BTreeMap<NodeId, String>) -> bool {
        let mut state = self.lock();
        let news = state.nodes != nodes;
        state.nodes = nodes;
        news
    }

    /// What this member must publish of itself, if the table lacks it and the last attempt was not just now.
    pub fn publication(&self, now: Instant) -> Option<MemberChange> {
        let mut state = self.lock();
        let known = state.table.get(self.me)?;
        let is_known = known.name == self.name && known.client_urls == [self.own_url.clone()];
        let is_recent = state.published.is_some_and(|at| now.since(at) < PUBLISH_PAUSE);
        if is_known || is_recent {
            return None;
        }
        state.published = Some(now);
        let client_urls = vec![self.own_url.clone()];
        Some(MemberChange::Publish { id: self.me, name: self.name.clone(), client_urls })
    }

    fn lock(&self) -> MutexGuard<'_, MembersState> {
        self.state.lock().expect("no thread panics while it holds the members")
    }
}

/// The members that the configuration lists, as the table will have them.
pub(crate) fn configured(listed: &[config::ClusterMember], token: &str, tls: bool) -> Vec<Member> {
    listed
        .iter()
        .map(|member| Member {
            id: member_id(token, &member.name),
            name: member.name.clone(),
            peer_urls: vec![url(&member.peer_addr, tls)],
            client_urls: Vec::new(),
            learner: false,
        })
        .collect()
}

pub(crate) fn url(address: &str, tls: bool) -> String {
    // A Unix socket is advertised as it was given.
    if address.contains("://") {
        return address.to_owned();
    }
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// The host and port of a URL.
pub(crate) fn host_and_port(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(address: &str) -> String {
        super::url(address, false)
    }

    fn member(id: u64, name: &str) -> Member {
        let peer_urls = vec![url(&format!("{name}:2380"))];
        Member { id: NodeId(id), name: name.to_owned(), peer_urls, client_urls: vec![], learner: false }
    }

    fn members() -> MemberDirectory {
        let configured = [member(1, "a"), member(2, "b")];
        let state = MembersState {
            table: coord::Members::default(),
            configured: configured.into_iter().map(|member| (member.id, member)).collect(),
            client_urls: BTreeMap::from([(NodeId(1), url("a:2379"))]),
            heard: BTreeMap::new(),
            published: None,
            nodes: BTreeMap::new(),
            removed_by: BTreeSet::new(),
        };
        MemberDirectory { me: NodeId(1), name: "a".into(), own_url: url("a:2379"), state: Mutex::new(state) }
    }

    #[test]
    fn a_member_is_listed_without_a_client_address_until_it_has_sent_one() {
        let members = members();
        let client_urls = || members.list().into_iter().map(|member| member.client_urls).collect::<Vec<_>>();
        assert_eq!(client_urls(), [vec![url("a:2379")], vec![]]);
        members.set_client_url(NodeId(2), url("b:2379"));
        assert_eq!(client_urls(), [[url("a:2379")], [url("b:2379")]]);
        members.set_client_url(NodeId(2), url("b:9999"));
        assert_eq!(client_urls()[1], [url("b:9999")], "it may move");
    }

    #[test]
    fn no_other_member_sets_this_ones_url_and_unknown_nodes_are_not_listed() {
        let members = members();
        members.set_client_url(NodeId(1), url("elsewhere:1"));
        members.set_client_url(NodeId(3), url("c:2379"));
        assert_eq!(members.list().len(), 2);
        assert_eq!(members.list()[0].client_urls, [url("a:2379")]);
    }

    #[test]
    fn a_member_that_lags_learns_of_new_members_and_not_of_removed_ones() {
        let members = members();
        let mut table = coord::Members::default();
        table
            .change(&MemberChange::Bootstrap([1, 2, 3].map(|id| member(id, &format!("m{id}"))).to_vec()))
            .unwrap();
        let told = table.clone();
        table.change(&MemberChange::Remove(NodeId(3))).unwrap();
        members.set_table(table.clone());
        assert!(!members.merge_table(&told), "it knows better");
        table.change(&MemberChange::Add(member(4, "d"))).unwrap();
        assert!(members.merge_table(&table));
        assert!(!members.merge_table(&table), "no news");
        assert!(members.others().contains(&(NodeId(4), "d:2380".to_owned())));
        members.set_table(table);
        assert_eq!(members.others().len(), 2, "now it is in the table, once");
    }

    #[test]
    fn the_table_replaces_the_configuration_and_gets_what_it_lacks() {
        let members = members();
        assert_eq!(members.publication(Instant(1)), None, "there is no table yet");
        let mut table = coord::Members::default();
        table.change(&MemberChange::Bootstrap(vec![member(1, "a"), member(3, "c")])).unwrap();
        members.set_table(table.clone());
        assert_eq!(members.others(), [(NodeId(3), "c:2380".to_owned())]);
        let told = members.publication(Instant(1)).unwrap();
        assert_eq!(members.publication(Instant(2)), None, "it was told just now");
        table.change(&told).unwrap();
        members.set_table(table);
        assert_eq!(members.publication(Instant(90_000_000)), None, "it is known");
    }
}
