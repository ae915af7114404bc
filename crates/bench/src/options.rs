//! The command line of `bench`.

use crate::calls::{Keys, Kind};
use crate::socket::TlsOptions;
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Addresses of the servers, separated by commas; connections are spread over them
    #[arg(
        long,
        default_value = "127.0.0.1:2379",
        value_delimiter = ',',
        env = "ALTHING_ENDPOINTS",
        global = true
    )]
    pub endpoints: Vec<String>,
    #[command(flatten)]
    pub tls: TlsOptions,
    /// Log in as this user, and call as it
    #[arg(long, value_name = "NAME[:PASSWORD]", env = "ALTHING_USER", global = true)]
    pub user: Option<String>,
    /// The password, if it is not part of --user
    #[arg(long, value_name = "PASSWORD", env = "ALTHING_PASSWORD", hide_env_values = true, global = true)]
    pub password: Option<String>,
    /// Call with this token, which `althing auth login` prints, instead of logging in [default: $ALTHING_TOKEN, without --user]
    #[arg(long, value_name = "TOKEN", global = true)]
    pub token: Option<String>,
    /// Clients that each have one call under way
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), global = true)]
    pub clients: u64,
    /// Connections that the clients share; at most one for each client
    #[arg(long, alias = "conns", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), global = true)]
    pub connections: u64,
    /// Operations in all; 10,000 if no duration is given either
    #[arg(long, global = true)]
    pub total: Option<u64>,
    /// For how long, as in 30s, 500ms or 2m
    #[arg(long, value_parser = parse_duration, global = true)]
    pub duration: Option<Duration>,
    /// Calls per second in all; as many as are answered if not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), global = true)]
    pub rate: Option<u64>,
    /// Bytes of a key
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1024), global = true)]
    pub key_size: u64,
    /// Bytes of a value
    #[arg(long, alias = "val-size", default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=1_000_000), global = true)]
    pub value_size: u64,
    /// How many different keys there are
    #[arg(long, alias = "key-space-size", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..), global = true)]
    pub key_space: u64,
    /// Take keys one after the other instead of at random
    #[arg(long, alias = "sequential-keys", global = true)]
    pub sequential: bool,
    /// Makes the random keys and values from this seed
    #[arg(long, default_value_t = 1, global = true)]
    pub seed: u64,
    /// Processes of the servers, separated by commas, whose processor time, memory and writes are reported
    #[arg(long, value_delimiter = ',', global = true)]
    pub server_pid: Vec<u32>,
    /// Print one JSON object instead of a table
    #[arg(long, global = true)]
    pub json: bool,
}

impl Options {
    /// The token that is given; a user that is given logs in instead of using that of the environment.
    pub fn token(&self) -> Option<String> {
        let set = || std::env::var("ALTHING_TOKEN").ok().filter(|token| !token.is_empty());
        self.token.clone().or_else(|| if self.user.is_none() { set() } else { None })
    }

    /// With the password of --password, the name is taken as it is, colons and all.
    pub fn login(&self) -> Result<Option<(String, String)>, crate::Error> {
        let missing =
            || crate::Error::Login("the password of --user is not given: use --password".to_owned());
        match (&self.user, &self.password) {
            (None, _) => Ok(None),
            (Some(user), Some(password)) => Ok(Some((user.clone(), password.clone()))),
            (Some(user), None) => {
                let (user, password) = user.split_once(':').ok_or_else(missing)?;
                Ok(Some((user.to_owned(), password.to_owned())))
            }
        }
    }

    pub fn keys(&self) -> Keys {
        Keys { size: self.key_size as usize, space: self.key_space, sequential: self.sequential }
    }
}

#[derive(Clone, Debug, Subcommand)]
pub enum Load {
    /// Puts
    Put,
    /// Reads of single keys
    Range {
        /// `l` for linearizable reads, `s` for serializable ones
        #[arg(long, default_value = "l", value_parser = ["l", "s"])]
        consistency: String,
    },
    /// Transactions of a compare and a put
    Txn,
    /// Reads and puts
    Mixed {
        /// How many of a hundred calls are reads
        #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(0..=100))]
        reads_percent: u32,
    },
    /// Watchers of one key, and puts to it: events per second
    Watch {
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
        watchers: u64,
        /// Streams that the watchers share, each on a connection of its own
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
        streams: u64,
    },
    /// From the call of a put to the event at a watcher
    WatchLatency,
    /// Renewals of leases, one lease for each client
    LeaseKeepAlive,
    /// Locks that are taken and given back, one after the other by each client
    Lock {
        /// How many locks there are; each time a client takes one of them at random
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
        locks: u64,
        /// `service` asks the lock service; `keys` does as etcd's client does without one: a transaction, a watch to
        /// wait, a delete
        #[arg(long, value_enum, default_value_t = LockBy::Service)]
        by: LockBy,
    },
    /// The data API over HTTP: each client has a connection of its own, which it keeps
    Data {
        #[command(subcommand)]
        kind: DataKind,
        /// Addresses of the data API, separated by commas; clients are spread over them
        #[arg(
            long,
            default_value = "127.0.0.1:8080",
            value_delimiter = ',',
            env = "ALTHING_HTTP_ENDPOINTS",
            global = true
        )]
        http_endpoints: Vec<String>,
        /// `redis` sends SET and GET instead, to a server of that kind, for comparison
        #[arg(long, value_enum, default_value_t = Protocol::Http, global = true)]
        protocol: Protocol,
        /// Replicas that a read hears; a majority unless it is said
        #[arg(long, global = true)]
        r: Option<u8>,
        /// A header that every request carries, as in `traceparent: 00-…`; may be given again
        #[arg(long = "header", value_name = "NAME: VALUE", value_parser = parse_header, global = true)]
        headers: Vec<String>,
        /// Each client hands on the session token of its last answer
        #[arg(long, global = true)]
        session: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LockBy {
    Service,
    Keys,
}

/// The protocol of the load on data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    Http,
    Redis,
}

/// The requests to the data API.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum DataKind {
    /// Puts
    Put,
    /// Reads of single keys; one that is not there is an answer as well
    Get,
    /// Reads and puts
    Mixed {
        /// How many of a hundred requests are reads
        #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(0..=100))]
        reads_percent: u32,
    },
}

impl Load {
    /// The loads that are made of independent calls.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Load::Put => Some(Kind::Put),
            Load::Range { consistency } => Some(Kind::Range { serializable: consistency == "s" }),
            Load::Txn => Some(Kind::Txn),
            Load::Mixed { reads_percent } => Some(Kind::Mixed { reads_percent: *reads_percent }),
            Load::Watch { .. } | Load::WatchLatency | Load::LeaseKeepAlive | Load::Lock { .. } => None,
            Load::Data { .. } => None,
        }
    }

    pub fn name(&self) -> String {
        match self {
            Load::Put => "put".into(),
            Load::Range { consistency } if consistency == "s" => "range, serializable".into(),
            Load::Range { .. } => "range, linearizable".into(),
            Load::Txn => "txn".into(),
            Load::Mixed { reads_percent } => format!("mixed, {reads_percent} % reads"),
            Load::Watch { watchers, streams } => format!("watch, {watchers} watchers on {streams} streams"),
            Load::WatchLatency => "watch latency".into(),
            Load::LeaseKeepAlive => "lease keep-alive".into(),
            Load::Data { kind: DataKind::Put, .. } => "data put".into(),
            Load::Data { kind: DataKind::Get, .. } => "data get".into(),
            Load::Data { kind: DataKind::Mixed { reads_percent }, .. } => {
                format!("data mixed, {reads_percent} % reads")
            }
            Load::Lock { locks, by: LockBy::Service } => format!("lock and unlock, {locks} locks"),
            Load::Lock { locks, by: LockBy::Keys } => format!("lock and unlock by keys, {locks} locks"),
        }
    }
}

/// One that cannot end the line it stands in.
fn parse_header(text: &str) -> Result<String, String> {
    let is_one = text.split_once(':').is_some_and(|(name, _)| !name.trim().is_empty());
    let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (is_one && is_printable).then(|| text.to_owned()).ok_or_else(|| "write NAME: VALUE".to_owned())
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("`{unit}` is no unit; write 500ms, 30s, 2m or 1h")),
    };
    let number: f64 = digits.parse().map_err(|_| "write 500ms, 30s, 2m or 1h".to_string())?;
    Duration::try_from_secs_f64(number * scale).map_err(|_| "out of range".to_string())
}
