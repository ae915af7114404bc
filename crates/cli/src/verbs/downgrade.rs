//! `althing downgrade`: tells the cluster that it will go back to an older etcd, as `etcdctl downgrade` does, and prints
//! what the cluster answers. Members change nothing by it: the older etcd is started from a snapshot.

use super::{Error, Options, With, print};
use crate::output::Printer;
use clap::{Args, Subcommand};
use proto::etcdserverpb::DowngradeRequest;
use proto::etcdserverpb::downgrade_request::DowngradeAction;

const VALIDATE_EXAMPLE: &str = "\
Example:
  althing downgrade validate 3.6";
const ENABLE_EXAMPLE: &str = "\
Example:
  althing downgrade enable 3.6
  althing endpoint status -w table     shows the target
  althing snapshot save backup.db      what the older etcd is started from";
const CANCEL_EXAMPLE: &str = "\
Example:
  althing downgrade cancel";

#[derive(Subcommand)]
pub enum Downgrade {
    /// Asks whether the cluster may go back to a version
    #[command(after_help = VALIDATE_EXAMPLE)]
    Validate(With<Target>),
    /// Remembers that the cluster will go back to a version
    #[command(after_help = ENABLE_EXAMPLE)]
    Enable(With<Target>),
    /// Forgets that the cluster will go back
    #[command(after_help = CANCEL_EXAMPLE)]
    Cancel(Options),
}

#[derive(Args)]
pub struct Target {
    /// The version of etcd, such as 3.6
    target_version: String,
}

impl Downgrade {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Downgrade::Validate(With { verb, options }) => {
                ask(options, DowngradeAction::Validate, &verb.target_version).await
            }
            Downgrade::Enable(With { verb, options }) => {
                ask(options, DowngradeAction::Enable, &verb.target_version).await
            }
            Downgrade::Cancel(options) => ask(options, DowngradeAction::Cancel, "").await,
        }
    }
}

async fn ask(options: &Options, action: DowngradeAction, version: &str) -> Result<(), Error> {
    let request = DowngradeRequest { action: action as i32, version: version.to_owned() };
    let answer = options.client()?.downgrade(request).await?;
    let name = match action {
        DowngradeAction::Validate => "validate",
        DowngradeAction::Enable => "enable",
        DowngradeAction::Cancel => "cancel",
    };
    print(&Printer::new(options).downgrade(name, &answer))
}
