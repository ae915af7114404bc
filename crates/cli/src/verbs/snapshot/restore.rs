//! `althing snapshot restore`: a directory for a member of a new cluster. It is run once for each member, with the
//! same backup. As with `etcdutl`, the revision stays as it was unless it is asked to rise: far above anything that clients
//! can have seen, and marked as compacted, so that watchers must read again and none sees a revision twice.

use super::{Error, open, print, trouble};
use crate::config::gather::token_of;
use crate::progress::Progress;
use base::{Revision, date};
use clap::Args;
use server::ClusterMember;
use server::offline::{self, DigestRule, NewMember, RestorePoint, RestoreRules};
use std::io::Write;
use std::path::PathBuf;

/// More revisions than were made since any backup that an operator restores; etcd's own advice.
pub const RAISE_ADVISED: i64 = 1_000_000_000;

const EXAMPLE: &str = "\
Example: a single node
  althing snapshot restore backup.db --data-dir new-data
  althing serve --data-dir new-data

Example: for clients that have seen revisions after the backup; their watches are told to read again
  althing snapshot restore backup.db --data-dir new-data --bump-revision 1000000000 --mark-compacted

Example: what etcd has saved (etcdctl snapshot save etcd.db)
  althing snapshot restore etcd.db --data-dir new-data

Example: a cluster of three, once on each machine with its own name
  althing snapshot restore backup.db --name a --data-dir a --cluster-token restored \\
      --initial-cluster a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380

Example: as it was before a mistake
  althing snapshot restore backup.db --data-dir new-data --to-time 2025-01-22T10:30:00Z";

/// An earlier point than that of the backup.
#[derive(Args, Clone, Copy, Default)]
pub struct PointArgs {
    /// Keys as they were at this revision. Leases and users are those of the backup; keys whose leases ended since are left out
    #[arg(long, value_name = "N", conflicts_with = "to_time")]
    pub to_revision: Option<i64>,
    /// Keys as they were at this time, to the second: 2025-01-22T10:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub to_time: Option<u64>,
}

fn parse_time(text: &str) -> Result<u64, String> {
    date::parse(text).ok_or_else(|| "a time is in UTC, as 2025-01-22T10:30:00Z".to_owned())
}

impl PointArgs {
    pub fn point(self) -> RestorePoint {
        match (self.to_revision, self.to_time) {
            (Some(revision), _) => RestorePoint::Revision(Revision(revision)),
            (None, Some(millis)) => RestorePoint::Time(millis.cast_signed()),
            (None, None) => RestorePoint::Newest,
        }
    }
}

#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub struct Restore {
    pub file: PathBuf,
    /// Where the new member's data goes; there must be nothing in it
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The name that the member will be started with
    #[arg(long, default_value = "default")]
    pub name: String,
    /// All members of the new cluster, as they will be started [default: this member alone]
    #[arg(long, value_name = "NAME=HOST:PORT,...", value_delimiter = ',')]
    pub initial_cluster: Vec<String>,
    /// The region that the members will be started with
    #[arg(long, default_value = "default")]
    pub region: String,
    /// The token that the members will be started with [default: that of the region]
    #[arg(long, alias = "initial-cluster-token")]
    pub cluster_token: Option<String>,
    /// How far the revision is raised; 0 leaves it, and its past, as they were. For clients that may have seen revisions
    /// after the backup
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub bump_revision: i64,
    /// Everything before the raised revision counts as compacted; goes with --bump-revision, as in etcd
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub mark_compacted: Option<bool>,
    /// Accepts a file without a SHA-256 at its end: a database copied from etcd's data directory
    #[arg(long)]
    pub skip_hash_check: bool,
    #[command(flatten)]
    pub point: PointArgs,
}

impl Restore {
    pub fn run(&self) -> Result<(), Error> {
        let usage = |problem: &str| Err(Error::Usage(problem.to_owned()));
        if self.bump_revision < 0 {
            return usage("--bump-revision cannot be negative");
        }
        let point = self.point.point();
        if point != RestorePoint::Newest && self.bump_revision == 0 {
            return usage("--to-revision and --to-time need a --bump-revision above 0");
        }
        if self.mark_compacted.is_some_and(|mark| mark != (self.bump_revision > 0)) {
            return usage("--mark-compacted goes with a --bump-revision above 0, and only with one");
        }
        let member = NewMember {
            name: self.name.clone(),
            initial_cluster: self.members()?,
            cluster_token: self.cluster_token.clone().unwrap_or_else(|| token_of(&self.region)),
            data_dir: self.data_dir.clone(),
        };
        let total = std::fs::metadata(&self.file).map_err(trouble(&self.file))?.len();
        let mut progress = Progress::new("restoring", "bytes", total);
        let digest = if self.skip_hash_check { DigestRule::Optional } else { DigestRule::Required };
        let mut update = |done| progress.update(done);
        let rules = RestoreRules { digest, raise_by: self.bump_revision, point };
        let (restored, identity) = offline::restore(&member, &mut open(&self.file)?, rules, &mut update)?;
        progress.end();
        if restored.summary.taken.is_some_and(|taken| taken.cluster == identity.cluster) {
            let warning = "Warning: the new cluster has the identity of the saved cluster; if members of \
                           the saved cluster may still run, restore again with another --cluster-token\n";
            // The answer below is what matters.
            let _ = std::io::stderr().write_all(warning.as_bytes());
        }
        let earlier = restored.last.map_or(String::new(), |last| format!(", keys as of revision {}", last.0));
        let told = format!(
            "Snapshot restored into {}: member {:x} of cluster {:x}, revision {}{earlier}\n",
            self.data_dir.display(),
            identity.member.0,
            identity.cluster.0,
            restored.revision.0
        );
        print(told.as_bytes())
    }

    /// Addresses may be URLs, as etcd's tools want them.
    fn members(&self) -> Result<Vec<ClusterMember>, Error> {
        if self.initial_cluster.is_empty() {
            return Ok(vec![ClusterMember { name: self.name.clone(), peer_addr: String::new() }]);
        }
        let parse = |text: &String| {
            let (name, address) = text
                .split_once('=')
                .ok_or_else(|| Error::Usage(format!("\"{text}\" is not NAME=HOST:PORT")))?;
            let peer_addr = address.split_once("://").map_or(address, |(_, place)| place).to_owned();
            Ok(ClusterMember { name: name.to_owned(), peer_addr })
        };
        self.initial_cluster.iter().map(parse).collect()
    }
}
