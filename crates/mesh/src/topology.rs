//! The topology as a value: the nodes, the phase of each partition in a move, and the copies of each namespace.
//! It is changed in one place (a document of coord) and handed to every node; its epoch only grows. The preference lists
//! follow from it, so nodes with the same epoch have the same lists.
//!
//! A move takes every partition through three phases. *Pending*: reads ask the old list, writes need a quorum of both.
//! *Switched*: reads ask the new list, writes still need both. *Moved*: the old list is forgotten. `moves.rs` decides when a
//! partition may take the next step.

use crate::actor::RegionId;
use crate::placement::{COPIES_MAX, Placement, PreferenceLists, RingNode};
use crate::ring::{PARTITIONS, Partition, Partitions};
use base::codec::{Reader, put_bytes, put_varint};
use base::{Code, NodeId};
use bytes::Bytes;

/// Counts topologies; the index at which one was agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// In the new lists only.
    Joining,
    Serving,
    /// In the old lists only.
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub node: NodeId,
    pub zone: u32,
    /// Points on the ring.
    pub points: u32,
    pub state: MemberState,
    /// Away for so long that the others no longer keep for it what they have deleted: it takes part again when
    /// it has caught up.
    pub stale: bool,
}

/// A namespace, by its number; its name and other policies are not the mesh's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceCopies {
    pub id: u32,
    /// How many replicas its records have; never changed.
    pub copies: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub epoch: Epoch,
    pub region: RegionId,
    /// The epoch at which the last move began.
    pub began: Epoch,
    /// By node id.
    members: Vec<Member>,
    /// By number.
    namespace_copies: Vec<NamespaceCopies>,
    switched: Partitions,
    moved: Partitions,
}

/// Where a partition stands in a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovePhase {
    Still,
    Pending,
    Switched,
    Moved,
}

const VERSION: u8 = 1;
pub const MEMBERS_MAX: usize = 1_024;
const NAMESPACES_MAX: usize = 65_536;

impl Topology {
    pub fn new(
        epoch: Epoch,
        region: RegionId,
        mut members: Vec<Member>,
        mut namespace_copies: Vec<NamespaceCopies>,
    ) -> Topology {
        members.sort_by_key(|member| member.node);
        namespace_copies.sort_by_key(|namespace| namespace.id);
        let (switched, moved) = (Partitions::NONE, Partitions::NONE);
        Topology { epoch, region, began: epoch, members, namespace_copies, switched, moved }
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn member(&self, node: NodeId) -> Option<&Member> {
        let at = self.members.binary_search_by_key(&node, |member| member.node).ok()?;
        self.members.get(at)
    }

    pub fn namespace_copies(&self) -> &[NamespaceCopies] {
        &self.namespace_copies
    }

    /// How many replicas a namespace has, bounded by the nodes there are.
    pub fn copies(&self, namespace: u32) -> Option<u8> {
        let at = self.namespace_copies.binary_search_by_key(&namespace, |namespace| namespace.id).ok()?;
        Some(self.namespace_copies[at].copies)
    }

    /// The numbers of replicas in use, each once.
    pub fn copies_in_use(&self) -> Vec<u8> {
        let mut all: Vec<u8> = self.namespace_copies.iter().map(|namespace| namespace.copies).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub fn is_moving(&self) -> bool {
        self.members.iter().any(|member| member.state != MemberState::Serving)
    }

    pub fn phase(&self, partition: Partition) -> MovePhase {
        if !self.is_moving() {
            MovePhase::Still
        } else if self.moved.contains(partition) {
            MovePhase::Moved
        } else if self.switched.contains(partition) {
            MovePhase::Switched
        } else {
            MovePhase::Pending
        }
    }

    pub fn placement(&self) -> Placement {
        let build = |without: MemberState| {
            let nodes = self.members.iter().filter(|member| member.state != without);
            let node =
                |member: &Member| RingNode { node: member.node, zone: member.zone, points: member.points };
            PreferenceLists::build(&nodes.map(node).collect::<Vec<_>>())
        };
        let now = build(MemberState::Joining);
        let next = if self.is_moving() { build(MemberState::Leaving) } else { now.clone() };
        Placement { now, next }
    }

    /// Begins a move: some come, some go. One move at a time.
    pub fn begin(&self, epoch: Epoch, joining: &[Member], leaving: &[NodeId]) -> Result<Topology, Code> {
        let known = |node: NodeId| self.member(node).is_some();
        let lawful =
            joining.iter().all(|member| !known(member.node)) && leaving.iter().all(|node| known(*node));
        let left = self.members.len() + joining.len() - leaving.len().min(self.members.len());
        if self.is_moving() || epoch <= self.epoch || !lawful || left == 0 {
            return Err(Code::TopologyBusy);
        }
        let mut members = self.members.clone();
        for member in &mut members {
            if leaving.contains(&member.node) {
                member.state = MemberState::Leaving;
            }
        }
        members.extend(joining.iter().map(|member| Member { state: MemberState::Joining, ..*member }));
        Ok(Topology::new(epoch, self.region, members, self.namespace_copies.clone()))
    }

    /// Takes partitions one phase further, and ends the move when the last one is through.
    pub fn advance(&self, epoch: Epoch, switch: &Partitions, settle: &Partitions) -> Topology {
        assert!(epoch > self.epoch, "epochs only grow");
        let mut next = Topology { epoch, ..self.clone() };
        for partition in Partition::all() {
            match self.phase(partition) {
                MovePhase::Pending if switch.contains(partition) => next.switched.insert(partition),
                MovePhase::Switched if settle.contains(partition) => next.moved.insert(partition),
                _ => {}
            }
        }
        if next.moved.len() == PARTITIONS { next.finish() } else { next }
    }

    fn finish(mut self) -> Topology {
        self.members.retain(|member| member.state != MemberState::Leaving);
        self.members.iter_mut().for_each(|member| member.state = MemberState::Serving);
        (self.switched, self.moved) = (Partitions::NONE, Partitions::NONE);
        self
    }

    /// A node that was away for too long, or one that has caught up again.
    pub fn mark(&self, epoch: Epoch, node: NodeId, stale: bool) -> Topology {
        assert!(epoch > self.epoch, "epochs only grow");
        let mut next = Topology { epoch, ..self.clone() };
        for member in next.members.iter_mut().filter(|member| member.node == node) {
            member.stale = stale;
        }
        next
    }

    /// The same under a later epoch.
    pub fn renewed(&self, epoch: Epoch) -> Topology {
        assert!(epoch > self.epoch, "epochs only grow");
        Topology { epoch, ..self.clone() }
    }

    pub fn add_namespace(&self, epoch: Epoch, namespace: NamespaceCopies) -> Result<Topology, Code> {
        let lawful = (1..=COPIES_MAX).contains(&usize::from(namespace.copies));
        if !lawful || self.copies(namespace.id).is_some() || self.namespace_copies.len() >= NAMESPACES_MAX {
            return Err(Code::BadQuorum);
        }
        let mut next = Topology { epoch, ..self.clone() };
        let at = next.namespace_copies.partition_point(|other| other.id < namespace.id);
        next.namespace_copies.insert(at, namespace);
        Ok(next)
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.epoch.0);
        put_varint(&mut out, u64::from(self.region.0));
        put_varint(&mut out, self.began.0);
        put_varint(&mut out, self.members.len() as u64);
        for member in &self.members {
            put_varint(&mut out, member.node.0);
            put_varint(&mut out, u64::from(member.zone));
            put_varint(&mut out, u64::from(member.points));
            out.push(member.state as u8 | u8::from(member.stale) << 7);
        }
        put_varint(&mut out, self.namespace_copies.len() as u64);
        for namespace in &self.namespace_copies {
            put_varint(&mut out, u64::from(namespace.id));
            out.push(namespace.copies);
        }
        for set in [&self.switched, &self.moved] {
            let words: Vec<u8> = set.words().iter().flat_map(|word| word.to_le_bytes()).collect();
            put_bytes(&mut out, &words);
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Topology> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let epoch = Epoch(reader.varint()?);
        let region = RegionId(u32::try_from(reader.varint()?).ok()?);
        let began = Epoch(reader.varint()?);
        let count = Some(reader.count()?).filter(|count| *count <= MEMBERS_MAX)?;
        let members = (0..count).map(|_| decode_member(&mut reader)).collect::<Option<Vec<_>>>()?;
        let count = Some(reader.count()?).filter(|count| *count <= NAMESPACES_MAX)?;
        let namespace_copies =
            (0..count).map(|_| decode_namespace_copies(&mut reader)).collect::<Option<Vec<_>>>()?;
        let (switched, moved) = (decode_set(&mut reader)?, decode_set(&mut reader)?);
        let topology = Topology { epoch, region, began, members, namespace_copies, switched, moved };
        (reader.is_empty() && topology.is_ordered()).then_some(topology)
    }

    fn is_ordered(&self) -> bool {
        self.members.is_sorted_by(|left, right| left.node < right.node)
            && self.namespace_copies.is_sorted_by(|left, right| left.id < right.id)
    }
}

fn decode_member(reader: &mut Reader) -> Option<Member> {
    let node = NodeId(reader.varint()?);
    let zone = u32::try_from(reader.varint()?).ok()?;
    let points = u32::try_from(reader.varint()?).ok().filter(|points| *points <= 1_024)?;
    let flags = reader.u8()?;
    let state = match flags & 0x7f {
        0 => MemberState::Joining,
        1 => MemberState::Serving,
        2 => MemberState::Leaving,
        _ => return None,
    };
    Some(Member { node, zone, points, state, stale: flags & 0x80 != 0 })
}

fn decode_namespace_copies(reader: &mut Reader) -> Option<NamespaceCopies> {
    let id = u32::try_from(reader.varint()?).ok()?;
    let copies = reader.u8().filter(|copies| (1..=COPIES_MAX).contains(&usize::from(*copies)))?;
    Some(NamespaceCopies { id, copies })
}

fn decode_set(reader: &mut Reader) -> Option<Partitions> {
    let mut bytes = Reader::new(reader.bytes()?);
    let mut words = [0; PARTITIONS / 64];
    for word in &mut words {
        *word = bytes.u64()?;
    }
    bytes.is_empty().then(|| Partitions::from_words(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn member(node: u64) -> Member {
        Member {
            node: NodeId(node),
            zone: node as u32,
            points: 64,
            state: MemberState::Serving,
            stale: false,
        }
    }

    fn topology(nodes: &[u64]) -> Topology {
        let members = nodes.iter().map(|node| member(*node)).collect();
        Topology::new(Epoch(1), RegionId::of("eu"), members, vec![NamespaceCopies { id: 0, copies: 3 }])
    }

    #[test]
    fn topologies_survive_a_round_trip_and_cut_bytes_are_refused() {
        let moving = topology(&[3, 1, 2]).begin(Epoch(7), &[member(9)], &[NodeId(2)]).unwrap();
        let mut some = Partitions::default();
        some.insert(Partition(77));
        let moving = moving.advance(Epoch(8), &some, &Partitions::NONE).mark(Epoch(9), NodeId(1), true);
        let bytes = moving.encode();
        assert_eq!(Topology::decode(bytes.clone()), Some(moving));
        for cut in 0..bytes.len() {
            assert_eq!(Topology::decode(bytes.slice(..cut)), None);
        }
    }

    #[test]
    fn one_move_at_a_time_and_only_of_nodes_that_make_sense() {
        let three = topology(&[1, 2, 3]);
        assert!(three.begin(Epoch(2), &[member(1)], &[]).is_err(), "is there already");
        assert!(three.begin(Epoch(2), &[], &[NodeId(8)]).is_err(), "is not there");
        assert!(
            three.begin(Epoch(2), &[], &[NodeId(1), NodeId(2), NodeId(3)]).is_err(),
            "no node would be left"
        );
        let moving = three.begin(Epoch(2), &[member(4)], &[]).unwrap();
        assert!(moving.begin(Epoch(3), &[member(5)], &[]).is_err(), "one is under way");
    }

    #[test]
    fn a_partition_goes_through_its_phases_and_the_last_one_ends_the_move() {
        let mut topology = topology(&[1, 2, 3]).begin(Epoch(2), &[member(4)], &[NodeId(1)]).unwrap();
        assert_eq!(topology.phase(Partition(5)), MovePhase::Pending);
        let all = Partitions::from_words([u64::MAX; 4]);
        topology = topology.advance(Epoch(3), &all, &all);
        assert_eq!(topology.phase(Partition(5)), MovePhase::Switched, "one phase at a time");
        topology = topology.advance(Epoch(4), &Partitions::NONE, &all);
        assert_eq!(topology.phase(Partition(5)), MovePhase::Still);
        let nodes: Vec<u64> = topology.members().iter().map(|member| member.node.0).collect();
        assert_eq!(nodes, [2, 3, 4]);
        assert!(topology.members().iter().all(|member| member.state == MemberState::Serving));
    }
}
