//! `althing auth`: turns authentication on and off, and tells which it is.

use super::{Error, Options, print};
use crate::output::Printer;
use clap::Subcommand;
use proto::etcdserverpb::{AuthDisableRequest, AuthEnableRequest, AuthStatusRequest};

const ENABLE_EXAMPLE: &str = "\
Example:
  althing user add root --new-user-password secret
  althing user grant-role root root
  althing auth enable                  from now on every caller must authenticate";
const DISABLE_EXAMPLE: &str = "\
Example:
  althing auth disable --user root:secret";
const LOGIN_EXAMPLE: &str = "\
Example:
  export ALTHING_TOKEN=$(althing auth login --user ann)
  althing data get user_1              as ann, until the token ends";
const STATUS_EXAMPLE: &str = "\
Example:
  althing auth status";

#[derive(Subcommand)]
pub enum Auth {
    /// Turns authentication on; the user root must exist and have the role root
    #[command(after_help = ENABLE_EXAMPLE)]
    Enable(Options),
    /// Turns authentication off: every caller may do everything
    #[command(after_help = DISABLE_EXAMPLE)]
    Disable(Options),
    /// Prints a token of --user, for `--token` and for `Authorization: Bearer`
    #[command(after_help = LOGIN_EXAMPLE)]
    Login(Options),
    /// Prints whether it is on
    #[command(after_help = STATUS_EXAMPLE)]
    Status(Options),
}

impl Auth {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Auth::Enable(options) => {
                let done = options.client()?.auth_enable(AuthEnableRequest {}).await?;
                print(&Printer::new(options).done(done.header, "Authentication Enabled"))
            }
            Auth::Disable(options) => {
                let done = options.client()?.auth_disable(AuthDisableRequest {}).await?;
                print(&Printer::new(options).done(done.header, "Authentication Disabled"))
            }
            Auth::Login(options) => {
                let token = options.client()?.log_in().await?;
                print(format!("{token}\n").as_bytes())
            }
            Auth::Status(options) => {
                let status = options.client()?.auth_status(AuthStatusRequest {}).await?;
                print(&Printer::new(options).auth_status(&status))
            }
        }
    }
}
