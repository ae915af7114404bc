//! `althing del`: deletes a key or a range of keys, and prints how many there were.

use super::fence::FenceOption;
use super::{Error, Options, Printer, RangeForm, print, range_of};
use clap::Args;
use proto::etcdserverpb::DeleteRangeRequest;
use std::ffi::OsString;

const EXAMPLE: &str = "\
Example:
  althing del greeting
  althing del sessions/ --prefix                 every key that begins with sessions/
  althing del a c --range                        a and b, but not c";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Del {
    key: OsString,
    /// Deletes up to this key, which is not part of the range
    range_end: Option<OsString>,
    /// Delete all keys that begin with the key
    #[arg(long)]
    prefix: bool,
    /// Delete the key and all that come after it
    #[arg(long)]
    from_key: bool,
    /// Say that a range is meant; a range end must be given
    #[arg(long)]
    range: bool,
    /// Print the keys as they were
    #[arg(long)]
    prev_kv: bool,
    #[command(flatten)]
    fence: FenceOption,
}

impl Del {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let (client, request) = (options.client()?, self.request()?);
        let response = match self.fence.fence()? {
            None => client.delete(request).await?,
            Some(fence) => client.delete_fenced(&fence, request).await?,
        };
        print(&Printer::new(options).delete(&response))
    }

    /// As one operation of a transaction, which has one fence for all.
    pub fn operation(&self) -> Result<DeleteRangeRequest, Error> {
        self.fence.refuse_in_transaction()?;
        self.request()
    }

    fn request(&self) -> Result<DeleteRangeRequest, Error> {
        if self.range && self.range_end.is_none() {
            return Err(Error::Usage("--range needs a range end: `del KEY RANGE_END --range`".to_owned()));
        }
        let extent = RangeForm::of(self.prefix, self.from_key)?;
        let (key, range_end) = range_of(&self.key, self.range_end.as_ref(), extent)?;
        Ok(DeleteRangeRequest { key: key.into(), range_end: range_end.into(), prev_kv: self.prev_kv })
    }
}
