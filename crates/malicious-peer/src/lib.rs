//! A malicious peer against real members: it speaks the peer protocol to them, lies in every field of every frame, and looks
//! that none ends. In goes the binary, a seed and a bound; out comes what was sent, and the proof that the cluster still elects, takes
//! writes on both planes, and has what it had acknowledged before.

mod attack;
mod cluster;
mod connection;
mod forge;
mod http;
mod load;

pub use attack::{AttackCounts, Limit};
pub use cluster::Trouble;
pub use connection::{Connection, Hello};

use cluster::{Cluster, Member, base64, until};
use load::Load;
use std::path::Path;
use std::time::{Duration, Instant};

/// Keys that are acknowledged on each plane before the attack begins.
const KEPT: usize = 100;

#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub counts: AttackCounts,
    /// Writes of clients that were acknowledged meanwhile, on both planes.
    pub written: u64,
    /// Frames and streams that the members themselves counted as forged.
    pub refused_by_members: u64,
    /// From the end of the attack until every member has taken a new key on both planes.
    pub taken_again_after: Duration,
    /// Keys on both planes that were acknowledged before, and found.
    pub kept: usize,
}

/// One run, from a new cluster to the proof that it is one still.
pub fn run(
    binary: &Path,
    seed: u64,
    limit: Limit,
    tell: impl FnMut(&AttackCounts),
) -> Result<Report, Trouble> {
    let mut cluster = Cluster::start(binary)?;
    write_all(&cluster)?;
    let load = Load::start(cluster.here());
    let ended = attack::attack(&mut cluster, seed, limit, tell);
    let written = load.stop();
    let counts = ended?;
    let refused = cluster.members.iter().map(refused_by).sum();
    let began = Instant::now();
    cluster.wait_ready()?;
    check_writes(&cluster, "after")?;
    let taken_again_after = began.elapsed();
    let kept = prove(&mut cluster)?;
    Ok(Report { counts, written, refused_by_members: refused, taken_again_after, kept })
}

fn refused_by(member: &Member) -> u64 {
    member.endpoints.metric("althing_peer_frames_refused_total")
        + member.endpoints.metric("althing_peer_frames_malformed_total")
}

fn write_all(cluster: &Cluster) -> Result<(), Trouble> {
    for nth in 0..KEPT {
        let member = &cluster.here()[nth % 3];
        until("a key is written", || {
            member.endpoints.put(&format!("kept/{nth}"), &format!("v{nth}")).then_some(())
        })?;
        until("data is written", || {
            member.endpoints.put_data(&format!("kept-{nth}"), &format!("v{nth}")).then_some(())
        })?;
    }
    Ok(())
}

/// The cluster elects when its leader is gone, and has what was acknowledged.
fn prove(cluster: &mut Cluster) -> Result<usize, Trouble> {
    let leader = until("the members have one leader", || {
        let known: Option<Vec<_>> = cluster.here().iter().map(|member| member.endpoints.status()).collect();
        let known = known?;
        let leader = known[0].leader;
        let agreed = leader != 0 && known.iter().all(|status| status.leader == leader);
        known.iter().position(|status| agreed && status.id == leader)
    })?;
    cluster.members[leader].kill()?;
    let other = &cluster.here()[(leader + 1) % 3];
    until("another leader takes writes", || other.endpoints.put("without-leader", "1").then_some(()))?;
    until("data is written without it", || other.endpoints.put_data("without-leader", "1").then_some(()))?;
    cluster.members[leader].start_again()?;
    cluster.wait_ready()?;
    check_writes(cluster, "again")?;
    cluster.find_ended()?;
    for member in cluster.here() {
        for nth in 0..KEPT {
            check_kept(member, nth)?;
        }
    }
    Ok(2 * KEPT)
}

fn check_writes(cluster: &Cluster, name: &str) -> Result<(), Trouble> {
    for (nth, member) in cluster.members.iter().enumerate() {
        let key = format!("{name}-{nth}");
        let told = |trouble: Trouble| {
            Trouble(format!("{} by member {nth}; its log:\n{}", trouble.0, member.log_end()))
        };
        until("a key is taken", || member.endpoints.put(&key, "1").then_some(())).map_err(told)?;
        until("data is taken", || member.endpoints.put_data(&key, "1").then_some(())).map_err(told)?;
    }
    Ok(())
}

fn check_kept(member: &Member, nth: usize) -> Result<(), Trouble> {
    let (key, value) = (format!("kept/{nth}"), format!("v{nth}"));
    let found = until("a key is read", || member.endpoints.get(&key))?;
    if found != base64(&value) {
        return Err(Trouble(format!("{key} was acknowledged as {value} and is {found} in base64")));
    }
    let key = format!("kept-{nth}");
    let found = until("data is read", || member.endpoints.get_data(&key))?;
    if found != value {
        return Err(Trouble(format!("{key} was acknowledged as {value} and is {found}")));
    }
    Ok(())
}
