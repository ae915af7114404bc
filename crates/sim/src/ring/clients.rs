//! Clients of the mesh's world and their judge. Every key has one writer, who numbers what it writes; everybody reads.
//! A read shows what was acknowledged or shown last, or something later, or a write of unknown fate, which may take
//! effect whenever it likes; a delete that was acknowledged does not let anything older through.

use base::Rng;
use mesh::key::Key;
use mesh::record::{Body, Kind, Record};
use mesh::request::{Reply, Request, Write};
use mesh::{Attributes, Dot, Op};
use std::collections::{BTreeMap, BTreeSet};

pub const CLIENTS: usize = 6;
const KEYS_EACH: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    UnderWay,
    Acknowledged,
    Unknown,
}

/// Everything that was ever written to one key.
#[derive(Debug, Default)]
struct Story {
    /// By number, from one: whether it deletes, and what became of it.
    writes: Vec<(bool, Fate)>,
    /// What was acknowledged or shown last.
    floor: usize,
}

#[derive(Debug)]
pub struct Operation {
    key: String,
    /// The number of a write; none for a read.
    number: Option<usize>,
    /// The floor when it began.
    floor: usize,
    pub done: bool,
}

#[derive(Default)]
pub struct Clients {
    stories: BTreeMap<String, Story>,
    pub operations: Vec<Operation>,
    /// By client: its last operation.
    last: BTreeMap<usize, usize>,
    /// Names of writes, which never repeat.
    dots: BTreeSet<Dot>,
}

impl Clients {
    pub fn keys(&self) -> Vec<String> {
        self.stories.keys().cloned().collect()
    }

    /// What a client does next, and its place in the history.
    pub fn next(&mut self, rng: &mut Rng, client: usize) -> (usize, Request) {
        let own = |rng: &mut Rng, client: usize| format!("c{client}/{}", rng.between(0, KEYS_EACH));
        if rng.chance(400_000) {
            let other = rng.between(0, CLIENTS as u64) as usize;
            let key = own(rng, other);
            self.last.insert(client, self.operations.len());
            return self.read(&key);
        }
        let key = own(rng, client);
        let deletes = rng.chance(150_000);
        self.last.insert(client, self.operations.len());
        self.write(&key, deletes)
    }

    /// A client waits for its answer before it goes on.
    pub fn is_busy(&self, client: usize) -> bool {
        self.last.get(&client).is_some_and(|nth| !self.operations[*nth].done)
    }

    pub fn read(&mut self, key: &str) -> (usize, Request) {
        let floor = self.stories.entry(key.to_owned()).or_default().floor;
        self.operations.push(Operation { key: key.to_owned(), number: None, floor, done: false });
        (self.operations.len() - 1, Request::Read { key: Key::new(0, key.as_bytes()), r: None })
    }

    pub fn write(&mut self, key: &str, deletes: bool) -> (usize, Request) {
        let story = self.stories.entry(key.to_owned()).or_default();
        story.writes.push((deletes, Fate::UnderWay));
        let number = story.writes.len();
        let op = if deletes { Op::Delete } else { Op::Put(number.to_string().into_bytes().into()) };
        let write = Write {
            key: Key::new(0, key.as_bytes()),
            kind: Kind::Register,
            op,
            attributes: Attributes::default(),
            expect: None,
            w: None,
            sloppy: false,
        };
        let floor = story.floor;
        self.operations.push(Operation { key: key.to_owned(), number: Some(number), floor, done: false });
        (self.operations.len() - 1, Request::write(write))
    }

    /// Nobody will hear of it any more.
    pub fn give_up(&mut self, nth: usize) -> bool {
        let operation = &mut self.operations[nth];
        let under_way = !std::mem::replace(&mut operation.done, true);
        if let Some(number) = operation.number.filter(|_| under_way) {
            let story = self.stories.get_mut(&operation.key).expect("what was written has a story");
            story.writes[number - 1].1 = Fate::Unknown;
        }
        under_way
    }

    /// What a client was told; what is wrong with it, if anything is. True for an answer that says something.
    pub fn hear(&mut self, nth: usize, reply: &Reply) -> Result<bool, String> {
        let told = match reply {
            Reply::Written(_) | Reply::Found(_) => true,
            Reply::Indeterminate { .. } | Reply::Unavailable { .. } | Reply::Refused(_) => false,
            other => return Err(format!("answer: {other:?} answers nothing that was asked")),
        };
        if !told {
            self.give_up(nth);
            return Ok(false);
        }
        let operation = &mut self.operations[nth];
        if std::mem::replace(&mut operation.done, true) {
            return Ok(false);
        }
        let story = self.stories.get_mut(&operation.key).expect("what was asked for has a story");
        match (operation.number, reply) {
            (Some(number), Reply::Written(record)) => {
                story.writes[number - 1].1 = Fate::Acknowledged;
                story.floor = story.floor.max(number);
                if !self.dots.insert(record.header.dot) {
                    return Err(format!("dots: {:?} names two writes", record.header.dot));
                }
            }
            (None, Reply::Found(found)) => {
                let shown = found.as_deref().and_then(shown);
                story.floor = story.judge(operation.floor, shown).map_err(|wrong| {
                    format!("durability: {} {wrong}, after {}", operation.key, operation.floor)
                })?;
            }
            _ => return Err(format!("answer: {reply:?} answers another question")),
        }
        Ok(true)
    }
}

impl Story {
    /// What is known of the key now, or what is wrong. `floor` is what was known when the read began.
    fn judge(&self, floor: usize, shown: Option<usize>) -> Result<usize, String> {
        let unknown = |number: usize| self.writes[number - 1].1 != Fate::Acknowledged;
        let Some(number) = shown else {
            let deletes = |number: &usize| self.writes[number - 1].0;
            let later = (floor.max(1)..=self.writes.len()).find(deletes);
            let earlier = || (1..floor).rev().find(|number| deletes(number) && unknown(*number));
            return match later.or_else(earlier) {
                // It may have been deleted since, or not written before.
                Some(number) => Ok(if number >= floor { self.floor.max(floor) } else { number }),
                None if floor == 0 => Ok(self.floor),
                None => Err("shows nothing, although nobody has deleted it".to_owned()),
            };
        };
        match number {
            0 => Err("shows what nobody has written".to_owned()),
            number if number > self.writes.len() || self.writes[number - 1].0 => {
                Err(format!("shows {number}, which nobody has written"))
            }
            number if number >= floor => Ok(self.floor.max(number)),
            number if unknown(number) => Ok(number),
            number => Err(format!("shows {number}")),
        }
    }
}

fn shown(record: &Record) -> Option<usize> {
    match &record.body {
        Body::Register(value) if !record.is_tombstone() => {
            Some(std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0))
        }
        _ => None,
    }
}
