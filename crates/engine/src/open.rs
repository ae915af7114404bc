//! Bringing a member back from its files, whatever state a crash left them in.
//! The order matters: the log is replayed, the store tells what was applied, the two are joined, and the new
//! start is counted durably before the first proposal can carry its number.

use crate::error::Error;
use crate::journal::{Journal, to_disk};
use crate::vault::{ASTRAY, Vault, VaultParams};
use base::mutant::{Mutant, planted};
use base::{Boot, Instant, View};
use coord::Members;
use disk::{Disk, Recovery, Stream, Wal};
use node::{Apply, Consensus, apply, consensus, member};
use raft::{Config, Record, Restoring};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Params {
    pub consensus: consensus::Params,
    pub flush_interval: Duration,
    pub flush_bytes: usize,
    pub range_bytes: usize,
    pub quota_bytes: u64,
    pub leases: node::leases::Params,
    /// The first members of the cluster, as they were configured.
    pub founders: Vec<coord::Member>,
    /// What the starts are counted from on an empty disk: above all starts of this member on disks that it has lost, or else
    /// the others take its proposals for those of long ago.
    pub first_boot: Boot,
    pub wal_segment_bytes: u64,
    pub vault: VaultParams,
    pub watch: coord::watch::Params,
    pub compaction: node::compactor::Params,
    pub history: coord::Window,
}

/// A member that has read its files and has not yet done anything.
pub struct Member {
    pub consensus: Consensus,
    pub apply: Apply,
    pub journal: Journal,
    pub vault: Vault,
    pub recovery: Recovery,
    pub boot: Boot,
}

pub fn open(disk: Arc<dyn Disk>, params: &Params, now: Instant) -> Result<Member, Error> {
    if disk.exists(ASTRAY).map_err(disk::Error::io("look for", ASTRAY))? {
        return Err(Error::Astray);
    }
    let (mut wal, recovery, restoring) = replay(disk.clone(), params)?;
    let vault = Vault::open(disk, params.vault)?;
    let mut restored = restoring.finish(vault.position()?)?;
    restored.config = config_in(vault.view())?;
    let boot = member::next_boot(restored.boot, params.first_boot);
    // Until the member has caught up with what it may have vouched for on another disk, also over further starts.
    let doubt = restored.is_emptied(&params.consensus.raft).then_some(Record::Doubt(true));
    let to_record = restored.to_record.iter().cloned().chain(doubt).chain([Record::Boot(boot)]);
    let records: Vec<_> = to_record.map(|record| to_disk(&record)).collect();
    wal.write(&records)?;
    wal.sync()?;
    let mut consensus_params = params.consensus.clone();
    consensus_params.raft.tail_was_cut = recovery.torn.is_some();
    let apply_params = apply::Params {
        me: consensus_params.raft.id,
        boot,
        flush_interval: params.flush_interval,
        flush_bytes: params.flush_bytes,
        range_bytes: params.range_bytes,
        quota_bytes: params.quota_bytes,
        compaction: params.compaction.clone(),
        history: params.history,
        watch: params.watch.clone(),
        leases: params.leases.clone(),
        founders: params.founders.clone(),
    };
    Ok(Member {
        apply: Apply::restore(apply_params, now, vault.view())?,
        consensus: Consensus::new(consensus_params, restored, boot),
        journal: Journal::new(wal),
        vault,
        recovery,
        boot,
    })
}

/// What the store's table of members says of raft's configuration, if it has one.
pub(crate) fn config_in(view: &dyn View) -> Result<Option<Config>, Error> {
    let members = Members::read(view)?.filter(|_| !planted(Mutant::ConfigLostAtStart));
    Ok(members.map(|members| member::config_of(&members)))
}

fn replay(disk: Arc<dyn Disk>, params: &Params) -> Result<(Wal, Recovery, Restoring), Error> {
    let mut restoring = Restoring::default();
    let mut all_known = true;
    let wal_params = disk::wal::Params { segment_bytes: params.wal_segment_bytes, spares_max: 1 };
    let (wal, recovery) = Wal::open(disk, wal_params, &mut |record| {
        if record.stream != Stream::Raft {
            return;
        }
        match Record::decode(record.payload) {
            Some(record) => restoring.add(record),
            None => all_known = false,
        }
    })?;
    if all_known { Ok((wal, recovery, restoring)) } else { Err(Error::UnknownRecord) }
}
