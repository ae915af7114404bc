//! The past of one key: its lives, each from a put to a delete, with the revisions at which it changed.
//! Versions go in by rising revision; the version that was current at a revision comes out. A life's versions
//! count up by one, so one number and a list of revisions say everything about them.

use crate::entry::Version;
use base::Revision;

#[derive(Debug, Default)]
pub struct History {
    lives: Vec<Life>,
}

#[derive(Debug)]
struct Life {
    create: Revision,
    /// The version number of the first revision in the list.
    first_version: i64,
    /// When the key was put; never empty. The current version of a key is not among them.
    puts: Vec<Revision>,
    /// When the key was deleted; zero while it lives.
    end: Revision,
}

impl History {
    pub fn push(&mut self, version: Version) {
        match self.lives.last_mut() {
            Some(life) if life.end == Revision::ZERO && life.create == version.create => {
                life.puts.push(version.modified);
            }
            _ => self.lives.push(Life {
                create: version.create,
                first_version: version.version,
                puts: vec![version.modified],
                end: Revision::ZERO,
            }),
        }
    }

    pub fn end(&mut self, revision: Revision) {
        self.lives.last_mut().expect("a life is pushed before it ends").end = revision;
    }

    /// Forgets what no revision from `floor` on shows.
    pub fn compact(&mut self, floor: Revision) {
        self.lives.retain(|life| life.end == Revision::ZERO || life.end > floor);
        if let Some(life) = self.lives.first_mut() {
            let hidden = life.puts.partition_point(|put| *put <= floor).saturating_sub(1);
            life.puts.drain(..hidden);
            life.first_version += hidden as i64;
        }
    }

    /// The last life has not ended.
    pub fn is_open(&self) -> bool {
        self.lives.last().is_some_and(|life| life.end == Revision::ZERO)
    }

    /// The newest version in the past.
    pub fn last(&self) -> Option<Version> {
        self.lives.last().map(|life| life.version(life.puts.len() - 1))
    }

    pub fn at(&self, revision: Revision) -> Option<Version> {
        let begun = self.lives.partition_point(|life| life.puts[0] <= revision);
        let life = &self.lives[begun.checked_sub(1)?];
        if life.end != Revision::ZERO && life.end <= revision {
            return None;
        }
        Some(life.version(life.puts.partition_point(|put| *put <= revision) - 1))
    }
}

impl Life {
    fn version(&self, nth: usize) -> Version {
        Version { create: self.create, modified: self.puts[nth], version: self.first_version + nth as i64 }
    }
}
