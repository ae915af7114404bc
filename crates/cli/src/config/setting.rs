//! The one table of settings. Flags, `ALTHING_…` variables, keys of the file, help and `--print-config` are all
//! made from it, so a setting that is not here does not exist. Names carry their unit last.

use base::limits;

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The flag, and the key in the file.
    pub name: &'static str,
    pub kind: Kind,
    pub default: Fallback,
    pub meaning: &'static str,
}

/// The form that a value must have.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A word that may stand in lists: without blanks, commas and equal signs.
    Word,
    /// A word, or nothing.
    WordOrNothing,
    Path,
    /// The path of a file, or nothing.
    FileOrNothing,
    /// An IP address and a port, to listen on.
    Listen,
    /// The same, or `none`.
    ListenOrNone,
    /// A host and a port, to be reached at.
    HostPort,
    /// `name=host:port`, separated by commas.
    Members,
    /// `name=host:port`, separated by commas; a name may come several times, and there may be none.
    Regions,
    /// `region=file`, separated by commas; there may be none.
    RegionFiles,
    /// Hosts and ports, separated by commas; may be empty.
    Places,
    /// Names of hosts, separated by commas; may be empty.
    Hosts,
    /// Origins of pages, separated by commas; may be empty.
    Origins,
    Number {
        unit: &'static str,
        min: u64,
        max: u64,
    },
    Choice(&'static [&'static str]),
    /// A level, or directives as `info,server=debug`.
    LogFilter,
    /// `simple`, or `jwt` with its keys.
    Tokens,
}

#[derive(Clone, Copy, Debug)]
pub enum Fallback {
    Value(&'static str),
    Number(u64),
    /// Follows another setting; the text says which.
    Derived(&'static str),
}

macro_rules! settings {
    ($($id:ident $name:literal $kind:expr, $default:expr, $meaning:literal;)*) => {
        /// Names a row of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Id { $($id,)* }

        impl Id {
            pub const ALL: &'static [Id] = &[$(Id::$id),*];

            pub fn setting(self) -> &'static Setting {
                &TABLE[self as usize]
            }
        }

        static TABLE: &[Setting] = &[
            $(Setting { name: $name, kind: $kind, default: $default, meaning: $meaning },)*
        ];
    };
}

use Fallback::{Derived, Number as Count, Value};

const fn number(unit: &'static str, min: u64, max: u64) -> Kind {
    Kind::Number { unit, min, max }
}

const fn ms(min: u64, max: u64) -> Kind {
    number("milliseconds", min, max)
}

/// As a flag without a value, it means true.
const BOOLEAN: Kind = Kind::Choice(&["false", "true"]);

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

settings! {
    Name "name" Kind::Word, Value("default"),
        "The member's name, unique in its cluster.";
    DataDir "data-dir" Kind::Path, Value("./althing-data"),
        "The directory of the member's log, store and identity.";
    ClientAddr "client-addr" Kind::Listen, Value("127.0.0.1:2379"),
        "Where clients are served: the etcd API over gRPC and JSON, /health, /metrics, /version.";
    PeerAddr "peer-addr" Kind::Listen, Value("127.0.0.1:2380"),
        "Where other members connect; may be client-addr, one port for both.";
    HttpAddr "http-addr" Kind::ListenOrNone, Value("127.0.0.1:8080"),
        "Where the data API is served over REST, with its description and a page to try it; none for nowhere.";
    InitialCluster "initial-cluster" Kind::Members, Derived("this member alone"),
        "Every member of the cluster with its peer address, this one included; the same list on each.";
    Join "join" Kind::Places, Value(""),
        "Joins the cluster of the member that its peers reach there: asks it, or one of several, to be added.";
    JoinToken "join-token" Kind::WordOrNothing, Value(""),
        "What lets this node in with join: `althing member add` and `althing ring invite` print it, for one node and one hour.";
    ClusterSecretFile "cluster-secret-file" Kind::FileOrNothing, Value(""),
        "The secret that members prove to each other, 32 bytes or more (or ALTHING_CLUSTER_SECRET); a single node makes one.";
    ClusterToken "cluster-token" Kind::Word, Derived("althing, and with a region althing.REGION"),
        "Tells this cluster from others that have the same members; each region needs its own.";
    AdvertiseClient "advertise-client" Kind::HostPort, Derived("client-addr"),
        "The address that clients should use.";
    AdvertisePeer "advertise-peer" Kind::HostPort, Derived("its own address in initial-cluster, or peer-addr"),
        "The address that other members should use.";
    AdvertiseHttp "advertise-http" Kind::HostPort, Derived("http-addr"),
        "The address of the data API that clients should use.";
    Region "region" Kind::Word, Value("default"),
        "The region that this cluster is, the same on every member.";
    RegionPeers "region-peers" Kind::Regions, Value(""),
        "Other regions, each by peer addresses of some of its nodes; founds the table that `althing region` changes.";
    RegionSecret "region-secret" Kind::RegionFiles, Value(""),
        "For each other region the file of the secret that it shares with this one alone; both prove it to each other.";
    AdvertiseRegion "advertise-region" Kind::HostPort, Derived("advertise-peer"),
        "The address that nodes of other regions should use.";
    Zone "zone" Kind::WordOrNothing, Value(""),
        "Members of one zone fail together, so copies are kept in different ones; nothing for one of its own.";
    Vnodes "vnodes" number("points", 1, 1_024), Count(64),
        "Points of this node on the ring of the data plane; more take a larger share of the data.";
    DataOnly "data-only" BOOLEAN, Value("false"),
        "Joins as a data-only node, without the coordination store; needs join.";
    HeartbeatMs "heartbeat-ms" ms(1, 10_000), Count(100),
        "How often the leader sends heartbeats.";
    ElectionMs "election-ms" ms(10, 50_000), Count(1_000),
        "How long a follower waits for the leader before it campaigns; at least five heartbeats.";
    RequestTimeoutMs "request-timeout-ms" ms(100, 600_000), Count(7_000),
        "How long a request may wait for its answer before it fails.";
    RequestBytesMax "request-bytes-max" number("bytes", KIB, limits::REQUEST_BYTES_MAX as u64),
        Count(limits::REQUEST_BYTES_MAX_DEFAULT as u64),
        "The largest request that changes something.";
    ConnectionsMax "connections-max" number("connections", 16, 1_000_000), Count(16_384),
        "Connections of clients at a time; fewer where the limit on open files leaves less.";
    ConnectionsPerAddressMax "connections-per-address-max" number("connections", 0, 1_000_000), Count(0),
        "How many of them one address may have, or a /64 network of IPv6; 0 for half. This machine has seven eighths.";
    PartialRequestBytesMax "partial-request-bytes-max" number("bytes", 16 * MIB, 64 * GIB), Count(256 * MIB),
        "Memory for incomplete requests; what does not fit is refused.";
    AllowedHosts "allowed-hosts" Kind::Hosts, Value(""),
        "Names by which HTTP requests may ask for this node, beside loopback's, addresses and what it advertises; * for all.";
    Cors "cors" Kind::Origins, Value(""),
        "Origins whose pages may read and write here by a browser; * for all.";
    TxnOpsMax "txn-ops-max" number("operations", 1, limits::TXN_OPS_MAX as u64),
        Count(limits::TXN_OPS_MAX_DEFAULT as u64),
        "Compares, successes or failures that one transaction may hold.";
    FlushIntervalMs "flush-interval-ms" ms(1, 60_000), Count(100),
        "How long applied writes may wait in memory before the store is flushed; they are in the log already.";
    FlushBytes "flush-bytes" number("bytes", 64 * KIB, GIB), Count(8 * MIB),
        "How many bytes of them may wait.";
    QuotaBytes "quota-bytes" number("bytes", 0, 1024 * 1024 * GIB), Count(64 * GIB),
        "When keys, values and their past take more, only what frees space is accepted; 0 sets no bound.";
    Compaction "compaction" Kind::Choice(&["auto", "off"]), Value("auto"),
        "Whether old revisions are compacted automatically: up to the slowest watch, not beyond it.";
    CompactionRetentionMs "compaction-retention-ms" ms(0, 31_536_000_000), Count(300_000),
        "Younger revisions are not compacted automatically.";
    CompactionRetentionRevisions "compaction-retention-revisions" number("revisions", 0, 1_000_000_000), Count(10_000),
        "Nor are so many of the newest revisions.";
    CompactionLagMs "compaction-lag-ms" ms(1_000, 31_536_000_000), Count(3_600_000),
        "A watch that needs older revisions does not delay compaction, and ends when they are compacted.";
    CompactionLagRevisions "compaction-lag-revisions" number("revisions", 1_000, 1_000_000_000), Count(1_000_000),
        "Nor does one that is so many revisions behind.";
    HistoryMs "history-ms" ms(0, 9_000_000_000_000), Count(604_800_000),
        "How long the time of every change is kept after its value was compacted; 0 keeps nothing.";
    HistoryRowsMax "history-rows-max" number("changes", 0, 1_000_000_000_000), Count(1_000_000),
        "How many such changes are kept at most.";
    WalSegmentBytes "wal-segment-bytes" number("bytes", MIB, GIB), Count(16 * MIB),
        "The size of one file of the write-ahead log.";
    LogKeepEntries "log-keep-entries" number("entries", 1, 10_000_000), Count(limits::LOG_KEEP_ENTRIES),
        "Log entries kept behind the flushed state; a follower further behind is sent a snapshot.";
    WatchProgressIntervalMs "watch-progress-interval-ms" ms(100, 86_400_000), Count(600_000),
        "How often a watch without events gets a progress notification, if it asked for them.";
    AuthToken "auth-token" Kind::Tokens, Value("simple"),
        "The kind of token that a login returns: one that members remember, or one that is signed.";
    AuthTokenTtlMs "auth-token-ttl-ms" ms(1_000, 31_536_000_000), Count(300_000),
        "How long a simple token lives after its last use.";
    AuthStalenessMax "auth-staleness-max" ms(0, 31_536_000_000), Count(0),
        "Without an update of users and permissions for so long, the data API refuses all callers while auth is on; 0 sets no limit.";
    BcryptCost "bcrypt-cost" number("doublings", 4, 31), Count(10),
        "The bcrypt cost of password hashes.";
    CertFile "cert-file" Kind::FileOrNothing, Value(""),
        "The certificate (PEM, with its chain) for clients; with it, client-addr and http-addr use TLS.";
    KeyFile "key-file" Kind::FileOrNothing, Value(""),
        "The private key of cert-file.";
    TrustedCaFile "trusted-ca-file" Kind::FileOrNothing, Value(""),
        "Clients must present a certificate that one of these authorities has signed.";
    AutoTls "auto-tls" BOOLEAN, Value("false"),
        "Use a self-signed certificate for clients if there is no cert-file.";
    ClientCertAuth "client-cert-auth" BOOLEAN, Value("false"),
        "With auth on, the common name on a client's certificate is its user, if the call has no token.";
    ClientCrlFile "client-crl-file" Kind::FileOrNothing, Value(""),
        "Certificates of clients that were revoked.";
    TlsMinVersion "tls-min-version" Kind::Choice(&["1.2", "1.3"]), Value("1.2"),
        "The oldest version of TLS for clients; members use 1.3 among themselves.";
    PeerCertFile "peer-cert-file" Kind::FileOrNothing, Value(""),
        "The certificate for other members, for incoming and outgoing connections; it must name advertise-peer.";
    PeerKeyFile "peer-key-file" Kind::FileOrNothing, Value(""),
        "The private key of peer-cert-file.";
    PeerTrustedCaFile "peer-trusted-ca-file" Kind::FileOrNothing, Value(""),
        "The authorities of the members' certificates, and of other regions'; best ones that sign nothing else.";
    PeerCrlFile "peer-crl-file" Kind::FileOrNothing, Value(""),
        "Certificates of members that were revoked.";
    PeerAutoTls "peer-auto-tls" BOOLEAN, Value("false"),
        "Members encrypt their connections with self-signed certificates, without authentication.";
    SelfSignedCertValidity "self-signed-cert-validity" number("years", 1, 100), Count(1),
        "How long a certificate is valid that is made for auto-tls or peer-auto-tls.";
    AuditLog "audit-log" Kind::FileOrNothing, Value(""),
        "Where it is recorded who asked for what, from where and with what outcome, as lines of JSON: a file, or - for standard error.";
    AuditReads "audit-reads" BOOLEAN, Value("false"),
        "Reads that are answered are recorded too, not only changes, logins and what is refused.";
    AuditLogBytesMax "audit-log-bytes-max" number("bytes", 4 * KIB, 1024 * GIB), Count(100 * MIB),
        "A file of audit-log that would grow beyond this is renamed to FILE.1, and the next one begun.";
    AuditLogFilesKept "audit-log-files-kept" number("files", 0, 10_000), Count(10),
        "How many such renamed files are kept.";
    DrainTimeoutMs "drain-timeout-ms" ms(0, 600_000), Count(5_000),
        "How long SIGTERM waits for requests under way.";
    SlowRequestMs "slow-request-ms" ms(0, 3_600_000), Count(500),
        "A request that takes this long is logged with where the time went, a few per second; 0 for none.";
    LogLevel "log-level" Kind::LogFilter, Value("info"),
        "What is logged: error, warn, info, debug or trace, or directives as info,server=debug.";
    LogFormat "log-format" Kind::Choice(&["line", "pretty", "json"]), Value("line"),
        "One line an event, several for people, or an object of JSON a line.";
}

impl Setting {
    pub fn find(name: &str) -> Option<Id> {
        Id::ALL.iter().copied().find(|id| id.setting().name == name)
    }

    pub fn is_boolean(&self) -> bool {
        matches!(self.kind, Kind::Choice(["false", "true"]))
    }

    /// The variable of the environment that sets it.
    pub fn variable(&self) -> String {
        format!("ALTHING_{}", self.name.to_uppercase().replace('-', "_"))
    }

    /// The form of a value, in a word, for help.
    pub fn placeholder(&self) -> &'static str {
        match self.kind {
            Kind::Word | Kind::WordOrNothing => "NAME",
            Kind::Path => "DIR",
            Kind::FileOrNothing => "FILE",
            Kind::Listen => "IP:PORT",
            Kind::ListenOrNone => "IP:PORT|none",
            Kind::HostPort => "HOST:PORT",
            Kind::Members | Kind::Regions => "NAME=HOST:PORT,...",
            Kind::RegionFiles => "REGION=FILE,...",
            Kind::Places => "HOST:PORT,...",
            Kind::Hosts => "HOST,...",
            Kind::Origins => "ORIGIN,...",
            Kind::Number { .. } => "N",
            Kind::Choice(_) => "WORD",
            Kind::LogFilter => "LEVEL",
            Kind::Tokens => "simple|jwt,OPTION=VALUE,...",
        }
    }

    /// The form of a value, as part of a sentence.
    pub fn shape(&self) -> String {
        match self.kind {
            Kind::Word => "a word without blanks, commas and equal signs".to_owned(),
            Kind::WordOrNothing => "a word without blanks, commas and equal signs, or nothing".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::FileOrNothing => "the path of a file, or nothing".to_owned(),
            Kind::Listen => "an IP address and a port, as 127.0.0.1:2379".to_owned(),
            Kind::ListenOrNone => "an IP address and a port, as 127.0.0.1:8080, or none".to_owned(),
            Kind::HostPort => "a host and a port, as db1.example.com:2379".to_owned(),
            Kind::Members => "name=host:port for each member, separated by commas, as \
                              a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380"
                .to_owned(),
            Kind::Regions => "region=host:port, or several separated by commas, as \
                              eu-west=10.1.0.1:2380,eu-west=10.1.0.2:2380"
                .to_owned(),
            Kind::RegionFiles => {
                "region=file, or several separated by commas, as eu-west=/etc/althing/eu-west".to_owned()
            }
            Kind::Places => "a host and a port, or several separated by commas, as 10.0.0.1:2380".to_owned(),
            Kind::Hosts => {
                "the name of a host, or several separated by commas, as db.example.com,*.db.example.com, \
                            or * for all"
                    .to_owned()
            }
            Kind::Origins => {
                "an origin, or several separated by commas, as https://app.example.com, or * for all"
                    .to_owned()
            }
            Kind::Number { unit, min, max } => format!("a number of {unit} from {min} to {max}"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::LogFilter => "a level or a list of directives, as info or info,server=debug".to_owned(),
            Kind::Tokens => "simple, or jwt with sign-method, pub-key, priv-key and ttl, as \
                             jwt,pub-key=tokens.pub,priv-key=tokens.key,sign-method=RS256,ttl=10m"
                .to_owned(),
        }
    }

    pub fn default_text(&self) -> String {
        match self.default {
            Fallback::Value(text) => text.to_owned(),
            Fallback::Number(number) => number.to_string(),
            Fallback::Derived(text) => text.to_owned(),
        }
    }
}

/// The known name that is spelled most like this one, if any is near.
pub fn nearest(unknown: &str) -> Option<&'static str> {
    let unknown = unknown.replace('_', "-");
    let names = Id::ALL.iter().map(|id| id.setting().name);
    let (distance, name) = names.map(|name| (edits(&unknown, name), name)).min()?;
    (distance <= 1 + name.len() / 4).then_some(name)
}

/// Levenshtein's distance: letters to insert, remove or replace.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, from_char) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to_char) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(from_char != *to_char);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_numbers_lie_within_their_bounds() {
        let names: BTreeSet<&str> = Id::ALL.iter().map(|id| id.setting().name).collect();
        assert_eq!(names.len(), Id::ALL.len());
        for id in Id::ALL {
            if let (Kind::Number { min, max, .. }, Fallback::Number(default)) =
                (id.setting().kind, id.setting().default)
            {
                assert!((min..=max).contains(&default), "{id:?}");
            }
        }
    }

    #[test]
    fn a_slip_of_the_pen_finds_its_setting_and_nonsense_does_not() {
        assert_eq!(nearest("heartbeat-m"), Some("heartbeat-ms"));
        assert_eq!(nearest("data_dir"), Some("data-dir"));
        assert_eq!(nearest("clent-adr"), Some("client-addr"));
        assert_eq!(nearest("colour"), None);
    }
}
