//! Warnings for ports of clients that other machines reach: what is said there is not encrypted, or nothing is asked of
//! those who say it. Ports and a handle go in, lines of the log come out; nothing is refused, as etcd refuses nothing.

use server::Handle;
use std::net::SocketAddr;
use std::time::Duration;
use tracing::warn;

/// How often it is asked whether this node knows the users.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a port serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExposedKind {
    Clients,
    /// Metrics and probes, to anyone.
    Metrics,
}

/// A port beyond loopback.
pub struct Exposed {
    pub address: SocketAddr,
    pub kind: ExposedKind,
    /// Inside TLS.
    pub sealed: bool,
}

pub async fn warn(handle: Handle, ports: Vec<Exposed>) {
    ports.iter().filter(|port| !port.sealed).for_each(warn_of_clear);
    let ports: Vec<Exposed> = ports.into_iter().filter(|port| port.kind == ExposedKind::Clients).collect();
    if ports.is_empty() {
        return;
    }
    // A node that has just started may not know yet that auth is on.
    let is_on = loop {
        match handle.auth().is_on_by_agreement().await {
            Some(is_on) => break is_on,
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    };
    if is_on {
        return;
    }
    for port in &ports {
        warn!(
            address = %port.address,
            "auth is off, and other machines reach the port: all of them may read and change everything \
             (`althing user add root`, `althing auth enable`)"
        );
    }
}

fn warn_of_clear(port: &Exposed) {
    match port.kind {
        ExposedKind::Clients => warn!(
            address = %port.address,
            "clients are served without TLS, and other machines reach the port: --cert-file and --key-file encrypt it"
        ),
        ExposedKind::Metrics => warn!(
            address = %port.address,
            "metrics and probes are served without TLS and to anyone, and other machines reach the port"
        ),
    }
}
