//! `althing import`: keys of a running etcd or Redis, of Consul's export, or of a file, into one of the two planes. It may be repeated
//! after it was interrupted: what is there already is not written again.

use super::{Client, Error, Options, bytes_of, print};
use crate::client::rate;
use crate::transfer::{
    self, Checkpoint, DataPlane, DataSource, Destination, EtcdSource, FileFormat, RedisLogin, RedisSource,
    Source, copy_leases, read_consul,
};
use ::backup::Pace;
use clap::{Args, Subcommand};
use client::Config;
use std::ffi::OsString;
use std::path::PathBuf;

const ETCD_EXAMPLE: &str = "\
Example:
  althing import etcd --endpoint 10.0.0.9:2379                    into the cluster on 127.0.0.1:2379
  althing import etcd --endpoint 10.0.0.9:2379 --prefix /app/     only these keys";
const FILE_EXAMPLE: &str = "\
Example:
  althing import jsonl keys.jsonl
  althing import csv shop.csv --data --ns shop --checkpoint shop.checkpoint --limit-rate 5MB

A line of JSON is {\"key\": \"a\", \"value\": \"b\"}; the first line of CSV names the columns, key and value among them. Both may have type
(as orset, of the data plane), ttl (seconds), lease, encoding, key_encoding (base64) and content_type. Into the data plane a value may be
any JSON. `--checksum` is what `althing export` has printed.";
const CONSUL_EXAMPLE: &str = "\
Example:
  consul kv export > keys.json && althing import consul keys.json";
const REDIS_EXAMPLE: &str = "\
Example:
  althing import redis --endpoint 10.0.0.9:6379 --data
  REDISCLI_AUTH=… althing import redis --endpoint 10.0.0.9:6379 --db 2 --prefix session: --data --ns sessions

Strings come as they are, hashes as JSON objects, lists as JSON lists, sorted sets as lists of member and score, and sets as sets of the data
plane (with a time to live, or in the coordination store: as JSON lists). Times to live come over. Streams and modules' types are left out
and named. Redis goes on while its keys are read: what changes meanwhile may come over or not.";

/// As redis-cli has it.
const REDIS_PASSWORD: &str = "REDISCLI_AUTH";

#[derive(Subcommand)]
pub enum Import {
    /// Copies keys and leases from a running etcd, as they are at one revision
    #[command(after_help = ETCD_EXAMPLE)]
    Etcd(Etcd),
    /// Reads a line of JSON for each key
    #[command(after_help = FILE_EXAMPLE)]
    Jsonl(FromFile),
    /// Reads CSV, whose first line names the columns
    #[command(after_help = FILE_EXAMPLE)]
    Csv(FromFile),
    /// Reads the file of `consul kv export`
    #[command(after_help = CONSUL_EXAMPLE)]
    Consul(FromFile),
    /// Copies the keys of a running Redis
    #[command(after_help = REDIS_EXAMPLE)]
    Redis(Redis),
}

/// What every import and export has.
#[derive(Args)]
pub struct TransferArgs {
    /// The data plane instead of the coordination store
    #[arg(long)]
    data: bool,
    /// The namespace, with --data
    #[arg(long, value_name = "NAME", default_value = "default")]
    ns: String,
    /// Only keys that begin with this
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: OsString,
    /// Keep in this file how far it is; the same command goes on there. It is removed at the end
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// How many bytes are taken in a second at most, as 500KB, 20MB or 1GB
    #[arg(long, value_name = "BYTES", value_parser = rate::parse)]
    limit_rate: Option<u64>,
    #[command(flatten)]
    options: Options,
}

impl TransferArgs {
    pub fn pace(&self) -> Pace {
        Pace::new(self.limit_rate)
    }

    fn prefix_bytes(&self) -> Vec<u8> {
        bytes_of(&self.prefix)
    }

    /// For checkpoints.
    pub fn described(&self) -> String {
        let plane = if self.data { format!("the namespace {}", self.ns) } else { "coordination".to_owned() };
        format!("{plane}, prefix {:?}", self.prefix)
    }

    /// The keys of this cluster.
    pub async fn own_keys(&self) -> Result<Source, Error> {
        let client = self.options.client()?;
        if !self.data {
            let keys = EtcdSource::begin(client, &self.prefix_bytes()).await?;
            return Ok(Source::Etcd(Box::new(keys)));
        }
        let prefix = String::from_utf8(self.prefix_bytes());
        let prefix = prefix.map_err(|_| Error::Usage("keys of the data plane are UTF-8".to_owned()))?;
        let keys = DataSource::begin(DataPlane::new(client, self.ns.clone()), prefix).await?;
        Ok(Source::Data(Box::new(keys)))
    }

    fn destination(&self) -> Result<Destination, Error> {
        let client = self.options.client()?;
        Ok(if self.data {
            Destination::Data(DataPlane::new(client, self.ns.clone()))
        } else {
            Destination::coord(client)
        })
    }
}

/// What every import has.
#[derive(Args)]
pub struct IntoArgs {
    /// Keys that hold something else are written over
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    transfer: TransferArgs,
}

#[derive(Args)]
pub struct Etcd {
    /// A member of the etcd cluster to copy from
    #[arg(long, value_name = "HOST:PORT")]
    endpoint: String,
    #[command(flatten)]
    into: IntoArgs,
}

#[derive(Args)]
pub struct FromFile {
    file: PathBuf,
    /// Fail if the rows have another checksum than this
    #[arg(long, value_name = "HEX")]
    checksum: Option<String>,
    #[command(flatten)]
    into: IntoArgs,
}

#[derive(Args)]
pub struct Redis {
    /// The Redis to copy from, without TLS
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    endpoint: String,
    /// Which of its databases
    #[arg(long, value_name = "N", default_value_t = 0)]
    db: u32,
    /// Its user; the password comes from $REDISCLI_AUTH
    #[arg(long, value_name = "NAME")]
    redis_user: Option<String>,
    #[command(flatten)]
    into: IntoArgs,
}

impl Import {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Import::Etcd(etcd) => etcd.run().await,
            Import::Jsonl(from) => from.run("jsonl", FileFormat::Jsonl.open(&from.file)?).await,
            Import::Csv(from) => from.run("csv", FileFormat::Csv.open(&from.file)?).await,
            Import::Consul(from) => {
                from.run("consul", Source::List { rows: read_consul(&from.file)?, nth: 0 }).await
            }
            Import::Redis(redis) => redis.run().await,
        }
    }
}

impl IntoArgs {
    fn import(&self, from: String) -> Result<transfer::Import, Error> {
        let job = format!("import {from} into {}, overwrite {}", self.transfer.described(), self.overwrite);
        Ok(transfer::Import {
            destination: self.transfer.destination()?,
            overwrite: self.overwrite,
            prefix: self.transfer.prefix_bytes(),
            pace: self.transfer.pace(),
            checkpoint: Checkpoint::new(self.transfer.checkpoint.clone(), job),
        })
    }

    async fn run(&self, from: String, mut source: Source, checksum: Option<&str>) -> Result<(), Error> {
        let wanted = checksum.map(|text| {
            transfer::RowChecksum::parse(text)
                .ok_or_else(|| Error::Usage(format!("{text} is no checksum, as `althing export` prints it")))
        });
        let wanted = wanted.transpose()?;
        let mut import = self.import(from)?;
        let counts = import.run(&mut source).await?;
        let of_etcd = match &source {
            Source::Etcd(etcd) if self.transfer.data => format!(" as of revision {}", etcd.revision()),
            Source::Etcd(etcd) => {
                format!(" and {} leases as of revision {}", etcd.leases.len(), etcd.revision())
            }
            _ => String::new(),
        };
        let ended = match counts.ended {
            0 => String::new(),
            ended => format!("; {ended} more ended meanwhile"),
        };
        let told = format!(
            "Imported {} keys{of_etcd}: {} written, {} were there already{ended}; read back with checksum {}\n",
            counts.rows,
            counts.written,
            counts.rows - counts.written,
            counts.checksum()
        );
        print(told.as_bytes())?;
        import.finish(&counts, wanted)
    }
}

impl Etcd {
    async fn run(&self) -> Result<(), Error> {
        let transfer = &self.into.transfer;
        let source = EtcdSource::begin(self.client()?, &transfer.prefix_bytes()).await?;
        if !transfer.data {
            copy_leases(&source.leases, &transfer.options.client()?).await?;
        }
        self.into.run(format!("etcd {}", self.endpoint), Source::Etcd(Box::new(source)), None).await
    }

    fn client(&self) -> Result<Client, Error> {
        let options = &self.into.transfer.options;
        let endpoints = vec![self.endpoint.clone()];
        Ok(Client::new(Config {
            tls: options.tls(&endpoints)?,
            endpoints,
            dial_timeout: options.dial_timeout,
            call_timeout: options.command_timeout(),
            login: None,
        })?)
    }
}

impl FromFile {
    async fn run(&self, format: &str, source: Source) -> Result<(), Error> {
        let from = format!("{format} {}", self.file.display());
        self.into.run(from, source, self.checksum.as_deref()).await
    }
}

impl Redis {
    async fn run(&self) -> Result<(), Error> {
        let password = std::env::var(REDIS_PASSWORD).ok().filter(|password| !password.is_empty());
        let login = RedisLogin { user: self.redis_user.clone(), password, db: self.db };
        let (prefix, options) = (self.into.transfer.prefix_bytes(), &self.into.transfer.options);
        let source = RedisSource::connect(&self.endpoint, &login, &prefix, options.command_timeout()).await?;
        let from = format!("redis {} {}", self.endpoint, self.db);
        self.into.run(from, Source::Redis(Box::new(source)), None).await
    }
}
