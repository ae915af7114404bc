//! Opens a member from its files, in any state that a crash left them in. The order matters: the log is replayed, the
//! store has the applied position, the two are joined, and the new start is counted durably before the first proposal
//! can carry its number.

use crate::error::Error;
use crate::member_log::{MemberLog, to_disk};
use crate::member_store::{DIVERGED_FILE, LIVE, MemberStore, MemberStoreParams};
use crate::mutant::Mutant;
use base::mutant::planted;
use base::{Boot, Instant, NodeId, ReadView};
use coord::Members;
use disk::wal::WalOpening;
use disk::{Disk, LostFrames, RecordStream, RecoveryReport, guard};
use node::{Apply, Consensus, apply, consensus, member};
use raft::{Config, Doubt, LogReplay, Record, RestoredState};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct MemberParams {
    pub consensus: consensus::ConsensusParams,
    pub flush_interval: Duration,
    pub flush_bytes: usize,
    pub range_bytes: usize,
    pub quota_bytes: u64,
    pub leases: node::LeaseClockParams,
    /// The first members of the cluster, as they were configured.
    pub initial_members: Vec<coord::Member>,
    /// What the starts are counted from on an empty disk: above all starts of this member on disks that it has lost,
    /// otherwise the others take its proposals for duplicates.
    pub first_boot: Boot,
    pub wal_segment_bytes: u64,
    pub member_store: MemberStoreParams,
    pub watch: coord::watch::Params,
    pub compaction: node::compactor::CompactorParams,
    pub history: coord::HistoryWindow,
    /// Under what this start asks the other members for the digests of their states: no other process knows it.
    pub digest_secret: u64,
}

/// A member that has read its files and has not yet done anything.
pub struct OpenedMember {
    pub consensus: Consensus,
    pub apply: Apply,
    pub member_log: MemberLog,
    pub member_store: MemberStore,
    pub recovery: RecoveryReport,
    pub boot: Boot,
    /// What it may have lost of what it acknowledged.
    pub doubt: Doubt,
    /// The member whose loss an operator accepted last, while this one was in doubt.
    pub accepted_loss: Option<NodeId>,
}

pub fn open(disk: Arc<dyn Disk>, params: &MemberParams, now: Instant) -> Result<OpenedMember, Error> {
    if disk.exists(DIVERGED_FILE).map_err(disk::Error::io("look for", DIVERGED_FILE))? {
        return Err(Error::Diverged);
    }
    let (opening, restoring) = replay(disk.clone(), params)?;
    let recovery = opening.report().clone();
    let (member_store, position, config) = guard::catch_damage(LIVE, || {
        let member_store = MemberStore::open(disk, params.member_store)?;
        let (position, config) = (member_store.position()?, config_in(member_store.view())?);
        Ok::<_, Error>((member_store, position, config))
    })?;
    let mut restored = restoring.finish(position)?;
    restored.config = config;
    let mut consensus_params = params.consensus.clone();
    consensus_params.raft.lost = doubt_of(recovery.lost);
    check_trust(&recovery, &restored, &consensus_params.raft)?;
    // The lost part of the log may have counted further starts.
    let first_boot = if recovery.lost == LostFrames::Unknown { params.first_boot } else { Boot(0) };
    let boot = member::next_boot(restored.boot, params.first_boot).max(first_boot);
    // Durable before anything is cut, so that the next start is in doubt as well.
    let doubt = restored.doubt(&consensus_params.raft);
    let is_new = doubt != restored.recorded_doubt();
    let is_kept = doubt != Doubt::LastFrame || !planted(Mutant::TailDoubtNotKept);
    let record = (is_new && is_kept).then(|| to_disk(&Record::Doubt(doubt)));
    let accepted_loss = restored.accepted_loss;
    let mut wal = opening.start(record.as_slice())?;
    let to_record = restored.to_record.iter().cloned().chain([Record::Boot(boot)]);
    let records: Vec<_> = to_record.map(|record| to_disk(&record)).collect();
    wal.write(&records)?;
    wal.seal()?;
    let apply_params = apply::ApplyParams {
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
        digest_secret: params.digest_secret,
        initial_members: params.initial_members.clone(),
    };
    let apply = guard::catch_damage(LIVE, || {
        Ok::<_, Error>(Apply::restore(apply_params, now, member_store.view())?)
    })?;
    Ok(OpenedMember {
        apply,
        consensus: Consensus::new(consensus_params, restored, boot),
        member_log: MemberLog::new(wal),
        member_store,
        recovery,
        boot,
        doubt,
        accepted_loss,
    })
}

/// What the store's table of members says of raft's configuration, if it has one.
pub(crate) fn config_in(view: &dyn ReadView) -> Result<Option<Config>, Error> {
    let members = Members::read(view)?.filter(|_| !planted(Mutant::ConfigLostAtStart));
    Ok(members.map(|members| member::config_of(&members)))
}

/// The doubt that follows from lost frames.
fn doubt_of(lost: LostFrames) -> Doubt {
    match lost {
        LostFrames::Nothing => Doubt::None,
        LostFrames::LastFrame => Doubt::LastFrame,
        LostFrames::Unknown => Doubt::Everything,
    }
}

/// A single member has no other member to ask for what it has lost. A torn tail is accepted: it was acknowledged to
/// no client, unless the disk has damaged it since.
fn check_trust(
    recovery: &RecoveryReport,
    restored: &RestoredState,
    params: &raft::Params,
) -> Result<(), Error> {
    if !restored.is_alone(params) {
        return Ok(());
    }
    if let Some(shortened) = recovery.shortened.clone().filter(|_| recovery.lost == LostFrames::Unknown) {
        return Err(Error::Shortened {
            file: shortened.file,
            found_bytes: shortened.found_bytes,
            listed_bytes: shortened.listed_bytes,
        });
    }
    if restored.has_lost_log() { Err(Error::LogMissing) } else { Ok(()) }
}

fn replay(disk: Arc<dyn Disk>, params: &MemberParams) -> Result<(WalOpening, LogReplay), Error> {
    let mut restoring = LogReplay::default();
    let mut all_known = true;
    let wal_params = disk::wal::WalParams { segment_bytes: params.wal_segment_bytes, spares_max: 1 };
    let opening = WalOpening::read(disk, wal_params, &mut |record| {
        if record.stream != RecordStream::Raft {
            return;
        }
        match Record::decode(record.payload) {
            Some(record) => restoring.add(record),
            None => all_known = false,
        }
    })?;
    if all_known { Ok((opening, restoring)) } else { Err(Error::UnknownRecord) }
}

#[cfg(test)]
mod tests;
