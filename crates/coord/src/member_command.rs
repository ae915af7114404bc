//! The bytes of changes to the table of members, inside a command. Each kind of command has a number; those that
//! change who votes share one, so that the leader can recognise them by the first bytes alone.

use crate::members::{Member, MemberChange, put_texts, take_members, take_text, take_texts};
use base::NodeId;
use base::codec::{Reader, put_bytes, put_varint};

pub(crate) const BOOTSTRAP: u8 = 20;
pub(crate) const RECONFIGURE: u8 = 21;
pub(crate) const UPDATE: u8 = 22;
pub(crate) const PUBLISH: u8 = 23;

const ADD: u8 = 1;
const REMOVE: u8 = 2;
const PROMOTE: u8 = 3;
const REPLACE: u8 = 4;
const FINISH_REPLACEMENT: u8 = 5;

impl MemberChange {
    /// With the number of its kind.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            MemberChange::Bootstrap(members) => {
                out.push(BOOTSTRAP);
                put_varint(out, members.len() as u64);
                members.iter().for_each(|member| member.encode(out));
            }
            MemberChange::Add(member) => {
                out.extend([RECONFIGURE, ADD]);
                member.encode(out);
            }
            MemberChange::Remove(id) => {
                out.extend([RECONFIGURE, REMOVE]);
                put_varint(out, id.0);
            }
            MemberChange::Replace { old, new } => {
                out.extend([RECONFIGURE, REPLACE]);
                put_varint(out, old.0);
                new.encode(out);
            }
            MemberChange::FinishReplacement { new } => {
                out.extend([RECONFIGURE, FINISH_REPLACEMENT]);
                put_varint(out, new.0);
            }
            MemberChange::Promote { id, caught_up } => {
                out.extend([RECONFIGURE, PROMOTE]);
                put_varint(out, id.0);
                out.push(u8::from(*caught_up));
            }
            MemberChange::Update { id, peer_urls } => {
                out.push(UPDATE);
                put_varint(out, id.0);
                put_texts(out, peer_urls);
            }
            MemberChange::Publish { id, name, client_urls } => {
                out.push(PUBLISH);
                put_varint(out, id.0);
                put_bytes(out, name.as_bytes());
                put_texts(out, client_urls);
            }
        }
    }

    pub(crate) fn decode(kind: u8, reader: &mut Reader) -> Option<MemberChange> {
        Some(match kind {
            BOOTSTRAP => MemberChange::Bootstrap(take_members(reader)?),
            RECONFIGURE => match reader.u8()? {
                ADD => MemberChange::Add(Member::decode(reader)?),
                REMOVE => MemberChange::Remove(NodeId(reader.varint()?)),
                REPLACE => {
                    MemberChange::Replace { old: NodeId(reader.varint()?), new: Member::decode(reader)? }
                }
                FINISH_REPLACEMENT => MemberChange::FinishReplacement { new: NodeId(reader.varint()?) },
                PROMOTE => MemberChange::Promote { id: NodeId(reader.varint()?), caught_up: reader.bool()? },
                _ => return None,
            },
            UPDATE => MemberChange::Update { id: NodeId(reader.varint()?), peer_urls: take_texts(reader)? },
            PUBLISH => MemberChange::Publish {
                id: NodeId(reader.varint()?),
                name: take_text(reader)?,
                client_urls: take_texts(reader)?,
            },
            _ => return None,
        })
    }
}
