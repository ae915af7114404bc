//! `althing watch`: prints the changes of keys, from now on or from a revision on, and runs a command for every
//! event if one is given. When the connection breaks, the watch resumes where it was.

mod interactive;

use super::{Error, Options, Printer, RangeForm, print, range_of};
use crate::output::quote::quote;
use clap::Args;
use client::Watcher;
use proto::etcdserverpb::{WatchCreateRequest, WatchResponse};
use proto::mvccpb::Event;
use std::ffi::OsString;
use tokio::sync::Notify;

const EXAMPLE: &str = "\
Example:
  althing watch services/ --prefix --prev-kv        what changes below services/, and what was there before
  althing watch greeting --rev 7                    everything since revision 7, and then what happens
  althing watch config -- ./reload.sh               run a command for every event
  althing watch -i                                  read lines as `watch KEY` from standard input

The command finds the event in ETCD_WATCH_REVISION, ETCD_WATCH_EVENT_TYPE, ETCD_WATCH_KEY and ETCD_WATCH_VALUE; the
last three are quoted as Go quotes strings.";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Watch {
    #[command(flatten)]
    subject: WatchTarget,
    /// Read watches from standard input, one a line; `progress` asks how far they are
    #[arg(short, long)]
    interactive: bool,
}

/// What is watched, and the command to run.
#[derive(Args)]
struct WatchTarget {
    #[arg(env = "ETCDCTL_WATCH_KEY", hide_env = true)]
    key: Option<OsString>,
    /// Watches up to this key, which is not part of the range
    #[arg(env = "ETCDCTL_WATCH_RANGE_END", hide_env = true)]
    range_end: Option<OsString>,
    /// Watch all keys that begin with the key
    #[arg(long)]
    prefix: bool,
    /// Begin with this revision, as far as it is kept; 0 is now
    #[arg(long, default_value_t = 0, hide_default_value = true, allow_negative_numbers = true)]
    rev: i64,
    /// Print the key as it was before
    #[arg(long)]
    prev_kv: bool,
    /// Print progress notifications
    #[arg(long)]
    progress_notify: bool,
    /// Run this for every event
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Watch {
    pub async fn run(&self, options: &Options) -> Result<(), Error> {
        if self.interactive {
            return interactive::run(options).await;
        }
        let watcher = options.client()?.watch(self.subject.request()?);
        follow(watcher, &Printer::new(options), &self.subject.command, &Notify::new()).await
    }
}

impl WatchTarget {
    fn request(&self) -> Result<WatchCreateRequest, Error> {
        let usage = || Error::Usage("which key is to be watched? `althing watch KEY`".to_owned());
        let key = self.key.as_ref().ok_or_else(usage)?;
        let (key, range_end) = range_of(key, self.range_end.as_ref(), RangeForm::of(self.prefix, false)?)?;
        Ok(WatchCreateRequest {
            key: key.into(),
            range_end: range_end.into(),
            start_revision: self.rev,
            prev_kv: self.prev_kv,
            progress_notify: self.progress_notify,
            ..Default::default()
        })
    }
}

/// Prints every response, until the watch ends. A message on `progress_request` requests progress.
async fn follow(
    mut watcher: Watcher,
    printer: &Printer,
    command: &[OsString],
    progress_request: &Notify,
) -> Result<(), Error> {
    loop {
        let next = tokio::select! {
            next = watcher.next() => next,
            () = progress_request.notified() => {
                watcher.request_progress().await?;
                continue;
            }
        };
        let response = match next {
            Ok(response) => response,
            Err(error @ (client::Error::Compacted { .. } | client::Error::Canceled { .. })) => {
                return Err(Error::WatchEnded(error));
            }
            Err(error) => return Err(error.into()),
        };
        print(&printer.watch(&response))?;
        for event in &response.events {
            run_command(command, &response, event).await?;
        }
    }
}

async fn run_command(command: &[OsString], response: &WatchResponse, event: &Event) -> Result<(), Error> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let kv = event.kv.clone().unwrap_or_default();
    let revision = response.header.map_or(0, |header| header.revision);
    let status = tokio::process::Command::new(program)
        .args(arguments)
        .env("ETCD_WATCH_REVISION", revision.to_string())
        .env("ETCD_WATCH_EVENT_TYPE", quote(event.r#type().as_str_name().as_bytes()))
        .env("ETCD_WATCH_KEY", quote(&kv.key))
        .env("ETCD_WATCH_VALUE", quote(&kv.value))
        .status()
        .await;
    let failed = |reason: String| {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        Err(Error::Command { command: words.join(" "), reason })
    };
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => failed(status.to_string()),
        Err(error) => failed(error.to_string()),
    }
}
