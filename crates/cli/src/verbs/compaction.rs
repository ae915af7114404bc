//! `althing compaction`: compacts the revisions before one, or prints what delays automatic compaction.

use super::{Error, Options, print};
use crate::output::inspect;
use clap::Args;
use proto::etcdserverpb::CompactionRequest;

const EXAMPLE: &str = "\
Example:
  althing compaction 1000              what was before revision 1000 can no longer be read
  althing compaction 1000 --physical   and is gone from the store when this returns
  althing compaction --status          how far the past is compacted, and what keeps the rest";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Compaction {
    /// The oldest revision that can still be read afterwards
    #[arg(allow_negative_numbers = true, required_unless_present = "status")]
    revision: Option<i64>,
    /// Print how far the past is compacted, and what keeps the rest on the asked member
    #[arg(long, conflicts_with_all = ["revision", "physical"])]
    status: bool,
    /// Wait until the old revisions have left the store, however long that takes unless --command-timeout is given
    #[arg(long)]
    physical: bool,
}

impl Compaction {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let Some(revision) = self.revision else {
            let answer = options.client()?.describe_compaction().await?;
            return print(inspect::compaction(&answer).as_bytes());
        };
        let request = CompactionRequest { revision, physical: self.physical };
        let client = if self.physical { options.patient().client()? } else { options.client()? };
        client.compact(request).await?;
        print(format!("compacted revision {revision}\n").as_bytes())
    }
}
