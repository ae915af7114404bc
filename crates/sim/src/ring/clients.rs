//! Clients of a ring's world. Each writes registers of its own and reads those of all; some compare and set keys that
//! all of them write, create and delete keys that all of them create, or add to one counter. A client waits for an answer as long as it has patience; then it goes on
//! to something else, or sends the same again through another node, with its request id if it has one.

use super::cas_history::{CasHistory, CasValue};
use super::counter_history::CounterHistory;
use super::creation_history::CreationHistory;
use super::history::RegisterHistory;
use super::scenario::Scenario;
use base::Rng;
use mesh::{
    Attributes, Body, Context, Dot, Get, Key, Kind, Level, Op, Record, Reply, Request, Session, Write,
};
use std::collections::{BTreeMap, BTreeSet};

pub const CLIENTS: usize = 6;
const KEYS_EACH: u64 = 4;
const COMPARED_KEYS: u64 = 3;
const CREATED_KEYS: u64 = 2;
const CREATED: &str = "created/";
const COUNTER: &str = "count";

#[derive(Clone, Debug)]
enum Doing {
    /// With what was known of the key when it began.
    Read {
        floor: usize,
    },
    Write {
        number: usize,
    },
    /// A read of a key that is compared and set.
    Look,
    /// The same, at the level LINEARIZABLE, with the last value when it began.
    LookDecided {
        floor: CasValue,
    },
    Compare {
        value: u64,
    },
    Create {
        value: u64,
    },
    Remove,
    /// A read of a key that is created and deleted.
    Seek,
    Add {
        number: usize,
    },
    /// A read of the counter.
    Count,
}

#[derive(Debug)]
pub struct Operation {
    client: usize,
    key: String,
    doing: Doing,
    /// What is sent again if it is of unknown fate.
    write: Option<Write>,
    pub done: bool,
}

pub struct Clients {
    scenario: &'static Scenario,
    /// The namespace of all keys.
    namespace_id: u32,
    histories: BTreeMap<String, RegisterHistory>,
    cas_history: CasHistory,
    counter_history: CounterHistory,
    creation_history: CreationHistory,
    pub operations: Vec<Operation>,
    /// The first attempts at additions.
    additions: Vec<usize>,
    /// By client: its last operation.
    last: BTreeMap<usize, usize>,
    /// By client: a write of unknown fate that it may send again.
    unanswered: BTreeMap<usize, usize>,
    /// What a client saw last of a key that is compared and set.
    seen: BTreeMap<(usize, String), (CasValue, Context)>,
    /// Names of writes without a request id, which never repeat.
    dots: BTreeSet<Dot>,
    /// Request ids that were given out.
    n_ids: u64,
}

impl Clients {
    pub fn new(scenario: &'static Scenario, namespace_id: u32) -> Clients {
        Clients {
            scenario,
            namespace_id,
            histories: BTreeMap::new(),
            cas_history: CasHistory::default(),
            counter_history: CounterHistory::default(),
            creation_history: CreationHistory::default(),
            operations: Vec::new(),
            additions: Vec::new(),
            last: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            seen: BTreeMap::new(),
            dots: BTreeSet::new(),
            n_ids: 0,
        }
    }

    /// Everything that is read in the end.
    pub fn final_reads(&self) -> Vec<String> {
        let counter = self.scenario.counts.then(|| COUNTER.to_owned());
        let n_created = if self.scenario.compares { CREATED_KEYS } else { 0 };
        let created = (0..n_created).map(created_key);
        self.histories.keys().cloned().chain(self.cas_history.keys()).chain(counter).chain(created).collect()
    }

    /// What a client does next, and its place in the history.
    pub fn next(&mut self, rng: &mut Rng, client: usize) -> (usize, Request) {
        if let Some(nth) = self.unanswered.remove(&client)
            && rng.chance(500_000)
        {
            return self.send_again(nth, client);
        }
        if self.scenario.compares && rng.chance(400_000) {
            return self.next_compared(rng, client);
        }
        if self.scenario.compares && rng.chance(300_000) {
            return self.next_created(rng, client);
        }
        if self.scenario.counts && rng.chance(500_000) {
            return self.add(rng, client);
        }
        let own = |rng: &mut Rng, client: usize| format!("c{client}/{}", rng.between(0, KEYS_EACH));
        if rng.chance(400_000) {
            let other = rng.between(0, CLIENTS as u64) as usize;
            let key = own(rng, other);
            return self.read(client, &key);
        }
        let key = own(rng, client);
        let (deletes, has_id) = (rng.chance(150_000), rng.chance(300_000));
        self.write(client, &key, deletes, has_id)
    }

    /// A client waits for its answer before it goes on.
    pub fn is_busy(&self, client: usize) -> bool {
        self.last.get(&client).is_some_and(|nth| !self.operations[*nth].done)
    }

    fn begin(&mut self, client: usize, key: &str, doing: Doing, write: Option<Write>) -> (usize, Request) {
        let request = match (&write, &doing) {
            (Some(write), _) => Request::write(write.clone()),
            (None, Doing::LookDecided { .. }) => {
                let (session, min) = (Session::default(), Context::default());
                let key = self.key(key);
                Request::Get(Box::new(Get { key, r: None, level: Level::Linearizable, session, min }))
            }
            (None, _) => Request::Read { key: self.key(key), r: None },
        };
        let nth = self.operations.len();
        self.operations.push(Operation { client, key: key.to_owned(), doing, write, done: false });
        self.last.insert(client, nth);
        (nth, request)
    }

    fn key(&self, name: &str) -> Key {
        Key::new(self.namespace_id, name.as_bytes())
    }

    fn write_of(&mut self, key: &str, kind: Kind, op: Op, has_id: bool) -> Write {
        self.n_ids += 1;
        let request = has_id.then_some(self.n_ids);
        Write {
            key: self.key(key),
            kind,
            op,
            attributes: Attributes { request, ..Attributes::default() },
            expect: None,
            w: None,
            sloppy: false,
        }
    }

    /// The read of what `final_reads` lists.
    pub fn read_finally(&mut self, name: &str) -> (usize, Request) {
        match name {
            COUNTER => self.begin(CLIENTS, name, Doing::Count, None),
            name if self.histories.contains_key(name) => self.read(CLIENTS, name),
            name if name.starts_with(CREATED) => self.begin(CLIENTS, name, Doing::Seek, None),
            name => self.begin(CLIENTS, name, Doing::Look, None),
        }
    }

    fn read(&mut self, client: usize, key: &str) -> (usize, Request) {
        let floor = self.histories.entry(key.to_owned()).or_default().floor;
        self.begin(client, key, Doing::Read { floor }, None)
    }

    /// A write that the judge asks for.
    pub fn write_finally(&mut self, key: &str) -> (usize, Request) {
        self.write(CLIENTS, key, false, false)
    }

    fn write(&mut self, client: usize, key: &str, deletes: bool, has_id: bool) -> (usize, Request) {
        let history = self.histories.entry(key.to_owned()).or_default();
        let number = history.add(deletes);
        let op = if deletes { Op::Delete } else { Op::Put(number.to_string().into_bytes().into()) };
        let write = self.write_of(key, Kind::Register, op, has_id);
        self.begin(client, key, Doing::Write { number }, Some(write))
    }

    fn next_compared(&mut self, rng: &mut Rng, client: usize) -> (usize, Request) {
        let key = format!("cas/{}", rng.between(0, COMPARED_KEYS));
        let seen = self.seen.remove(&(client, key.clone()));
        let Some((replaces, context)) = seen else {
            if rng.chance(500_000) {
                let floor = self.cas_history.floor(&key);
                return self.begin(client, &key, Doing::LookDecided { floor }, None);
            }
            return self.begin(client, &key, Doing::Look, None);
        };
        let value = self.cas_history.add(&key, replaces);
        let op = Op::Put(value.to_string().into_bytes().into());
        let write = self.write_of(&key, Kind::Register, op, rng.chance(500_000));
        let write = Write { expect: Some(context), ..write };
        self.begin(client, &key, Doing::Compare { value }, Some(write))
    }

    fn next_created(&mut self, rng: &mut Rng, client: usize) -> (usize, Request) {
        let key = created_key(rng.between(0, CREATED_KEYS));
        match rng.between(0, 5) {
            0 => self.begin(client, &key, Doing::Seek, None),
            1 | 2 => {
                let write = self.write_of(&key, Kind::Register, Op::Delete, false);
                self.begin(client, &key, Doing::Remove, Some(write))
            }
            _ => {
                let value = self.creation_history.add();
                let op = Op::Put(value.to_string().into_bytes().into());
                let write = self.write_of(&key, Kind::Register, op, true);
                let write = Write { expect: Some(Context::default()), ..write };
                self.begin(client, &key, Doing::Create { value }, Some(write))
            }
        }
    }

    /// Something new; or an earlier addition again, whose answer some client did not hear.
    fn add(&mut self, rng: &mut Rng, client: usize) -> (usize, Request) {
        // Where a coordinator has to name them they have no id of their own, and are asked for once.
        let has_id = !self.scenario.judges_answer_times;
        if has_id && !self.additions.is_empty() && rng.chance(100_000) {
            let nth = *rng.pick(&self.additions);
            return self.send_again(nth, client);
        }
        self.additions.push(self.operations.len());
        let number = self.counter_history.add();
        let write = self.write_of(COUNTER, Kind::Counter, Op::Add(1), has_id);
        self.begin(client, COUNTER, Doing::Add { number }, Some(write))
    }

    fn send_again(&mut self, nth: usize, client: usize) -> (usize, Request) {
        let Operation { key, doing, write, .. } = &self.operations[nth];
        let (key, doing, write) = (key.clone(), doing.clone(), write.clone());
        self.begin(client, &key, doing, write)
    }

    /// A request leaves its client. Its node begins nothing for it past the deadline.
    pub fn sent(&mut self, nth: usize, now: u64, deadline: u64) {
        let Operation { key, doing, .. } = &self.operations[nth];
        if let Doing::Write { number } = doing {
            self.histories
                .get_mut(key)
                .expect("what was written has a story")
                .attempt(*number, nth, now, deadline);
        }
    }

    /// The client waits for it no longer. True if that is news.
    pub fn give_up(&mut self, nth: usize) -> bool {
        let operation = &mut self.operations[nth];
        let under_way = !std::mem::replace(&mut operation.done, true);
        let is_once = matches!(operation.doing, Doing::Add { .. }) && self.scenario.judges_answer_times;
        if under_way && operation.write.is_some() && !is_once {
            self.unanswered.insert(operation.client, nth);
        }
        under_way
    }

    /// What a client was told; what is wrong with it, if anything is. True for an answer that says something.
    pub fn hear(&mut self, nth: usize, now: u64, reply: &Reply) -> Result<bool, String> {
        let Operation { key, doing, .. } = &self.operations[nth];
        if let Doing::Write { number } = doing {
            self.histories.get_mut(key).expect("what was written has a story").answered(*number, nth, now);
        }
        let told = match reply {
            Reply::Written(_) | Reply::Found(_) | Reply::Got(_) | Reply::Conflict(_) => true,
            Reply::Indeterminate { .. } | Reply::Unavailable { .. } | Reply::Refused(_) => false,
            other => return Err(format!("answer: {other:?} answers nothing that was asked")),
        };
        if !told {
            self.give_up(nth);
            return Ok(false);
        }
        if std::mem::replace(&mut self.operations[nth].done, true) {
            return Ok(false);
        }
        match reply {
            Reply::Written(record) => self.hear_written(nth, record)?,
            Reply::Found(found) => self.hear_found(nth, found.as_deref())?,
            Reply::Got(got) => self.hear_found(nth, got.record.as_deref())?,
            Reply::Conflict(record) => self.hear_conflict(nth, record)?,
            _ => unreachable!("the other answers say nothing"),
        }
        Ok(true)
    }

    fn hear_written(&mut self, nth: usize, record: &Record) -> Result<(), String> {
        let Operation { client, key, doing, write, .. } = &self.operations[nth];
        match doing {
            Doing::Write { number } => {
                let history = self.histories.get_mut(key).expect("what was written has a story");
                history.acknowledge(*number);
                let has_id = write.as_ref().is_some_and(|write| write.attributes.request.is_some());
                if !has_id && !self.dots.insert(record.header.dot) {
                    return Err(format!("dots: {:?} names two writes", record.header.dot));
                }
            }
            Doing::Compare { value } => {
                self.seen.insert((*client, key.clone()), (number_in(record), record.context.clone()));
                self.cas_history.acknowledge(*value)?;
            }
            Doing::Create { value } => self.creation_history.show(*value)?,
            Doing::Remove => {}
            Doing::Add { number } => self.counter_history.acknowledge(*number),
            Doing::Read { .. } | Doing::Look | Doing::LookDecided { .. } | Doing::Seek | Doing::Count => {
                return Err("answer: a read is answered as a write".to_owned());
            }
        }
        Ok(())
    }

    fn hear_found(&mut self, nth: usize, found: Option<&Record>) -> Result<(), String> {
        let Operation { client, key, doing, .. } = &self.operations[nth];
        match doing {
            Doing::Read { floor } => {
                let history = self.histories.get_mut(key).expect("what was asked for has a story");
                let judges_late = self.scenario.judges_late_writes;
                let shown = found.filter(|record| !record.is_tombstone()).map(number_in);
                let shown = shown.map(|number| number.map_or(0, |number| number as usize));
                history.floor = history
                    .judge(*floor, shown, judges_late)
                    .map_err(|wrong| format!("durability: {key} {wrong}, after {floor}"))?;
            }
            Doing::Look if *client == CLIENTS => self.cas_history.judge(key, found.and_then(number_in))?,
            Doing::Look | Doing::LookDecided { .. } => {
                let seen = found
                    .map_or((None, Context::default()), |record| (number_in(record), record.context.clone()));
                if let Doing::LookDecided { floor } = doing {
                    self.cas_history.show(key, *floor, seen.0)?;
                }
                self.seen.insert((*client, key.clone()), seen);
            }
            Doing::Count => {
                let sum = match found.map(|record| &record.body) {
                    Some(Body::Counter(counts)) => counts.value(),
                    _ => 0,
                };
                self.counter_history.judge(sum)?;
            }
            Doing::Seek => {
                found.and_then(number_in).map_or(Ok(()), |shown| self.creation_history.show(shown))?;
            }
            Doing::Write { .. }
            | Doing::Compare { .. }
            | Doing::Create { .. }
            | Doing::Remove
            | Doing::Add { .. } => {
                return Err("answer: a write is answered as a read".to_owned());
            }
        }
        Ok(())
    }

    /// What is there is not what was expected. To a compare and set that says nothing of attempts before; a creation has an
    /// id and is refused for good.
    fn hear_conflict(&mut self, nth: usize, record: &Record) -> Result<(), String> {
        let Operation { client, key, doing, .. } = &self.operations[nth];
        match doing {
            Doing::Create { value } => {
                number_in(record).map_or(Ok(()), |shown| self.creation_history.show(shown))?;
                return self.creation_history.refuse(*value);
            }
            Doing::Compare { .. } => {}
            _ => return Err("answer: what expects nothing met a conflict".to_owned()),
        }
        self.seen.insert((*client, key.clone()), (number_in(record), record.context.clone()));
        Ok(())
    }
}

fn created_key(nth: u64) -> String {
    format!("{CREATED}{nth}")
}

fn number_in(record: &Record) -> CasValue {
    match &record.body {
        Body::Register(value) if !record.is_tombstone() => {
            Some(std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0))
        }
        _ => None,
    }
}
