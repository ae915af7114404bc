//! The message of a region's leader to the other regions: what its region holds to be true of homes, and the last message it
//! received from each region. A stamp is of the sender's own clock; the others return it unchanged, and the sender then knows
//! how long ago its message was received. It also names the electorate that the sender has added last.

use crate::actor::RegionId;
use crate::homes::Homes;
use crate::watermarks::REGIONS_MAX;
use base::NodeId;
use base::codec::{Reader, put_bytes, put_varint};
use bytes::Bytes;
use std::collections::BTreeMap;

const VERSION: u8 = 1;
/// Under this number, which no region has, the electorate travels among the echoes: nodes of 0.1.0 pass over it.
const ELECTORATE: RegionId = RegionId(0);

/// A process: its stamps are of one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessId {
    pub node: NodeId,
    pub start: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeMessage {
    pub process: ProcessId,
    pub at: u64,
    /// By region: who was heard there last, and its stamp.
    pub echoes: BTreeMap<RegionId, (ProcessId, u64)>,
    pub homes: Homes,
    /// The newest electorate that the sender goes by (`crate::electorates`). None from nodes of 0.1.0.
    pub electorate: Option<u64>,
}

impl HomeMessage {
    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        let ProcessId { node, start } = self.process;
        let electorate = |id| (ELECTORATE, (ProcessId { node: NodeId(id), start: 0 }, 0));
        let mut echoes = self.echoes.clone();
        echoes.extend(self.electorate.map(electorate));
        [node.0, start, self.at, echoes.len() as u64].into_iter().for_each(|n| put_varint(&mut out, n));
        for (region, (process, at)) in &echoes {
            let numbers = [u64::from(region.0), process.node.0, process.start, *at];
            numbers.into_iter().for_each(|n| put_varint(&mut out, n));
        }
        put_bytes(&mut out, &self.homes.encode());
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<HomeMessage> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let process = decode_name(&mut reader)?;
        let at = reader.varint()?;
        let count = reader.count().filter(|count| *count <= REGIONS_MAX + 1)?;
        let echo = |reader: &mut Reader| {
            let region = RegionId(u32::try_from(reader.varint()?).ok()?);
            Some((region, (decode_name(reader)?, reader.varint()?)))
        };
        let mut echoes = (0..count).map(|_| echo(&mut reader)).collect::<Option<BTreeMap<_, _>>>()?;
        let electorate = echoes.remove(&ELECTORATE).map(|(process, _)| process.node.0);
        let homes = Homes::decode(reader.bytes()?)?;
        reader.is_empty().then_some(HomeMessage { process, at, echoes, homes, electorate })
    }
}

fn decode_name(reader: &mut Reader) -> Option<ProcessId> {
    Some(ProcessId { node: NodeId(reader.varint()?), start: reader.varint()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::homes::{HomeScope, HomeTransfer};

    #[test]
    fn home_messages_survive_a_round_trip_and_cut_ones_are_refused() {
        let mut homes = Homes::default();
        let transfer = HomeTransfer { to: RegionId(3), epoch: None, lease_ms: Some(5_000) };
        homes.transfer(&HomeScope::new("shop", "eu/"), transfer).unwrap();
        let process = ProcessId { node: NodeId(9), start: 4 };
        let echoes = BTreeMap::from([(RegionId(3), (process, 12))]);
        let message = HomeMessage { process, at: 77, echoes, homes, electorate: Some(u64::MAX) };
        let old = HomeMessage { electorate: None, ..message.clone() };
        assert_eq!(HomeMessage::decode(old.encode()), Some(old));
        let bytes = message.encode();
        assert_eq!(HomeMessage::decode(bytes.clone()), Some(message));
        (0..bytes.len()).for_each(|cut| assert_eq!(HomeMessage::decode(bytes.slice(..cut)), None));
    }
}
