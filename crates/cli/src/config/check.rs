//! The one check of the configuration: each value by itself, then the values against each other.
//! Gathered texts go in; a configuration in which every value is usable comes out, or every problem at once,
//! each with the value, its source, and the correct form.

use crate::config::gather::NONE;
use crate::config::print;
use crate::config::security;
use crate::config::setting::{Id, Kind};
use crate::config::tls::{self, ClientTls};
use crate::config::tokens::TokenOptions;
use crate::config::values::Values;
use crate::log::{LogFormat, Output};
use api::BrowserSettings;
use base::limits::RESPONSE_BYTES_MAX;
use server::{
    AuditConfig, AuditTarget, AuthConfig, ClusterMember, CompactionConfig, Config, JoinConfig, MeshConfig,
    PeerSecurity,
};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// In the place of a file.
const STANDARD_ERROR: &str = "-";

/// The settings with which the process runs: the member's configuration, where it listens, and how it logs.
#[derive(Clone, Debug)]
pub struct CheckedConfig {
    pub config: Config,
    /// Where clients are served; the first is the client address of the configuration.
    pub client_addrs: Vec<ListenAddr>,
    pub client_sockets: Vec<ListenSocket>,
    /// The listen address of the data API, and its advertised address.
    pub http_addr: Option<SocketAddr>,
    pub advertise_http: String,
    /// Connections of clients, in all and from one address (0 for the default share).
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    /// Memory for incomplete requests.
    pub partial_request_bytes_max: usize,
    /// Names of this node, and pages that may ask it.
    pub browsers: BrowserSettings,
    /// Where only probes and metrics are served.
    pub metrics_addrs: Vec<ListenAddr>,
    /// The certificates of those of these ports that use TLS; the data API does as the first client port does.
    pub tls: Option<ClientTls>,
    pub output_style: OutputStyle,
    /// Whether the duration of calls is observed.
    pub timed: bool,
    pub log_filter: String,
    pub log_format: LogFormat,
    pub log_outputs: Vec<Output>,
    /// To be logged once the log runs.
    pub warnings: Vec<String>,
    /// Every setting, for people to read.
    pub shown: Vec<api::ShownSetting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddr {
    pub address: SocketAddr,
    /// With TLS.
    pub sealed: bool,
}

/// A Unix socket to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenSocket {
    pub path: PathBuf,
    /// With TLS.
    pub sealed: bool,
}

/// How the process behaves on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStyle {
    /// One line on standard output announces the addresses.
    Althing,
    /// Standard output stays empty, as etcd leaves it.
    Etcd,
}

/// Everything that is wrong, a sentence each.
#[derive(Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<String>);

pub fn check(values: &Values) -> Result<CheckedConfig, Problems> {
    let misshapen: Vec<String> = Id::ALL.iter().filter_map(|id| check_shape(*id, values)).collect();
    if !misshapen.is_empty() {
        return Err(Problems(misshapen));
    }
    let mut checked = assemble(values);
    let mut problems = check_together(values, &checked.config);
    problems.extend(security::load(values, &mut checked.config));
    match TokenOptions::parse(values.text(Id::AuthToken)).expect("checked to be options").load() {
        Ok(signed) => checked.config.auth.signed = signed,
        Err(problem) => {
            problems.push(format!("auth-token (from {}): {problem}", values.get(Id::AuthToken).origin));
        }
    }
    if problems.is_empty() { Ok(checked) } else { Err(Problems(problems)) }
}

fn check_shape(id: Id, values: &Values) -> Option<String> {
    let setting = id.setting();
    let value = values.get(id);
    (!fits(setting.kind, &value.text)).then(|| {
        format!(
            "{} is \"{}\" (from {}); it must be {}",
            setting.name,
            value.text,
            value.origin,
            setting.shape()
        )
    })
}

fn fits(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Word => is_word(text),
        Kind::WordOrNothing => text.is_empty() || is_word(text),
        Kind::Path => !text.is_empty(),
        Kind::FileOrNothing => true,
        Kind::Listen => text.parse::<SocketAddr>().is_ok(),
        Kind::ListenOrNone => text == NONE || text.parse::<SocketAddr>().is_ok(),
        Kind::HostPort => is_host_port(text),
        Kind::Members => parse_members(text).is_some(),
        Kind::Regions => text.is_empty() || parse_members(text).is_some(),
        Kind::RegionFiles => security::parse_region_files(text).is_some(),
        Kind::Places => text.is_empty() || text.split(',').all(|place| is_host_port(place.trim())),
        Kind::Hosts => text.is_empty() || text.split(',').all(|host| is_host(host.trim())),
        Kind::Origins => text.is_empty() || text.split(',').all(|origin| is_origin(origin.trim())),
        Kind::Number { min, max, .. } => text.parse().is_ok_and(|number| (min..=max).contains(&number)),
        Kind::Choice(words) => words.contains(&text),
        Kind::Tokens => TokenOptions::parse(text).is_some(),
        Kind::LogFilter => !text.is_empty() && EnvFilter::try_new(text).is_ok(),
    }
}

pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == ',' || c == '=')
}

fn is_host_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = !host.contains([':', '/']);
    is_word(host) && (bracketed || plain) && port.parse::<u16>().is_ok()
}

/// `*` stands for all, and before a dot for all below.
fn is_host(text: &str) -> bool {
    is_word(text) && !text.contains([':', '/']) && !text.trim_start_matches("*.").contains('*') || text == "*"
}

fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    text == "*" || host.is_some_and(|host| is_word(host) && !host.contains(['/', '*']))
}

fn listed(text: &str) -> Vec<String> {
    text.split(',').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
}

/// Names that were configured, and those that others are told.
fn browsers(values: &Values) -> BrowserSettings {
    let told = [Id::AdvertiseClient, Id::AdvertiseHttp, Id::AdvertisePeer, Id::AdvertiseRegion];
    let told = told.map(|id| values.text(id).rsplit_once(':').map_or("", |(host, _)| host).to_owned());
    let mut hosts = listed(values.text(Id::AllowedHosts));
    hosts.extend(told);
    BrowserSettings { hosts, origins: listed(values.text(Id::Cors)), ..BrowserSettings::default() }
}

fn parse_members(text: &str) -> Option<Vec<ClusterMember>> {
    text.split(',').map(|member| parse_member(member.trim())).collect()
}

fn parse_join(text: &str) -> Option<JoinConfig> {
    let ask: Vec<String> = text.split(',').map(|place| place.trim().to_owned()).collect();
    (!text.is_empty()).then_some(JoinConfig { ask, add: true, token: None })
}

fn parse_member(text: &str) -> Option<ClusterMember> {
    let (name, address) = text.split_once('=')?;
    (is_word(name) && is_host_port(address))
        .then(|| ClusterMember { name: name.to_owned(), peer_addr: address.to_owned() })
}

fn assemble(values: &Values) -> CheckedConfig {
    let ms = |id| Duration::from_millis(values.number(id));
    let bytes = |id| usize::try_from(values.number(id)).expect("bounded by the table");
    let address = |id| values.text(id).parse().expect("checked to be an address");
    let tls = tls::clients(values);
    let config = Config {
        name: values.text(Id::Name).to_owned(),
        data_dir: values.text(Id::DataDir).into(),
        client_addr: address(Id::ClientAddr),
        peer_addr: address(Id::PeerAddr),
        more_peer_addrs: vec![],
        initial_cluster: parse_members(values.text(Id::InitialCluster)).expect("checked to be members"),
        join: parse_join(values.text(Id::Join)),
        cluster_token: values.text(Id::ClusterToken).to_owned(),
        advertise_client: values.text(Id::AdvertiseClient).to_owned(),
        advertise_peer: values.text(Id::AdvertisePeer).to_owned(),
        heartbeat: ms(Id::HeartbeatMs),
        election: ms(Id::ElectionMs),
        request_timeout: ms(Id::RequestTimeoutMs),
        request_bytes_max: bytes(Id::RequestBytesMax),
        txn_ops_max: bytes(Id::TxnOpsMax),
        flush_interval: ms(Id::FlushIntervalMs),
        flush_bytes: bytes(Id::FlushBytes),
        response_bytes_max: RESPONSE_BYTES_MAX,
        quota_bytes: values.number(Id::QuotaBytes),
        compaction: compaction(values),
        history_age: ms(Id::HistoryMs),
        history_rows_max: values.number(Id::HistoryRowsMax),
        wal_segment_bytes: values.number(Id::WalSegmentBytes),
        log_keep_entries: values.number(Id::LogKeepEntries),
        watch_progress_interval: ms(Id::WatchProgressIntervalMs),
        client_tls: tls.is_some(),
        peer_security: PeerSecurity::default(),
        force_new_cluster: false,
        strict_reconfig: false,
        drain_timeout: ms(Id::DrainTimeoutMs),
        slow_request: ms(Id::SlowRequestMs),
        audit: audit(values),
        auth: AuthConfig {
            token_ttl: ms(Id::AuthTokenTtlMs),
            signed: None,
            staleness_max: Some(ms(Id::AuthStalenessMax)).filter(|max| !max.is_zero()),
            bcrypt_cost: u32::try_from(values.number(Id::BcryptCost)).expect("bounded by the table"),
        },
        mesh: MeshConfig {
            region: values.text(Id::Region).to_owned(),
            region_peers: parse_members(values.text(Id::RegionPeers))
                .unwrap_or_default()
                .into_iter()
                .map(|member| (member.name, member.peer_addr))
                .collect(),
            advertise_region: values.text(Id::AdvertiseRegion).to_owned(),
            zone: values.text(Id::Zone).to_owned(),
            points: u32::try_from(values.number(Id::Vnodes)).expect("bounded by the table"),
            data_only: values.text(Id::DataOnly) == "true",
            ..MeshConfig::default()
        },
    };
    CheckedConfig {
        client_addrs: vec![ListenAddr { address: config.client_addr, sealed: tls.is_some() }],
        client_sockets: vec![],
        http_addr: values.text(Id::HttpAddr).parse().ok(),
        advertise_http: values.text(Id::AdvertiseHttp).to_owned(),
        connections_max: bytes(Id::ConnectionsMax),
        connections_per_address_max: bytes(Id::ConnectionsPerAddressMax),
        partial_request_bytes_max: bytes(Id::PartialRequestBytesMax),
        browsers: browsers(values),
        metrics_addrs: vec![],
        tls,
        config,
        output_style: OutputStyle::Althing,
        timed: false,
        log_filter: values.text(Id::LogLevel).to_owned(),
        log_format: LogFormat::parse(values.text(Id::LogFormat)),
        log_outputs: vec![Output::Stderr],
        warnings: vec![],
        shown: print::shown(values),
    }
}

fn audit(values: &Values) -> Option<AuditConfig> {
    let target = match values.text(Id::AuditLog) {
        "" => return None,
        STANDARD_ERROR => AuditTarget::Stderr,
        path => AuditTarget::File {
            path: path.into(),
            bytes_max: values.number(Id::AuditLogBytesMax),
            files_kept: usize::try_from(values.number(Id::AuditLogFilesKept)).expect("bounded by the table"),
        },
    };
    Some(AuditConfig { target, with_reads: values.text(Id::AuditReads) == "true" })
}

/// The longest interval between two automatic compactions.
const COMPACTION_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// A compaction also writes the rows of the index, so it must be worth some revisions.
fn compaction(values: &Values) -> Option<CompactionConfig> {
    let keep_age = Duration::from_millis(values.number(Id::CompactionRetentionMs));
    let keep_revisions = values.number(Id::CompactionRetentionRevisions);
    (values.text(Id::Compaction) == "auto").then_some(CompactionConfig {
        keep_age,
        keep_revisions,
        interval: keep_age.clamp(Duration::from_secs(1), COMPACTION_INTERVAL_MAX),
        step: (keep_revisions / 2).max(1),
        lag_age_max: Duration::from_millis(values.number(Id::CompactionLagMs)),
        lag_revisions_max: values.number(Id::CompactionLagRevisions),
    })
}

/// Elections must outlast a few lost heartbeats.
const HEARTBEATS_PER_ELECTION_MIN: u32 = 5;

fn check_together(values: &Values, config: &Config) -> Vec<String> {
    let mut problems = vec![];
    let from = |id: Id| format!("{} (from {})", id.setting().name, values.get(id).origin);

    if config.election < config.heartbeat * HEARTBEATS_PER_ELECTION_MIN {
        problems.push(format!(
            "{} is {}, less than {HEARTBEATS_PER_ELECTION_MIN} times {}, which is {}; \
             {} or more would do",
            from(Id::ElectionMs),
            values.text(Id::ElectionMs),
            from(Id::HeartbeatMs),
            values.text(Id::HeartbeatMs),
            config.heartbeat.as_millis() * u128::from(HEARTBEATS_PER_ELECTION_MIN),
        ));
    }
    let http_addr = values.text(Id::HttpAddr).parse::<SocketAddr>().ok().filter(|addr| addr.port() != 0);
    for id in [Id::ClientAddr, Id::PeerAddr] {
        if http_addr.is_some_and(|http_addr| values.text(id).parse() == Ok(http_addr)) {
            problems.push(format!(
                "{} and {} are both {}; the data API needs a port of its own",
                from(Id::HttpAddr),
                from(id),
                values.text(id),
            ));
        }
    }
    problems.extend(check_members(values, config));
    problems.extend(tls::problems(values, config));
    problems
}

fn check_members(values: &Values, config: &Config) -> Vec<String> {
    let mut problems = vec![];
    let origin = &values.get(Id::InitialCluster).origin;
    let mut names = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for member in &config.initial_cluster {
        if !names.insert(&member.name) {
            problems.push(format!(
                "initial-cluster (from {origin}) names \"{}\" twice; each member is listed once",
                member.name
            ));
        }
        if !addresses.insert(&member.peer_addr) {
            problems.push(format!(
                "initial-cluster (from {origin}) has {} twice; each member has an address of its own",
                member.peer_addr
            ));
        }
    }
    match config.initial_cluster.iter().find(|member| member.name == config.name) {
        None => problems.push(format!(
            "initial-cluster (from {origin}) does not list this member, \"{0}\"; \
             add {0}={1}, or give one of its names with --name",
            config.name, config.advertise_peer
        )),
        Some(own) if own.peer_addr != config.advertise_peer => problems.push(format!(
            "initial-cluster (from {origin}) has \"{}\" at {}, but advertise-peer (from {}) is {}; \
             they must be the same",
            config.name,
            own.peer_addr,
            values.get(Id::AdvertisePeer).origin,
            config.advertise_peer
        )),
        Some(_) => {}
    }
    problems
}

#[cfg(test)]
mod tests;
