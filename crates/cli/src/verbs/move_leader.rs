//! `althing move-leader`: finds the leader among the endpoints, and makes it transfer leadership.

use super::{Error, Options, parse_member, print};
use clap::Args;

const EXAMPLE: &str = "\
Example:
  althing endpoint status --cluster -w table                 tells the ids, and who leads
  althing move-leader 8e9e05c52164694d --endpoints 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct MoveLeader {
    /// The id of the new leader, hexadecimal
    #[arg(value_parser = parse_member)]
    to: u64,
}

impl MoveLeader {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let all = options.client()?;
        for client in all.each() {
            let status = client.status().await?;
            let id = status.header.map_or(0, |header| header.member_id);
            if id == status.leader {
                client.move_leader(self.to).await?;
                let moved = format!("Leadership transferred from {id:x} to {:x}\n", self.to);
                return print(moved.as_bytes());
            }
        }
        let given = all.config().endpoints.join(" ");
        Err(Error::Usage(format!("no leader endpoint given at [{given}]")))
    }
}
