//! `althing endpoint`: asks each endpoint about itself, all at once, and prints the answers in the order given.
//! An endpoint that does not answer is reported, and fails the command.

use super::{Client, Error, Options, Printer, each_endpoint, print};
use crate::output::{EndpointHash, EndpointHealth, EndpointStatus};
use clap::{Args, Subcommand};
use proto::etcdserverpb::RangeRequest;
use std::io::Write;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Code;

const STATUS_EXAMPLE: &str = "\
Example:
  althing endpoint status -w table --endpoints 10.0.0.1:2379,10.0.0.2:2379
  althing endpoint status -w table --cluster     every member that the first endpoint knows of";
const HEALTH_EXAMPLE: &str = "\
Example:
  althing endpoint health --endpoints 10.0.0.1:2379,10.0.0.2:2379";
const HASH_EXAMPLE: &str = "\
Example:
  althing endpoint hashkv --cluster              equal on all members, if they are equal
  althing endpoint hashkv --cluster --rev 1000   as of this revision, while others write";

#[derive(Subcommand)]
pub enum Endpoint {
    /// Prints the status of each endpoint
    #[command(after_help = STATUS_EXAMPLE)]
    Status(EndpointOptions),
    /// Reads through each endpoint, and prints how long it took
    #[command(after_help = HEALTH_EXAMPLE)]
    Health(EndpointOptions),
    /// Prints each endpoint's hash of all keys
    #[command(name = "hashkv", after_help = HASH_EXAMPLE)]
    HashKv {
        /// Hash what was there at this revision; 0 is the newest
        #[arg(long, default_value_t = 0, hide_default_value = true, allow_negative_numbers = true)]
        rev: i64,
        #[command(flatten)]
        asked: EndpointOptions,
    },
}

/// The endpoints to call.
#[derive(Args)]
pub struct EndpointOptions {
    /// Ask all members of the cluster instead of the endpoints given
    #[arg(long)]
    cluster: bool,
    #[command(flatten)]
    options: Options,
}

impl Endpoint {
    pub async fn run(&self) -> Result<(), Error> {
        match self {
            Endpoint::Status(asked) => asked.statuses().await,
            Endpoint::Health(asked) => asked.healths().await,
            Endpoint::HashKv { rev, asked } => asked.hashes(*rev).await,
        }
    }
}

impl EndpointOptions {
    async fn statuses(&self) -> Result<(), Error> {
        let asked = self.ask_each(|client| async move { Ok(client.status().await?) }).await?;
        let (answers, trouble) = gather("status", asked).await;
        let all: Vec<_> =
            answers.into_iter().map(|(endpoint, status)| EndpointStatus { endpoint, status }).collect();
        print(&Printer::new(&self.options).statuses(&all))?;
        trouble.map_or(Ok(()), Err)
    }

    async fn hashes(&self, revision: i64) -> Result<(), Error> {
        let asked = self.ask_each(move |client| async move { Ok(client.hash_kv(revision).await?) }).await?;
        let (answers, trouble) = gather("hash", asked).await;
        let all: Vec<_> =
            answers.into_iter().map(|(endpoint, hash)| EndpointHash { endpoint, hash }).collect();
        print(&Printer::new(&self.options).hashes(&all))?;
        trouble.map_or(Ok(()), Err)
    }

    async fn healths(&self) -> Result<(), Error> {
        let mut all = vec![];
        for (_, answer) in self.ask_each(health_of).await? {
            all.push(answer.await.expect("asking does not panic"));
        }
        print(&Printer::new(&self.options).healths(&all))?;
        if all.iter().all(|one| one.error.is_empty()) { Ok(()) } else { Err(Error::Unhealthy) }
    }

    /// Asks all endpoints at once; the answers come in the order of the endpoints.
    async fn ask_each<T, F>(&self, ask: impl Fn(Client) -> F) -> Result<Vec<(String, JoinHandle<T>)>, Error>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let clients = each_endpoint(&self.options, self.cluster).await?.into_iter();
        Ok(clients.map(|client| (client.endpoint().to_owned(), tokio::spawn(ask(client)))).collect())
    }
}

type PendingAnswer<T> = JoinHandle<Result<T, Error>>;

/// The answers, and the last error; each error is printed when it occurs.
async fn gather<T>(what: &str, asked: Vec<(String, PendingAnswer<T>)>) -> (Vec<(String, T)>, Option<Error>) {
    let (mut answers, mut trouble) = (vec![], None);
    for (endpoint, answer) in asked {
        match answer.await.expect("asking does not panic") {
            Ok(answer) => answers.push((endpoint, answer)),
            Err(error) => {
                // The exit code shows it as well.
                let _ =
                    writeln!(std::io::stderr(), "Failed to get the {what} of endpoint {endpoint} ({error})");
                trouble = Some(error);
            }
        }
    }
    (answers, trouble)
}

/// A linearizable read needs the leader and a majority, so it shows that the cluster works.
async fn health_of(client: Client) -> EndpointHealth {
    let start = Instant::now();
    let request = RangeRequest { key: "health".into(), ..RangeRequest::default() };
    let answer = client.range(request).await.map_err(Error::from);
    let error = match answer {
        Ok(_) => String::new(),
        // A refusal is an answer, too.
        Err(error) if error.is_refusal(Code::PermissionDenied) => String::new(),
        Err(error) => error.to_string(),
    };
    EndpointHealth { endpoint: client.endpoint().to_owned(), took: start.elapsed(), error }
}
