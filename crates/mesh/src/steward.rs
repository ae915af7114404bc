//! The election of home regions. The leader of each region's coord periodically sends what its region holds to be true,
//! receives the same from the other regions, and decides what follows. Invariant, as far as clocks run alike: no two regions
//! own a scope at the same time. An owner relies on its lease while so many regions have confirmed it within three quarters
//! of the lease that no majority is without one of them; a region votes for another only when it has not heard from the
//! owner for a whole lease. The epochs correct what clocks get wrong: late writes lose, and are listed as conflicts.

mod word;

pub use word::{Name, Word};

use crate::actor::RegionId;
use crate::home::Home;
use crate::homes::{Homes, Place, Title};
use crate::moves::majority;
use base::Instant;
use base::mutant::{Mutant, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How often it speaks; often enough for the shortest lease.
const SPEAK_EVERY: Duration = Duration::from_millis(300);

/// By then a new leader knows what its predecessor agreed on, and a proposal is agreed on or lost.
const SILENT_FOR: Duration = Duration::from_millis(600);
/// An owner counts on its lease for so much of it; the rest is for messages within the region and clocks that run apart.
const HELD_OF_FOUR: u32 = 3;

pub struct Steward {
    here: RegionId,
    me: Name,
    /// Since when this node leads its region; nothing is promised before that.
    leads_since: Option<Instant>,
    heard: BTreeMap<RegionId, Heard>,
    /// When a region was last heard to call a place its own.
    claimed: BTreeMap<(Place, RegionId), Instant>,
    /// When this leader first saw a title: what was promised to its owner counts from then at the earliest.
    seen: BTreeMap<Place, (Home, Instant)>,
    speak_at: Instant,
    /// What was wanted in place of this, and until when nothing is said of it: it may come true at any moment, and
    /// an owner confirmed meanwhile would rely on it.
    wanted: Option<(Homes, Instant)>,
}

struct Heard {
    homes: Homes,
    at: Instant,
    name: Name,
    stamp: u64,
    /// When this node said what the other region has heard last.
    confirmed: Option<Instant>,
}

/// What follows from a look at the clock.
#[derive(Debug, Default)]
pub struct Acts {
    /// To every node of every other region.
    pub word: Option<Word>,
    /// In place of what the region has agreed on.
    pub next: Option<Homes>,
    /// Of the places with a lease: what this region may write as of now, and for how long.
    pub held: Vec<Tenure>,
}

/// A region may write a place for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    pub place: Place,
    pub epoch: u64,
    pub until: Instant,
}

impl Steward {
    pub fn new(here: RegionId, me: Name) -> Steward {
        Steward {
            here,
            me,
            leads_since: None,
            heard: BTreeMap::new(),
            claimed: BTreeMap::new(),
            seen: BTreeMap::new(),
            speak_at: Instant::ZERO,
            wanted: None,
        }
    }

    /// A message of another region's leader.
    pub fn hear(&mut self, now: Instant, from: RegionId, word: Word) {
        let Word { name, at, echoes, homes } = word;
        let before = self.heard.get(&from);
        // The network may reorder two messages.
        if before.is_some_and(|before| before.name == name && before.stamp >= at) {
            return;
        }
        let echo = echoes.get(&self.here).filter(|(name, _)| *name == self.me);
        let echo = echo.map(|(_, stamp)| Instant(*stamp)).filter(|stamp| *stamp <= now);
        for (place, _) in homes.iter().filter(|(_, title)| title.home.region == from) {
            self.claimed.insert((place.clone(), from), now);
        }
        // Only messages of the same process are combined: an earlier leader may have known less.
        let before = before.filter(|before| before.name == name);
        let confirmed = echo.max(before.and_then(|before| before.confirmed));
        self.heard.insert(from, Heard { homes, at: now, name, stamp: at, confirmed });
    }

    /// What the region has agreed on, and which others there are.
    pub fn tick(&mut self, now: Instant, leads: bool, homes: &Homes, others: &BTreeSet<RegionId>) -> Acts {
        if !leads {
            (self.leads_since, self.wanted) = (None, None);
            self.heard.clear();
            self.claimed.clear();
            self.seen.clear();
            return Acts::default();
        }
        if self.leads_since.is_none() {
            (self.leads_since, self.speak_at) = (Some(now), now.after(SILENT_FOR));
        }
        self.heard.retain(|region, _| others.contains(region));
        self.note_titles(now, homes);
        self.wanted.take_if(|(instead_of, until)| instead_of != homes || *until <= now);
        let next = match self.wanted {
            Some(_) => None,
            None => self.next(now, homes, others),
        };
        if next.is_some() {
            self.wanted = Some((homes.clone(), now.after(SILENT_FOR)));
        }
        let speaks = self.speak_at <= now && self.wanted.is_none() && !others.is_empty();
        let word = speaks.then(|| {
            self.speak_at = now.after(SPEAK_EVERY);
            let echo = |(region, heard): (&RegionId, &Heard)| (*region, (heard.name, heard.stamp));
            let echoes = self.heard.iter().map(echo).collect();
            Word { name: self.me, at: now.0, echoes, homes: homes.clone() }
        });
        Acts { word, next, held: self.held(now, homes, others.len() + 1) }
    }

    fn note_titles(&mut self, now: Instant, homes: &Homes) {
        self.seen.retain(|place, _| homes.get(place).is_some());
        self.claimed.retain(|(place, _), _| homes.get(place).is_some());
        for (place, title) in homes.iter() {
            if self.seen.get(place).is_none_or(|(home, _)| *home != title.home) {
                self.seen.insert(place.clone(), (title.home, now));
            }
        }
    }

    fn next(&self, now: Instant, homes: &Homes, others: &BTreeSet<RegionId>) -> Option<Homes> {
        let mut next = homes.clone();
        for heard in self.heard.iter() {
            for (place, theirs) in heard.1.homes.iter() {
                if self.is_better(now, *heard.0, theirs, place, next.get(place)) {
                    // Too many are not taken over; the owner's word stands all the same.
                    let _ = next.set(place.clone(), theirs);
                }
            }
        }
        for (place, title) in homes.iter().filter(|(_, title)| title.lease_ms > 0) {
            if next.get(place) != Some(title) {
                continue;
            }
            if let Some(better) =
                self.settle(place, title, others).or_else(|| self.stand(now, place, title, others))
            {
                next.set(place.clone(), better).expect("it is there already");
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
        theirs: Title,
        place: &Place,
        mine: Option<Title>,
    ) -> bool {
        let Some(mine) = mine else { return true };
        if theirs.rank() <= mine.rank() {
            return false;
        }
        let stands = theirs.home.region == from && theirs.home.epoch > mine.home.epoch;
        let is_promised = theirs.home.region != mine.home.region && !self.is_free(now, place, mine);
        theirs.settled || stands && (!is_promised || planted(Mutant::HomePromiseForgotten))
    }

    /// Nothing is promised to the owner any more. A candidate may have been the owner just before, and the leases that its
    /// nodes hold must end first.
    fn is_free(&self, now: Instant, place: &Place, mine: Title) -> bool {
        let owns = mine.home.region == self.here && mine.settled;
        !owns && mine.lease_ms > 0 && self.silent_since(place, mine).after(lease(mine)) <= now
    }

    /// When the owner, or the candidate, last claimed the scope, as far as this leader can know.
    fn silent_since(&self, place: &Place, mine: Title) -> Instant {
        let claimed = self.claimed.get(&(place.clone(), mine.home.region)).copied().unwrap_or(Instant::ZERO);
        let seen = self.seen.get(place).filter(|(home, _)| *home == mine.home);
        let seen = seen.map_or(Instant::FAR_FUTURE, |(_, at)| *at);
        claimed.max(seen).max(self.leads_since.unwrap_or(Instant::FAR_FUTURE))
    }

    /// A candidate with a majority behind it is the owner.
    fn settle(&self, place: &Place, mine: Title, others: &BTreeSet<RegionId>) -> Option<Title> {
        if mine.settled || mine.home.region != self.here {
            return None;
        }
        let votes = |heard: &&Heard| heard.homes.get(place).is_some_and(|theirs| theirs.home == mine.home);
        let votes = 1 + self.heard.values().filter(votes).count();
        (votes >= majority(others.len() + 1)).then_some(Title { settled: true, ..mine })
    }

    /// Stands for a place whose owner is gone. Of those who might, the first by number goes first, so that they do not
    /// split the votes; without a majority to be heard of nobody does.
    fn stand(&self, now: Instant, place: &Place, mine: Title, others: &BTreeSet<RegionId>) -> Option<Title> {
        if mine.home.region == self.here && mine.settled {
            return self.stand_again(now, place, mine);
        }
        let is_live = |heard: &Heard| heard.at.after(lease(mine)) > now;
        let live = self.heard.iter().filter(|(region, heard)| **region != mine.home.region && is_live(heard));
        let live: Vec<RegionId> = live.map(|(region, _)| *region).collect();
        if live.len() + 1 < majority(others.len() + 1) {
            return None;
        }
        let before = live.iter().filter(|region| **region < self.here).count() as u32;
        let patience = lease(mine) + lease(mine) / 2 * before;
        (self.silent_since(place, mine).after(patience) <= now)
            .then(|| mine.home.pass_to(self.here).ok())
            .flatten()
            .map(|home| Title { home, settled: false, ..mine })
    }

    /// An owner hears that others stand for what it has; they did not hear of it for a while. Their epoch is later, and
    /// they do not come back behind it: the owner asks for a later one itself, which all give it who know it.
    fn stand_again(&self, now: Instant, place: &Place, mine: Title) -> Option<Title> {
        let titles = self.heard.values().filter_map(|heard| heard.homes.get(place));
        let rival = titles.filter(|theirs| theirs.rank() > mine.rank()).max_by_key(Title::rank)?;
        let waited = self.seen.get(place).is_some_and(|(_, at)| at.after(lease(mine) / 2) <= now);
        let home = rival.home.pass_to(self.here).ok().filter(|_| waited && !rival.settled)?;
        Some(Title { home, settled: false, ..mine })
    }

    /// What this region owns, and until when so many have confirmed it that no majority can be against it.
    fn held(&self, now: Instant, homes: &Homes, n_regions: usize) -> Vec<Tenure> {
        let needed = n_regions - majority(n_regions) + 1;
        let is_owned = |title: Title| title.settled && title.lease_ms > 0 && title.home.region == self.here;
        let owned = homes.iter().filter(|(_, title)| is_owned(*title));
        let tenure = |(place, title): (&Place, Title)| {
            let agrees =
                |heard: &&Heard| heard.homes.get(place).is_some_and(|theirs| theirs.home == title.home);
            let agreeing = self.heard.values().filter(agrees).filter_map(|heard| heard.confirmed);
            let mut confirmed: Vec<Instant> = agreeing.chain([now]).collect();
            confirmed.sort_unstable_by(|one, other| other.cmp(one));
            let since = match planted(Mutant::HomeUnconfirmed) {
                true => Some(now),
                false => confirmed.get(needed - 1).copied(),
            };
            let until = since?.after(lease(title) / 4 * HELD_OF_FOUR);
            Some(Tenure { place: place.clone(), epoch: title.home.epoch, until })
        };
        owned.filter_map(tenure).filter(|tenure| tenure.until > now).collect()
    }
}

fn lease(title: Title) -> Duration {
    Duration::from_millis(title.lease_ms)
}

#[cfg(test)]
pub(crate) mod tests;
