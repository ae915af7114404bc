//! `althing compaction`: compacts the revisions before one.

use super::{Error, Options, print};
use clap::Args;
use proto::etcdserverpb::CompactionRequest;

const EXAMPLE: &str = "\
Example:
  althing compaction 1000              what was before revision 1000 can no longer be read
  althing compaction 1000 --physical   and is gone from the store when this returns";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Compaction {
    /// The oldest revision that can still be read afterwards
    #[arg(allow_negative_numbers = true)]
    revision: i64,
    /// Wait until the old revisions have left the store, however long that takes unless --command-timeout is given
    #[arg(long)]
    physical: bool,
}

impl Compaction {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let request = CompactionRequest { revision: self.revision, physical: self.physical };
        let client = if self.physical { options.patient().client()? } else { options.client()? };
        client.compact(request).await?;
        print(format!("compacted revision {}\n", self.revision).as_bytes())
    }
}
