//! Ids that members compute from names alone, so that every member of a static cluster arrives at the same ones, and
//! the counting of starts that makes proposal ids unique for ever.

use crate::mutant::Mutant;
use base::checksum::hash64;
use base::mutant::planted;
use base::rng::mix;
use base::{Boot, ClusterId, LeaseId, NodeId};
use coord::Members;
use raft::Config;

const MEMBER_SEED: u64 = 0x6d65_6d62_6572;
const CLUSTER_SEED: u64 = 0x0063_6c75_7374_6572;
const LEADER_ORIGIN: u64 = 0x6c65_7373_6f72;
const CONFIG_CHANGE_ORIGIN: u64 = 0x6368_616e_6765;
const LEASE_SEED: u64 = 0x006c_6561_7365;
const CALL_SEED: u64 = 0x6361_6c6c;

/// The id of the member of this name in the cluster of this token. Addresses may change; names may not.
pub fn member_id(token: &str, name: &str) -> NodeId {
    let text = format!("{token}\0{name}");
    NodeId(hash64(text.as_bytes(), MEMBER_SEED).max(1))
}

/// The id of a cluster, from its token and its first members.
pub fn cluster_id(token: &str, members: &[NodeId]) -> ClusterId {
    let mut ids: Vec<u64> = members.iter().map(|id| id.0).collect();
    ids.sort_unstable();
    let mut bytes = token.as_bytes().to_vec();
    ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
    ClusterId(hash64(&bytes, CLUSTER_SEED).max(1))
}

/// The origin of proposals that a leader makes itself. No caller waits for their replies.
pub fn leader_origin(member: NodeId) -> NodeId {
    NodeId(member.0 ^ LEADER_ORIGIN)
}

/// The same for changes of the configuration, which are queued and would otherwise be taken for duplicates.
pub fn config_change_origin(member: NodeId) -> NodeId {
    NodeId(member.0 ^ CONFIG_CHANGE_ORIGIN)
}

/// The number of the start that follows `last`, or `first` on an empty disk. It must be durable before the first proposal
/// carries it.
pub fn next_boot(last: Boot, first: Boot) -> Boot {
    if last.0 == 0 && !planted(Mutant::StartsCountedFromOne) {
        return first;
    }
    if planted(Mutant::BootReused) && last.0 > 0 {
        return last;
    }
    Boot(last.0 + 1)
}

/// The id of the `nth` member that a member adds in one boot. No member had it before.
pub fn added_id(member: NodeId, boot: Boot, nth: u64) -> NodeId {
    NodeId(mix(MEMBER_SEED ^ mix(member.0 ^ mix(boot.0 ^ mix(nth)))).max(1))
}

/// The raft configuration of a table of members.
pub fn config_of(members: &Members) -> Config {
    Config { voters: members.voters(), learners: members.learners(), outgoing: members.outgoing() }
}

/// The `nth` lease id that a member chooses in one boot, for clients that choose none.
pub fn lease_id(member: NodeId, boot: Boot, nth: u64) -> LeaseId {
    let id = mix(LEASE_SEED ^ mix(member.0 ^ mix(boot.0 ^ mix(nth)))) as i64 & i64::MAX;
    LeaseId(id.max(1))
}

/// The number of the `nth` lock call that a member runs in one boot.
pub fn call_id(member: NodeId, boot: Boot, nth: u64) -> u64 {
    mix(CALL_SEED ^ mix(member.0 ^ mix(boot.0 ^ mix(nth))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_depend_on_names_and_not_on_their_order() {
        let a = member_id("t", "a");
        let b = member_id("t", "b");
        assert_ne!(a, b);
        assert_ne!(a, member_id("u", "a"));
        assert_eq!(cluster_id("t", &[a, b]), cluster_id("t", &[b, a]));
        assert_ne!(cluster_id("t", &[a, b]), cluster_id("t", &[a]));
    }
}
