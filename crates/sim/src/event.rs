//! Whom an event happens to, and what the trace keeps of it.
//! Events go in, a process or a number comes out; two runs of one seed have the same numbers in the same order.

use crate::world::Event;
use base::rng::mix;

impl Event {
    /// The host to which this happens, and which of its processes.
    pub fn process(&self) -> Option<(usize, u32)> {
        match self {
            Event::Tick { host, pid }
            | Event::Write { host, pid }
            | Event::Synced { host, pid }
            | Event::ApplyTurn { host, pid }
            | Event::Flush { host, pid }
            | Event::Report { host, pid, .. }
            | Event::SideRequest { host, pid, .. }
            | Event::Job { host, pid, .. }
            | Event::Told { host, pid, .. }
            | Event::News { host, pid, .. }
            | Event::Hold { host, pid, .. }
            | Event::Piece { host, pid, .. }
            | Event::Arrive { host, pid, .. } => Some((*host, *pid)),
            _ => None,
        }
    }

    /// A number for the trace.
    pub fn mark(&self) -> u64 {
        let (kind, who) = match self {
            Event::Tick { host, .. } => (1, *host),
            Event::Deliver { from, to, bytes } => (2, from * 8 + to + bytes.len() * 64),
            Event::Synced { host, .. } => (3, *host),
            Event::ApplyTurn { host, .. } => (4, *host),
            Event::Flush { host, .. } => (5, *host),
            Event::Report { host, .. } => (6, *host),
            Event::Ask { client } => (7, *client),
            Event::Arrive { host, operation, .. } => (8, host + operation * 8),
            Event::GiveUp { operation, .. } => (9, *operation),
            Event::Retry { operation } => (23, *operation),
            Event::Session { client } => (24, *client),
            Event::Nemesis => (10, 0),
            Event::Operate => (25, 0),
            Event::DocumentWriter => (40, 0),
            Event::Administer => (41, 0),
            Event::AuthUser { auth_user } => (42, *auth_user),
            Event::Retire { host } => (26, *host),
            Event::Restart { host } => (11, *host),
            Event::Resume { host } => (12, *host),
            Event::SpaceReturns { host } => (13, *host),
            Event::Heal => (14, 0),
            Event::Blackout => (15, 0),
            Event::Part { side } => (43, *side as usize),
            Event::Ambush { lost, .. } => (44, *lost),
            Event::Strike { host } => (22, *host),
            Event::PowerCut { host } => (30, *host),
            Event::Write { host, .. } => (19, *host),
            Event::Watch { watcher } => (16, *watcher),
            Event::Consume { watcher, stream } => (17, watcher + 8 * stream.0 as usize),
            Event::Whim { watcher } => (18, *watcher),
            Event::LeaseHolder { lease_holder } => (20, *lease_holder),
            Event::SideRequest { host, .. } => (21, *host),
            Event::Hold { host, hold, .. } => (23, host + hold.0 as usize * 8),
            Event::Piece { host, hold, .. } => (24, host + hold.0 as usize * 8),
            Event::LockStep { lock_client, turn } => (28, lock_client + 256 * *turn as usize),
            Event::Renew { lock_client, .. } => (29, *lock_client),
            Event::Job { host, .. } => (25, *host),
            Event::News { host, id, .. } => (27, host + 8 * id.0 as usize),
            Event::Told { host, token, .. } => (26, host + 8 * token.0 as usize),
        };
        mix(kind ^ (who as u64) << 8)
    }
}
