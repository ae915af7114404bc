//! Which leased homes this region may write, as last reported to this node.

use base::Instant;
use mesh::homes::Place;
use mesh::steward::Tenure;
use std::collections::BTreeMap;

/// More than a region has homes.
const TENURES_MAX: usize = 1_024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenures {
    until: BTreeMap<Place, (u64, Instant)>,
}

impl Tenures {
    pub const MAX: usize = TENURES_MAX;

    pub fn set(&mut self, held: &[Tenure]) {
        for tenure in held {
            if self.until.contains_key(&tenure.place) || self.until.len() < TENURES_MAX {
                self.until.insert(tenure.place.clone(), (tenure.epoch, tenure.until));
            }
        }
    }

    /// Whether this region may write the place now, as the owner of this epoch.
    pub fn holds(&self, place: &Place, epoch: u64, now: Instant) -> bool {
        self.until.get(place).is_some_and(|held| held.0 == epoch && held.1 > now)
    }

    /// The places that this region may write now, each with its epoch.
    pub fn held(&self, now: Instant) -> impl Iterator<Item = (&Place, u64)> {
        let held = self.until.iter().filter(move |(_, (_, until))| *until > now);
        held.map(|(place, (epoch, _))| (place, *epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenure_ends_and_is_of_one_epoch() {
        let (mut tenures, place) = (Tenures::default(), Place::new("shop", ""));
        tenures.set(&[Tenure { place: place.clone(), epoch: 2, until: Instant(10) }]);
        assert!(tenures.holds(&place, 2, Instant(9)));
        assert!(!tenures.holds(&place, 2, Instant(10)) && !tenures.holds(&place, 1, Instant(9)));
        assert_eq!(tenures.held(Instant(9)).count(), 1);
        assert_eq!(tenures.held(Instant(10)).count(), 0);
    }
}
