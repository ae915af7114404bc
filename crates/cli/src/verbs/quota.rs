//! `althing quota`: the quota of all members, changed while they run.

use super::{Error, Options, print};
use crate::client::Format;
use clap::Args;
use proto::althing::store::v1::quota_request::Action;
use proto::althing::store::v1::{QuotaRequest, QuotaResponse};

const EXAMPLE: &str = "\
Example:
  althing quota                        how much is stored, and how much may be
  althing quota 8589934592             from now on 8 GiB, on all members; 0 sets no bound
  althing quota --reset                what each member was started with";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Quota {
    /// The quota from now on
    bytes: Option<u64>,
    /// Leave it to the setting of each member again
    #[arg(long, conflicts_with = "bytes")]
    reset: bool,
}

impl Quota {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        let (action, bytes) = match (self.bytes, self.reset) {
            (Some(bytes), _) => (Action::Set, bytes),
            (None, true) => (Action::Reset, 0),
            (None, false) => (Action::Get, 0),
        };
        let answer = options.client()?.quota(QuotaRequest { action: action as i32, bytes }).await?;
        let QuotaResponse { quota_bytes, stored_bytes, .. } = answer;
        let text = match options.write_out {
            Format::Json => format!("{{\"quota_bytes\":{quota_bytes},\"stored_bytes\":{stored_bytes}}}\n"),
            _ if quota_bytes == 0 => format!("{stored_bytes} bytes stored, no quota\n"),
            _ => format!("{stored_bytes} of {quota_bytes} bytes stored\n"),
        };
        print(text.as_bytes())
    }
}
