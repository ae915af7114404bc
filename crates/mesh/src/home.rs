//! The home of a key: the region that owns it, with an epoch, agreed on elsewhere under a lease.
//! The epoch is the fencing token of every write of the owner. A write of an owner of an earlier epoch is refused wherever
//! the later epoch is known, and loses everywhere else, whatever the clocks say.

use crate::actor::RegionId;
use crate::record::Fence;
use base::Code;
use base::codec::{Reader, put_varint};
use bytes::Bytes;

const VERSION: u8 = 1;
pub const LOCK: &[u8] = b"home";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    pub region: RegionId,
    /// Counts owners; the first is one.
    pub epoch: u64,
}

impl Home {
    pub fn first(region: RegionId) -> Home {
        Home { region, epoch: 1 }
    }

    /// Handed over, or taken after the owner's lease has ended.
    pub fn transfer_to(&self, region: RegionId) -> Result<Home, Code> {
        Ok(Home { region, epoch: self.epoch.checked_add(1).ok_or(Code::NumberTooLarge)? })
    }

    /// What a write in this region must carry; a region that is not the owner may not write.
    pub fn fence_for(&self, here: RegionId) -> Result<Fence, Code> {
        if self.region == here {
            Ok(Fence { lock: Bytes::from_static(LOCK), token: self.epoch })
        } else {
            Err(Code::NotHome)
        }
    }

    pub fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, u64::from(self.region.0));
        put_varint(&mut out, self.epoch);
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Home> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let region = RegionId(u32::try_from(reader.varint()?).ok()?);
        let epoch = reader.varint().filter(|epoch| *epoch > 0)?;
        reader.is_empty().then_some(Home { region, epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::{Actor, Dot};
    use crate::hlc::Stamp;
    use crate::merge::merge;
    use crate::op::{self, Attributes, Op, WriteEvent};
    use crate::record::{Kind, Record};
    use base::NodeId;

    fn put(local: Option<&Record>, fence: Fence, region: u32, ms: u64) -> Result<Record, Code> {
        let actor = Actor { region: RegionId(region), node: NodeId(u64::from(region)), incarnation: 0 };
        let event = WriteEvent { dot: Dot { actor, counter: ms }, stamp: Stamp::at_ms(ms), wall_ms: ms };
        let attributes = Attributes { fence: Some(fence), ..Attributes::default() };
        let op = Op::Put(Bytes::from(region.to_string()));
        op::apply(local, Kind::Register, &op, &attributes, event).map(|written| written.full)
    }

    #[test]
    fn an_owner_of_an_earlier_epoch_loses_whatever_the_clocks_say() {
        let (old, eu, us) = (Home::first(RegionId(1)), RegionId(1), RegionId(2));
        let new = old.transfer_to(us).unwrap();
        assert_eq!((new.fence_for(eu), new.epoch), (Err(Code::NotHome), 2));
        let late = put(None, old.fence_for(eu).unwrap(), 1, 9_000).unwrap();
        let ours = put(None, new.fence_for(us).unwrap(), 2, 10).unwrap();
        assert_eq!(merge(&late, &ours).record.body, ours.body);
        assert_eq!(merge(&late, &ours).loser, Some(late), "and is not lost in silence");
        assert_eq!(put(Some(&ours), old.fence_for(eu).unwrap(), 1, 9_000), Err(Code::FencePassed));
        assert!(put(Some(&ours), new.fence_for(us).unwrap(), 2, 11).is_ok());
    }

    #[test]
    fn ownership_survives_a_round_trip() {
        let home = Home::first(RegionId(7)).transfer_to(RegionId(9)).unwrap();
        let bytes = home.encode();
        assert_eq!(Home::decode(bytes.clone()), Some(home));
        (0..bytes.len()).for_each(|cut| assert_eq!(Home::decode(bytes.slice(..cut)), None));
    }
}
