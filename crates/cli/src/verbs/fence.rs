//! `--fence`: a write that happens only while a lock is held by the token that it names.
//! Without a value it is taken from `ALTHING_FENCE`, which `althing lock` sets for its command.

use super::Error;
use clap::Args;
use client::Fence;

/// Set for the command that runs under a lock.
pub const VARIABLE: &str = "ALTHING_FENCE";

#[derive(Args, Default)]
pub struct FenceOption {
    /// Write only while this fence holds its lock: `--fence` takes the one in ALTHING_FENCE, `--fence=lock=NAME,token=N`
    /// names it, the name percent-encoded
    #[arg(long, value_name = "FENCE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    fence: Option<String>,
}

/// The token of the lock under which this process runs.
pub fn token_of(lock: &str) -> Result<i64, Error> {
    let fence = std::env::var(VARIABLE).ok().and_then(|text| Fence::parse(&text));
    let fence = fence.filter(|fence| fence.lock == lock.as_bytes());
    fence.map(|fence| fence.token).ok_or_else(|| {
        let problem = format!(
            "this is no command of `althing lock {lock}` (ALTHING_FENCE has no token of it): name the holder by --token"
        );
        Error::Usage(problem)
    })
}

impl FenceOption {
    pub fn fence(&self) -> Result<Option<Fence>, Error> {
        let Some(given) = &self.fence else { return Ok(None) };
        let text = match given.as_str() {
            "" => std::env::var(VARIABLE).map_err(|_| {
                let problem = "--fence without a value needs ALTHING_FENCE, as `althing lock` sets it";
                Error::Usage(problem.to_owned())
            })?,
            given => given.to_owned(),
        };
        let refusal = || Error::Usage(format!("{text:?} is no fence, as lock=NAME,token=7"));
        Fence::parse(&text).map(Some).ok_or_else(refusal)
    }

    /// A transaction has one fence for all its operations.
    pub fn refuse_in_transaction(&self) -> Result<(), Error> {
        match self.fence {
            None => Ok(()),
            Some(_) => Err(Error::Usage("--fence belongs to `txn` itself, not to one operation".to_owned())),
        }
    }
}
