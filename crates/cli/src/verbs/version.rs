//! `althing version`: which Althing this is, and which etcd's API it speaks.

use super::{Error, print};
use clap::Args;

const EXAMPLE: &str = "\
Example:
  althing version";

const TEST_BUILD: &str = "test build: planted bugs are compiled in; do not run it with data that matters\n";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Version {}

impl Version {
    pub fn run(&self) -> Result<(), Error> {
        let api = api::ETCD_VERSION.rsplit_once('.').map_or(api::ETCD_VERSION, |(api, _)| api);
        let version = env!("CARGO_PKG_VERSION");
        let test_build = if base::mutant::COMPILED_IN { TEST_BUILD } else { "" };
        print(format!("althing version: {version}\nAPI version: {api}\n{test_build}").as_bytes())
    }
}
