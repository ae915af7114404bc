//! Reads of large ranges, as the product makes them: the revision is held, then keys come page by page while
//! the world goes on. What was read becomes one answer, which the judges see like any other.

use crate::history::Outcome;
use crate::world::{Checked, Event, World};
use base::{Code, Revision};
use bytes::Bytes;
use coord::pieces::{Content, Version, WalkEnd};
use coord::reply::{Body, KeyValue, RangeReply, Reply};
use coord::request::Range;
use coord::rows;
use node::apply::{HoldId, HoldKind, PageRequest, PageRow, ValueSource};

const PAGE_KEYS: usize = 2;
const PAGE_BYTES: usize = 64;
/// Now and then a client takes its time, so that compactions and their sweeps pass it.
const SLOW_PER_MILLION: u64 = 300_000;

/// A range that is being read.
pub struct RangeRead {
    operation: usize,
    revision: Revision,
    range: Range,
    next: Option<Bytes>,
    count: u64,
    expected: u64,
    found: Vec<KeyValue>,
}

impl World {
    /// A member said that the answer is large: its client reads it in pieces from there.
    pub fn begin_reading(&mut self, host: usize, operation: usize, revision: Revision, range: Range) {
        let next = Some(range.keys.start.clone());
        let reading =
            RangeRead { operation, revision, range, next, count: 0, expected: 0, found: Vec::new() };
        let process = self.process(host);
        process.holds += 1;
        let hold = HoldId(process.holds);
        process.readings.insert(hold, reading);
        let pid = self.hosts[host].pid;
        self.events.after(100, Event::Hold { host, pid, hold });
    }

    pub fn hold(&mut self, host: usize, hold: HoldId) -> Checked {
        let now = self.local_now(host);
        let process = self.process(host);
        let mut reading = process.readings.remove(&hold).expect("it began");
        let apply = &mut process.member.apply;
        match apply.hold(now, hold, &reading.range, HoldKind::BlocksCompaction) {
            Ok(count) => reading.count = count,
            // Compacted just now: the product would ask again.
            Err(_) => return self.end_reading(reading.operation, Outcome::Unknown),
        }
        let measure = |_: usize, _: &Version, _: Content| 1;
        let place = PageRequest {
            hold,
            range: &reading.range,
            from: &reading.range.keys.start,
            keys_max: usize::MAX,
        };
        let survey = apply.survey(now, place, reading.range.limit() as u64, &measure);
        reading.expected = survey.expect("it is held").keys;
        process.readings.insert(hold, reading);
        self.plan_piece(host, hold);
        Ok(())
    }

    fn end_reading(&mut self, operation: usize, outcome: Outcome) -> Checked {
        self.settle(operation, outcome);
        Ok(())
    }

    fn plan_piece(&mut self, host: usize, hold: HoldId) {
        let slow = self.rng.chance(SLOW_PER_MILLION);
        let delay = if slow { self.rng.between(100_000, 1_500_000) } else { self.rng.between(100, 50_000) };
        let pid = self.hosts[host].pid;
        self.events.after(delay, Event::Piece { host, pid, hold });
    }

    pub fn piece(&mut self, host: usize, hold: HoldId) -> Checked {
        let now = self.local_now(host);
        let process = self.process(host);
        let mut reading = process.readings.remove(&hold).expect("it is held");
        let Some(from) = reading.next.take() else {
            process.member.apply.release(hold);
            return self.end_reading(reading.operation, Outcome::Done(reading.reply()));
        };
        let place = PageRequest { hold, range: &reading.range, from: &from, keys_max: PAGE_KEYS };
        let page = match process.member.apply.page(now, place, PAGE_BYTES) {
            Ok(page) => page,
            // A snapshot was installed that does not show the revision any more.
            Err(Code::Compacted) => return self.end_reading(reading.operation, Outcome::Unknown),
            Err(code) => panic!("a page is not refused with {code:?}"),
        };
        let view = process.member.member_store.view();
        let left = reading.range.limit() - reading.found.len();
        reading.found.extend(page.rows.into_iter().take(left).map(|row| read(view, row)));
        reading.next = match page.walked {
            WalkEnd::NextKey(key) if reading.found.len() < reading.range.limit() => Some(key),
            _ => None,
        };
        process.readings.insert(hold, reading);
        self.plan_piece(host, hold);
        Ok(())
    }
}

fn read(view: &dyn base::ReadView, row: PageRow) -> KeyValue {
    let PageRow { key, version, source } = row;
    let record = match source {
        ValueSource::Memory(record) => record,
        ValueSource::Store => rows::read_record(view, &key, version.modified)
            .expect("a record can be read")
            .expect("an indexed version has a record"),
        ValueSource::NotRequested => unreachable!("no reader asks for keys alone"),
    };
    KeyValue {
        key,
        create_revision: version.create,
        mod_revision: version.modified,
        version: version.version,
        lease: record.lease,
        value: record.value,
    }
}

impl RangeRead {
    fn reply(self) -> Reply {
        assert_eq!(self.found.len() as u64, self.expected, "as many keys come as were surveyed");
        let more = self.count > self.expected;
        let range = RangeReply { kvs: self.found, more, count: self.count };
        Reply { revision: self.revision, body: Body::Range(range) }
    }
}
