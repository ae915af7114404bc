//! `althing version`: which Althing this is, and which etcd's API it speaks.

use super::{Error, print};
use clap::Args;

const EXAMPLE: &str = "\
Example:
  althing version";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Version {}

impl Version {
    pub fn run(&self) -> Result<(), Error> {
        let api = api::ETCD_VERSION.rsplit_once('.').map_or(api::ETCD_VERSION, |(api, _)| api);
        print(format!("althing version: {}\nAPI version: {api}\n", env!("CARGO_PKG_VERSION")).as_bytes())
    }
}
