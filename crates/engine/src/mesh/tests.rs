use super::*;
use crate::log_file::LogFile;
use ::mesh::{
    Actor, Attributes, Body, Epoch, Input, Key, Kind, Member, MemberState, Mesh, NamespaceCopies, Now, Op,
    Output, Params, Persist, Record, RegionId, Request, Topology, Write, rows::Rows,
};
use base::{Instant, NodeId, ReplyToken};
use bytes::Bytes;
use disk::SimDisk;
use std::time::Duration;

const PARAMS: MeshParams =
    MeshParams { log_segment_bytes: 64 * 1024, cache_bytes: 1024 * 1024, fresh_incarnation: 77 };

/// A node alone, with its files.
struct SingleNode {
    mesh: Mesh,
    files: MeshFiles,
    now: u64,
}

impl SingleNode {
    fn open(disk: &Arc<SimDisk>) -> SingleNode {
        let mut files = open_mesh(disk.clone(), &PARAMS).expect("it opens");
        let incarnation = files.incarnation_file.get();
        let member =
            Member { node: NodeId(1), zone: 1, points: 64, state: MemberState::Serving, stale: false };
        let namespace_id = NamespaceCopies { id: 0, copies: 3 };
        let topology = Topology::new(Epoch(1), RegionId(0), vec![member], vec![namespace_id]);
        let params = Params {
            actor: Actor { region: RegionId(0), node: NodeId(1), incarnation: incarnation.number },
            boot: incarnation.boot,
            wiped: false,
            unenrolled: false,
            drift_max: Duration::from_millis(500),
            timeout: Duration::from_secs(1),
            flush_every: Duration::from_millis(100),
            low_bytes: 0,
            least_bytes: 0,
            round_every: Duration::from_secs(10),
        };
        let replayed = std::mem::take(&mut files.replayed);
        let mesh = Mesh::new(params, topology, &*files.store.view(), replayed);
        let mut alone = SingleNode { mesh, files, now: 1_000 };
        (0..3).for_each(|_| drop(alone.step(Input::Tick, true)));
        alone
    }

    /// Steps until there is no more output, and returns the replies.
    fn step(&mut self, input: Input, flush: bool) -> Vec<::mesh::Reply> {
        self.now += 50_000;
        let now = Now { at: Instant(self.now), wall_ms: 1_700_000_000_000 + self.now / 1_000 };
        let (mut next, mut replies) = (vec![input], Vec::new());
        while let Some(input) = next.pop() {
            let mut out = Output::default();
            let view = self.files.store.view();
            self.mesh.step(now, input, &*view, &mut out);
            self.mesh.collect(&mut out);
            replies.extend(out.replies.into_iter().map(|(_, reply)| reply));
            if let Some(persist) = out.persist {
                self.files.log.write(std::slice::from_ref(&persist)).unwrap();
                self.files.log.sync().unwrap();
                next.push(Input::Persisted(persist.seq));
            }
            if let Some(frozen) = out.flush.filter(|_| flush) {
                self.files.store.flush(&frozen).unwrap();
                self.files.log.release(frozen.upto).unwrap();
                next.push(Input::Flushed(frozen.number));
            }
        }
        replies
    }

    fn put(&mut self, name: &str, value: &str) {
        let write = Write {
            key: Key::new(0, name.as_bytes()),
            kind: Kind::Register,
            op: Op::Put(Bytes::copy_from_slice(value.as_bytes())),
            attributes: Attributes::default(),
            expect: None,
            w: None,
            sloppy: false,
        };
        let request = Input::Request {
            token: ReplyToken(1),
            deadline: Instant(u64::MAX),
            request: Request::write(write),
        };
        let replies = self.step(request, false);
        assert!(matches!(replies[..], [::mesh::Reply::Written(_)]), "{replies:?}");
    }

    fn get(&mut self, name: &str) -> Option<String> {
        let request = Request::Read { key: Key::new(0, name.as_bytes()), r: None };
        let request = Input::Request { token: ReplyToken(1), deadline: Instant(u64::MAX), request };
        match &self.step(request, false)[..] {
            [::mesh::Reply::Found(Some(record))] => match &record.body {
                Body::Register(value) => Some(String::from_utf8(value.to_vec()).unwrap()),
                _ => None,
            },
            _ => None,
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_power_cut_flushed_or_not() {
    let disk = Arc::new(SimDisk::new(3));
    let mut node = SingleNode::open(&disk);
    for nth in 0..300 {
        node.put(&format!("k{}", nth % 40), &nth.to_string());
        if nth % 90 == 0 {
            node.step(Input::Tick, true);
        }
    }
    let incarnation = node.files.incarnation_file.get().number;
    drop(node);
    disk.crash();
    let mut node = SingleNode::open(&disk);
    assert_eq!(
        node.files.incarnation_file.get(),
        Incarnation { number: incarnation, boot: 2, catch_up: CatchUp::Unknown }
    );
    for nth in 0..40 {
        let newest = (0..300).filter(|put| put % 40 == nth).max().unwrap();
        assert_eq!(node.get(&format!("k{nth}")), Some(newest.to_string()), "k{nth}");
    }
}

#[test]
fn a_batch_that_the_store_has_is_not_replayed_over_it() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(4));
    let mut files = open_mesh(disk.clone(), &PARAMS).unwrap();
    let mut batch = rows::Batch::default();
    batch.put(b"\x01x", Some(b"old"));
    let old = Persist { seq: ::mesh::Seq(1), batch: batch.take() };
    files.log.write(&[old]).unwrap();
    files.log.sync().unwrap();
    drop(files);
    // A flush may reach further than the log: it does not wait for a sync.
    let files = open_mesh(disk.clone(), &PARAMS).unwrap();
    assert_eq!(files.replayed.len(), 1);
    drop(files);
    let store = MeshStore::open(disk.clone(), 1024 * 1024).unwrap();
    let upto = 2u64.to_le_bytes();
    drop(store);
    let raw = disk::Store::open(disk.clone(), super::store::LIVE, 1024 * 1024).unwrap();
    raw.write_with(&mut |put| {
        put(base::Table::Mesh, rows::FLUSHED, Some(&upto));
        put(base::Table::Mesh, b"\x01x", Some(b"new"));
    })
    .unwrap();
    drop(raw);
    let files = open_mesh(disk, &PARAMS).unwrap();
    assert!(files.replayed.is_empty(), "the store has it, and something newer");
    assert_eq!(files.store.view().get(b"\x01x"), Some(Bytes::from_static(b"new")));
}

#[test]
fn a_lost_disk_is_another_life_and_half_a_directory_is_refused() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(5));
    let mut files = open_mesh(disk.clone(), &PARAMS).unwrap();
    files.incarnation_file.set_catch_up(CatchUp::Complete).unwrap();
    drop(files);
    let other = MeshParams { fresh_incarnation: 78, ..PARAMS };
    let files = open_mesh(disk.clone(), &other).unwrap();
    assert_eq!(
        files.incarnation_file.get(),
        Incarnation { number: 77, boot: 2, catch_up: CatchUp::Complete }
    );
    drop(files);
    disk.remove(super::store::LIVE).unwrap();
    assert!(matches!(open_mesh(disk, &other), Err(Error::MeshStoreMissing)));
    let fresh = open_mesh(Arc::new(SimDisk::new(6)), &other).unwrap();
    assert_eq!(fresh.incarnation_file.get().number, 78);
}

#[test]
fn a_log_that_lost_its_end_or_is_gone_begins_another_life_on_the_same_rows() {
    let other = MeshParams { fresh_incarnation: 78, ..PARAMS };
    let reopened = |damage: &dyn Fn(&SimDisk)| {
        let disk = Arc::new(SimDisk::new(9));
        let mut node = SingleNode::open(&disk);
        node.files.incarnation_file.set_catch_up(CatchUp::Complete).unwrap();
        (0..20).for_each(|nth| node.put(&format!("k{nth}"), "v"));
        drop(node);
        damage(&disk);
        let files = open_mesh(disk, &other).unwrap();
        (files.incarnation_file.get(), files.replayed.len())
    };
    let (incarnation, n_batches) = reopened(&|disk| disk.crash());
    assert_eq!(
        incarnation,
        Incarnation { number: 77, boot: 2, catch_up: CatchUp::Complete },
        "the end is clean"
    );
    let damage = |disk: &SimDisk| {
        let newest = disk::wal::inspect(&disk.fork(), &mut |_| {}).unwrap().newest.unwrap();
        disk.flip_bit(&newest.file, newest.offset + newest.len / 2);
    };
    let (incarnation, left) = reopened(&damage);
    assert_eq!(incarnation, Incarnation { number: 78, boot: 2, catch_up: CatchUp::Unknown });
    assert!((1..n_batches).contains(&left), "{left} of {n_batches}");
    let remove = |disk: &SimDisk| {
        let names = disk.list().unwrap();
        names.iter().filter(|name| name.starts_with("wal-")).for_each(|name| disk.remove_durably(name));
    };
    assert_eq!(reopened(&remove).0, Incarnation { number: 78, boot: 2, catch_up: CatchUp::Unknown });
}

#[test]
fn files_in_good_order_are_found_so_and_a_row_that_is_not_is_named() {
    let disk = Arc::new(SimDisk::new(7));
    let empty: Arc<dyn Disk> = Arc::new(SimDisk::new(8));
    assert!(verify::verify_mesh(empty, 1024 * 1024).unwrap().is_none());
    let mut node = SingleNode::open(&disk);
    (0..50).for_each(|nth| node.put(&format!("k{nth}"), "v"));
    node.step(Input::Tick, true);
    node.put("unflushed", "v");
    let view = node.files.store.view();
    let key = rows::record(&Key::new(0, b"k7"));
    assert!(view.get(&key).and_then(Record::decode).is_some());
    drop(view);
    drop(node);
    let shared: Arc<dyn Disk> = disk.clone();
    let report = verify::verify_mesh(shared.clone(), 1024 * 1024).unwrap().unwrap();
    assert_eq!(report.records, 50);
    assert!(report.unflushed > 0);
    let raw = disk::Store::open(shared.clone(), super::store::LIVE, 1024 * 1024).unwrap();
    raw.write_with(&mut |put| put(base::Table::Mesh, &key, Some(b"nonsense"))).unwrap();
    drop(raw);
    assert!(matches!(verify::verify_mesh(shared, 1024 * 1024), Err(Error::MeshRow { .. })));
}
