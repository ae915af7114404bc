//! `althing serve` and `althing etcd`: starts the member, serves clients, and stops in order.
//! On a signal no new work is accepted, requests under way get their answers, and then the core is drained; a
//! second signal ends the process where it stands.

use crate::config::check::{CheckedConfig, ListenAddr, ListenSocket, OutputStyle};
use crate::config::tls::ClientTls;
use crate::exposure::{self, Exposed, ExposedKind};
use crate::files;
use crate::log::Log;
use crate::service_manager::{ServiceState, notify};
use crate::signals::Signals;
use api::{BrowserSettings, ClientLimits, ClientMetrics, Listener, Port};
use server::{Config, Handle, Server};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    #[error("cannot listen for clients on {address}: {reason}; is another process using the port?")]
    ListenAddr { address: SocketAddr, reason: std::io::Error },
    #[error(
        "cannot listen for the data API on {address}: {reason}; is another process using the port? --http-addr \
         chooses another one, or none"
    )]
    ListenRest { address: SocketAddr, reason: std::io::Error },
    #[error("cannot listen for clients on the Unix socket {}: {reason}", path.display())]
    ListenSocket { path: PathBuf, reason: std::io::Error },
    #[error("cannot listen for peers on {address}: {reason}; is another process using the port?")]
    ListenPeers { address: SocketAddr, reason: std::io::Error },
    #[error("the certificates for clients cannot be used: {0}")]
    Tls(#[from] tls::Error),
    #[error("cannot handle signals: {0}")]
    Signals(std::io::Error),
    #[error(
        "this member was removed from the cluster, and stops: to bring the node back, give it an empty data \
         directory and add it as a new member (`althing member add`, or --join)"
    )]
    Removed,
    #[error(transparent)]
    Server(#[from] server::Error),
    #[error(transparent)]
    Api(#[from] api::Error),
}

pub fn run(checked: CheckedConfig) -> ExitCode {
    let log = match Log::start(&checked.log_filter, checked.log_format, &checked.log_outputs) {
        Ok(log) => log,
        Err(error) => {
            // When standard error is closed as well, the exit code is enough.
            let _ = writeln!(std::io::stderr(), "althing: cannot log: {error}");
            return ExitCode::FAILURE;
        }
    };
    for warning in &checked.warnings {
        warn!("{warning}");
    }
    let outcome = run_member(checked);
    if let Err(error) = &outcome {
        error!(%error, "stopped by an error");
        if !tracing::enabled!(tracing::Level::ERROR) {
            // A failed start is told also where nothing is logged.
            let _ = writeln!(std::io::stderr(), "althing: {error}");
        }
    }
    log.flush();
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_member(checked: CheckedConfig) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    let outcome = runtime.block_on(run_until_signal(checked));
    // Tasks that still run have had their time.
    runtime.shutdown_timeout(Duration::ZERO);
    outcome
}

async fn run_until_signal(checked: CheckedConfig) -> Result<(), Error> {
    let mut signals = Signals::new().map_err(Error::Signals)?;
    let ports = Ports::bind(&checked)?;
    let mut config = checked.config;
    if config.advertise_client == config.client_addr.to_string() {
        config.advertise_client = ports.client_addr(config.client_addr).to_string();
    }
    let drain_timeout = config.drain_timeout;
    let settings = api::ServeSettings {
        request_bytes_max: config.request_bytes_max,
        txn_ops_max: config.txn_ops_max,
        with_peers: config.shares_a_port(),
    };

    let rest = api::RestSettings {
        region: config.mesh.region.clone(),
        value_bytes_max: config.request_bytes_max,
        advertise: match checked.http_addr {
            Some(asked) if checked.advertise_http == asked.to_string() => {
                ports.rest_addr().unwrap_or(asked).to_string()
            }
            _ => checked.advertise_http,
        },
        shown: checked.shown,
    };

    let peer_ports = bind_peers(&config.more_peer_addrs)?;
    let Some(server) = started(config.clone(), &mut signals).await? else { return Ok(()) };
    let (stop_clients, stopped) = watch::channel(());
    let handle = server.handle();
    peer_ports.into_iter().for_each(|port| drop(tokio::spawn(serve_join_questions(port, handle.clone()))));
    tokio::spawn(exposure::warn(handle.clone(), ports.exposed()));
    let mut removed = false;
    if checked.output_style == OutputStyle::Althing {
        announce(&config, &ports);
    }
    notify(ServiceState::Joining);
    let ready = tokio::spawn(notify_ready(handle.clone()));
    let mut ports = ports;
    let mut clients = ports.serve_metrics(&handle, &stopped);
    if checked.output_style == OutputStyle::Etcd {
        // As etcd: clients are served once this member has joined its cluster and knows a leader.
        let joined = tokio::select! {
            () = joined(&handle) => true,
            name = signals.next() => { info!(signal = name, "stopping: has not joined its cluster"); false }
            () = handle.members().removed() => { removed = true; false }
        };
        if !joined {
            ready.abort();
            notify(ServiceState::Stopping);
            signals.exit_on_next();
            let _ = stop_clients.send(());
            server.drain();
            return if removed { Err(Error::Removed) } else { Ok(()) };
        }
        info!(address = %config.client_addr, "ready to serve client requests");
    }
    ports.serve(&mut clients, &handle, settings, rest, stopped);

    tokio::select! {
        name = signals.next() => info!(signal = name, "stopping: finishing requests under way"),
        () = handle.members().removed() => removed = true,
        Some(ended) = clients.join_next() => return ended.expect("serving clients does not panic"),
    }
    ready.abort();
    notify(ServiceState::Stopping);
    signals.exit_on_next();
    // The receivers are gone only if serving has ended by itself.
    let _ = stop_clients.send(());
    match tokio::time::timeout(drain_timeout, finish(clients)).await {
        Ok(ended) => ended?,
        Err(_) => warn!(elapsed_ms = drain_timeout.as_millis() as u64, "gave up on requests under way"),
    }
    server.drain();
    info!("stopped");
    if removed { Err(Error::Removed) } else { Ok(()) }
}

/// The server; none if a signal ends the start, which may wait for other members or read a large log. What is on disk stays
/// as after a crash.
async fn started(config: Config, signals: &mut Signals) -> Result<Option<Server>, Error> {
    let start = tokio::task::spawn_blocking(move || Server::start(config));
    tokio::select! {
        started = start => Ok(Some(started.expect("starting does not panic")?)),
        name = signals.next() => {
            info!(signal = name, "stopping: has not started yet");
            Ok(None)
        }
    }
}

/// How often a member that starts looks for its leader.
const LEADER_POLL: Duration = Duration::from_millis(5);

/// Resolves when this member knows a leader.
async fn joined(handle: &Handle) {
    while handle.status().leader.is_none() {
        tokio::time::sleep(LEADER_POLL).await;
    }
}

/// A node without a voter's part in the cluster has no leader to wait for.
async fn notify_ready(handle: Handle) {
    if !handle.is_data_only() {
        joined(&handle).await;
    }
    notify(ServiceState::Ready);
}

fn bind_peers(addresses: &[SocketAddr]) -> Result<Vec<tokio::net::TcpListener>, Error> {
    let bind = |address: &SocketAddr| {
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)
        });
        listener.map_err(|reason| Error::ListenPeers { address: *address, reason })
    };
    addresses.iter().map(bind).collect()
}

/// A further address at which peers are heard.
async fn serve_join_questions(port: tokio::net::TcpListener, handle: Handle) {
    loop {
        let Ok((stream, _)) = port.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let blocking = stream.into_std().and_then(|stream| {
            stream.set_nonblocking(false)?;
            Ok(stream)
        });
        if let Ok(stream) = blocking {
            handle.peer_port().adopt(stream);
        }
    }
}

/// A pause after the kernel refuses to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

async fn finish(mut clients: JoinSet<Result<(), Error>>) -> Result<(), Error> {
    while let Some(ended) = clients.join_next().await {
        ended.expect("serving clients does not panic")?;
    }
    Ok(())
}

/// The sockets for clients, the data API and metrics.
struct Ports {
    clients: Vec<Port>,
    rest: Option<Port>,
    metrics: Vec<Port>,
}

impl Ports {
    fn bind(checked: &CheckedConfig) -> Result<Ports, Error> {
        let tls = checked.tls.as_ref().map(open_tls).transpose()?;
        let limits = client_limits(checked);
        let metrics = ClientMetrics::new(checked.timed, &limits);
        let with = |listener: Listener, sealed: bool| Port {
            listener,
            metrics: metrics.clone(),
            tls: tls.clone().filter(|_| sealed),
            plain_too: false,
            limits: limits.clone(),
            browsers: checked.browsers.clone(),
        };
        let bind = |listen: &ListenAddr| match TcpListener::bind(listen.address) {
            Ok(listener) => Ok(with(listener.into(), listen.sealed)),
            Err(reason) => Err(Error::ListenAddr { address: listen.address, reason }),
        };
        let bind_unix = |socket: &ListenSocket| match listen_unix(&socket.path) {
            Ok(listener) => Ok(with(Listener::Unix(listener), socket.sealed)),
            Err(reason) => Err(Error::ListenSocket { path: socket.path.clone(), reason }),
        };
        let sockets = checked.client_sockets.iter().map(bind_unix).collect::<Result<Vec<_>, _>>()?;
        // An address that is given with TLS and without serves both.
        let is_given = |address: SocketAddr, sealed: bool| {
            checked.client_addrs.contains(&ListenAddr { address, sealed })
        };
        let bind_client = |(nth, listen): (usize, &ListenAddr)| {
            let other = ListenAddr { sealed: !listen.sealed, ..*listen };
            if checked.client_addrs[..nth].iter().any(|earlier| *earlier == other || earlier == listen) {
                return None;
            }
            let both = is_given(listen.address, true) && is_given(listen.address, false);
            let sealed = listen.sealed || both;
            Some(bind(&ListenAddr { sealed, ..*listen }).map(|port| Port { plain_too: both, ..port }))
        };
        let clients = checked.client_addrs.iter().enumerate().filter_map(bind_client);
        let clients = clients.collect::<Result<Vec<_>, _>>()?;
        let rest_sealed = checked.client_addrs.first().is_some_and(|listen| listen.sealed);
        Ok(Ports {
            clients: clients.into_iter().chain(sockets).collect(),
            rest: checked
                .http_addr
                .map(|address| match TcpListener::bind(address) {
                    Ok(listener) => {
                        let port = with(listener.into(), rest_sealed);
                        // A page whose name was pointed here reads keys by nothing but `Host` and a path.
                        let browsers = BrowserSettings { programs_by_any_name: false, ..port.browsers };
                        Ok(Port { browsers, ..port })
                    }
                    Err(reason) => Err(Error::ListenRest { address, reason }),
                })
                .transpose()?,
            metrics: checked.metrics_addrs.iter().map(bind).collect::<Result<_, _>>()?,
        })
    }

    /// The ports that other machines reach, and whether their traffic is encrypted.
    fn exposed(&self) -> Vec<Exposed> {
        let clients = self.clients.iter().chain(&self.rest).map(|port| (port, ExposedKind::Clients));
        let all = clients.chain(self.metrics.iter().map(|port| (port, ExposedKind::Metrics)));
        let exposed = |(port, kind): (&Port, ExposedKind)| {
            let address = port.listener.local_addr().filter(|address| !address.ip().is_loopback())?;
            Some(Exposed { address, kind, sealed: port.tls.is_some() && !port.plain_too })
        };
        all.filter_map(exposed).collect()
    }

    /// The address of the first listener, whose port the kernel may have chosen.
    fn client_addr(&self, asked: SocketAddr) -> SocketAddr {
        self.clients.first().and_then(|port| port.listener.local_addr()).unwrap_or(asked)
    }

    fn rest_addr(&self) -> Option<SocketAddr> {
        self.rest.as_ref().and_then(|port| port.listener.local_addr())
    }

    /// Probes and metrics are served from the start.
    fn serve_metrics(
        &mut self,
        handle: &Handle,
        stopped: &watch::Receiver<()>,
    ) -> JoinSet<Result<(), Error>> {
        let mut tasks = JoinSet::new();
        for port in self.metrics.drain(..) {
            let (handle, stopped) = (handle.clone(), stop_requested(stopped.clone()));
            tasks.spawn(async move { Ok(api::serve_probes(handle, port, stopped).await?) });
        }
        tasks
    }

    fn serve(
        self,
        tasks: &mut JoinSet<Result<(), Error>>,
        handle: &Handle,
        settings: api::ServeSettings,
        rest: api::RestSettings,
        stopped: watch::Receiver<()>,
    ) {
        for port in self.clients {
            let (handle, stopped) = (handle.clone(), stop_requested(stopped.clone()));
            let data = rest.clone();
            tasks.spawn(async move { Ok(api::serve(handle, port, settings, data, stopped).await?) });
        }
        if let Some(port) = self.rest {
            let (handle, rest, stopped) = (handle.clone(), rest.clone(), stopped.clone());
            let shutdown = move || stop_requested(stopped.clone());
            tasks.spawn_blocking(move || Ok(api::serve_rest(handle, port, rest, shutdown)?));
        }
    }
}

/// A socket that an earlier process left is replaced, as in etcd; any other file stays.
fn listen_unix(path: &Path) -> std::io::Result<UnixListener> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// The limits for clients, below the limit on open files.
fn client_limits(checked: &CheckedConfig) -> ClientLimits {
    let files = files::raise_limit();
    let connections = files::connections_below(files, checked.connections_max);
    if connections < checked.connections_max {
        warn!(
            files,
            connections,
            asked = checked.connections_max,
            "the limit on open files lowers connections-max"
        );
    }
    let limits = files::limits(connections, checked.connections_per_address_max);
    ClientLimits::new(limits, checked.partial_request_bytes_max)
}

fn open_tls(tls: &ClientTls) -> Result<api::Tls, Error> {
    if let Some(made) = &tls.self_signed {
        made.files()?;
    }
    let server = Arc::new(tls::ServerTls::open(tls.files.clone(), tls.min)?);
    Ok(api::Tls { server, names_users: tls.names_users })
}

/// Resolves when the process stops; a dropped sender means the same.
async fn stop_requested(mut stopped: watch::Receiver<()>) {
    let _ = stopped.changed().await;
}

/// The one line on standard output, for people and for scripts that wait for it.
fn announce(config: &Config, ports: &Ports) {
    let scheme = if config.client_tls { "https" } else { "http" };
    let rest = ports.rest_addr().map(|address| format!(", REST on {scheme}://{address}")).unwrap_or_default();
    let line = format!(
        "althing {}: member {} serves clients on {scheme}://{}{rest}, peers on {}, data in {}\n",
        env!("CARGO_PKG_VERSION"),
        config.name,
        ports.client_addr(config.client_addr),
        config.peer_addr,
        config.data_dir.display(),
    );
    // A closed standard output is no reason to stop.
    let _ = std::io::stdout().write_all(line.as_bytes());
}
