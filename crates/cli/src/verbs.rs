//! The client verbs, a file each. They mirror etcdctl: the same names, the same flags, the same output.
//! Words of the command line go in; text on standard output and an exit code come out.

mod alarm;
mod auth;
mod backup;
mod cluster;
mod compaction;
mod conflicts;
mod crdt;
mod data;
mod defrag;
mod del;
mod diagnose;
mod downgrade;
mod elect;
mod endpoint;
mod export;
mod fence;
mod get;
mod handlers;
mod held_command;
mod history;
mod hold_process;
mod hold_signals;
mod import;
mod inspect;
mod lease;
mod lock;
mod lock_wait;
mod member;
mod move_leader;
mod namespace;
mod put;
mod quota;
mod region;
mod ring;
mod role;
mod snapshot;
mod terminal_job;
mod top;
mod txn;
mod upgrade;
mod user;
mod version;
mod watch;
mod words;

pub use hold_process::following;

use crate::client::{Client, Error, Options, duration};
use crate::output::Printer;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Subcommand)]
pub enum Verb {
    /// Reads a key or a range of keys
    Get(With<get::Get>),
    /// Writes a key
    Put(With<put::Put>),
    /// Deletes a key or a range of keys
    Del(With<del::Del>),
    /// Compares and, depending on the outcome, reads and writes, all in one step
    Txn(With<txn::Txn>),
    /// Prints the changes of a key or a range of keys
    Watch(With<watch::Watch>),
    /// Grants leases, keeps them alive, and ends them
    #[command(subcommand)]
    Lease(lease::Lease),
    /// Takes a lock, and runs a command while it is held
    Lock(lock::Lock),
    #[command(hide = true)]
    HoldProcess(hold_process::HoldProcess),
    /// Campaigns in an election, or prints its leader
    Elect(With<elect::Elect>),
    /// Lists client connections: address, user, since when, calls, watches
    Clients(With<inspect::Clients>),
    /// Lists watches: keys, how far each is, whose it is
    Watches(With<inspect::Watches>),
    /// Lists leases: when granted, when they expire, keys, whose they are
    Leases(With<inspect::Leases>),
    /// Asks each endpoint about itself
    #[command(subcommand)]
    Endpoint(endpoint::Endpoint),
    /// Lists the members of the cluster, and changes them
    #[command(subcommand)]
    Member(member::Member),
    /// Closes the peer ports of a running cluster to nodes without its secret
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    /// Shows every node with its rates, latencies and space, again and again
    Top(top::Top),
    /// Makes one archive for a bug report: settings, metrics, states, slow requests, logs
    Diagnose(diagnose::Diagnose),
    /// Hands the leadership to another member
    MoveLeader(With<move_leader::MoveLeader>),
    /// Compacts the revisions before one
    Compaction(With<compaction::Compaction>),
    /// Prints the changes of a key, also when its old values are compacted
    History(With<history::History>),
    /// Prints the quota, and sets it
    Quota(With<quota::Quota>),
    /// Tells the cluster that it will go back to an older etcd
    #[command(subcommand)]
    Downgrade(downgrade::Downgrade),
    /// Returns free space inside the store to the file system
    Defrag(defrag::Defrag),
    /// Lists alarms, and ends them
    #[command(subcommand)]
    Alarm(alarm::Alarm),
    /// Turns authentication on and off
    #[command(subcommand)]
    Auth(auth::Auth),
    /// Manages users
    #[command(subcommand)]
    User(user::User),
    /// Manages roles: what may be done with which keys
    #[command(subcommand)]
    Role(role::Role),
    /// Saves a backup, prints its content, and restores one
    #[command(subcommand)]
    Snapshot(snapshot::Snapshot),
    /// Saves both planes of a running cluster into a directory or bucket, and restores them
    #[command(subcommand)]
    Backup(backup::Backup),
    /// Copies the keys of another store or of a file into this one
    #[command(subcommand)]
    Import(import::Import),
    /// Writes keys and values into a file
    #[command(subcommand)]
    Export(export::Export),
    /// Reads and writes keys of the leaderless store
    #[command(subcommand)]
    Data(data::Data),
    /// Counts, collects and adds up, in values that merge
    Crdt(crdt::Crdt),
    /// Shows the ring: its nodes, the data of each, and what moves
    Ring(ring::Ring),
    /// Lists the other regions with their lag, adds one, evicts one
    #[command(subcommand)]
    Region(region::Region),
    /// Lists namespaces of the leaderless store, and makes, changes and removes one
    #[command(subcommand)]
    Namespace(namespace::Namespace),
    /// Lists how custom values merge, registers a script, deletes one
    #[command(subcommand)]
    Handlers(handlers::Handlers),
    /// Lists writes that lost, and restores one
    #[command(subcommand)]
    Conflicts(conflicts::Conflicts),
    /// Shows which release every node runs, and closes the way back to the release before
    #[command(subcommand)]
    Upgrade(upgrade::Upgrade),
    /// Prints the version of this binary and of its API
    Version(version::Version),
}

/// The arguments of a verb, and the options of all.
#[derive(Args)]
pub struct With<T: Args> {
    #[command(flatten)]
    verb: T,
    #[command(flatten)]
    options: Options,
}

pub fn run(verb: Verb) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Error::Output(error)),
    };
    let outcome = runtime.block_on(run_verb(verb));
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

async fn run_verb(verb: Verb) -> Result<ExitCode, Error> {
    let outcome = match verb {
        // It exits as the command that it runs.
        Verb::Lock(lock) => return lock.run().await,
        Verb::HoldProcess(hold) => return hold.run(),
        Verb::Clients(clients) => clients.verb.run(&clients.options).await,
        Verb::Watches(watches) => watches.verb.run(&watches.options).await,
        Verb::Leases(leases) => leases.verb.run(&leases.options).await,
        Verb::Elect(elect) => elect.verb.run(&elect.options).await,
        Verb::Get(get) => get.verb.run(&get.options).await,
        Verb::Put(put) => put.verb.run(&put.options).await,
        Verb::Del(del) => del.verb.run(&del.options).await,
        Verb::Txn(txn) => txn.verb.run(&txn.options).await,
        Verb::Watch(watch) => watch.verb.run(&watch.options).await,
        Verb::Lease(lease) => lease.run().await,
        Verb::Endpoint(endpoint) => endpoint.run().await,
        Verb::Member(member) => member.run().await,
        Verb::Cluster(cluster) => cluster.run().await,
        Verb::Diagnose(diagnose) => diagnose.run().await,
        Verb::Top(top) => top.run().await,
        Verb::MoveLeader(to) => to.verb.run(&to.options).await,
        Verb::Compaction(compaction) => compaction.verb.run(&compaction.options).await,
        Verb::History(history) => history.verb.run(&history.options).await,
        Verb::Quota(quota) => quota.verb.run(&quota.options).await,
        Verb::Downgrade(downgrade) => downgrade.run().await,
        Verb::Defrag(defrag) => defrag.run().await,
        Verb::Alarm(alarm) => alarm.run().await,
        Verb::Auth(auth) => auth.run().await,
        Verb::User(user) => user.run().await,
        Verb::Role(role) => role.run().await,
        Verb::Snapshot(snapshot) => snapshot.run().await,
        Verb::Backup(backup) => backup.run().await,
        Verb::Import(import) => import.run().await,
        Verb::Export(export) => export.run().await,
        Verb::Data(data) => data.run().await,
        Verb::Crdt(crdt) => crdt.run().await,
        Verb::Ring(ring) => ring.run().await,
        Verb::Region(region) => region.run().await,
        Verb::Namespace(namespace) => namespace.run().await,
        Verb::Handlers(handlers) => handlers.run().await,
        Verb::Conflicts(conflicts) => conflicts.run().await,
        Verb::Upgrade(upgrade) => upgrade.run().await,
        Verb::Version(version) => version.run(),
    };
    outcome.map(|()| ExitCode::SUCCESS)
}

fn fail(error: &Error) -> ExitCode {
    // When standard error is closed, the exit code is enough.
    let _ = writeln!(std::io::stderr(), "Error: {error}");
    error.exit_code()
}

/// Writes to standard output. A reader that has closed it, as `head` does, is no error.
fn print(text: &[u8]) -> Result<(), Error> {
    let mut out = std::io::stdout();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}

/// Keys and values are bytes, whatever the terminal's language.
fn bytes_of(word: &OsString) -> Vec<u8> {
    word.clone().into_vec()
}

fn parse_lease(text: &str) -> Result<i64, String> {
    i64::from_str_radix(text, 16).map_err(|_| format!("bad lease ID ({text}), expecting ID in Hex"))
}

/// As a duration, or as bare seconds. Leases live for whole seconds, so a fraction counts as one.
fn parse_ttl(text: &str) -> Result<i64, String> {
    if let Ok(seconds @ 1..) = text.parse() {
        return Ok(seconds);
    }
    let ttl = duration::parse(text)?;
    if ttl.is_zero() {
        Err("a lease lives for a second at least".to_owned())
    } else {
        Ok((ttl + Duration::from_nanos(999_999_999)).as_secs() as i64)
    }
}

fn parse_member(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| format!("bad member ID ({text}), expecting ID in Hex"))
}

/// The given endpoints, or those of all members that the cluster knows of.
async fn each_endpoint(options: &Options, of_cluster: bool) -> Result<Vec<Client>, Error> {
    let client = options.client()?;
    if !of_cluster {
        return Ok(client.each());
    }
    let members = client.members().await?.members;
    let endpoints: Vec<String> = members.into_iter().flat_map(|member| member.client_ur_ls).collect();
    Ok(options.client_of(endpoints)?.each())
}

/// The range that `key`, `range_end`, `--prefix` and `--from-key` describe, as etcdctl reads them.
fn range_of(
    key: &OsString,
    range_end: Option<&OsString>,
    extent: RangeForm,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let mut key = bytes_of(key);
    if extent != RangeForm::Given && range_end.is_some() {
        let problem = "too many arguments, only accept one argument when `--prefix` or `--from-key` is set";
        return Err(Error::Usage(problem.to_owned()));
    }
    let all = key.is_empty() && extent != RangeForm::Given;
    if all {
        key = vec![0];
    }
    let end = match extent {
        RangeForm::Given => range_end.map(bytes_of).unwrap_or_default(),
        RangeForm::Prefix if !all => base::key_range::prefix_end(&key).to_vec(),
        RangeForm::Prefix | RangeForm::FromKey => vec![0],
    };
    Ok((key, end))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeForm {
    /// The one key, or up to the range end that was given.
    Given,
    Prefix,
    FromKey,
}

impl RangeForm {
    fn of(prefix: bool, from_key: bool) -> Result<RangeForm, Error> {
        match (prefix, from_key) {
            (true, true) => Err(Error::Usage(
                "`--prefix` and `--from-key` cannot be set at the same time, choose one".to_owned(),
            )),
            (true, false) => Ok(RangeForm::Prefix),
            (false, true) => Ok(RangeForm::FromKey),
            (false, false) => Ok(RangeForm::Given),
        }
    }
}
