//! `althing put`: writes a key. A value that is not on the command line is read from standard input.

use super::fence::FenceOption;
use super::{Error, Options, Printer, bytes_of, parse_lease, print};
use clap::Args;
use proto::etcdserverpb::PutRequest;
use std::ffi::OsString;
use std::io::Read;

const EXAMPLE: &str = "\
Example:
  althing put greeting hello
  althing put config < config.json               the value from standard input
  althing put -- key -5                          a value that begins with a dash";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Put {
    key: OsString,
    /// Read from standard input when it is not given
    value: Option<OsString>,
    /// Attach the key to this lease, whose id is hexadecimal
    #[arg(long, value_name = "ID", default_value = "0", hide_default_value = true, value_parser = parse_lease)]
    lease: i64,
    /// Print the key as it was before
    #[arg(long)]
    prev_kv: bool,
    /// Keep the value that is there
    #[arg(long)]
    ignore_value: bool,
    /// Keep the lease that is there
    #[arg(long)]
    ignore_lease: bool,
    #[command(flatten)]
    fence: FenceOption,
}

impl Put {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let value = match (&self.value, self.ignore_value) {
            (Some(value), _) => bytes_of(value),
            (None, true) => vec![],
            (None, false) => read_value()?,
        };
        let (client, request) = (options.client()?, self.request(value)?);
        let response = match self.fence.fence()? {
            None => client.put(request).await?,
            Some(fence) => client.put_fenced(&fence, request).await?,
        };
        print(&Printer::new(options).put(&response))
    }

    /// As one operation of a transaction, which uses standard input.
    pub fn operation(&self) -> Result<PutRequest, Error> {
        self.fence.refuse_in_transaction()?;
        match (&self.value, self.ignore_value) {
            (None, false) => Err(Error::Usage("a put in a transaction needs its value".to_owned())),
            (value, _) => self.request(value.as_ref().map(bytes_of).unwrap_or_default()),
        }
    }

    fn request(&self, value: Vec<u8>) -> Result<PutRequest, Error> {
        if self.ignore_value && self.value.is_some() {
            let problem = "put command needs only 1 argument when 'ignore-value' is set";
            return Err(Error::Usage(problem.to_owned()));
        }
        Ok(PutRequest {
            key: bytes_of(&self.key).into(),
            value: value.into(),
            lease: self.lease,
            prev_kv: self.prev_kv,
            ignore_value: self.ignore_value,
            ignore_lease: self.ignore_lease,
        })
    }
}

fn read_value() -> Result<Vec<u8>, Error> {
    let mut value = vec![];
    std::io::stdin().read_to_end(&mut value).map_err(Error::Input)?;
    Ok(value)
}
