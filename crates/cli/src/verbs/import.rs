//! `althing import etcd`: copies keys and leases from a running etcd, as they are at one revision, into this cluster.
//! Keys keep their values and leases their ids and times; revisions start again, because they count the writes of
//! this cluster. It may be repeated after it was interrupted.

use super::{Client, Error, Options, bytes_of, print};
use crate::progress::Progress;
use base::key_range::prefix_end;
use clap::{Args, Subcommand};
use client::Config;
use proto::etcdserverpb::request_op::Request;
use proto::etcdserverpb::{PutRequest, RangeRequest, RequestOp, TxnRequest};
use proto::mvccpb::KeyValue;
use std::collections::BTreeSet;
use std::ffi::OsString;

const EXAMPLE: &str = "\
Example:
  althing import etcd --endpoint 10.0.0.9:2379                    into the cluster on 127.0.0.1:2379
  althing import etcd --endpoint 10.0.0.9:2379 --prefix /app/     only these keys";

/// Keys that are asked for at once.
const PAGE_KEYS: i64 = 1_000;
/// Puts of one transaction; etcd's own bound.
const TXN_PUTS_MAX: usize = 128;
/// Bytes of one transaction, below the bound of a request.
const TXN_BYTES_SOFT: usize = 512 * 1024;

#[derive(Subcommand)]
pub enum Import {
    /// Copies keys and leases from a running etcd
    #[command(after_help = EXAMPLE)]
    Etcd(Etcd),
}

#[derive(Args)]
pub struct Etcd {
    /// A member of the etcd cluster to copy from
    #[arg(long, value_name = "HOST:PORT")]
    endpoint: String,
    /// Only keys that begin with this
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: OsString,
    /// Continue although there are such keys here already, and overwrite them
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    options: Options,
}

impl Import {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Import::Etcd(etcd) => etcd.run().await,
        }
    }
}

/// What has been copied.
#[derive(Default)]
struct Copied {
    keys: u64,
    /// Keys whose lease ended in the source meanwhile, and which are gone there, too.
    ended: u64,
}

impl Etcd {
    async fn run(&self) -> Result<(), Error> {
        let source = self.source()?;
        let target = self.options.client()?;
        let here = target.range(RangeRequest { count_only: true, ..self.range() }).await?.count;
        if here > 0 && !self.overwrite {
            let problem =
                format!("there are {here} such keys here already: give --overwrite to write over them");
            return Err(Error::Usage(problem));
        }
        let first = source.range(RangeRequest { count_only: true, ..self.range() }).await?;
        let revision = first.header.map_or(0, |header| header.revision);
        // Leases are read after the revision: one that is missing now has ended, with its keys.
        let leases = copy_leases(&source, &target).await?;
        let copied = self.copy_keys(&source, &target, revision, first.count as u64, &leases).await?;
        let ended = match copied.ended {
            0 => String::new(),
            ended => format!(" ({ended} more ended with their leases meanwhile)"),
        };
        let told = format!(
            "Imported {} keys{ended} and {} leases as of revision {revision}\n",
            copied.keys,
            leases.len()
        );
        print(told.as_bytes())
    }

    fn source(&self) -> Result<Client, Error> {
        let endpoints = vec![self.endpoint.clone()];
        Ok(Client::new(Config {
            tls: self.options.tls(&endpoints)?,
            endpoints,
            dial_timeout: self.options.dial_timeout,
            call_timeout: self.options.command_timeout(),
            login: None,
        })?)
    }

    fn range(&self) -> RangeRequest {
        let prefix = bytes_of(&self.prefix);
        let (key, range_end) = if prefix.is_empty() {
            (vec![0], vec![0])
        } else {
            (prefix.clone(), prefix_end(&prefix).to_vec())
        };
        RangeRequest { key: key.into(), range_end: range_end.into(), ..RangeRequest::default() }
    }

    async fn copy_keys(
        &self,
        source: &Client,
        target: &Client,
        revision: i64,
        total: u64,
        leases: &BTreeSet<i64>,
    ) -> Result<Copied, Error> {
        let mut progress = Progress::new("importing", "keys", total);
        let mut copied = Copied::default();
        let mut range = RangeRequest { revision, limit: PAGE_KEYS, ..self.range() };
        loop {
            let page = source.range(range.clone()).await?;
            let Some(last) = page.kvs.last() else { break };
            // The next key is the last one with a zero behind it.
            range.key = [&last.key[..], &[0]].concat().into();
            let mut batch = Batch::default();
            for kv in page.kvs {
                if kv.lease != 0 && !leases.contains(&kv.lease) {
                    copied.ended += 1;
                    continue;
                }
                copied.keys += 1;
                batch.add(kv);
                if batch.is_full() {
                    batch.put(target).await?;
                }
            }
            batch.put(target).await?;
            progress.tell(copied.keys + copied.ended);
            if !page.more {
                break;
            }
        }
        progress.end();
        Ok(copied)
    }
}

/// Every lease that lives, under its own id, with its whole time before it.
async fn copy_leases(source: &Client, target: &Client) -> Result<BTreeSet<i64>, Error> {
    let known: BTreeSet<i64> = target.leases().await?.leases.iter().map(|lease| lease.id).collect();
    let mut copied = BTreeSet::new();
    let leases = source.leases().await?.leases;
    let mut progress = Progress::new("importing", "leases", leases.len() as u64);
    for (done, lease) in (1..).zip(leases) {
        let life = source.time_to_live(lease.id, false).await?;
        if life.ttl <= 0 {
            continue;
        }
        if !known.contains(&lease.id) {
            target.grant_lease(life.granted_ttl, lease.id).await?;
        }
        copied.insert(lease.id);
        progress.tell(done);
    }
    progress.end();
    Ok(copied)
}

/// Puts that go together.
#[derive(Default)]
struct Batch {
    puts: Vec<RequestOp>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, kv: KeyValue) {
        self.bytes += kv.key.len() + kv.value.len();
        let put = PutRequest { key: kv.key, value: kv.value, lease: kv.lease, ..PutRequest::default() };
        self.puts.push(RequestOp { request: Some(Request::RequestPut(put)) });
    }

    fn is_full(&self) -> bool {
        self.puts.len() >= TXN_PUTS_MAX || self.bytes >= TXN_BYTES_SOFT
    }

    async fn put(&mut self, target: &Client) -> Result<(), Error> {
        if self.puts.is_empty() {
            return Ok(());
        }
        let success = std::mem::take(&mut self.puts);
        self.bytes = 0;
        target.txn(TxnRequest { success, ..TxnRequest::default() }).await?;
        Ok(())
    }
}
