//! The replicated table of members, beside the keys and without a revision. Changes go in by log order, the table or
//! a refusal in etcd's words comes out, and the row in which the table is kept. An id that was removed never comes
//! back, so that no process can act for a removed member.

use crate::mutant::Mutant;
use crate::rows::{CorruptRow, FORMAT};
use base::codec::{Reader, put_bytes, put_varint};
use base::limits::{LEARNERS_MAX, MEMBER_TEXT_BYTES_MAX, MEMBER_URLS_MAX, MEMBERS_MAX};
use base::mutant::planted;
use base::{Code, NodeId, ReadView, Table};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The key of the table's one row, beside the state's own in `Table::Meta`.
pub const MEMBERS_KEY: &[u8] = b"members";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: NodeId,
    /// Empty until the member has started once and published it.
    pub name: String,
    pub peer_urls: Vec<String>,
    pub client_urls: Vec<String>,
    /// Receives the log and has no vote.
    pub learner: bool,
}

impl Member {
    fn has_started(&self) -> bool {
        !self.name.is_empty()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id.0);
        put_bytes(out, self.name.as_bytes());
        put_texts(out, &self.peer_urls);
        put_texts(out, &self.client_urls);
        out.push(u8::from(self.learner));
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<Member> {
        Some(Member {
            id: Some(NodeId(reader.varint()?)).filter(|id| id.0 != 0)?,
            name: take_text(reader)?,
            peer_urls: take_texts(reader)?,
            client_urls: take_texts(reader)?,
            learner: reader.bool()?,
        })
    }
}

/// A change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// The first members of a cluster, as they were configured. Has no effect once there is a table.
    Bootstrap(Vec<Member>),
    Add(Member),
    Remove(NodeId),
    /// Puts a new member in the place of one with a vote, in one step: until it is finished, majorities of the voters
    /// before and after it are both needed.
    Replace {
        old: NodeId,
        new: Member,
    },
    /// Ends the replacement that brought this member: from here on only the voters after it count.
    FinishReplacement {
        new: NodeId,
    },
    /// Gives a learner its vote. The leader sets whether it has caught up when it orders the change.
    Promote {
        id: NodeId,
        caught_up: bool,
    },
    Update {
        id: NodeId,
        peer_urls: Vec<String>,
    },
    /// A member tells its name and where it serves clients.
    Publish {
        id: NodeId,
        name: String,
        client_urls: Vec<String>,
    },
}

impl MemberChange {
    /// Changes who votes or who is sent the log: such a change stands alone in its entry, and one at a time.
    pub fn reconfigures(&self) -> bool {
        match self {
            MemberChange::Add(_) | MemberChange::Remove(_) | MemberChange::Promote { .. } => true,
            MemberChange::Replace { .. } | MemberChange::FinishReplacement { .. } => true,
            MemberChange::Bootstrap(_) | MemberChange::Update { .. } | MemberChange::Publish { .. } => false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    list: BTreeMap<NodeId, Member>,
    removed: BTreeSet<NodeId>,
    /// An unfinished replacement. Both members are in the list: the old one still has a vote in the outgoing half.
    replacement: Option<Replacement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub old: NodeId,
    pub new: NodeId,
}

impl Members {
    /// The cluster is not bootstrapped yet: its members are those that were configured.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn get(&self, id: NodeId) -> Option<&Member> {
        self.list.get(&id)
    }

    /// Ordered by id.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.list.values()
    }

    pub fn is_removed(&self, id: NodeId) -> bool {
        self.removed.contains(&id)
    }

    pub fn removed(&self) -> &BTreeSet<NodeId> {
        &self.removed
    }

    /// The voters, or those after an unfinished replacement.
    pub fn voters(&self) -> Vec<NodeId> {
        self.voters_without(self.replacement.map(|replacement| replacement.old))
    }

    /// The voters before an unfinished replacement; empty when there is none.
    pub fn outgoing(&self) -> Vec<NodeId> {
        self.replacement.map_or(Vec::new(), |replacement| self.voters_without(Some(replacement.new)))
    }

    pub fn replacement(&self) -> Option<Replacement> {
        self.replacement
    }

    fn voters_without(&self, without: Option<NodeId>) -> Vec<NodeId> {
        let voters = self.list.values().filter(|member| !member.learner && Some(member.id) != without);
        voters.map(|member| member.id).collect()
    }

    /// Whether a removed member may stop, once these members have applied its removal durably. Members that have not
    /// applied it still count its vote and may need it: only when a majority of the voters has applied it does every
    /// majority contain such a member.
    pub fn can_release_removed(&self, gone: NodeId, know: &BTreeSet<NodeId>) -> bool {
        let voters: Vec<NodeId> = self.voters().into_iter().filter(|voter| *voter != gone).collect();
        let knowing = voters.iter().filter(|voter| know.contains(voter)).count();
        2 * knowing > voters.len() || planted(Mutant::RemovedGoesAtOnce)
    }

    pub fn learners(&self) -> Vec<NodeId> {
        self.list.values().filter(|member| member.learner).map(|member| member.id).collect()
    }

    /// Makes this member the only one, whatever a majority would say. False if it is no member.
    pub fn keep_only(&mut self, id: NodeId) -> bool {
        if !self.list.contains_key(&id) {
            return false;
        }
        self.removed.extend(self.list.keys().filter(|other| **other != id));
        self.list.retain(|other, _| *other == id);
        self.list.values_mut().for_each(|member| member.learner = false);
        self.replacement = None;
        true
    }

    pub fn change(&mut self, change: &MemberChange) -> Result<(), Code> {
        let settles = matches!(change, MemberChange::FinishReplacement { .. });
        if change.reconfigures() && !settles && self.replacement.is_some() {
            // The refusal is temporary.
            return Err(Code::UnhealthyCluster);
        }
        match change {
            MemberChange::Bootstrap(first) => {
                if self.is_empty() {
                    self.list = first.iter().map(|member| (member.id, member.clone())).collect();
                }
            }
            MemberChange::Add(member) => {
                self.check_add(member)?;
                self.list.insert(member.id, member.clone());
            }
            MemberChange::Remove(id) => {
                self.check_remove(*id)?;
                self.list.remove(id);
                self.removed.insert(*id);
            }
            MemberChange::Replace { old, new } => {
                self.check_replace(*old, new)?;
                self.list.insert(new.id, new.clone());
                self.replacement = Some(Replacement { old: *old, new: new.id });
            }
            MemberChange::FinishReplacement { new } => {
                if let Some(settled) = self.replacement.take_if(|replacement| replacement.new == *new) {
                    self.list.remove(&settled.old);
                    self.removed.insert(settled.old);
                }
            }
            MemberChange::Promote { id, caught_up } => {
                self.check_promote(*id, *caught_up)?;
                self.member(*id)?.learner = false;
            }
            MemberChange::Update { id, peer_urls } => {
                self.member(*id)?;
                self.check_urls(*id, peer_urls)?;
                self.member(*id)?.peer_urls.clone_from(peer_urls);
            }
            MemberChange::Publish { id, name, client_urls } => {
                let member = self.member(*id)?;
                member.name.clone_from(name);
                member.client_urls.clone_from(client_urls);
            }
        }
        Ok(())
    }

    fn member(&mut self, id: NodeId) -> Result<&mut Member, Code> {
        self.list.get_mut(&id).ok_or(Code::MemberNotFound)
    }

    fn check_add(&self, member: &Member) -> Result<(), Code> {
        // Before the bootstrap there is nothing to add to; the first leader ends that.
        if self.is_empty() || self.list.len() >= MEMBERS_MAX {
            return Err(Code::UnhealthyCluster);
        }
        if self.list.contains_key(&member.id) || self.is_removed(member.id) {
            return Err(Code::MemberExists);
        }
        self.check_urls(member.id, &member.peer_urls)?;
        if member.learner {
            return if self.learners().len() < LEARNERS_MAX { Ok(()) } else { Err(Code::TooManyLearners) };
        }
        // One member must be able to become two, although the second cannot have started before.
        let (voters, started) = self.count_voters(None);
        let grows_from_one = voters == 1 && started == 1;
        enough(grows_from_one || started >= quorum(voters + 1))
    }

    fn check_remove(&self, id: NodeId) -> Result<(), Code> {
        let member = self.list.get(&id).ok_or(Code::MemberNotFound)?;
        let (voters, started) = self.count_voters(Some(id));
        enough(member.learner || started >= quorum(voters))
    }

    /// The new member has not started, so both majorities must be found among the members that stay.
    fn check_replace(&self, old: NodeId, new: &Member) -> Result<(), Code> {
        let leaving = self.list.get(&old).ok_or(Code::MemberNotFound)?;
        if self.list.contains_key(&new.id) || self.is_removed(new.id) {
            return Err(Code::MemberExists);
        }
        if leaving.learner || new.learner || self.list.len() >= MEMBERS_MAX {
            return Err(Code::UnhealthyCluster);
        }
        self.check_urls(new.id, &new.peer_urls)?;
        let (others, started) = self.count_voters(Some(old));
        enough(started >= quorum(others + 1))
    }

    fn check_promote(&self, id: NodeId, caught_up: bool) -> Result<(), Code> {
        let member = self.list.get(&id).ok_or(Code::MemberNotFound)?;
        if !member.learner {
            return Err(Code::MemberNotLearner);
        }
        if !caught_up {
            return Err(Code::LearnerNotReady);
        }
        let (voters, started) = self.count_voters(None);
        enough(started + usize::from(member.has_started()) >= quorum(voters + 1))
    }

    fn check_urls(&self, id: NodeId, urls: &[String]) -> Result<(), Code> {
        let of_others = |url| self.list.values().any(|other| other.id != id && other.peer_urls.contains(url));
        if urls.iter().any(of_others) { Err(Code::PeerUrlExists) } else { Ok(()) }
    }

    /// The number of voters, and of those that have started, without one member.
    fn count_voters(&self, without: Option<NodeId>) -> (usize, usize) {
        let voters = self.list.values().filter(|member| !member.learner && Some(member.id) != without);
        voters.fold((0, 0), |(all, started), member| (all + 1, started + usize::from(member.has_started())))
    }

    /// `None` when the store has no table.
    pub fn read(view: &dyn ReadView) -> Result<Option<Members>, CorruptRow> {
        let Some(row) = view.get(Table::Meta, MEMBERS_KEY) else { return Ok(None) };
        Members::decode(row).ok_or(CorruptRow::malformed(Table::Meta, MEMBERS_KEY)).map(Some)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_varint(&mut out, self.list.len() as u64);
        self.list.values().for_each(|member| member.encode(&mut out));
        put_varint(&mut out, self.removed.len() as u64);
        self.removed.iter().for_each(|id| put_varint(&mut out, id.0));
        if let Some(Replacement { old, new }) = self.replacement {
            put_varint(&mut out, old.0);
            put_varint(&mut out, new.0);
        }
        out
    }

    pub fn decode(row: Bytes) -> Option<Members> {
        let mut reader = Reader::new(row);
        if reader.u8()? != FORMAT {
            return None;
        }
        let list: BTreeMap<_, _> =
            take_members(&mut reader)?.into_iter().map(|member| (member.id, member)).collect();
        let count = reader.count()?;
        let removed = (0..count).map(|_| reader.varint().map(NodeId)).collect::<Option<_>>()?;
        let replacement = if reader.is_empty() {
            None
        } else {
            Some(Replacement { old: NodeId(reader.varint()?), new: NodeId(reader.varint()?) })
        };
        let known = |replacement: &Replacement| {
            list.contains_key(&replacement.old) && list.contains_key(&replacement.new)
        };
        let is_valid = reader.is_empty() && replacement.as_ref().is_none_or(known);
        is_valid.then_some(Members { list, removed, replacement })
    }
}

fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

fn enough(enough: bool) -> Result<(), Code> {
    if enough { Ok(()) } else { Err(Code::NotEnoughStartedMembers) }
}

pub(crate) fn put_texts(out: &mut Vec<u8>, texts: &[String]) {
    put_varint(out, texts.len() as u64);
    texts.iter().for_each(|text| put_bytes(out, text.as_bytes()));
}

pub(crate) fn take_text(reader: &mut Reader) -> Option<String> {
    let bytes = reader.bytes().filter(|bytes| bytes.len() <= MEMBER_TEXT_BYTES_MAX)?;
    String::from_utf8(bytes.into()).ok()
}

pub(crate) fn take_texts(reader: &mut Reader) -> Option<Vec<String>> {
    let count = reader.count().filter(|count| *count <= MEMBER_URLS_MAX)?;
    (0..count).map(|_| take_text(reader)).collect()
}

pub(crate) fn take_members(reader: &mut Reader) -> Option<Vec<Member>> {
    let count = reader.count().filter(|count| *count <= MEMBERS_MAX)?;
    (0..count).map(|_| Member::decode(reader)).collect()
}

#[cfg(test)]
mod tests;
