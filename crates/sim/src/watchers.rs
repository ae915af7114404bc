//! Clients that watch: each has one stream to some member, with a few watches, and takes what comes quickly
//! or slowly. When its member dies, or by whim, it goes to another and resumes each watch behind the last
//! revision it saw whole. What every watch asked for and saw becomes a record that the judge reads.

use crate::run::STORM_US;
use crate::scenario::Starts;
use crate::world::{Checked, Event, World};
use base::{KeyRange, Revision, Rng};
use bytes::Bytes;
use coord::Caller;
use coord::watch::{
    Batch, Create, Credit, Filters, Input, Refusal, Response, ResponseKind, StreamId, WatchId,
};
use node::apply;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Default)]
pub struct Watchers {
    all: Vec<Watcher>,
    by_stream: BTreeMap<StreamId, usize>,
    streams: u64,
    pub records: Vec<WatchRecord>,
}

#[derive(Default)]
struct Watcher {
    connection: Option<Connection>,
    /// Records to resume at the next connection.
    broken: Vec<usize>,
}

struct Connection {
    host: usize,
    pid: u32,
    stream: StreamId,
    slow: bool,
    inbox: VecDeque<Response>,
    consuming: bool,
    /// Records whose watch is not answered yet, in the order in which they were asked for.
    asked: VecDeque<usize>,
    watches: BTreeMap<WatchId, usize>,
}

/// One watch on one member, from its request to the end of its stream.
pub struct WatchRecord {
    pub wanted: WatchSpec,
    /// The revision asked for; zero for what comes after now.
    pub start: Revision,
    pub seen: Vec<WatchSeen>,
    /// Its stream has not ended.
    pub open: bool,
}

#[derive(Clone, Debug)]
pub struct WatchSpec {
    pub keys: KeyRange,
    pub prev_kv: bool,
    pub filters: Filters,
    pub fragment: bool,
    progress_notify: bool,
}

#[derive(Debug)]
pub enum WatchSeen {
    Created(Revision),
    Refused(Refusal),
    Events { header: Revision, batch: Arc<Batch>, fragment: bool },
    Progress(Revision),
    Canceled(Option<Revision>),
}

impl Watchers {
    pub fn new(count: usize) -> Watchers {
        Watchers { all: (0..count).map(|_| Watcher::default()).collect(), ..Watchers::default() }
    }

    fn connection(&mut self, stream: StreamId) -> Option<(usize, &mut Connection)> {
        let watcher = *self.by_stream.get(&stream)?;
        Some((watcher, self.all[watcher].connection.as_mut().expect("it is known by its stream")))
    }

    /// Ends a stream for its client; what was on the way is lost.
    fn disconnect(&mut self, watcher: usize) -> Option<(usize, u32, StreamId)> {
        let connection = self.all[watcher].connection.take()?;
        self.by_stream.remove(&connection.stream);
        let broken = connection.watches.values().chain(&connection.asked).copied().collect::<Vec<_>>();
        for record in &broken {
            self.records[*record].open = false;
        }
        self.all[watcher].broken.extend(broken);
        Some((connection.host, connection.pid, connection.stream))
    }

    fn begin(&mut self, wanted: WatchSpec, start: Revision) -> usize {
        self.records.push(WatchRecord { wanted, start, seen: Vec::new(), open: true });
        self.records.len() - 1
    }

    pub fn is_connected(&self) -> bool {
        self.all.iter().all(|watcher| watcher.connection.is_some())
    }
}

impl WatchRecord {
    /// Where a watch goes on that has seen this much.
    pub fn next(&self) -> Revision {
        let heard = self.seen.iter().rev().find_map(|seen| match seen {
            WatchSeen::Events { batch, fragment: false, .. } => Some(batch.last_revision()),
            WatchSeen::Progress(revision) => Some(*revision),
            WatchSeen::Created(revision) if self.start == Revision::ZERO => Some(*revision),
            _ => None,
        });
        heard.map_or(self.start, |heard| heard.next().max(self.start))
    }
}

impl WatchSpec {
    fn draw(rng: &mut Rng) -> WatchSpec {
        let key = |rng: &mut Rng| Bytes::from(format!("key-{}", rng.between(0, 8)));
        let keys = match rng.between(0, 4) {
            0 => KeyRange::single(key(rng)),
            1 => KeyRange::from_wire(key(rng), Bytes::from_static(b"key-8")),
            2 => KeyRange::from_wire(key(rng), Bytes::from_static(b"\0")),
            _ => KeyRange::from_wire(Bytes::from_static(b"\0"), Bytes::from_static(b"\0")),
        };
        let filters = Filters { no_put: rng.chance(100_000), no_delete: rng.chance(100_000) };
        WatchSpec {
            keys,
            prev_kv: rng.chance(500_000),
            filters,
            fragment: rng.chance(200_000),
            progress_notify: rng.chance(300_000),
        }
    }
}

impl World {
    /// A watcher goes to some member, if it has none.
    pub fn connect_watcher(&mut self, watcher: usize) -> Checked {
        let host = self.any_host();
        if self.watchers.all[watcher].connection.is_some() {
            return Ok(());
        }
        if self.hosts[host].process.is_none() {
            self.events.after(200_000, Event::Watch { watcher });
            return Ok(());
        }
        self.watchers.streams += 1;
        let stream = StreamId(self.watchers.streams);
        let slow = self.rng.chance(self.settings.bias.slow_watchers);
        self.watchers.by_stream.insert(stream, watcher);
        self.watchers.all[watcher].connection = Some(Connection {
            host,
            pid: self.hosts[host].pid,
            stream,
            slow,
            inbox: VecDeque::new(),
            consuming: false,
            asked: VecDeque::new(),
            watches: BTreeMap::new(),
        });
        let responses = if slow { self.rng.between(1, 4) } else { 64 } as i64;
        self.tell_hub(host, Input::Open { stream, credit: Credit { responses, bytes: 256 * 1024 } });
        self.resume_watches(watcher);
        Ok(())
    }

    fn resume_watches(&mut self, watcher: usize) {
        for record in std::mem::take(&mut self.watchers.all[watcher].broken) {
            let record = &self.watchers.records[record];
            let (wanted, start) = (record.wanted.clone(), record.next());
            self.create_watch(watcher, wanted, start);
        }
        let connection = self.watchers.all[watcher].connection.as_ref().expect("it was just made");
        for _ in connection.asked.len()..2 {
            self.create_any_watch(watcher);
        }
    }

    fn create_any_watch(&mut self, watcher: usize) {
        let newest = self.truth.revision();
        let usual = match self.rng.between(0, 4) {
            0 => Revision::ZERO,
            1 => Revision(newest.0 + self.rng.between(1, 40) as i64),
            _ => Revision(self.rng.between(1, newest.0 as u64 + 1) as i64),
        };
        let start = match self.settings.bias.starts {
            Starts::Anywhere => usual,
            Starts::Zero => Revision::ZERO,
            Starts::FarAhead => Revision(newest.0 + self.rng.between(50, 101) as i64),
            Starts::AtCompaction => {
                let compacted = self.truth.compactions.last().copied();
                compacted.filter(|revision| *revision > Revision::ZERO).unwrap_or(usual)
            }
        };
        let wanted = WatchSpec::draw(&mut self.rng);
        self.create_watch(watcher, wanted, start);
    }

    fn create_watch(&mut self, watcher: usize, wanted: WatchSpec, start: Revision) {
        let record = self.watchers.begin(wanted.clone(), start);
        let connection = self.watchers.all[watcher].connection.as_mut().expect("who asks is connected");
        connection.asked.push_back(record);
        let (host, stream) = (connection.host, connection.stream);
        let WatchSpec { keys, prev_kv, filters, fragment, progress_notify } = wanted;
        let caller = Caller::Anonymous;
        let create =
            Create { stream, caller, id: None, keys, start, prev_kv, filters, progress_notify, fragment };
        self.tell_hub(host, Input::Create(create));
    }

    fn tell_hub(&mut self, host: usize, input: Input) {
        if self.hosts[host].process.is_some() {
            self.hand_to_apply(host, apply::ApplyInput::Watch(input));
        }
    }

    /// A member sends something to a watcher, who takes it when it comes to it.
    pub fn send_to_watcher(&mut self, response: Response) {
        let stream = response.stream;
        let calm = self.calm;
        let Some((watcher, connection)) = self.watchers.connection(stream) else { return };
        connection.inbox.push_back(response);
        if !connection.consuming {
            connection.consuming = true;
            let late = connection.slow && !calm;
            let longest = if late { 2_000_000 } else { 20_000 };
            let dead_until = if late && self.settings.bias.dead_watchers { STORM_US } else { 0 };
            let delay = self.rng.between(100, longest) + dead_until.saturating_sub(self.events.now());
            self.events.after(delay, Event::Consume { watcher, stream });
        }
    }

    pub fn consume(&mut self, stream: StreamId) -> Checked {
        let calm = self.calm;
        let Some((_, connection)) = self.watchers.connection(stream) else { return Ok(()) };
        connection.consuming = false;
        let host = connection.host;
        // When all is calm the slow ones hurry, so that they are done before the judgement.
        let hurries = calm && std::mem::take(&mut connection.slow);
        let mut credit = Credit { responses: if hurries { 1_000 } else { 0 }, bytes: 0 };
        for response in std::mem::take(&mut connection.inbox) {
            credit = credit.plus(response.cost());
            self.counts.watched += 1;
            self.see(response);
        }
        self.tell_hub(host, Input::Credit { stream, credit });
        Ok(())
    }

    fn see(&mut self, response: Response) {
        let Some((_, connection)) = self.watchers.connection(response.stream) else { return };
        let header = response.revision;
        let seen = match response.kind {
            ResponseKind::Created => {
                let record = connection.asked.pop_front().expect("what is created was asked for");
                connection.watches.insert(response.watch, record);
                WatchSeen::Created(header)
            }
            ResponseKind::Refused(refusal) => {
                let record = connection.asked.pop_front().expect("what is refused was asked for");
                return self.watchers.records[record].seen.push(WatchSeen::Refused(refusal));
            }
            ResponseKind::Events { batch, fragment } => WatchSeen::Events { header, batch, fragment },
            ResponseKind::Progress if response.watch == WatchId::NONE => {
                let all: Vec<_> = connection.watches.values().copied().collect();
                for record in all {
                    self.watchers.records[record].seen.push(WatchSeen::Progress(header));
                }
                return;
            }
            ResponseKind::Progress => WatchSeen::Progress(header),
            ResponseKind::Canceled { compacted } => WatchSeen::Canceled(compacted),
            ResponseKind::Denied(code) => unreachable!("auth is off in this world: {code}"),
        };
        let record = connection.watches.get(&response.watch).copied();
        if matches!(seen, WatchSeen::Canceled(_)) {
            connection.watches.remove(&response.watch);
        }
        let record = record.expect("a watch is created before it is sent anything");
        self.watchers.records[record].open &= !matches!(seen, WatchSeen::Canceled(_));
        self.watchers.records[record].seen.push(seen);
    }

    /// Now and then a watcher asks how far it is, gives up a watch, begins one, or goes elsewhere.
    pub fn have_whim(&mut self, watcher: usize) -> Checked {
        if self.clients.stopped {
            return Ok(());
        }
        let (shortest, longest) = self.settings.bias.whims;
        let pause = self.rng.between(shortest, longest);
        self.events.after(pause, Event::Whim { watcher });
        let Some(connection) = &self.watchers.all[watcher].connection else { return Ok(()) };
        let (host, stream) = (connection.host, connection.stream);
        let count = connection.watches.len() + connection.asked.len();
        let one = connection.watches.keys().next().copied();
        match self.rng.between(0, 10) {
            0..6 => self.tell_hub(host, Input::Progress(stream)),
            6 => self.leave(watcher),
            7 if count < 5 => self.create_any_watch(watcher),
            8 => {
                if let Some(watch) = one {
                    self.tell_hub(host, Input::Cancel { stream, watch });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn leave(&mut self, watcher: usize) {
        if let Some((host, pid, stream)) = self.watchers.disconnect(watcher) {
            if self.hosts[host].pid == pid {
                self.tell_hub(host, Input::Close(stream));
            }
            self.events.after(self.rng.between(1_000, 300_000), Event::Watch { watcher });
        }
    }

    /// The member that these watchers were connected to has died.
    pub fn lose_watchers(&mut self, host: usize) {
        for watcher in 0..self.watchers.all.len() {
            let connection = self.watchers.all[watcher].connection.as_ref();
            if connection.is_some_and(|connection| connection.host == host) {
                self.watchers.disconnect(watcher);
                self.events.after(self.rng.between(1_000, 500_000), Event::Watch { watcher });
            }
        }
    }
}
