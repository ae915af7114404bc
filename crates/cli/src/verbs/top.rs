//! `althing top`: every node of the cluster with its rates, latencies and space, drawn again every few seconds. Everything
//! comes from `/v1/cluster` and `/v1/locks` of one node, with the permissions of the caller.

use super::{Error, print};
use crate::client::duration;
use crate::output::top;
use crate::rest::{Format, RestCall, RestOptions};
use clap::Args;
use serde_json::Value;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::signal::unix::SignalKind;

const EXAMPLE: &str = "\
Example:
  althing top                            until Ctrl-C
  althing top --once                     one frame, for a script or a report
  althing top -w json --interval 10s     a line of JSON every ten seconds";

/// Locks whose queues are counted.
const LOCKS_MAX: &str = "200";
/// Another screen beside what the terminal shows, without a cursor, and long lines are cut.
const ENTER_SCREEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE_SCREEN: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// To the upper left corner; then, behind each line, the rest of it is blank, and at the end the rest of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Top {
    /// Print one frame and end
    #[arg(long)]
    once: bool,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration::parse)]
    interval: Duration,
    #[command(flatten)]
    options: RestOptions,
}

struct Look {
    cluster: Value,
    /// None if the caller may not see locks, or there is no leader.
    locks: Option<Value>,
}

impl Top {
    pub async fn run(&self) -> Result<(), Error> {
        if self.once {
            return print(self.shown(&self.look().await?).as_bytes());
        }
        let on_screen = std::io::stdout().is_terminal() && self.options.write_out != Format::Json;
        if !on_screen {
            return self.repeat(|text| print(text.as_bytes())).await;
        }
        print(ENTER_SCREEN.as_bytes())?;
        let outcome = tokio::select! {
            outcome = self.repeat(|text| print(drawn(text).as_bytes())) => outcome,
            () = told_to_end() => Ok(()),
        };
        print(LEAVE_SCREEN.as_bytes())?;
        outcome
    }

    /// What fails once is shown and tried again; only the first look must succeed.
    async fn repeat(&self, show: impl Fn(&str) -> Result<(), Error>) -> Result<(), Error> {
        show(&self.shown(&self.look().await?))?;
        loop {
            tokio::time::sleep(self.interval).await;
            match self.look().await {
                Ok(look) => show(&self.shown(&look))?,
                Err(error) if self.options.write_out == Format::Json => return Err(error),
                Err(error) => show(&format!("no node answers: {error}\n"))?,
            }
        }
    }

    async fn look(&self) -> Result<Look, Error> {
        let cluster = self.options.ask_json(RestCall::new("GET", "/v1/cluster")).await?;
        let locks = RestCall::new("GET", "/v1/locks").query("limit", Some(LOCKS_MAX));
        Ok(Look { cluster, locks: self.options.ask_json(locks).await.ok() })
    }

    fn shown(&self, look: &Look) -> String {
        match self.options.write_out {
            Format::Json => format!("{}\n", top::document(&look.cluster, look.locks.as_ref())),
            Format::Simple | Format::Table => top::frame(&look.cluster, look.locks.as_ref()),
        }
    }
}

/// Ctrl-C, or a signal that would otherwise end the process on the other screen.
async fn told_to_end() {
    let signal_of = |kind| tokio::signal::unix::signal(kind);
    let (Ok(mut terminated), Ok(mut hung_up)) =
        (signal_of(SignalKind::terminate()), signal_of(SignalKind::hangup()))
    else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
    }
}

/// The frame over the one before, without a flicker in between.
fn drawn(frame: &str) -> String {
    let lines = frame.lines().map(|line| format!("{line}{CLEAR_LINE}\r\n"));
    format!("{HOME}{}{CLEAR_BELOW}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_covers_the_one_before() {
        assert_eq!(drawn("a\nb\n"), "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n\x1b[J");
    }
}
