//! The election of home regions. The leader of each region's coord periodically sends what its region holds to be true,
//! receives the same from the other regions, and decides what follows. Invariant, as far as clocks run alike: no two regions
//! own a scope at the same time. An owner relies on its lease while so many regions have confirmed it within three quarters
//! of the lease that no majority is without one of them; a region votes for another only when it has not heard from the
//! owner for a whole lease. The epochs correct what clocks get wrong: late writes lose, and are listed as conflicts.

mod message;

pub use message::{HomeMessage, ProcessId};

use crate::actor::RegionId;
use crate::electorates::{Electorate, Electorates, electorate_id};
use crate::home::Home;
use crate::homes::{HomeScope, Homes, Ownership};
use crate::mutant::Mutant;
use base::Instant;
use base::mutant::planted;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often it speaks; often enough for the shortest lease.
const SEND_EVERY: Duration = Duration::from_millis(300);

/// By then a new leader knows what its predecessor agreed on, and a proposal is agreed on or lost.
const SILENT_FOR: Duration = Duration::from_millis(600);
/// An owner counts on its lease for so much of it; the rest is for messages within the region and clocks that run apart.
const HELD_QUARTERS: u32 = 3;

pub struct HomeElection {
    here: RegionId,
    me: ProcessId,
    /// Since when this node leads its region; nothing is promised before that.
    leading_since: Option<Instant>,
    claims: BTreeMap<RegionId, RegionClaim>,
    /// When a region was last heard to call a scope its own.
    claimed_at: BTreeMap<(HomeScope, RegionId), Instant>,
    /// When this leader first saw a title: what was promised to its owner counts from then at the earliest.
    seen: BTreeMap<HomeScope, (Home, Instant)>,
    send_at: Instant,
    /// What was wanted in place of this, and until when nothing is said of it: it may come true at any moment, and
    /// an owner confirmed meanwhile would rely on it.
    wanted: Option<(Homes, Instant)>,
    /// Until when other electorates, once proposed, are not proposed again.
    electorates_wanted: Instant,
}

struct RegionClaim {
    homes: Homes,
    at: Instant,
    process: ProcessId,
    stamp: u64,
    /// When this node sent the last message that the other region has confirmed.
    confirmed: Option<Instant>,
    electorate: Option<u64>,
}

/// What a region has agreed on, and which regions it knows.
#[derive(Clone, Copy)]
pub struct AgreedHomes<'a> {
    pub homes: &'a Homes,
    pub electorates: &'a Electorates,
    /// This region included.
    pub table: &'a Electorate,
}

/// What follows from a look at the clock.
#[derive(Debug, Default)]
pub struct HomeActions {
    /// To every node of every other region.
    pub message: Option<HomeMessage>,
    /// In place of what the region has agreed on.
    pub next: Option<Homes>,
    pub next_electorates: Option<Electorates>,
    /// The scopes with a lease that this region may write as of now, and for how long.
    pub held: Vec<HomeLease>,
}

/// A region may write a scope for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeLease {
    pub scope: HomeScope,
    pub epoch: u64,
    pub until: Instant,
}

impl HomeElection {
    pub fn new(here: RegionId, me: ProcessId) -> HomeElection {
        HomeElection {
            here,
            me,
            leading_since: None,
            claims: BTreeMap::new(),
            claimed_at: BTreeMap::new(),
            seen: BTreeMap::new(),
            send_at: Instant::ZERO,
            wanted: None,
            electorates_wanted: Instant::ZERO,
        }
    }

    /// A message of another region's leader.
    pub fn receive(&mut self, now: Instant, from: RegionId, message: HomeMessage) {
        let HomeMessage { process, at, echoes, homes, electorate } = message;
        let before = self.claims.get(&from);
        // The network may reorder two messages.
        if before.is_some_and(|before| before.process == process && before.stamp >= at) {
            return;
        }
        let echo = echoes.get(&self.here).filter(|(process, _)| *process == self.me);
        let echo = echo.map(|(_, stamp)| Instant(*stamp)).filter(|stamp| *stamp <= now);
        for (scope, _) in homes.iter().filter(|(_, ownership)| ownership.home.region == from) {
            self.claimed_at.insert((scope.clone(), from), now);
        }
        // Only messages of the same process are combined: an earlier leader may have known less.
        let before = before.filter(|before| before.process == process);
        let confirmed = echo.max(before.and_then(|before| before.confirmed));
        self.claims.insert(from, RegionClaim { homes, at: now, process, stamp: at, confirmed, electorate });
    }

    pub fn tick(&mut self, now: Instant, leads: bool, agreed: AgreedHomes<'_>) -> HomeActions {
        let alone = planted(Mutant::ElectorateNotAgreed).then(|| Electorates::agreed(agreed.table.clone()));
        let agreed = AgreedHomes { electorates: alone.as_ref().unwrap_or(agreed.electorates), ..agreed };
        let AgreedHomes { homes, electorates, table } = agreed;
        if !leads {
            (self.leading_since, self.wanted) = (None, None);
            self.claims.clear();
            self.claimed_at.clear();
            self.seen.clear();
            return HomeActions::default();
        }
        if self.leading_since.is_none() {
            (self.leading_since, self.send_at) = (Some(now), now.after(SILENT_FOR));
        }
        self.claims.retain(|region, _| table.contains(region));
        self.note_ownerships(now, homes);
        self.wanted.take_if(|(instead_of, until)| instead_of != homes || *until <= now);
        let next = match self.wanted {
            Some(_) => None,
            None => self.next(now, agreed),
        };
        let next_electorates = self.next_electorates(now, next.is_none(), agreed);
        if next.is_some() {
            self.wanted = Some((homes.clone(), now.after(SILENT_FOR)));
        }
        let sends = self.send_at <= now && self.wanted.is_none() && table.len() > 1;
        let message = sends.then(|| {
            self.send_at = now.after(SEND_EVERY);
            let echo =
                |(region, claims): (&RegionId, &RegionClaim)| (*region, (claims.process, claims.stamp));
            let echoes = self.claims.iter().map(echo).collect();
            let electorate = Some(electorate_id(electorates.newest().unwrap_or(table)));
            HomeMessage { process: self.me, at: now.0, echoes, homes: homes.clone(), electorate }
        });
        HomeActions { message, next, next_electorates, held: self.held(now, homes, electorates) }
    }

    /// Adds a table that has changed; drops the earlier ones when all regions have added it. What they own is taken over
    /// first: it may have been decided by an electorate that is about to be dropped.
    fn next_electorates(
        &mut self,
        now: Instant,
        has_their_homes: bool,
        agreed: AgreedHomes<'_>,
    ) -> Option<Electorates> {
        let AgreedHomes { electorates, table, .. } = agreed;
        let may_propose = has_their_homes && self.wanted.is_none() && self.electorates_wanted <= now;
        let knows = self.leading_since.is_some_and(|since| since.after(SILENT_FOR) <= now);
        if !may_propose || !knows {
            return None;
        }
        let next = if electorates.newest().is_some_and(|newest| newest != table) {
            electorates.with(table)
        } else {
            let id = electorate_id(table);
            let has_it = |region: &RegionId| {
                let claim = self.claims.get(region);
                *region == self.here
                    || claim.is_some_and(|claim| claim.electorate.is_none_or(|other| other == id))
            };
            let all = Electorates::agreed(table.clone());
            (all != *electorates && table.iter().all(has_it)).then_some(all)
        };
        if next.is_some() {
            self.electorates_wanted = now.after(SILENT_FOR);
        }
        next
    }

    fn note_ownerships(&mut self, now: Instant, homes: &Homes) {
        self.seen.retain(|scope, _| homes.get(scope).is_some());
        self.claimed_at.retain(|(scope, _), _| homes.get(scope).is_some());
        for (scope, ownership) in homes.iter() {
            if self.seen.get(scope).is_none_or(|(home, _)| *home != ownership.home) {
                self.seen.insert(scope.clone(), (ownership.home, now));
            }
        }
    }

    fn next(&self, now: Instant, agreed: AgreedHomes<'_>) -> Option<Homes> {
        let homes = agreed.homes;
        let mut next = homes.clone();
        for claims in self.claims.iter() {
            for (scope, theirs) in claims.1.homes.iter() {
                if self.is_better(now, *claims.0, theirs, scope, next.get(scope)) {
                    // A table that is full keeps what it has; the owner's claim holds all the same.
                    let _ = next.set(scope.clone(), theirs);
                }
            }
        }
        for (scope, ownership) in homes.iter().filter(|(_, ownership)| ownership.lease_ms > 0) {
            if next.get(scope) != Some(ownership) {
                continue;
            }
            if let Some(better) =
                self.settle(scope, ownership, agreed).or_else(|| self.run_for(now, scope, ownership, agreed))
            {
                next.set(scope.clone(), better).expect("it is there already");
            }
        }
        (next != *homes).then_some(next)
    }

    /// Whether to take over what another region holds: a decided owner always, a candidate when no other region has a
    /// promise.
    fn is_better(
        &self,
        now: Instant,
        from: RegionId,
        theirs: Ownership,
        scope: &HomeScope,
        mine: Option<Ownership>,
    ) -> bool {
        let Some(mine) = mine else { return true };
        if theirs.rank() <= mine.rank() {
            return false;
        }
        let stands = theirs.home.region == from && theirs.home.epoch > mine.home.epoch;
        let is_promised = theirs.home.region != mine.home.region && !self.is_unpromised(now, scope, mine);
        theirs.settled || stands && (!is_promised || planted(Mutant::HomePromiseForgotten))
    }

    /// Nothing is promised to the owner any more. A candidate may have been the owner just before, and the leases that its
    /// nodes hold must end first.
    fn is_unpromised(&self, now: Instant, scope: &HomeScope, mine: Ownership) -> bool {
        let owns = mine.home.region == self.here && mine.settled;
        !owns && mine.lease_ms > 0 && self.silent_since(scope, mine).after(lease(mine)) <= now
    }

    /// When the owner, or the candidate, last claimed the scope, as far as this leader can know.
    fn silent_since(&self, scope: &HomeScope, mine: Ownership) -> Instant {
        let claimed_at =
            self.claimed_at.get(&(scope.clone(), mine.home.region)).copied().unwrap_or(Instant::ZERO);
        let seen = self.seen.get(scope).filter(|(home, _)| *home == mine.home);
        let seen = seen.map_or(Instant::FAR_FUTURE, |(_, at)| *at);
        claimed_at.max(seen).max(self.leading_since.unwrap_or(Instant::FAR_FUTURE))
    }

    /// A candidate with a majority behind it is the owner.
    fn settle(&self, scope: &HomeScope, mine: Ownership, agreed: AgreedHomes<'_>) -> Option<Ownership> {
        if mine.settled || mine.home.region != self.here {
            return None;
        }
        let votes =
            |claims: &RegionClaim| claims.homes.get(scope).is_some_and(|theirs| theirs.home == mine.home);
        let votes = self.claims.iter().filter(|(_, claims)| votes(claims)).map(|(region, _)| *region);
        let votes = votes.chain([self.here]).collect();
        agreed.electorates.elects(&votes, agreed.table).then_some(Ownership { settled: true, ..mine })
    }

    /// Stands for a scope whose owner is gone. Of the regions that may, the first by number goes first, so that they do not
    /// split the votes. A region that does not hear of a majority does not stand.
    fn run_for(
        &self,
        now: Instant,
        scope: &HomeScope,
        mine: Ownership,
        agreed: AgreedHomes<'_>,
    ) -> Option<Ownership> {
        if mine.home.region == self.here && mine.settled {
            return self.run_again(now, scope, mine);
        }
        let is_live = |claims: &RegionClaim| claims.at.after(lease(mine)) > now;
        let live =
            self.claims.iter().filter(|(region, claims)| **region != mine.home.region && is_live(claims));
        let live: Electorate = live.map(|(region, _)| *region).chain([self.here]).collect();
        if !agreed.electorates.elects(&live, agreed.table) {
            return None;
        }
        let before = live.range(..self.here).count() as u32;
        let patience = lease(mine) + lease(mine) / 2 * before;
        (self.silent_since(scope, mine).after(patience) <= now)
            .then(|| mine.home.transfer_to(self.here).ok())
            .flatten()
            .map(|home| Ownership { home, settled: false, ..mine })
    }

    /// An owner hears that others stand for what it has; they did not hear of it for a while. Their epoch is later, and
    /// they do not come back behind it: the owner asks for a later one itself, which all give it who know it.
    fn run_again(&self, now: Instant, scope: &HomeScope, mine: Ownership) -> Option<Ownership> {
        let ownerships = self.claims.values().filter_map(|claims| claims.homes.get(scope));
        let rival = ownerships.filter(|theirs| theirs.rank() > mine.rank()).max_by_key(Ownership::rank)?;
        let waited = self.seen.get(scope).is_some_and(|(_, at)| at.after(lease(mine) / 2) <= now);
        let home = rival.home.transfer_to(self.here).ok().filter(|_| waited && !rival.settled)?;
        Some(Ownership { home, settled: false, ..mine })
    }

    /// What this region owns, and until when so many have confirmed it that no majority can be against it.
    fn held(&self, now: Instant, homes: &Homes, electorates: &Electorates) -> Vec<HomeLease> {
        let is_owned = |ownership: Ownership| {
            ownership.settled && ownership.lease_ms > 0 && ownership.home.region == self.here
        };
        let owned = homes.iter().filter(|(_, ownership)| is_owned(*ownership));
        let home_lease = |(scope, ownership): (&HomeScope, Ownership)| {
            let agrees = |claims: &RegionClaim| {
                claims.homes.get(scope).is_some_and(|theirs| theirs.home == ownership.home)
            };
            let agreeing = self.claims.iter().filter(|(_, claims)| agrees(claims));
            let confirmed = agreeing.filter_map(|(region, claims)| Some((*region, claims.confirmed?)));
            let confirmed = confirmed.chain([(self.here, now)]).collect();
            let since =
                if planted(Mutant::HomeUnconfirmed) { Some(now) } else { electorates.held_since(&confirmed) };
            let until = since?.after(lease(ownership) / 4 * HELD_QUARTERS);
            Some(HomeLease { scope: scope.clone(), epoch: ownership.home.epoch, until })
        };
        owned.filter_map(home_lease).filter(|home_lease| home_lease.until > now).collect()
    }
}

fn lease(ownership: Ownership) -> Duration {
    Duration::from_millis(ownership.lease_ms)
}

#[cfg(test)]
pub(crate) mod tests;
