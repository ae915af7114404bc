//! A state machine with a store in memory, and short ways to ask it.

use base::{
    Boot, Code, Index, KeyRange, LeaseId, NodeId, Position, ProposalId, ReadView, Revision, Row, Table, Term,
};
use bytes::Bytes;
use coord::reply::{Body, DeleteReply, KeyValue, PutReply, RangeReply, Reply, TxnReply};
use coord::request::{Compare, Delete, Put, Range, Relation, Request, Target, Txn};
use coord::{Applied, Change, Command, HistoryWindow, Proposal, Record, Records, State, Unindexed, rows};
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Store {
    pub tables: BTreeMap<Table, BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Store {
    pub fn write(&mut self, row: Row) {
        let table = self.tables.entry(row.table).or_default();
        match row.value {
            Some(value) => table.insert(row.key.to_vec(), value.to_vec()),
            None => table.remove(row.key.as_ref()),
        };
    }
}

impl ReadView for Store {
    fn get(&self, table: Table, key: &[u8]) -> Option<Bytes> {
        self.tables.get(&table)?.get(key).map(|value| Bytes::copy_from_slice(value))
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) {
        let Some(rows) = self.tables.get(&table) else { return };
        for (key, value) in rows.range::<[u8], _>((from, to)) {
            if !visit(key, value) {
                return;
            }
        }
    }
}

impl Records for Store {
    fn record(&self, key: &[u8], revision: Revision) -> Option<Record> {
        rows::read_record(self, key, revision).expect("the rows are whole")
    }
}

pub struct World {
    pub state: State,
    pub store: Store,
    pub applied: Position,
    pub seq: u64,
    unindexed: Unindexed,
    /// The rows of the index are written after so many changes.
    pub index_every: usize,
    /// What compaction leaves.
    pub window: HistoryWindow,
}

pub const ORIGIN: NodeId = NodeId(7);

impl World {
    pub fn new() -> World {
        World {
            state: State::empty(),
            store: Store::default(),
            applied: Position::default(),
            seq: 0,
            unindexed: Unindexed::default(),
            index_every: 1,
            window: HistoryWindow::NONE,
        }
    }

    /// Applies the proposal as the next entry and writes its rows.
    pub fn apply(&mut self, proposal: &Proposal) -> Applied {
        self.applied = Position { index: self.applied.index.next(), term: Term(3) };
        let applied = self.state.apply(&self.store, self.applied, proposal);
        if let Applied::Done { changes, .. } = &applied {
            self.store_changes(changes);
        }
        let store = &mut self.store;
        rows::state_rows(&self.state, self.applied, &mut |table, key, value| {
            store.write(row(table, key, value));
        });
        self.state.take_rows(&mut |table, key, value| store.write(row(table, key, value)));
        applied
    }

    /// Removes some of what was compacted, as a flush does.
    pub fn sweep(&mut self, lines_max: usize) {
        let mut removed = Vec::new();
        let mut keep = |table: Table, key: &[u8], value: Option<&[u8]>| removed.push(row(table, key, value));
        self.unindexed.write(&mut keep);
        self.state.sweep(&self.store, self.window, lines_max, &mut keep).expect("the rows are whole");
        self.state.take_rows(&mut keep);
        removed.into_iter().for_each(|row| self.store.write(row));
    }

    /// Removes all that lies outside a window.
    pub fn trim(&mut self, window: HistoryWindow) {
        let mut removed = Vec::new();
        let mut keep = |table: Table, key: &[u8], value: Option<&[u8]>| removed.push(row(table, key, value));
        self.state.trim_history(&self.store, window, 100, &mut keep).expect("the rows are whole");
        self.state.take_rows(&mut keep);
        removed.into_iter().for_each(|row| self.store.write(row));
    }

    pub fn command(&mut self, command: Command) -> (Result<Reply, Code>, Vec<Change>) {
        self.seq += 1;
        let proposal = proposal(self.seq, command);
        match self.apply(&proposal) {
            Applied::Done { reply, changes } => (reply, changes),
            Applied::Duplicate => panic!("{proposal:?} is new"),
        }
    }

    fn store_changes(&mut self, changes: &[Change]) {
        let store = &mut self.store;
        let mut keep = |table: Table, key: &[u8], value: Option<&[u8]>| store.write(row(table, key, value));
        rows::change_rows(changes, &mut keep);
        changes.iter().for_each(|change| self.unindexed.note(change));
        if self.unindexed.changes() >= self.index_every {
            self.unindexed.write(&mut keep);
        }
    }

    /// A fresh proposal of this request.
    pub fn propose(&mut self, request: Request) -> (Result<Reply, Code>, Vec<Change>) {
        self.command(Command::from_request(request).expect("not a plain range"))
    }

    pub fn write(&mut self, request: Request) -> Result<Reply, Code> {
        self.propose(request).0
    }

    pub fn put(&mut self, key: &'static str, value: &'static str) -> Reply {
        self.write(Request::Put(put(key, value))).expect("a plain put is accepted")
    }

    pub fn delete(&mut self, keys: KeyRange) -> Reply {
        self.write(Request::Delete(Delete { keys, prev_kv: false })).expect("a delete is accepted")
    }

    pub fn txn(&mut self, txn: Txn) -> Result<TxnReply, Code> {
        match self.write(Request::Txn(txn))?.body {
            Body::Txn(reply) => Ok(reply),
            other => panic!("a txn was answered by {other:?}"),
        }
    }

    pub fn range(&self, range: &Range) -> Result<RangeReply, Code> {
        self.state.range(&self.store, range)
    }

    pub fn get(&self, key: &'static str) -> Option<KeyValue> {
        self.range(&all_of(single(key))).expect("the newest state is readable").kvs.pop()
    }

    /// The keys that a range answers, in its order.
    pub fn keys(&self, range: &Range) -> Vec<String> {
        let reply = self.range(range).expect("the range is readable");
        reply.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
    }

    pub fn reload(&mut self) {
        let state = State::load(&self.store).expect("the rows are whole").expect("something was written");
        assert_eq!(state.hash(), self.state.hash());
        assert_eq!(state.revision(), self.state.revision());
        assert_eq!(state.key_count(), self.state.key_count());
        assert_eq!(state.is_sweeping(), self.state.is_sweeping());
        assert!(state.leases().eq(self.state.leases()), "leases come back with their keys");
        assert!(state.locks().claims().eq(self.state.locks().claims()), "claims come back");
        assert!(state.locks().fences().eq(self.state.locks().fences()), "fences come back");
        self.state = state;
    }

    pub fn revision(&self) -> i64 {
        self.state.revision().0
    }
}

fn row(table: Table, key: &[u8], value: Option<&[u8]>) -> Row {
    Row { table, key: Bytes::copy_from_slice(key), value: value.map(Bytes::copy_from_slice) }
}

pub fn proposal(seq: u64, command: Command) -> Proposal {
    Proposal { id: ProposalId { origin: ORIGIN, boot: Boot(1), seq }, low: 0, command }
}

pub fn at(index: u64) -> Position {
    Position { index: Index(index), term: Term(1) }
}

pub fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

pub fn single(key: &'static str) -> KeyRange {
    KeyRange::single(bytes(key))
}

pub fn span(start: &'static str, end: &'static str) -> KeyRange {
    KeyRange::from_wire(bytes(start), bytes(end))
}

pub fn everything() -> KeyRange {
    span("\0", "\0")
}

pub fn all_of(keys: KeyRange) -> Range {
    Range::of(keys)
}

pub fn put(key: &'static str, value: &'static str) -> Put {
    Put { key: bytes(key), value: Some(bytes(value)), lease: Some(LeaseId::NONE), prev_kv: false }
}

pub fn op_put(key: &'static str, value: &'static str) -> Request {
    Request::Put(put(key, value))
}

pub fn op_delete(keys: KeyRange) -> Request {
    Request::Delete(Delete { keys, prev_kv: false })
}

pub fn op_range(keys: KeyRange) -> Request {
    Request::Range(all_of(keys))
}

pub fn when(keys: KeyRange, relation: Relation, target: Target) -> Compare {
    Compare { keys, relation, target }
}

/// A transaction without compares: its first branch is taken.
pub fn do_all(success: Vec<Request>) -> Txn {
    Txn { compares: Vec::new(), success, failure: Vec::new() }
}

pub fn put_reply(reply: &Reply) -> &PutReply {
    match &reply.body {
        Body::Put(reply) => reply,
        other => panic!("a put was answered by {other:?}"),
    }
}

pub fn delete_reply(reply: &Reply) -> &DeleteReply {
    match &reply.body {
        Body::Delete(reply) => reply,
        other => panic!("a delete was answered by {other:?}"),
    }
}
