//! `althing downgrade`: as `etcdctl downgrade`, which prepares a cluster of etcd for an older release. Here the members
//! remember it and change nothing by it.

use super::{Error, Options, Printer, print};
use clap::Subcommand;
use proto::etcdserverpb::DowngradeRequest;
use proto::etcdserverpb::downgrade_request::DowngradeAction;

const VALIDATE_EXAMPLE: &str = "\
Example:
  althing downgrade validate 3.6";
const ENABLE_EXAMPLE: &str = "\
Example:
  althing downgrade enable 3.6         then start etcd 3.6 from a snapshot: `althing snapshot save`";
const CANCEL_EXAMPLE: &str = "\
Example:
  althing downgrade cancel";

#[derive(Subcommand)]
pub enum Downgrade {
    /// Checks whether the cluster could go back to this version of etcd
    #[command(after_help = VALIDATE_EXAMPLE)]
    Validate {
        #[arg(value_name = "TARGET_VERSION")]
        version: String,
        #[command(flatten)]
        options: Options,
    },
    /// Notes that the cluster is to go back to this version of etcd
    #[command(after_help = ENABLE_EXAMPLE)]
    Enable {
        #[arg(value_name = "TARGET_VERSION")]
        version: String,
        #[command(flatten)]
        options: Options,
    },
    /// Ends the downgrade that is noted
    #[command(after_help = CANCEL_EXAMPLE)]
    Cancel(Options),
}

impl Downgrade {
    pub async fn run(&self) -> Result<(), Error> {
        let (action, name, version, options) = match self {
            Downgrade::Validate { version, options } => {
                (DowngradeAction::Validate, "validate", version.as_str(), options)
            }
            Downgrade::Enable { version, options } => {
                (DowngradeAction::Enable, "enable", version.as_str(), options)
            }
            Downgrade::Cancel(options) => (DowngradeAction::Cancel, "cancel", "", options),
        };
        let request = DowngradeRequest { action: action as i32, version: version.to_owned() };
        let response = options.client()?.downgrade(request).await?;
        print(&Printer::new(options).downgrade(name, &response))
    }
}
