//! `althing serve`: starts the member, serves clients, and stops in order.
//! On a signal no new work is accepted, requests under way get their answers, and then the core is drained; a
//! second signal ends the process where it stands.

use crate::config::check::Checked;
use crate::log::Log;
use server::{Config, Handle, Server};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{error, info, warn};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    #[error("cannot listen for clients on {address}: {reason}; is another process using the port?")]
    Listen { address: SocketAddr, reason: std::io::Error },
    #[error("cannot handle signals: {0}")]
    Signals(std::io::Error),
    #[error(transparent)]
    Server(#[from] server::Error),
    #[error(transparent)]
    Api(#[from] api::Error),
}

pub fn run(checked: Checked) -> ExitCode {
    let log = match Log::start(&checked.log_filter, checked.log_pretty) {
        Ok(log) => log,
        Err(_) => return ExitCode::FAILURE,
    };
    let outcome = run_member(checked.config);
    if let Err(error) = &outcome {
        error!(%error, "stopped by trouble");
    }
    log.flush();
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_member(config: Config) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    let outcome = runtime.block_on(run_until_signal(config));
    // What still runs has had its time.
    runtime.shutdown_timeout(Duration::ZERO);
    outcome
}

async fn run_until_signal(mut config: Config) -> Result<(), Error> {
    let mut signals = Signals::new().map_err(Error::Signals)?;
    let listener = TcpListener::bind(config.client_addr)
        .map_err(|reason| Error::Listen { address: config.client_addr, reason })?;
    let client_addr = listener.local_addr().unwrap_or(config.client_addr);
    if config.advertise_client == config.client_addr.to_string() {
        // The kernel may have chosen the port.
        config.advertise_client = client_addr.to_string();
    }
    let drain_timeout = config.drain_timeout;
    let settings =
        api::Settings { request_bytes_max: config.request_bytes_max, txn_ops_max: config.txn_ops_max };

    let server = Server::start(config.clone())?;
    announce(&config, client_addr);
    let (stop_clients, stopped) = oneshot::channel();
    let mut clients = tokio::spawn(serve_clients(server.handle(), listener, settings, stopped));

    tokio::select! {
        name = signals.next() => info!(signal = name, "stopping: finishing requests under way"),
        ended = &mut clients => return ended.expect("serving clients does not panic"),
    }
    signals.exit_on_next();
    // The receiver is gone only if serving has ended by itself.
    let _ = stop_clients.send(());
    match tokio::time::timeout(drain_timeout, clients).await {
        Ok(ended) => ended.expect("serving clients does not panic")?,
        Err(_) => warn!(elapsed_ms = drain_timeout.as_millis() as u64, "gave up on requests under way"),
    }
    server.drain();
    info!("stopped");
    Ok(())
}

async fn serve_clients(
    handle: Handle,
    listener: TcpListener,
    settings: api::Settings,
    stopped: oneshot::Receiver<()>,
) -> Result<(), Error> {
    let shutdown = async {
        // A sender that was dropped says the same as one that was used.
        let _ = stopped.await;
    };
    Ok(api::serve(handle, listener, settings, shutdown).await?)
}

/// The one line on standard output, for people and for scripts that wait for it.
fn announce(config: &Config, client_addr: SocketAddr) {
    let line = format!(
        "althing {}: member {} serves clients on http://{client_addr}, peers on {}, data in {}\n",
        env!("CARGO_PKG_VERSION"),
        config.name,
        config.peer_addr,
        config.data_dir.display(),
    );
    // A closed standard output is no reason not to serve.
    let _ = std::io::stdout().write_all(line.as_bytes());
}

/// The signals that ask the process to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// From here on a signal means that somebody has lost patience.
    fn exit_on_next(mut self) {
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(1);
        });
    }
}
