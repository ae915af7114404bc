//! `althing lease`: grants leases, shows them, keeps them alive and ends them.

use super::{Error, Options, Printer, parse_lease, print};
use crate::client::Format;
use clap::{Args, Subcommand};
use client::{LeaseKeeper, LeaseState};

const GRANT_EXAMPLE: &str = "\
Example:
  althing lease grant 60
  althing put worker/1 alive --lease 694d5765fc71500b      gone with the lease";
const REVOKE_EXAMPLE: &str = "\
Example:
  althing lease revoke 694d5765fc71500b                    its keys are deleted";
const TTL_EXAMPLE: &str = "\
Example:
  althing lease timetolive 694d5765fc71500b --keys";
const LIST_EXAMPLE: &str = "\
Example:
  althing lease list";
const KEEP_EXAMPLE: &str = "\
Example:
  althing lease keep-alive 694d5765fc71500b                until it is gone or you press Ctrl-C
  althing lease keep-alive --once 694d5765fc71500b";

#[derive(Subcommand)]
pub enum Lease {
    /// Grants a lease that lives for so many seconds
    #[command(after_help = GRANT_EXAMPLE)]
    Grant {
        /// Seconds
        #[arg(allow_negative_numbers = true, value_parser = parse_ttl)]
        ttl: i64,
        #[command(flatten)]
        options: Options,
    },
    /// Ends a lease, and deletes the keys that are attached to it
    #[command(after_help = REVOKE_EXAMPLE)]
    Revoke(Named),
    /// Prints how long a lease lives, and how much of that is left
    #[command(name = "timetolive", after_help = TTL_EXAMPLE)]
    TimeToLive {
        /// Print the keys that are attached to it
        #[arg(long)]
        keys: bool,
        #[command(flatten)]
        named: Named,
    },
    /// Lists the leases that are alive
    #[command(after_help = LIST_EXAMPLE)]
    List(Options),
    /// Keeps a lease alive
    #[command(after_help = KEEP_EXAMPLE)]
    KeepAlive {
        /// Renew it once, and stop
        #[arg(long)]
        once: bool,
        #[command(flatten)]
        named: Named,
    },
}

#[derive(Args)]
pub struct Named {
    /// The id of the lease, hexadecimal
    #[arg(value_parser = parse_lease)]
    id: i64,
    #[command(flatten)]
    options: Options,
}

fn parse_ttl(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("bad TTL ({text}), expecting seconds"))
}

impl Lease {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Lease::Grant { ttl, options } => {
                let granted = options.client()?.grant_lease(*ttl, 0).await?;
                print(&Printer::new(options).granted(&granted.response))
            }
            Lease::Revoke(Named { id, options }) => {
                let revoked = options.client()?.revoke_lease(*id).await?;
                print(&Printer::new(options).revoked(*id, &revoked))
            }
            Lease::TimeToLive { keys, named: Named { id, options } } => {
                let left = options.client()?.time_to_live(*id, *keys).await?;
                print(&Printer::new(options).time_to_live(&left, *keys))
            }
            Lease::List(options) => {
                let leases = options.client()?.leases().await?;
                print(&Printer::new(options).leases(&leases))
            }
            Lease::KeepAlive { once: true, named: Named { id, options } } => {
                let kept = options.client()?.keep_lease_once(*id).await?;
                print(&Printer::new(options).kept(&kept))
            }
            Lease::KeepAlive { once: false, named } => named.keep_alive().await,
        }
    }
}

impl Named {
    /// Prints every keep-alive that was acknowledged, until the lease is gone.
    async fn keep_alive(&self) -> Result<(), Error> {
        let client = self.options.client()?;
        let printer = Printer::new(&self.options);
        let mut keeper = match LeaseKeeper::adopt(&client, self.id).await {
            Err(client::Error::LeaseGone { .. }) => return self.gone(&printer),
            adopted => adopted?,
        };
        let mut lease_state = keeper.lease_state();
        loop {
            match lease_state {
                LeaseState::Held { kept, .. } => print(&printer.kept(&kept))?,
                LeaseState::Lost(client::Error::LeaseGone { .. }) => return self.gone(&printer),
                LeaseState::Lost(error) => return Err(error.into()),
            }
            lease_state = keeper.changed().await;
        }
    }

    fn gone(&self, printer: &Printer) -> Result<(), Error> {
        match printer.format() {
            Format::Simple => print(format!("lease {:016x} expired or revoked.\n", self.id).as_bytes()),
            _ => Ok(()),
        }
    }
}
