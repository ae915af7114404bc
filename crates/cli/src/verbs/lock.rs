//! `althing lock`: takes a lock and runs a command while it is held, or holds it until a signal arrives; lists locks
//! and their holders. However it ends, the lock is released; when the lock is lost, the command is stopped.

use super::held_command::HeldCommand;
use super::hold_signals::HoldSignals;
use super::lock_wait::WaitProgress;
use super::{Error, Options, Printer, bytes_of, fence, parse_ttl, print};
use crate::client::{Client, duration};
use clap::{Args, Subcommand};
use client::{Guard, Lease, LockOptions};
use proto::etcdserverpb::RangeRequest;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

const EXAMPLE: &str = "\
Example:
  althing lock backup -- ./backup.sh --full         only one runs at a time, on all machines together
  althing lock backup --timeout 0s -- ./backup.sh   ... or not at all, if the lock is held
  althing lock backup                               print the key, and hold the lock until Ctrl-C
  althing lock ls                                   which locks are held
  althing lock inspect backup                       who holds this one, and who waits for it
  althing lock update backup --metadata 40%         what this holder says about itself, from its command
  althing lock -- ls ./backup.sh                    a lock that is called `ls`

The command finds its lock in ALTHING_LOCK_NAME, ALTHING_LOCK_KEY, ALTHING_FENCING_TOKEN and ALTHING_FENCE (and, as with
etcdctl, in ETCD_LOCK_KEY and ETCD_LOCK_REV). A write that carries the fence is refused once the lock has passed on:
  althing put --fence result 42
  curl -H \"X-Fence: $ALTHING_FENCE\" http://127.0.0.1:2379/v3/kv/put -d ...

Signals are passed on to the command and to all processes that it has started; HUP, INT, QUIT and TERM end it, after the
grace by SIGKILL. When no member answers, it gets SIGTERM while the lease still lasts, and SIGKILL before the lease can
end; when the lock is gone already, SIGKILL. So it does when this process is killed, or is stopped for that long. `etcdctl
lock` on the same name is excluded.

The exit code is the command's (128 and the number of the signal that ended it), or:
  2    a mistake on the command line            124  the lock was not to be had before --timeout
  121  --timeout 0s, and the lock is held       126  the command cannot be run
  122  the lock was lost                        127  the command was not found
  123  no member was reachable                  130  interrupted while it waited";

/// Exit codes beside those of the command.
const HELD: u8 = 121;
const LOST: u8 = 122;
const UNREACHABLE: u8 = 123;
const TIMED_OUT: u8 = 124;
/// A lock that is lost is not released; for a moment it is tried all the same.
const PARTING: Duration = Duration::from_millis(300);

const LS_EXAMPLE: &str = "\
Example:
  althing lock ls
  althing lock ls jobs/ -w table                    those whose names begin with jobs/";
const INSPECT_EXAMPLE: &str = "\
Example:
  althing lock inspect backup
  althing lock inspect backup -w json";

const UPDATE_EXAMPLE: &str = "\
Example:
  althing lock backup -- sh -c 'althing lock update backup --metadata \"half done\"'
  althing lock update backup --token 17 --metadata \"stopped by Ann\"     from elsewhere; `inspect` shows the token";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true, after_help = EXAMPLE)]
pub struct Lock {
    #[command(subcommand)]
    look: Option<LockQuery>,
    /// The name of the lock; behind `--` it may also be `ls`, `inspect` or `update`
    name: Option<String>,
    /// What to run while the lock is held, with its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    /// How long the lock stays taken after the last keep-alive of this process
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_ttl)]
    ttl: i64,
    /// How long to wait for the lock; 0s does not wait [default: as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// The name of the holder in `ls` and `inspect` [default: the lease]
    #[arg(long, value_name = "HOLDER", default_value = "", hide_default_value = true)]
    id: String,
    /// Any text about this holder for others to read
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    metadata: OsString,
    /// How long the command may take to end after SIGTERM, before it gets SIGKILL; when members are silent, a fifth of
    /// the TTL at most
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    grace: Duration,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum LockQuery {
    /// Lists the locks that are held
    #[command(after_help = LS_EXAMPLE)]
    Ls {
        /// Names that begin so
        #[arg(default_value = "", hide_default_value = true)]
        prefix: String,
        #[command(flatten)]
        options: Options,
    },
    /// Prints the holder of a lock, and the waiters
    #[command(after_help = INSPECT_EXAMPLE)]
    Inspect {
        name: String,
        #[command(flatten)]
        options: Options,
    },
    /// Replaces the metadata of the holder
    #[command(after_help = UPDATE_EXAMPLE)]
    Update {
        name: String,
        /// Any text about the holder for others to read
        #[arg(long, value_name = "TEXT")]
        metadata: OsString,
        /// The holder's fencing token [default: that of ALTHING_FENCE, as the command of `althing lock` has it]
        #[arg(long, value_name = "TOKEN")]
        token: Option<i64>,
        #[command(flatten)]
        options: Options,
    },
}

impl Lock {
    pub async fn run(&self) -> Result<ExitCode, Error> {
        match &self.look {
            Some(look) => look.run().await.map(|()| ExitCode::SUCCESS),
            None => self.hold().await,
        }
    }

    async fn hold(&self) -> Result<ExitCode, Error> {
        let name = self.name()?;
        let client = self.options.client()?;
        let mut signals = HoldSignals::new().map_err(Error::Signals)?;
        let lease = OnceLock::new();
        let progress = WaitProgress { client: &client, name, lease: &lease };
        let taken = tokio::select! {
            taken = client.lock_noting(name, self.lock_options(), &lease) => {
                Some(taken.map_err(|reason| self.not_taken(reason))?)
            }
            _ = signals.stop_requested() => None,
            never = progress.print(), if std::io::stderr().is_terminal() => match never {},
        };
        let outcome = match &taken {
            Some(guard) => self.use_lock(&client, name, guard, &mut signals).await,
            None => Err(Error::Interrupted),
        };
        if matches!(outcome, Err(Error::Lock { code: LOST, .. })) {
            drop(taken);
            // There is nothing to wait for.
            let _ = tokio::time::timeout(PARTING, client.wait_for_releases()).await;
            return outcome;
        }
        let released = match taken {
            Some(guard) => guard.release().await,
            None => Ok(()),
        };
        // A call that was interrupted while it waited has left the queue before the process ends.
        client.wait_for_releases().await;
        // The command's result matters more than whether the lock could be released in time.
        match outcome {
            Ok(code) if code == ExitCode::SUCCESS => released.map(|()| code).map_err(Error::Call),
            outcome => outcome,
        }
    }

    fn not_taken(&self, reason: client::Error) -> Error {
        let code = match &reason {
            client::Error::LockHeld { .. } if self.timeout == Some(Duration::ZERO) => HELD,
            client::Error::LockHeld { .. } => TIMED_OUT,
            client::Error::Unreachable { .. } | client::Error::TimedOut => UNREACHABLE,
            client::Error::Refused(status) if status.code() == tonic::Code::Unavailable => UNREACHABLE,
            client::Error::LockLost { .. } | client::Error::LeaseGone { .. } => LOST,
            _ => return Error::Call(reason),
        };
        Error::Lock { reason, code }
    }

    /// A name that equals a subcommand is more likely meant as that.
    fn name(&self) -> Result<&str, Error> {
        let name = self.name.as_deref();
        let name = name.ok_or_else(|| Error::Usage("which lock? `althing lock NAME`".to_owned()))?;
        let is_question =
            matches!(name, "ls" | "inspect" | "update") && !std::env::args_os().any(|word| word == "--");
        if is_question {
            Err(Error::Usage(format!(
                "`{name}` stands before all options; a lock of that name is taken by `althing lock -- {name}`"
            )))
        } else {
            Ok(name)
        }
    }

    fn lock_options(&self) -> LockOptions {
        LockOptions {
            lease: Lease::Own { ttl_seconds: self.ttl },
            timeout: self.timeout,
            holder_id: self.id.clone(),
            metadata: bytes_of(&self.metadata),
        }
    }

    async fn use_lock(
        &self,
        client: &Client,
        name: &str,
        guard: &Guard,
        signals: &mut HoldSignals,
    ) -> Result<ExitCode, Error> {
        // Between the name and the command there may be another `--`.
        let separator = usize::from(self.command.first().is_some_and(|word| word == "--"));
        match self.command[separator..].split_first() {
            Some((program, arguments)) => {
                let ttl = Duration::from_secs(self.ttl.unsigned_abs());
                let command = HeldCommand { program, arguments, grace: self.grace, ttl };
                command.run(name, guard, signals).await
            }
            None => self.show_and_wait(client, guard, signals).await,
        }
    }

    async fn show_and_wait(
        &self,
        client: &Client,
        guard: &Guard,
        signals: &mut HoldSignals,
    ) -> Result<ExitCode, Error> {
        let request = RangeRequest { key: guard.key().to_vec().into(), ..Default::default() };
        print(&Printer::new(&self.options).range(&client.range(request).await?))?;
        tokio::select! {
            reason = guard.lost() => Err(lost(reason)),
            _ = signals.stop_requested() => Ok(ExitCode::SUCCESS),
        }
    }
}

/// The lock is lost.
pub(super) fn lost(reason: client::Error) -> Error {
    Error::Lock { reason, code: LOST }
}

impl LockQuery {
    async fn run(&self) -> Result<(), Error> {
        match self {
            LockQuery::Ls { prefix, options } => {
                let locks = options.client()?.locks(prefix).await?;
                print(&Printer::new(options).locks(&locks))
            }
            LockQuery::Inspect { name, options } => {
                let found = options.client()?.inspect_lock(name).await?;
                print(&Printer::new(options).lock(name, &found))
            }
            LockQuery::Update { name, metadata, token, options } => {
                let token = token.map_or_else(|| fence::token_of(name), Ok)?;
                let updated = options.client()?.update_lock(name, token, bytes_of(metadata)).await?;
                print(&Printer::new(options).done(updated.header, "OK"))
            }
        }
    }
}
