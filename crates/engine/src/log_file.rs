//! The log of a plane, as the thread that makes it durable uses it: batches in, in their order; afterwards it says how
//! far it is no longer needed.

use crate::error::Error;

pub trait LogFile: Send + 'static {
    type Batch: Send;
    /// The number of a batch.
    type Seq: Copy + Ord + Send;
    /// How far the log is no longer needed.
    type Released: Copy + Ord + Send;
    /// For messages: "the write-ahead log".
    const NAME: &'static str;

    fn seq(batch: &Self::Batch) -> Self::Seq;

    /// Everything before this batch must be durable, and the process prepared, before it is written.
    fn needs_prepare(_: &Self::Batch) -> bool {
        false
    }

    /// All of them can be written without asking the disk for more space, which may take time and on a full disk has to
    /// be waited for.
    fn fits(&self, batches: &[Self::Batch]) -> bool;

    /// Writes the batches as one frame; they are durable after `sync`.
    fn write(&mut self, batches: &[Self::Batch]) -> Result<(), Error>;

    fn sync(&mut self) -> Result<(), Error>;

    fn release(&mut self, upto: Self::Released) -> Result<(), Error>;

    /// Whether release 0.1.0 can read the log.
    fn is_of_earlier_release(&self) -> bool;

    /// From now on only this release and later ones can read the log.
    fn upgrade(&mut self) -> Result<(), Error>;
}
