//! `althing defrag`: makes each endpoint, one after the other, give the free space inside its stores back to the file
//! system.

use super::{Error, Options, each_endpoint, print};
use crate::output::top::bytes;
use clap::Args;
use client::DefragmentedBytes;
use std::io::Write;

const EXAMPLE: &str = "\
Example:
  althing defrag --cluster             all members, one after the other

A member serves meanwhile. It copies what its stores hold into new files and takes these, so that long its disk
must have space for both. A defragmentation goes on when the command is interrupted or --command-timeout passes.";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Defrag {
    /// Ask all members of the cluster instead of the endpoints given
    #[arg(long)]
    cluster: bool,
    #[command(flatten)]
    options: Options,
}

impl Defrag {
    pub async fn run(&self) -> Result<(), Error> {
        let mut trouble = None;
        for client in each_endpoint(&self.options.patient(), self.cluster).await? {
            let endpoint = client.endpoint();
            match client.defragment().await {
                Ok(outcome) => {
                    let gained = outcome.map(described).unwrap_or_default();
                    print(format!("Finished defragmenting etcd member[{endpoint}]{gained}\n").as_bytes())?
                }
                Err(error) => {
                    // The exit code shows it as well.
                    let _ =
                        writeln!(std::io::stderr(), "Failed to defragment etcd member[{endpoint}] ({error})");
                    trouble = Some(error);
                }
            }
        }
        trouble.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Behind the line that etcdctl prints.
fn described(DefragmentedBytes { before, after }: DefragmentedBytes) -> String {
    format!(": {} before, {} after", bytes(before as f64), bytes(after as f64))
}
