//! `althing clients`, `althing watches` and `althing leases`: who is connected, what they watch, and what lives how long.

use super::{Error, Options, each_endpoint, print};
use crate::client::Client;
use crate::output::inspect;
use clap::Args;
use proto::inspect::{ClientsRequest, LeasesRequest, WatchesRequest};

const CLIENTS_EXAMPLE: &str = "\
Example:
  althing clients                      the connections of the asked member
  althing clients --cluster -w table   those of all members";
const WATCHES_EXAMPLE: &str = "\
Example:
  althing watches                      what is watched through the asked member, and how far each watch is
  althing watches --client 7 -w json   of one client, by the id that `althing clients` prints";
const LEASES_EXAMPLE: &str = "\
Example:
  althing leases                       every lease with its times, keys and client
  althing leases -w table";

#[derive(Args)]
#[command(after_help = CLIENTS_EXAMPLE)]
pub struct Clients {
    #[command(flatten)]
    list: ListOptions,
}

#[derive(Args)]
#[command(after_help = WATCHES_EXAMPLE)]
pub struct Watches {
    /// Only of the client with this id
    #[arg(long, value_name = "ID", default_value_t = 0, hide_default_value = true)]
    client: u64,
    #[command(flatten)]
    list: ListOptions,
}

#[derive(Args)]
#[command(after_help = LEASES_EXAMPLE)]
pub struct Leases {
    /// Print so many at most [default: 1000, and 10000 at most]
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    limit: i64,
}

#[derive(Args)]
struct ListOptions {
    /// Ask all members of the cluster
    #[arg(long)]
    cluster: bool,
    /// Print so many of each member at most [default: 1000, and 10000 at most]
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    limit: i64,
}

impl ListOptions {
    async fn members(&self, options: &Options) -> Result<Vec<Client>, Error> {
        each_endpoint(options, self.cluster).await
    }
}

impl Clients {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let mut all = Vec::new();
        for member in self.list.members(options).await? {
            let request = ClientsRequest { limit: self.list.limit, ..ClientsRequest::default() };
            let answer = member.describe_clients(request).await?;
            all.push((member.endpoint().to_owned(), answer));
        }
        print(inspect::clients(options.write_out, &all).as_bytes())
    }
}

impl Watches {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let mut all = Vec::new();
        for member in self.list.members(options).await? {
            let request =
                WatchesRequest { limit: self.list.limit, client: self.client, ..WatchesRequest::default() };
            all.push((member.endpoint().to_owned(), member.describe_watches(request).await?));
        }
        print(inspect::watches(options.write_out, &all).as_bytes())
    }
}

impl Leases {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let request = LeasesRequest { limit: self.limit, after: 0 };
        let answer = options.client()?.describe_leases(request).await?;
        print(inspect::leases(options.write_out, &answer).as_bytes())
    }
}
