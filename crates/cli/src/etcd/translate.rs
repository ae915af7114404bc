//! Turns etcd's flags into the settings of a member.
//! Flags go in; a checked configuration with etcd's defaults comes out, or every problem at once. A flag that
//! has no effect ends up in the one warning, and none is dropped silently.

use super::flags::FlagTreatment;
use super::line::GivenFlag;
use super::urls::{self, Url};
use crate::client::duration;
use crate::config::check::{self, CheckedConfig, ListenAddr, ListenSocket, OutputStyle, Problems};
use crate::config::gather;
use crate::config::setting::Id;
use crate::config::values::{Origin, Value};
use crate::log::{Output, RotationRules};
use server::CompactionConfig;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// etcd's own timeout of a request is this, and two elections.
const REQUEST_TIMEOUT_MS: u64 = 5_000;
const QUOTA_BYTES_DEFAULT: u64 = 2 * 1024 * 1024 * 1024;
const BCRYPT_COSTS: std::ops::RangeInclusive<u32> = 4..=31;
const ELECTION_MS_DEFAULT: u64 = 1_000;
const DEFAULT_CLIENT_ADDR: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 2379));
/// etcd, too, reports progress no more often.
const PROGRESS_MS_MIN: u128 = 100;

pub fn translate(given: &[GivenFlag]) -> Result<CheckedConfig, Problems> {
    let mut translation = Translation { given, settings: vec![], problems: vec![], warnings: vec![] };
    translation.refuse_what_cannot_hold();
    let places = translation.take_everything();
    if !translation.problems.is_empty() {
        return Err(Problems(translation.problems));
    }
    let warnings = std::mem::take(&mut translation.warnings);
    let told = translation.urls("advertise-client-urls");
    let mut checked = check::check(&gather::from_given(&translation.settings))?;
    if places.exists {
        checked.config.join = others_of(&checked.config);
    }
    checked.config.compaction = places.compaction;
    let hosts = told.iter().filter_map(|url| url.place.rsplit_once(':')).map(|(host, _)| host.to_owned());
    checked.browsers.hosts.extend(hosts);
    checked.browsers.programs_by_any_name = translation.given("host-whitelist").is_none();
    checked.client_addrs = places.clients;
    checked.client_sockets = places.sockets;
    if let Some(url) = told.first().filter(|url| url.is_unix) {
        checked.config.advertise_client = url.text();
    }
    checked.config.more_peer_addrs = places.more_peers;
    checked.config.strict_reconfig = translation.is_on("strict-reconfig-check", true);
    checked.config.force_new_cluster = translation.is_on("force-new-cluster", false);
    if let Some(files) = &mut checked.config.peer_security.files {
        files.allowed_names = translation.list("peer-cert-allowed-cn");
        files.allowed_hosts = translation.list("peer-cert-allowed-hostname");
    }
    checked.metrics_addrs = places.metrics;
    // etcd has no such port; a variable enables it.
    checked.http_addr = None;
    checked.log_outputs = places.outputs;
    checked.output_style = OutputStyle::Etcd;
    checked.timed = places.timed;
    checked.config.client_tls = places.advertise_tls;
    // Peers are as open as the URLs say.
    checked.config.peer_security.makes_secret = false;
    checked.warnings = warn_of_idle(given).into_iter().chain(warnings).collect();
    Ok(checked)
}

/// The addresses that a member needs beyond its settings.
struct ClusterAddresses {
    clients: Vec<ListenAddr>,
    sockets: Vec<ListenSocket>,
    more_peers: Vec<SocketAddr>,
    metrics: Vec<ListenAddr>,
    /// The advertised client URL is `https`.
    advertise_tls: bool,
    outputs: Vec<Output>,
    timed: bool,
    /// The cluster exists, and this member is in its table or has joined already.
    exists: bool,
    compaction: Option<CompactionConfig>,
}

/// The listed members that this one can ask to join.
fn others_of(config: &server::Config) -> Option<server::JoinConfig> {
    let others = config.initial_cluster.iter().filter(|member| member.name != config.name);
    let ask: Vec<String> = others.map(|member| member.peer_addr.clone()).collect();
    (!ask.is_empty()).then_some(server::JoinConfig { ask, add: false, token: None })
}

struct Translation<'a> {
    given: &'a [GivenFlag],
    settings: Vec<(Id, Value)>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl Translation<'_> {
    fn refuse_what_cannot_hold(&mut self) {
        for given in self.given {
            let FlagTreatment::Refused(why) = given.treatment else { continue };
            if !matches!(given.value.as_str(), "" | "false" | "off" | "0") {
                self.problems.push(format!("{} cannot be honoured: {why}", given.origin));
            }
        }
    }

    fn take_everything(&mut self) -> ClusterAddresses {
        let name = self.given("name").map_or("default".to_owned(), |given| given.value.clone());
        self.copy("name", Id::Name);
        match self.given("data-dir") {
            Some(_) => self.copy("data-dir", Id::DataDir),
            None => self.follow(Id::DataDir, format!("{name}.etcd")),
        }
        match self.given("initial-cluster-token") {
            Some(_) => self.copy("initial-cluster-token", Id::ClusterToken),
            None => self.follow(Id::ClusterToken, "etcd-cluster".to_owned()),
        }
        self.copy("heartbeat-interval", Id::HeartbeatMs);
        self.copy("election-timeout", Id::ElectionMs);
        self.copy("max-request-bytes", Id::RequestBytesMax);
        self.copy("max-txn-ops", Id::TxnOpsMax);
        self.copy("snapshot-catchup-entries", Id::LogKeepEntries);
        self.copy("experimental-snapshot-catchup-entries", Id::LogKeepEntries);
        self.copy("host-whitelist", Id::AllowedHosts);
        self.copy("cors", Id::Cors);
        self.take_quota();
        self.take_auth();
        self.take_request_timeout();
        let exists = self.take_cluster_state();
        self.take_log_level();
        self.take_log_format();
        let (clients, sockets, advertise_tls) = self.take_client_urls();
        let metrics = self.listen("listen-metrics-urls");
        let any_sealed = clients.iter().chain(&metrics).any(|listen| listen.sealed);
        self.take_client_tls(any_sealed || sockets.iter().any(|socket| socket.sealed));
        let more_peers = self.take_peer_urls(&name);
        self.take_progress_interval("experimental-watch-progress-notify-interval");
        self.take_progress_interval("watch-progress-notify-interval");
        let timed = self.take_metrics();
        let compaction = self.take_compaction();
        ClusterAddresses {
            clients,
            sockets,
            more_peers,
            metrics,
            advertise_tls,
            outputs: self.outputs(),
            timed,
            exists,
            compaction,
        }
    }

    fn given(&self, name: &str) -> Option<&GivenFlag> {
        self.given.iter().find(|given| given.name == name && !given.value.is_empty())
    }

    fn copy(&mut self, name: &str, id: Id) {
        if let Some(given) = self.given(name) {
            let value = Value { text: given.value.clone(), origin: Origin::Flag(given.origin.clone()) };
            self.settings.push((id, value));
        }
    }

    /// A default of etcd's that differs from ours.
    fn follow(&mut self, id: Id, text: String) {
        self.settings.push((id, Value { text, origin: Origin::Default }));
    }

    /// As in etcd, none and zero mean its default, and a negative one means no bound.
    fn take_quota(&mut self) {
        match self.given("quota-backend-bytes").map(|given| given.value.parse::<i64>()) {
            None | Some(Ok(0)) => self.follow(Id::QuotaBytes, QUOTA_BYTES_DEFAULT.to_string()),
            Some(Ok(..0)) => self.follow(Id::QuotaBytes, "0".to_owned()),
            Some(_) => self.copy("quota-backend-bytes", Id::QuotaBytes),
        }
    }

    fn take_auth(&mut self) {
        self.copy("auth-token", Id::AuthToken);
        if let Some(given) = self.given("auth-token-ttl") {
            match given.value.parse::<u32>() {
                Ok(0) => {}
                Ok(seconds) => {
                    let origin = Origin::Flag(given.origin.clone());
                    let text = (u64::from(seconds) * 1_000).to_string();
                    self.settings.push((Id::AuthTokenTtlMs, Value { text, origin }));
                }
                Err(_) => self.problems.push(format!("{} is not a number of seconds", given.origin)),
            }
        }
        // etcd takes its default instead of one that cannot be.
        let cost = self.given("bcrypt-cost").and_then(|given| given.value.parse::<u32>().ok());
        if cost.is_some_and(|cost| BCRYPT_COSTS.contains(&cost)) {
            self.copy("bcrypt-cost", Id::BcryptCost);
        }
    }

    fn take_request_timeout(&mut self) {
        let election = self.given("election-timeout").and_then(|given| given.value.parse().ok());
        let election = election.unwrap_or(ELECTION_MS_DEFAULT);
        let timeout = election.saturating_mul(2).saturating_add(REQUEST_TIMEOUT_MS);
        self.follow(Id::RequestTimeoutMs, timeout.to_string());
    }

    /// A duration in Go's words; zero leaves the default.
    fn take_progress_interval(&mut self, name: &str) {
        let Some(given) = self.given(name) else { return };
        match duration::parse(&given.value) {
            Ok(interval) if interval.is_zero() => {}
            Ok(interval) => {
                let origin = Origin::Flag(given.origin.clone());
                let text = interval.as_millis().max(PROGRESS_MS_MIN).to_string();
                self.settings.push((Id::WatchProgressIntervalMs, Value { text, origin }));
            }
            Err(problem) => self.problems.push(format!("{}: {problem}", given.origin)),
        }
    }

    /// As in etcd: none without a retention; an age in hours or as a duration, or a number of revisions.
    fn take_compaction(&mut self) -> Option<CompactionConfig> {
        let mode = self.given("auto-compaction-mode").cloned();
        let retention = self.given("auto-compaction-retention").cloned()?;
        let number = retention.value.parse::<u32>().ok();
        let parsed = match mode.as_ref().map_or("periodic", |mode| mode.value.as_str()) {
            _ if number == Some(0) => return None,
            "periodic" | "0" => match number {
                Some(hours) => Ok(by_age(Duration::from_secs(u64::from(hours) * 3_600))),
                None => duration::parse(&retention.value).map(by_age),
            },
            "revision" => number
                .map(by_count)
                .ok_or_else(|| format!("\"{}\" is not a number of revisions", retention.value)),
            other => {
                let origin = mode.as_ref().map_or("", |mode| mode.origin.as_str());
                let problem = format!("{origin} is \"{other}\"; it must be periodic or revision");
                self.problems.push(problem);
                return None;
            }
        };
        match parsed {
            Ok(compaction) => {
                (!compaction.keep_age.is_zero() || compaction.keep_revisions > 0).then_some(compaction)
            }
            Err(problem) => {
                self.problems.push(format!("{}: {problem}", retention.origin));
                None
            }
        }
    }

    /// The extensive ones include the duration of calls.
    fn take_metrics(&mut self) -> bool {
        let Some(given) = self.given("metrics") else { return false };
        if !matches!(given.value.as_str(), "basic" | "extensive") {
            let problem = format!("{} is \"{}\"; it must be basic or extensive", given.origin, given.value);
            self.problems.push(problem);
            return false;
        }
        given.value == "extensive"
    }

    fn take_cluster_state(&mut self) -> bool {
        let Some(given) = self.given("initial-cluster-state") else { return false };
        if !matches!(given.value.as_str(), "new" | "existing") {
            let problem = format!("{} is \"{}\"; it must be new or existing", given.origin, given.value);
            self.problems.push(problem);
            return false;
        }
        given.value == "existing"
    }

    fn take_log_level(&mut self) {
        let Some(given) = self.given("log-level") else {
            if self.given("debug").is_some_and(|given| given.value != "false") {
                self.follow(Id::LogLevel, "debug".to_owned());
            }
            return;
        };
        let origin = Origin::Flag(given.origin.clone());
        match given.value.as_str() {
            level @ ("debug" | "info" | "warn" | "error") => {
                let text = level.to_owned();
                self.settings.push((Id::LogLevel, Value { text, origin }));
            }
            "dpanic" | "panic" | "fatal" => {
                self.settings.push((Id::LogLevel, Value { text: "error".to_owned(), origin }));
            }
            other => {
                let problem =
                    format!("{origin} is \"{other}\"; it must be debug, info, warn, error, panic or fatal");
                self.problems.push(problem);
            }
        }
    }

    fn take_log_format(&mut self) {
        let Some(given) = self.given("log-format") else { return };
        let origin = Origin::Flag(given.origin.clone());
        match given.value.as_str() {
            "json" => self.settings.push((Id::LogFormat, Value { text: "json".to_owned(), origin })),
            "console" => self.settings.push((Id::LogFormat, Value { text: "line".to_owned(), origin })),
            other => self.problems.push(format!("{origin} is \"{other}\"; it must be json or console")),
        }
    }

    /// Every listen URL gets a listener; the first one is the client address. Those for HTTP alone serve gRPC, too.
    fn take_client_urls(&mut self) -> (Vec<ListenAddr>, Vec<ListenSocket>, bool) {
        let mut listened = self.listen("listen-client-urls");
        let mut sockets = self.listen_unix("listen-client-urls");
        if listened.is_empty() && sockets.is_empty() {
            listened = vec![ListenAddr { address: DEFAULT_CLIENT_ADDR, sealed: false }];
        }
        listened.extend(self.listen("listen-client-http-urls"));
        sockets.extend(self.listen_unix("listen-client-http-urls"));
        let first = listened.first().map_or(DEFAULT_CLIENT_ADDR, |listen| listen.address);
        self.follow(Id::ClientAddr, first.to_string());
        let mut sealed = listened.first().is_some_and(|listen| listen.sealed);
        if let Some(advertised) = self.urls("advertise-client-urls").into_iter().next() {
            sealed = advertised.sealed;
            if !advertised.is_unix {
                self.follow(Id::AdvertiseClient, advertised.place);
            }
        }
        (listened, sockets, sealed)
    }

    fn take_client_tls(&mut self, sealed: bool) {
        self.take_min_version();
        let files = [
            ("cert-file", Id::CertFile),
            ("key-file", Id::KeyFile),
            ("trusted-ca-file", Id::TrustedCaFile),
            ("client-crl-file", Id::ClientCrlFile),
            ("client-cert-auth", Id::ClientCertAuth),
        ];
        self.take_files(sealed, &files, ("auto-tls", Id::AutoTls), "client");
    }

    /// As in etcd: an https URL needs the files, or `auto` makes them; and without one they have no effect.
    fn take_files(&mut self, sealed: bool, files: &[(&str, Id)], auto: (&str, Id), whose: &str) {
        let has_pair = files[..2].iter().all(|(name, _)| self.given(name).is_some());
        let is_auto = self.given(auto.0).is_some_and(|given| given.value != "false");
        let without_effect = |name: &str| format!("every {whose} URL is http: --{name} has no effect");
        if sealed && has_pair {
            files.iter().for_each(|(name, id)| self.copy(name, *id));
        } else if sealed && is_auto {
            self.follow(auto.1, "true".to_owned());
            self.copy("self-signed-cert-validity", Id::SelfSignedCertValidity);
        } else if sealed {
            self.problems.push(format!(
                "a {whose} URL is https, and --{} and --{} are not both given",
                files[0].0, files[1].0
            ));
        } else if self.given(files[0].0).is_some() {
            self.warnings.push(without_effect(files[0].0));
        } else if is_auto {
            self.warnings.push(without_effect(auto.0));
        }
    }

    fn take_min_version(&mut self) {
        let version = |given: &GivenFlag| match given.value.as_str() {
            "TLS1.2" => Some("1.2"),
            "TLS1.3" => Some("1.3"),
            _ => None,
        };
        if let Some(given) = self.given("tls-min-version").cloned() {
            match version(&given) {
                Some(text) => self.follow(Id::TlsMinVersion, text.to_owned()),
                None => self
                    .problems
                    .push(format!("{} is \"{}\"; it must be TLS1.2 or TLS1.3", given.origin, given.value)),
            }
        }
        if let Some(given) = self.given("tls-max-version")
            && version(given) != Some("1.3")
        {
            let problem = format!("{} is \"{}\"; TLS1.3 is always spoken", given.origin, given.value);
            self.problems.push(problem);
        }
    }

    /// Returns the addresses beside the first at which peers are heard.
    fn take_peer_urls(&mut self, name: &str) -> Vec<SocketAddr> {
        let listened = self.listen("listen-peer-urls");
        if let Some(first) = listened.first() {
            self.follow(Id::PeerAddr, first.address.to_string());
        }
        let sealed = listened.first().is_some_and(|listen| listen.sealed);
        for flag in ["listen-peer-urls", "initial-advertise-peer-urls", "initial-cluster"] {
            if self.given(flag).is_some_and(|given| given.value.contains("unix")) && self.has_unix_urls(flag)
            {
                self.problems.push(format!("--{flag}: members reach each other by http or https"));
            }
        }
        if listened.iter().any(|listen| listen.sealed != sealed) {
            self.problems.push("--listen-peer-urls must all be http or all https".to_owned());
        }
        self.take_peer_tls(sealed);
        let mut advertised = self.urls("initial-advertise-peer-urls");
        if advertised.len() > 1 {
            let problem = "--initial-advertise-peer-urls: a member has one URL for its peers".to_owned();
            self.problems.push(problem);
        }
        let members = self.members();
        if members.iter().map(|(_, url)| url).chain(&advertised).any(|url| url.sealed != sealed) {
            let problem = "--listen-peer-urls, --initial-advertise-peer-urls and --initial-cluster must all be http or \
                           all https: members speak one way with each other";
            self.problems.push(problem.to_owned());
        }
        let own = members.iter().find(|(listed, _)| listed == name).map(|(_, url)| url.place.clone());
        if let (Some(own), Some(advertised)) = (own, advertised.first_mut())
            && urls::same_place(&own, &advertised.place)
        {
            advertised.place = own;
        }
        if let Some(advertised) = advertised.into_iter().next() {
            self.follow(Id::AdvertisePeer, advertised.place);
        }
        if let Some(given) = self.given("initial-cluster") {
            let origin = Origin::Flag(given.origin.clone());
            let listed: Vec<String> =
                members.iter().map(|(name, url)| format!("{name}={}", url.place)).collect();
            self.settings.push((Id::InitialCluster, Value { text: listed.join(","), origin }));
        }
        listened.iter().skip(1).map(|listen| listen.address).collect()
    }

    fn has_unix_urls(&self, flag: &str) -> bool {
        self.list(flag).iter().any(|url| {
            let url = url.split_once('=').map_or(url.as_str(), |(_, url)| url);
            url.starts_with("unix://") || url.starts_with("unixs://")
        })
    }

    /// The words of a list; none if it is not given.
    fn list(&self, flag: &str) -> Vec<String> {
        let words = self.given(flag).map_or("", |given| given.value.as_str()).split(',').map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    fn is_on(&self, flag: &str, default: bool) -> bool {
        self.given(flag).map_or(default, |given| given.value != "false")
    }

    fn take_peer_tls(&mut self, sealed: bool) {
        let files = [
            ("peer-cert-file", Id::PeerCertFile),
            ("peer-key-file", Id::PeerKeyFile),
            ("peer-trusted-ca-file", Id::PeerTrustedCaFile),
            ("peer-crl-file", Id::PeerCrlFile),
        ];
        self.take_files(sealed, &files, ("peer-auto-tls", Id::PeerAutoTls), "peer");
    }

    fn members(&mut self) -> Vec<(String, Url)> {
        let Some(given) = self.given("initial-cluster").cloned() else { return vec![] };
        let mut members = vec![];
        for member in given.value.split(',').map(str::trim).filter(|member| !member.is_empty()) {
            let parsed = match member.split_once('=') {
                Some((name, url)) => urls::parse(url).map(|url| (name.to_owned(), url)),
                None => Err(format!("\"{member}\" is not of the form name=http://host:port")),
            };
            match parsed {
                Ok(member) => members.push(member),
                Err(problem) => self.problems.push(format!("{}: {problem}", given.origin)),
            }
        }
        members
    }

    fn urls(&mut self, name: &str) -> Vec<Url> {
        let Some(given) = self.given(name) else { return vec![] };
        match urls::parse_all(&given.value) {
            Ok(urls) => urls,
            Err(problem) => {
                let problem = format!("{}: {problem}", given.origin);
                self.problems.push(problem);
                vec![]
            }
        }
    }

    fn listen(&mut self, name: &str) -> Vec<ListenAddr> {
        let mut addresses = vec![];
        for Url { place, sealed, .. } in self.urls(name).into_iter().filter(|url| !url.is_unix) {
            match urls::to_listen(&place) {
                Ok(address) => addresses.push(ListenAddr { address, sealed }),
                Err(problem) => self.problems.push(format!("--{name}: {problem}")),
            }
        }
        addresses
    }

    fn listen_unix(&mut self, name: &str) -> Vec<ListenSocket> {
        let sockets = self.urls(name).into_iter().filter(|url| url.is_unix);
        sockets.map(|url| ListenSocket { path: url.place.into(), sealed: url.sealed }).collect()
    }

    /// None where files grow without end.
    fn rotation(&mut self) -> Option<RotationRules> {
        if !self.is_on("enable-log-rotation", false) {
            return None;
        }
        let json = self.given("log-rotation-config-json").map_or("{}", |given| given.value.as_str());
        match RotationRules::parse(json) {
            Ok(rules) => Some(rules),
            Err(problem) => {
                self.problems.push(format!("--log-rotation-config-json: {problem}"));
                None
            }
        }
    }

    fn outputs(&mut self) -> Vec<Output> {
        let rotation = self.rotation();
        let Some(given) = self.given("log-outputs").or_else(|| self.given("log-output")) else {
            return vec![Output::Stderr];
        };
        let output = |word: &str| match word.trim() {
            "default" | "stderr" | "systemd/journal" => Output::Stderr,
            "stdout" => Output::Stdout,
            path => match &rotation {
                Some(rules) => Output::Rotated(path.into(), rules.clone()),
                None => Output::File(path.into()),
            },
        };
        given.value.split(',').map(output).collect()
    }
}

/// A watch that is further behind does not delay compaction. etcd never waits.
const LAG_AGE_MAX: Duration = Duration::from_secs(3_600);
const LAG_REVISIONS_MAX: u64 = 1_000_000;

/// etcd compacts every hour, or more often when less is kept.
fn by_age(keep_age: Duration) -> CompactionConfig {
    let interval = keep_age.min(Duration::from_secs(3_600));
    CompactionConfig { keep_age, interval, ..by_count(0) }
}

/// etcd compacts every five minutes.
fn by_count(revisions: u32) -> CompactionConfig {
    let interval = Duration::from_secs(300);
    CompactionConfig {
        keep_age: Duration::ZERO,
        keep_revisions: u64::from(revisions),
        interval,
        step: 1,
        lag_age_max: LAG_AGE_MAX,
        lag_revisions_max: LAG_REVISIONS_MAX,
    }
}

/// One line for all flags that do nothing here.
fn warn_of_idle(given: &[GivenFlag]) -> Vec<String> {
    let idle: Vec<&str> = given
        .iter()
        .filter(|given| matches!(given.treatment, FlagTreatment::NoEffect(_)))
        .map(|given| given.origin.as_str())
        .collect();
    if idle.is_empty() { vec![] } else { vec![format!("accepted without effect: {}", idle.join(", "))] }
}

#[cfg(test)]
mod tests;
