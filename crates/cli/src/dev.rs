//! `althing dev`: a cluster on this machine, every member a process of its own.
//! A number of members goes in; endpoints and an example come out, then the members' warnings. One that dies is
//! started again; SIGINT, SIGTERM or SIGHUP stops all of them, and none outlives this process, also when it is killed.

mod member;
mod sweeper;

use crate::signals::Signals;
use clap::Args;
use member::{Member, MemberPlan, RegionPlan};
use server::ports::free_ports;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use sweeper::Sweeper;
use tempfile::TempDir;
use tokio::task::JoinSet;

const EXAMPLE: &str = "\
Example:
  althing dev                                    three members; Ctrl-C stops them
  althing dev --nodes 5 --data-dir ./cluster     five, whose data stays
  althing dev --nodes 3 --regions 2              two clusters that hold the same data, each writable";

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Dev {
    /// How many members the cluster has
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    nodes: u8,
    /// How many such clusters there are, each a region that replicates to the others
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    regions: u8,
    /// Keep the data here instead of in a directory that is removed at the end
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    #[error("cannot handle signals: {0}")]
    Signals(std::io::Error),
    #[error("cannot find a free port: {0}")]
    Port(std::io::Error),
    #[error("cannot use the data directory {path}: {reason}", path = path.display())]
    Data { path: PathBuf, reason: std::io::Error },
    #[error("the system gives no random numbers to make a secret of")]
    NoSecret,
    #[error("cannot start a member: {0}")]
    Spawn(std::io::Error),
}

impl Dev {
    pub fn run(&self) -> ExitCode {
        match self.run_cluster() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // When standard error is closed, the exit code is enough.
                let _ = writeln!(std::io::stderr(), "althing dev: {error}");
                ExitCode::FAILURE
            }
        }
    }

    fn run_cluster(&self) -> Result<(), Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let temporary = match &self.data_dir {
            Some(_) => None,
            None => Some(
                TempDir::with_prefix("althing-dev-")
                    .map_err(|reason| Error::Data { path: std::env::temp_dir(), reason })?,
            ),
        };
        let root = match (&self.data_dir, &temporary) {
            (Some(dir), _) => dir.clone(),
            (None, Some(dir)) => dir.path().to_owned(),
            (None, None) => unreachable!("without a directory given there is a temporary one"),
        };
        std::fs::create_dir_all(&root).map_err(|reason| Error::Data { path: root.clone(), reason })?;
        let plans = match self.regions {
            1 => plans(self.nodes, "", &root)?,
            n => plans_of_regions(self.nodes, n, &root)?,
        };
        let sweeper = Sweeper::start(temporary.as_ref().map(TempDir::path)).map_err(Error::Spawn)?;
        runtime.map_err(Error::Runtime)?.block_on(supervise(plans, Arc::new(sweeper)))
    }
}

/// Members keep their ports with their data: a cluster that is started again must find its members.
fn plans(nodes: u8, prefix: &str, root: &Path) -> Result<Vec<MemberPlan>, Error> {
    let file = root.join("ports");
    let known: Vec<u16> = std::fs::read_to_string(&file)
        .map(|text| text.split_whitespace().filter_map(|port| port.parse().ok()).collect())
        .unwrap_or_default();
    let n = usize::from(nodes);
    // Pairs for clients and peers, and behind them those of the data API, which older clusters do not have.
    let mut ports = if [2 * n, 3 * n].contains(&known.len()) { known } else { vec![] };
    ports.extend(free_ports(3 * n - ports.len()).map_err(Error::Port)?);
    let text: Vec<String> = ports.iter().map(u16::to_string).collect();
    std::fs::write(&file, text.join(" ")).map_err(|reason| Error::Data { path: file, reason })?;
    let (pairs, rest) = ports.split_at(2 * n);
    let secret = secret_file(root, "cluster-secret")?;
    let name = |i: usize| format!("{prefix}n{}", i + 1);
    let cluster: Vec<String> =
        pairs.chunks(2).enumerate().map(|(i, pair)| format!("{}=127.0.0.1:{}", name(i), pair[1])).collect();
    let plan = |(i, pair): (usize, &[u16])| MemberPlan {
        name: name(i),
        client: format!("127.0.0.1:{}", pair[0]),
        peer: format!("127.0.0.1:{}", pair[1]),
        http: format!("127.0.0.1:{}", rest[i]),
        cluster: cluster.join(","),
        secret: secret.clone(),
        region: None,
        data_dir: root.join(name(i)),
    };
    Ok(pairs.chunks(2).enumerate().map(plan).collect())
}

/// A cluster for each region, in a directory of its own; each knows some nodes of the others.
fn plans_of_regions(nodes: u8, regions: u8, root: &Path) -> Result<Vec<MemberPlan>, Error> {
    let mut all = Vec::new();
    for name in (1..=regions).map(|n| format!("r{n}")) {
        let dir = root.join(&name);
        std::fs::create_dir_all(&dir).map_err(|reason| Error::Data { path: dir.clone(), reason })?;
        let plans = plans(nodes, &format!("{name}-"), &dir)?;
        all.push((name, plans));
    }
    let region = |name: &str| {
        let others = || all.iter().filter(|(other, _)| other != name);
        let peers = others()
            .flat_map(|(other, plans)| plans.iter().map(move |plan| format!("{other}={}", plan.peer)));
        let mut secrets = Vec::new();
        for (other, _) in others() {
            // The same file for both.
            let (first, second) =
                if name < other.as_str() { (name, other.as_str()) } else { (other.as_str(), name) };
            let file = secret_file(root, &format!("secret-{first}-{second}"))?;
            secrets.push(format!("{other}={}", file.display()));
        }
        let peers = peers.collect::<Vec<_>>().join(",");
        Ok(RegionPlan { name: name.to_owned(), peers, secrets: secrets.join(",") })
    };
    let mut listed = Vec::new();
    for (name, plans) in &all {
        let region = region(name)?;
        listed.extend(plans.iter().map(|plan| MemberPlan { region: Some(region.clone()), ..plan.clone() }));
    }
    Ok(listed)
}

/// A secret that is made once and stored with the data.
fn secret_file(root: &Path, name: &str) -> Result<PathBuf, Error> {
    let path = root.join(name);
    if !path.exists() {
        let secret = tls::Secret::generate().ok_or(Error::NoSecret)?;
        let trouble = |reason| Error::Data { path: path.clone(), reason };
        let file = File::options().create_new(true).write(true).mode(0o600).open(&path).map_err(trouble)?;
        writeln!(&file, "{}", secret.text()).map_err(trouble)?;
    }
    Ok(path)
}

async fn supervise(plans: Vec<MemberPlan>, sweeper: Arc<Sweeper>) -> Result<(), Error> {
    let mut signals = Signals::with_hang_up().map_err(Error::Signals)?;
    let stopping = tokio::sync::watch::Sender::new(false);
    let mut members = JoinSet::new();
    for plan in &plans {
        let told = stopping.subscribe();
        let member = Member::start(plan.clone(), &told, &sweeper).map_err(Error::Spawn)?;
        members.spawn(member.keep_alive(told));
    }
    announce(&plans);
    signals.next().await;
    print_line("stopping");
    // Members that have ended by themselves no longer listen.
    let _ = stopping.send(true);
    while members.join_next().await.is_some() {}
    print_line("stopped");
    Ok(())
}

fn announce(plans: &[MemberPlan]) {
    let mut text = String::new();
    for plan in plans {
        text.push_str(&format!(
            "{}: http://{}, REST on http://{}, data in {}\n",
            plan.name,
            plan.client,
            plan.http,
            plan.data_dir.display()
        ));
    }
    for cluster in plans.chunk_by(|one, next| one.region_name() == next.region_name()) {
        text.push_str(&endpoints(cluster));
    }
    // A closed standard output is no reason to stop.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// The endpoints of one cluster, and how to try it.
fn endpoints(cluster: &[MemberPlan]) -> String {
    let join = |address: fn(&MemberPlan) -> &str| cluster.iter().map(address).collect::<Vec<_>>().join(",");
    let (endpoints, rest) = (join(|plan| &plan.client), join(|plan| &plan.http));
    let region = cluster[0].region_name().map(|name| format!("region {name}, ")).unwrap_or_default();
    format!(
        "{region}endpoints: {endpoints}\n\
         try: althing put greeting hello --endpoints {endpoints}\n\
         {region}REST endpoints: {rest}\n\
         try: althing data put greeting hello --http-endpoints {rest}\n"
    )
}

/// A line about the cluster, for the user.
fn print_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "dev: {text}");
}
