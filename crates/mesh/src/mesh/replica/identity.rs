//! The identity row of a node: its incarnation, how far its dots are reserved, and up to which stamp it has vouched. The row
//! is durable before any of it is used. A row of another incarnation is ignored.

use crate::hlc::Stamp;
use crate::mesh::{Mesh, Then, Turn};
use crate::mutant::Mutant;
use crate::rows;
use base::codec::{Reader, put_varint};
use base::mutant::planted;
use bytes::Bytes;

const VERSION: u8 = 1;

pub(in crate::mesh) struct Identity {
    pub incarnation: u32,
    pub dots: u64,
    pub floor: Stamp,
}

impl Identity {
    fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        put_varint(&mut out, u64::from(self.incarnation));
        put_varint(&mut out, self.dots);
        put_varint(&mut out, self.floor.0);
        out.into()
    }

    pub fn decode(bytes: Bytes) -> Option<Identity> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return None;
        }
        let incarnation = u32::try_from(reader.varint()?).ok()?;
        Some(Identity { incarnation, dots: reader.varint()?, floor: Stamp(reader.varint()?) })
    }
}

impl Mesh {
    /// Dots and the floor of the clock, durable before they are used.
    pub(in crate::mesh) fn reserve_dots(&mut self, t: &mut Turn<'_>) {
        let Some(dots) = self.replica.dots.next_bound() else { return };
        self.write_identity(t, dots);
        if planted(Mutant::IdentityNotDurable) {
            self.replica.dots.reserved(dots);
        }
    }

    pub(in crate::mesh) fn write_identity(&mut self, t: &mut Turn<'_>, dots: u64) {
        let floor = self.replica.clock.tick(t.now.wall_ms);
        self.replica.promised = floor;
        let identity = Identity { incarnation: self.params.actor.incarnation, dots, floor };
        self.replica.storage.put_row(Bytes::from_static(rows::IDENTITY), Some(identity.encode()));
        let seq = self.replica.storage.next_seq();
        self.after(t, seq, Then::Identity { dots, floor });
    }
}
