//! What the leader and the other members say to each other about compactions, and its bytes.
//! A word is part of one round, which its epoch names; words of a round that is over mean nothing to anybody.

use base::codec::{Reader, put_signed, put_varint};
use base::{Revision, Term};

/// A round of one leader. Later rounds are greater, whoever leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch {
    pub term: Term,
    pub nth: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub epoch: Epoch,
    pub said: Said,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// From which revision on does the member still need everything?
    Ask,
    Need(Revision),
    /// A compaction to this revision is about to be proposed: nothing that it would end may begin.
    Notice(Revision),
    /// Nothing at the member would be ended by it, nor will be.
    Agreed,
    /// Something would be.
    Refused,
}

const ASK: u8 = 0;
const NEED: u8 = 1;
const NOTICE: u8 = 2;
const AGREED: u8 = 3;
const REFUSED: u8 = 4;

impl Word {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.epoch.term.0);
        put_varint(out, self.epoch.nth);
        let (kind, revision) = match self.said {
            Said::Ask => (ASK, None),
            Said::Need(revision) => (NEED, Some(revision)),
            Said::Notice(revision) => (NOTICE, Some(revision)),
            Said::Agreed => (AGREED, None),
            Said::Refused => (REFUSED, None),
        };
        out.push(kind);
        if let Some(revision) = revision {
            put_signed(out, revision.0);
        }
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<Word> {
        let epoch = Epoch { term: Term(reader.varint()?), nth: reader.varint()? };
        let said = match reader.u8()? {
            ASK => Said::Ask,
            NEED => Said::Need(Revision(reader.signed()?)),
            NOTICE => Said::Notice(Revision(reader.signed()?)),
            AGREED => Said::Agreed,
            REFUSED => Said::Refused,
            _ => return None,
        };
        Some(Word { epoch, said })
    }
}
