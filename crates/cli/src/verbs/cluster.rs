//! `althing cluster`: what concerns all members at once. `cluster secure` turns a running cluster whose peer ports are open
//! into one whose members share a secret, member by member; it can be interrupted and repeated at any point.

use super::{Client, Error, Options, print};
use clap::Subcommand;
use proto::althing::store::v1::secure_peers_request::Step;
use proto::althing::store::v1::secure_peers_response::Stage;
use proto::althing::store::v1::{SecurePeersRequest, SecurePeersResponse};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tls::Secret;

const SECURE_EXAMPLE: &str = "\
Every member must be reached, and every node that keeps data alone: give the endpoints of the latter as well. The secret passes by
the client ports. Keep the file: a member that loses its disk is started with --cluster-secret-file.

Example:
  althing cluster secure --secret-file ./cluster-secret --endpoints 10.0.0.1:2379";

/// How long members may take until they use TLS alone.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Subcommand)]
pub enum Cluster {
    /// Gives every member a secret, and closes the peer ports to nodes without it
    #[command(after_help = SECURE_EXAMPLE)]
    Secure {
        /// The file of the secret, which is made if it does not exist
        #[arg(long, value_name = "FILE", default_value = "cluster-secret")]
        secret_file: PathBuf,
        #[command(flatten)]
        options: Options,
    },
}

impl Cluster {
    pub async fn run(&self) -> Result<(), Error> {
        let Cluster::Secure { secret_file, options } = self;
        let nodes = nodes(options).await?;
        let secret = read_or_make(secret_file)?;
        for node in &nodes {
            step(node, Step::TakeSecret, secret.text()).await?;
            print_line(&format!("{} has the secret", node.endpoint()))?;
        }
        speak_by_tls(&nodes).await?;
        for node in &nodes {
            step(node, Step::Close, "").await?;
            print_line(&format!("{} is closed to nodes without it", node.endpoint()))?;
        }
        print_line(&format!(
            "the secret is in {}; nodes join by `althing ring invite`",
            secret_file.display()
        ))
    }
}

/// All members, and the other given endpoints; each once.
async fn nodes(options: &Options) -> Result<Vec<Client>, Error> {
    let client = options.client()?;
    let members = client.members().await?.members;
    let mut nodes = vec![];
    let mut known = BTreeSet::new();
    for member in &members {
        let Some(url) = member.client_ur_ls.first() else {
            let problem = format!("member {:x} has not started yet; start it, or remove it first", member.id);
            return Err(Error::Usage(problem));
        };
        nodes.extend(options.client_of(vec![url.clone()])?.each());
        known.insert(member.id);
    }
    for node in client.each() {
        let shown = step(&node, Step::Show, "").await?;
        if known.insert(shown.header.map_or(0, |header| header.member_id)) {
            nodes.push(node);
        }
    }
    Ok(nodes)
}

/// Until no node exchanges frames unencrypted. Each redials one stream at a time.
async fn speak_by_tls(nodes: &[Client]) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut clear = BTreeSet::new();
        for node in nodes {
            clear.extend(step(node, Step::Redial, "").await?.in_the_clear);
        }
        if clear.is_empty() {
            return Ok(());
        }
        if Instant::now() > until {
            let ids: Vec<String> = clear.iter().map(|id| format!("{id:x}")).collect();
            return Err(Error::Usage(format!(
                "frames are still exchanged unencrypted with {}; if that is a data-only node, give its endpoint, too",
                ids.join(", ")
            )));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn step(node: &Client, step: Step, secret: &str) -> Result<SecurePeersResponse, Error> {
    let request = SecurePeersRequest { step: step as i32, secret: secret.to_owned() };
    let answer = node.secure_peers(request).await?;
    let is_behind = step == Step::Close && answer.stage() != Stage::Closed;
    let problem = || Error::Usage(format!("{} is not closed", node.endpoint()));
    if is_behind { Err(problem()) } else { Ok(answer) }
}

fn read_or_make(path: &Path) -> Result<Secret, Error> {
    let failed =
        |reason: &dyn std::fmt::Display| Error::Usage(format!("cannot use {}: {reason}", path.display()));
    if !path.exists() {
        let secret = Secret::generate().ok_or_else(|| failed(&"the system gives no random numbers"))?;
        let file = File::options().create_new(true).write(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| {
            writeln!(file, "{}", secret.text())?;
            file.sync_all()
        });
        written.map_err(|reason| failed(&reason))?;
    }
    Secret::read(path).map_err(|reason| failed(&reason))
}

fn print_line(text: &str) -> Result<(), Error> {
    print(format!("{text}\n").as_bytes())
}
