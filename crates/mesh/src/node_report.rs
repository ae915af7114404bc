//! The report of a node to the controller: its incarnation, the epoch that it follows, and its progress in a move. A report
//! is complete and sent periodically, so only the newest counts and no receiver needs an earlier one.

use crate::moves::{MoveProgress, MoveReport};
use crate::ring::{PARTITIONS, Partition, Partitions};
use crate::topology::{Epoch, Topology};
use base::NodeId;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;
use std::collections::BTreeMap;

const VERSION: u8 = 2;
const COPIES_KINDS_MAX: usize = 16;
const ADDRESS_BYTES_MAX: usize = 1_024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    pub incarnation: u32,
    pub zone: u32,
    /// Points on the ring that it wants.
    pub points: u32,
    /// Where it is reached, if it is no member of coord.
    pub address: String,
    /// Where nodes of other regions reach it.
    pub region_address: String,
    /// Durably at this epoch.
    pub at: Epoch,
    /// The move that it has filled partitions for.
    pub began: Epoch,
    /// By number of copies.
    pub filled: BTreeMap<u8, Partitions>,
    /// The epoch at which the node had caught up again; zero if it never had to.
    pub caught_up: Epoch,
}

impl NodeReport {
    /// Adds what the machine of this node has reported under its present topology.
    pub fn add(&mut self, report: MoveReport, topology: &Topology) {
        if self.began != topology.began {
            self.began = topology.began;
            self.filled.clear();
        }
        match report {
            MoveReport::At(epoch) => self.at = self.at.max(epoch),
            MoveReport::Filled { partition, copies } => {
                self.filled.entry(copies).or_default().insert(partition)
            }
            MoveReport::CaughtUp => self.caught_up = topology.epoch,
        }
    }

    /// Adds to what is known of a move what this node has to say about it.
    pub fn record_progress(&self, from: NodeId, topology: &Topology, progress: &mut MoveProgress) {
        progress.report(from, MoveReport::At(self.at));
        if self.began == topology.began {
            for (copies, partitions) in &self.filled {
                for partition in Partition::all().filter(|partition| partitions.contains(*partition)) {
                    progress.report(from, MoveReport::Filled { partition, copies: *copies });
                }
            }
        }
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        for number in [u64::from(self.incarnation), u64::from(self.zone), u64::from(self.points)] {
            put_varint(&mut out, number);
        }
        put_bytes(&mut out, self.address.as_bytes());
        put_bytes(&mut out, self.region_address.as_bytes());
        for epoch in [self.at, self.began, self.caught_up] {
            put_varint(&mut out, epoch.0);
        }
        put_varint(&mut out, self.filled.len() as u64);
        for (copies, partitions) in &self.filled {
            out.push(*copies);
            partitions.words().iter().for_each(|word| out.extend(word.to_le_bytes()));
        }
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<NodeReport> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let mut small = || u32::try_from(reader.varint()?).ok();
        let (incarnation, zone, points) = (small()?, small()?, small()?);
        let (address, region_address) = (decode_address(&mut reader)?, decode_address(&mut reader)?);
        let mut epoch = || reader.varint().map(Epoch);
        let (at, began, caught_up) = (epoch()?, epoch()?, epoch()?);
        let count = reader.count().filter(|count| *count <= COPIES_KINDS_MAX)?;
        let filled = (0..count).map(|_| decode_filled(&mut reader)).collect::<Option<_>>()?;
        let report =
            NodeReport { incarnation, zone, points, address, region_address, at, began, filled, caught_up };
        reader.is_empty().then_some(report)
    }
}

fn decode_address(reader: &mut Reader) -> Option<String> {
    let address = reader.bytes().filter(|address| address.len() <= ADDRESS_BYTES_MAX)?;
    String::from_utf8(address.into()).ok()
}

fn decode_filled(reader: &mut Reader) -> Option<(u8, Partitions)> {
    let copies = reader.u8()?;
    let mut words = [0; PARTITIONS / 64];
    for word in &mut words {
        *word = reader.u64()?;
    }
    Some((copies, Partitions::from_words(words)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::RegionId;

    fn topology(epoch: u64) -> Topology {
        Topology::new(Epoch(epoch), RegionId(0), Vec::new(), Vec::new())
    }

    #[test]
    fn node_reports_survive_a_round_trip_and_cut_bytes_are_refused() {
        let mut report = NodeReport { incarnation: 5, zone: 6, points: 64, ..NodeReport::default() };
        (report.address, report.region_address) = ("host:1".to_owned(), "public:1".to_owned());
        report.add(MoveReport::At(Epoch(3)), &topology(3));
        report.add(MoveReport::Filled { partition: Partition(200), copies: 3 }, &topology(3));
        report.add(MoveReport::CaughtUp, &topology(3));
        let bytes = report.encode();
        assert_eq!(NodeReport::decode(bytes.clone()), Some(report));
        assert!((0..bytes.len()).all(|cut| NodeReport::decode(bytes.slice(..cut)).is_none()));
    }

    #[test]
    fn what_was_filled_for_an_earlier_move_is_forgotten() {
        let mut report = NodeReport::default();
        report.add(MoveReport::Filled { partition: Partition(1), copies: 3 }, &topology(3));
        report.add(MoveReport::At(Epoch(4)), &topology(4));
        assert!(report.filled.is_empty());
        assert_eq!(report.at, Epoch(4));
    }
}
