//! The one writer of a durable log, for both planes. Two threads write to a log, never at once: the actor that owns
//! it while the disk is quick, because then waking another thread costs more than the sync, and otherwise the log's own
//! thread, which may sleep in a slow or a full disk. Batches become durable in the order of their numbers; everything
//! that gathered while the last sync was under way is one frame and one sync. A write or sync that fails ends the
//! process: what the disk holds is then unknown.

use crate::fatal::fatal;
use crate::queue::Queue;
use engine::LogFile;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A sync that takes no longer is worth waiting for.
const QUICK: Duration = Duration::from_micros(150);
/// So many in a row say that the disk is quick; one slow sync says that it is slow. A disk that other processes keep
/// busy now and then has a quick sync among the slow ones, and the next sync would hold up every request.
const QUICK_IN_A_ROW: u32 = 16;

/// The reactions of the process to what happens to a log.
pub(crate) trait LogObserver<F: LogFile>: Send {
    /// Before a batch that needs it is written. Other threads wait meanwhile, so that the log's thread does it.
    fn prepare(&mut self, _: &F::Batch) {}

    fn written(&mut self, _: &F, _: Duration) {}

    /// After each sync, with the time that it took, and after each release: for metrics.
    fn report(&mut self, file: &F, synced: Option<Duration>);

    fn upgraded(&mut self, file: &F);
}

/// A request to the log's thread.
pub(crate) enum Order<F: LogFile> {
    Write(Vec<F::Batch>),
    Release(F::Released),
    /// The cluster has left the formats of the release before.
    Upgrade,
}

/// The file with the pace of its disk.
pub(crate) struct LogWriter<F: LogFile> {
    file: F,
    observer: Box<dyn LogObserver<F>>,
    pace: Pace,
}

impl<F: LogFile> LogWriter<F> {
    pub fn new(file: F, observer: impl LogObserver<F> + 'static) -> Arc<Mutex<LogWriter<F>>> {
        Arc::new(Mutex::new(LogWriter { file, observer: Box::new(observer), pace: Pace::default() }))
    }

    /// Makes the batches durable, in their order, and returns the number of the last; `None` if there are none.
    fn write(&mut self, batches: &[F::Batch]) -> Option<F::Seq> {
        for frame in batches.chunk_by(|_, next| !F::needs_prepare(next)) {
            if F::needs_prepare(&frame[0]) {
                self.observer.prepare(&frame[0]);
            }
            let start = Instant::now();
            self.file.write(frame).unwrap_or_else(|error| fatal(&format!("writing {}", F::NAME), &error));
            self.observer.written(&self.file, start.elapsed());
            let start = Instant::now();
            self.file.sync().unwrap_or_else(|error| fatal(&format!("syncing {}", F::NAME), &error));
            let took = start.elapsed();
            self.pace.note(took);
            self.observer.report(&self.file, Some(took));
        }
        batches.last().map(F::seq)
    }

    fn upgrade(&mut self) {
        self.file.upgrade().unwrap_or_else(|error| fatal(&format!("upgrading {}", F::NAME), &error));
        self.observer.upgraded(&self.file);
    }

    fn release(&mut self, upto: F::Released) {
        self.file.release(upto).unwrap_or_else(|error| fatal(&format!("shortening {}", F::NAME), &error));
        self.observer.report(&self.file, None);
    }
}

/// The actor's side of its log.
pub(crate) struct LogOwner<F: LogFile> {
    writer: Arc<Mutex<LogWriter<F>>>,
    /// The last batch that the log's thread was given, until it is known to be durable.
    handed_over: Option<F::Seq>,
}

impl<F: LogFile> LogOwner<F> {
    pub fn new(writer: Arc<Mutex<LogWriter<F>>>) -> LogOwner<F> {
        LogOwner { writer, handed_over: None }
    }

    /// Makes the batches durable here if the disk is quick, and returns the number of the last. Otherwise the log's
    /// thread gets them, and `None` is returned.
    pub fn write(&mut self, batches: Vec<F::Batch>, thread: &Queue<Order<F>>) -> Option<F::Seq> {
        let last = F::seq(batches.last()?);
        if self.handed_over.is_none()
            && !batches.iter().any(F::needs_prepare)
            && let Ok(mut writer) = self.writer.try_lock()
            && writer.pace.is_quick()
            && writer.file.fits(&batches)
        {
            return writer.write(&batches);
        }
        self.handed_over = Some(last);
        thread.push(Order::Write(batches));
        None
    }

    /// The log's thread has made everything up to this batch durable.
    pub fn persisted(&mut self, seq: F::Seq) {
        self.handed_over.take_if(|last| *last <= seq);
    }
}

/// The body of the log's thread. `persisted` is told after each sync how far the log is durable.
pub(crate) fn run<F: LogFile>(
    orders: &Queue<Order<F>>,
    writer: &Mutex<LogWriter<F>>,
    persisted: impl Fn(F::Seq),
) {
    let lock =
        || -> MutexGuard<'_, LogWriter<F>> { writer.lock().expect("no thread panics while it holds a log") };
    let mut taken = Vec::new();
    while orders.take(&mut taken, None) {
        let (mut batches, mut released, mut upgrades) = (Vec::new(), None, false);
        for order in taken.drain(..) {
            match order {
                Order::Write(more) if batches.is_empty() => batches = more,
                Order::Write(more) => batches.extend(more),
                Order::Release(upto) => released = released.max(Some(upto)),
                Order::Upgrade => upgrades = true,
            }
        }
        // The lock is free when the actor hears of it, so that the actor can write what follows at once.
        let durable = lock().write(&batches);
        if let Some(seq) = durable {
            persisted(seq);
        }
        if let Some(upto) = released {
            lock().release(upto);
        }
        if upgrades {
            lock().upgrade();
        }
    }
}

/// How quick the disk has been of late.
#[derive(Default)]
struct Pace {
    quick: u32,
}

impl Pace {
    fn note(&mut self, took: Duration) {
        self.quick = if took <= QUICK { self.quick.saturating_add(1) } else { 0 };
    }

    fn is_quick(&self) -> bool {
        self.quick >= QUICK_IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// A log in memory: what became durable by which sync. Batch 7 needs to be prepared for.
    #[derive(Default)]
    struct Memory {
        written: Vec<u64>,
        frames: Vec<Vec<u64>>,
        released: Vec<u64>,
        upgraded_after: Option<u64>,
    }

    impl LogFile for Memory {
        type Batch = u64;
        type Seq = u64;
        type Released = u64;
        const NAME: &'static str = "a log of tests";

        fn seq(batch: &u64) -> u64 {
            *batch
        }

        fn needs_prepare(batch: &u64) -> bool {
            *batch == 7
        }

        fn fits(&self, _: &[u64]) -> bool {
            true
        }

        fn write(&mut self, batches: &[u64]) -> Result<(), engine::Error> {
            self.written.extend(batches);
            Ok(())
        }

        fn sync(&mut self) -> Result<(), engine::Error> {
            self.frames.push(std::mem::take(&mut self.written));
            Ok(())
        }

        fn release(&mut self, upto: u64) -> Result<(), engine::Error> {
            self.released.push(upto);
            Ok(())
        }

        fn is_of_earlier_release(&self) -> bool {
            self.upgraded_after.is_none()
        }

        fn upgrade(&mut self) -> Result<(), engine::Error> {
            self.upgraded_after = self.frames.concat().last().copied();
            Ok(())
        }
    }

    /// What was durable when it was asked to prepare.
    #[derive(Clone, Default)]
    struct Observer {
        durable: Arc<Mutex<Vec<u64>>>,
        prepared_after: Arc<Mutex<Option<Vec<u64>>>>,
    }

    impl LogObserver<Memory> for Observer {
        fn prepare(&mut self, _: &u64) {
            *self.prepared_after.lock().unwrap() = Some(self.durable.lock().unwrap().clone());
        }

        fn report(&mut self, file: &Memory, _: Option<Duration>) {
            *self.durable.lock().unwrap() = file.frames.concat();
        }

        fn upgraded(&mut self, _: &Memory) {}
    }

    #[test]
    fn a_disk_is_quick_after_a_row_of_quick_syncs_and_slow_after_one_that_is_not() {
        let mut pace = Pace::default();
        for round in 0..2 {
            for _ in 1..QUICK_IN_A_ROW {
                pace.note(QUICK);
                assert!(!pace.is_quick(), "round {round}");
            }
            pace.note(QUICK);
            assert!(pace.is_quick());
            pace.note(QUICK * 2);
            assert!(!pace.is_quick());
        }
    }

    #[test]
    fn what_gathered_is_one_frame_and_what_needs_preparing_begins_another() {
        let observer = Observer::default();
        let writer = LogWriter::new(Memory::default(), observer.clone());
        let mut writer = writer.lock().unwrap();
        assert_eq!(writer.write(&[4, 5, 7, 8]), Some(8));
        assert_eq!(writer.write(&[]), None);
        assert_eq!(writer.file.frames, [vec![4, 5], vec![7, 8]]);
        assert_eq!(*observer.prepared_after.lock().unwrap(), Some(vec![4, 5]));
    }

    #[test]
    fn the_owner_writes_by_itself_only_on_a_quick_disk_and_behind_what_it_handed_over() {
        let (writer, orders) = (LogWriter::new(Memory::default(), Observer::default()), Queue::new());
        let mut owner = LogOwner::new(writer.clone());
        assert_eq!(owner.write(vec![1], &orders), None, "nothing is known of the disk yet");
        writer.lock().unwrap().pace.quick = QUICK_IN_A_ROW;
        assert_eq!(owner.write(vec![2], &orders), None, "the thread has not written what came before");
        owner.persisted(1);
        assert_eq!(owner.write(vec![3], &orders), None, "nor all of it");
        owner.persisted(3);
        assert_eq!(owner.write(vec![7], &orders), None, "others wait while this is prepared");
        owner.persisted(7);
        writer.lock().unwrap().pace.quick = QUICK_IN_A_ROW;
        assert_eq!(owner.write(vec![8, 9], &orders), Some(9));
        assert_eq!(owner.write(Vec::new(), &orders), None);
    }

    #[test]
    fn the_thread_writes_before_it_releases_and_tells_how_far_it_is() {
        let (writer, orders) = (LogWriter::new(Memory::default(), Observer::default()), Queue::new());
        for order in [Order::Upgrade, Order::Write(vec![1, 2]), Order::Release(1), Order::Write(vec![3])] {
            assert!(orders.push(order));
        }
        orders.close();
        let told = Mutex::new(Vec::new());
        thread::scope(|scope| {
            scope.spawn(|| run(&orders, &writer, |seq| told.lock().unwrap().push(seq)));
        });
        let file = &writer.lock().unwrap().file;
        assert_eq!((file.frames.concat(), file.released.clone()), (vec![1, 2, 3], vec![1]));
        assert_eq!(file.upgraded_after, Some(3));
        assert_eq!(told.into_inner().unwrap(), [3]);
    }
}
