//! `althing serve` and `althing etcd`: starts the member, serves clients, and stops in order.
//! On a signal no new work is accepted, requests under way get their answers, and then the core is drained; a
//! second signal ends the process where it stands.

use crate::config::check::{CheckedConfig, ListenAddr, OutputStyle};
use crate::config::tls::ClientTls;
use crate::exposure;
use crate::files;
use crate::log::Log;
use crate::signals::Signals;
use api::{ClientLimits, Port};
use server::{Config, Handle, Server};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
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
    let log = match Log::start(&checked.log_filter, checked.log_pretty, &checked.log_outputs) {
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
        timed: checked.timed,
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
    };

    let server = Server::start(config.clone())?;
    match checked.output_style {
        OutputStyle::Althing => announce(&config, &ports),
        OutputStyle::Etcd => info!(address = %config.client_addr, "ready to serve client requests"),
    }
    let (stop_clients, stopped) = watch::channel(());
    let handle = server.handle();
    tokio::spawn(exposure::warn(handle.clone(), ports.exposed()));
    let mut clients = ports.serve(&handle, settings, rest, stopped);
    let mut removed = false;

    tokio::select! {
        name = signals.next() => info!(signal = name, "stopping: finishing requests under way"),
        () = handle.removed() => removed = true,
        Some(ended) = clients.join_next() => return ended.expect("serving clients does not panic"),
    }
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
        let with = |listener: TcpListener, sealed: bool| Port {
            listener,
            tls: tls.clone().filter(|_| sealed),
            limits: limits.clone(),
            browsers: checked.browsers.clone(),
        };
        let bind = |listen: &ListenAddr| match TcpListener::bind(listen.address) {
            Ok(listener) => Ok(with(listener, listen.sealed)),
            Err(reason) => Err(Error::ListenAddr { address: listen.address, reason }),
        };
        let rest_sealed = checked.client_addrs.first().is_some_and(|listen| listen.sealed);
        Ok(Ports {
            clients: checked.client_addrs.iter().map(bind).collect::<Result<_, _>>()?,
            rest: checked
                .http_addr
                .map(|address| match TcpListener::bind(address) {
                    Ok(listener) => Ok(with(listener, rest_sealed)),
                    Err(reason) => Err(Error::ListenRest { address, reason }),
                })
                .transpose()?,
            metrics: checked.metrics_addrs.iter().map(bind).collect::<Result<_, _>>()?,
        })
    }

    /// Those that other machines reach, and whether what is said there is encrypted.
    fn exposed(&self) -> Vec<exposure::Exposed> {
        let all = self.clients.iter().chain(&self.rest);
        let address = |port: &Port| Some((port.listener.local_addr().ok()?, port.tls.is_some()));
        let beyond = all.filter_map(address).filter(|(address, _)| !address.ip().is_loopback());
        beyond.map(|(address, sealed)| exposure::Exposed { address, sealed }).collect()
    }

    /// The address of the first listener, whose port the kernel may have chosen.
    fn client_addr(&self, asked: SocketAddr) -> SocketAddr {
        self.clients.first().and_then(|port| port.listener.local_addr().ok()).unwrap_or(asked)
    }

    fn rest_addr(&self) -> Option<SocketAddr> {
        self.rest.as_ref().and_then(|port| port.listener.local_addr().ok())
    }

    fn serve(
        self,
        handle: &Handle,
        settings: api::ServeSettings,
        rest: api::RestSettings,
        stopped: watch::Receiver<()>,
    ) -> JoinSet<Result<(), Error>> {
        let mut tasks = JoinSet::new();
        for port in self.clients {
            let (handle, stopped) = (handle.clone(), stop_requested(stopped.clone()));
            tasks.spawn(async move { Ok(api::serve(handle, port, settings, stopped).await?) });
        }
        if let Some(port) = self.rest {
            let (handle, rest, stopped) = (handle.clone(), rest.clone(), stopped.clone());
            let shutdown = move || stop_requested(stopped.clone());
            tasks.spawn_blocking(move || Ok(api::serve_rest(handle, port, rest, shutdown)?));
        }
        for port in self.metrics {
            let (handle, stopped) = (handle.clone(), stop_requested(stopped.clone()));
            tasks.spawn(async move { Ok(api::serve_probes(handle, port, stopped).await?) });
        }
        tasks
    }
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
