//! `althing elect`: campaigns and leads until it is stopped, or prints the leader.

use super::{Error, Options, Printer, bytes_of, parse_ttl, print};
use crate::client::Client;
use crate::signals::Signals;
use clap::Args;
use client::{Leadership, Lease};
use proto::etcdserverpb::{RangeRequest, RangeResponse};
use std::ffi::OsString;

const EXAMPLE: &str = "\
Example:
  althing elect scheduler host-7                    print the key when elected, and lead until Ctrl-C
  althing elect scheduler -l                        tell who leads, now and from now on";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Elect {
    /// The name of the election
    name: OsString,
    /// What the leader proclaims: its name, or its address
    value: Option<OsString>,
    /// Print every leader instead of campaigning
    #[arg(short, long)]
    listen: bool,
    /// How long a leader stays leader after its last keep-alive
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_ttl)]
    ttl: i64,
}

impl Elect {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let client = options.client()?;
        let printer = Printer::new(options);
        match (&self.value, self.listen) {
            (None, true) => self.listen(&client, &printer).await,
            (Some(value), false) => self.lead(&client, &printer, &bytes_of(value)).await,
            (None, false) => Err(Error::Usage("no proposal argument but -l not set".to_owned())),
            (Some(_), true) => Err(Error::Usage("proposal given but -l is set".to_owned())),
        }
    }

    /// Ends when it is interrupted, or when the election cannot be observed at all.
    async fn listen(&self, client: &Client, printer: &Printer) -> Result<(), Error> {
        let mut observer = client.observe(&bytes_of(&self.name));
        loop {
            let told = observer.next().await?;
            let kvs = Vec::from_iter(told.kv);
            let count = kvs.len() as i64;
            print(&printer.range(&RangeResponse { header: told.header, kvs, count, more: false }))?;
        }
    }

    async fn lead(&self, client: &Client, printer: &Printer, value: &[u8]) -> Result<(), Error> {
        let mut signals = Signals::new().map_err(Error::Signals)?;
        let lease = Lease::Own { ttl_seconds: self.ttl };
        let name = bytes_of(&self.name);
        let elected = tokio::select! {
            elected = client.campaign(&name, value, lease) => Some(elected?),
            _ = signals.next() => None,
        };
        let outcome = match &elected {
            Some(leadership) => show_and_wait(client, printer, leadership, &mut signals).await,
            None => Err(Error::Interrupted),
        };
        let resigned = match elected {
            Some(leadership) => leadership.resign().await,
            None => Ok(()),
        };
        // A candidate that was interrupted while it waited has left the election before the process ends.
        client.wait_for_releases().await;
        outcome.and_then(|()| Ok(resigned?))
    }
}

async fn show_and_wait(
    client: &Client,
    printer: &Printer,
    leadership: &Leadership,
    signals: &mut Signals,
) -> Result<(), Error> {
    let request = RangeRequest { key: leadership.key().to_vec().into(), ..Default::default() };
    print(&printer.range(&client.range(request).await?))?;
    tokio::select! {
        error = leadership.lost() => Err(error.into()),
        _ = signals.next() => Ok(()),
    }
}
