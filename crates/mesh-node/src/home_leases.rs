//! Which leased homes this region may write, as last reported to this node.

use base::Instant;
use mesh::{HomeLease, HomeScope};
use std::collections::BTreeMap;

/// More than a region has homes.
const HOME_LEASES_MAX: usize = 1_024;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeLeases {
    until: BTreeMap<HomeScope, (u64, Instant)>,
}

impl HomeLeases {
    pub const MAX: usize = HOME_LEASES_MAX;

    pub fn set(&mut self, held: &[HomeLease]) {
        for home_lease in held {
            if self.until.contains_key(&home_lease.scope) || self.until.len() < HOME_LEASES_MAX {
                self.until.insert(home_lease.scope.clone(), (home_lease.epoch, home_lease.until));
            }
        }
    }

    /// Whether this region may write the place now, as the owner of this epoch.
    pub fn holds(&self, scope: &HomeScope, epoch: u64, now: Instant) -> bool {
        self.until.get(scope).is_some_and(|held| held.0 == epoch && held.1 > now)
    }

    /// The places that this region may write now, each with its epoch.
    pub fn held(&self, now: Instant) -> impl Iterator<Item = (&HomeScope, u64)> {
        let held = self.until.iter().filter(move |(_, (_, until))| *until > now);
        held.map(|(scope, (epoch, _))| (scope, *epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_lease_ends_and_is_of_one_epoch() {
        let (mut home_leases, scope) = (HomeLeases::default(), HomeScope::new("shop", ""));
        home_leases.set(&[HomeLease { scope: scope.clone(), epoch: 2, until: Instant(10) }]);
        assert!(home_leases.holds(&scope, 2, Instant(9)));
        assert!(!home_leases.holds(&scope, 2, Instant(10)) && !home_leases.holds(&scope, 1, Instant(9)));
        assert_eq!(home_leases.held(Instant(9)).count(), 1);
        assert_eq!(home_leases.held(Instant(10)).count(), 0);
    }
}
