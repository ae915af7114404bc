//! `althing defrag`: makes each endpoint, one after the other, return free space inside its store to the file system.

use super::{Error, Options, each_endpoint, print};
use clap::Args;
use std::io::Write;

const EXAMPLE: &str = "\
Example:
  althing defrag --cluster             all members, one after the other";

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
        for client in each_endpoint(&self.options, self.cluster).await? {
            let endpoint = client.endpoint();
            match client.defragment().await {
                Ok(_) => print(format!("Finished defragmenting etcd member[{endpoint}]\n").as_bytes())?,
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
