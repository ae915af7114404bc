//! `althing endpoint`: asks each endpoint about itself, all at once, and prints the answers in the order given.
//! An endpoint that does not answer is told, and fails the command.

use super::{Client, Error, Options, Printer, print};
use crate::client::Kind;
use crate::output::{EndpointHealth, EndpointStatus};
use clap::Subcommand;
use proto::etcdserverpb::kv_client::KvClient;
use proto::etcdserverpb::maintenance_client::MaintenanceClient;
use proto::etcdserverpb::{RangeRequest, StatusRequest, StatusResponse};
use std::io::Write;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Code;

const STATUS_EXAMPLE: &str = "\
Example:
  althing endpoint status -w table --endpoints 10.0.0.1:2379,10.0.0.2:2379";
const HEALTH_EXAMPLE: &str = "\
Example:
  althing endpoint health --endpoints 10.0.0.1:2379,10.0.0.2:2379";

#[derive(Subcommand)]
pub enum Endpoint {
    /// Tells what each endpoint knows of itself
    #[command(after_help = STATUS_EXAMPLE)]
    Status(Options),
    /// Reads through each endpoint, and tells how long it took
    #[command(after_help = HEALTH_EXAMPLE)]
    Health(Options),
}

impl Endpoint {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Endpoint::Status(options) => statuses(options).await,
            Endpoint::Health(options) => healths(options).await,
        }
    }
}

async fn statuses(options: &Options) -> Result<(), Error> {
    let mut all = vec![];
    let mut trouble = None;
    for (endpoint, answer) in ask_each(options, status_of)? {
        match answer.await.expect("asking does not panic") {
            Ok(status) => all.push(EndpointStatus { endpoint, status }),
            Err(error) => {
                // The exit code tells as well.
                let _ =
                    writeln!(std::io::stderr(), "Failed to get the status of endpoint {endpoint} ({error})");
                trouble = Some(error);
            }
        }
    }
    print(&Printer::new(options).statuses(&all))?;
    trouble.map_or(Ok(()), Err)
}

async fn status_of(client: Client) -> Result<StatusResponse, Error> {
    client
        .call(
            Kind::Read,
            |channel| async move { MaintenanceClient::new(channel).status(StatusRequest {}).await },
        )
        .await
}

async fn healths(options: &Options) -> Result<(), Error> {
    let mut all = vec![];
    for (_, answer) in ask_each(options, health_of)? {
        all.push(answer.await.expect("asking does not panic"));
    }
    print(&Printer::new(options).healths(&all))?;
    if all.iter().all(|one| one.error.is_empty()) { Ok(()) } else { Err(Error::Unhealthy) }
}

/// A linearizable read needs the leader and a majority, so it tells that the cluster works.
async fn health_of(client: Client) -> EndpointHealth {
    let start = Instant::now();
    let request = RangeRequest { key: "health".into(), ..RangeRequest::default() };
    let answer = client
        .call(Kind::Read, |channel| {
            let request = request.clone();
            async move { KvClient::new(channel).range(request).await }
        })
        .await;
    let error = match answer {
        Ok(_) => String::new(),
        // Who may not read has been answered nevertheless.
        Err(Error::Refused(status)) if status.code() == Code::PermissionDenied => String::new(),
        Err(error) => error.to_string(),
    };
    EndpointHealth { endpoint: client.endpoint().to_owned(), took: start.elapsed(), error }
}

/// Asks all endpoints at once; the answers come in the order of the endpoints.
fn ask_each<T, F>(options: &Options, ask: impl Fn(Client) -> F) -> Result<Vec<(String, JoinHandle<T>)>, Error>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let clients = Client::new(options)?.each().into_iter();
    Ok(clients.map(|client| (client.endpoint().to_owned(), tokio::spawn(ask(client)))).collect())
}
