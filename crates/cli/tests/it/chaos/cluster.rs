//! Three members as processes, and the book in which clients find those that are up.

use crate::etcd::Etcd;
use crate::process::{Member, Plan, until};
use base::Rng;
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

pub const MEMBERS: usize = 3;
/// Segments roll, and logs are cut, so early that it happens while members die: one that was away for long gets a
/// snapshot.
const EAGER: [&str; 4] = ["--wal-segment-bytes", "1048576", "--log-keep-entries", "300"];

/// By member: how to reach it, unless it is down. A member has a new address in each of its lives.
pub struct Book(Mutex<Vec<Option<Etcd>>>);

impl Book {
    pub fn pick(&self, rng: &mut Rng) -> Option<Etcd> {
        let up: Vec<Etcd> = self.0.lock().unwrap().iter().flatten().cloned().collect();
        (!up.is_empty()).then(|| rng.pick(&up).clone())
    }

    fn enter(&self, member: usize, etcd: Etcd) {
        self.0.lock().unwrap()[member] = Some(etcd);
    }

    fn strike(&self, member: usize) -> Etcd {
        self.0.lock().unwrap()[member].take().expect("it is up")
    }
}

pub struct Cluster {
    plans: Vec<Plan>,
    /// By member: its process, unless it was killed.
    processes: Vec<Option<Member>>,
    pub book: Arc<Book>,
    /// For all clients. The members have their own processes.
    pub runtime: Runtime,
}

impl Cluster {
    pub fn start() -> Cluster {
        let mut cluster = Cluster {
            plans: Plan::cluster(MEMBERS).into_iter().map(|plan| plan.with(&EAGER)).collect(),
            processes: (0..MEMBERS).map(|_| None).collect(),
            book: Arc::new(Book(Mutex::new(vec![None; MEMBERS]))),
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap(),
        };
        (0..MEMBERS).for_each(|member| cluster.restart(member));
        cluster.wait_ready();
        cluster
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    fn up(&self) -> impl Iterator<Item = (usize, &Member)> {
        self.processes.iter().enumerate().filter_map(|(i, process)| Some((i, process.as_ref()?)))
    }

    pub fn wait_ready(&self) {
        self.up().for_each(|(_, member)| member.wait_ready());
    }

    /// The member that says it leads, once one does.
    pub fn leader(&self) -> usize {
        until("there is a leader", || Some(self.up().find(|(_, member)| member.leads())?.0))
    }

    pub fn wait_until_not_leading(&self, member: usize) {
        let member = self.process(member);
        until("the member does not lead", || (!member.leads()).then_some(()));
    }

    fn process(&self, member: usize) -> &Member {
        self.processes[member].as_ref().expect("it is up")
    }

    /// Clients of every member, in order. All must be up.
    pub fn all(&self) -> Vec<Etcd> {
        let book = self.book.0.lock().unwrap();
        book.iter().map(|etcd| etcd.clone().expect("it is up")).collect()
    }

    /// A member that is in the book, and its client.
    pub fn any(&self) -> (usize, Etcd) {
        let book = self.book.0.lock().unwrap();
        let first = book.iter().enumerate().find_map(|(i, etcd)| Some((i, etcd.clone()?)));
        first.expect("a member is up")
    }

    /// New callers are sent elsewhere from now on; those under way are cut off.
    pub fn kill(&mut self, victims: &[usize]) {
        for victim in victims {
            self.book.strike(*victim);
        }
        for victim in victims {
            self.processes[*victim].take().expect("it is up").kill();
        }
    }

    /// Clients come as soon as the member listens, ready or not.
    pub fn restart(&mut self, member: usize) {
        let process = self.plans[member].start();
        self.book.enter(member, self.block_on(process.etcd()));
        self.processes[member] = Some(process);
    }

    /// Starts the member and kills it after `moment`, so early that it may not have read its log yet.
    pub fn restart_in_vain(&self, member: usize, moment: impl FnOnce()) {
        let mut child = self.plans[member].spawn();
        moment();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// How often any member has logged these words.
    pub fn times_logged(&self, words: &str) -> usize {
        self.plans.iter().map(|plan| plan.log().matches(words).count()).sum()
    }

    /// Stops the process where it stands. New callers are sent elsewhere, except those who use what is returned.
    pub fn pause(&self, member: usize) -> Etcd {
        let etcd = self.book.strike(member);
        self.process(member).signal("STOP");
        etcd
    }

    pub fn resume(&self, member: usize, etcd: Etcd) {
        self.process(member).signal("CONT");
        self.book.enter(member, etcd);
    }
}
