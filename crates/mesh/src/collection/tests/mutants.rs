//! The planted bugs of collections, and the stories that find them.

use super::counters::bound_holds;
use super::laws::tell;
use super::lists::runs_stay_together;
use super::ranges::what_lies_behind_a_lost_begin_is_found;
use super::*;
use crate::mutant::Mutant;
use base::mutant::plant;

fn finds(mutant: Mutant, story: &dyn Fn(u64) -> Result<(), String>) -> bool {
    plant(Some(mutant.into()));
    let found = (0..400).any(|seed| story(seed).is_err());
    plant(None);
    found
}

#[test]
fn every_planted_bug_of_collections_is_found() {
    let of = |kind: CollectionKind| move |seed: u64| tell(seed, kind);
    for mutant in [
        Mutant::RemovalUnseen,
        Mutant::SeenReturns,
        Mutant::ClearTakesUnseen,
        Mutant::ClearedShown,
        Mutant::SurvivorsUncounted,
    ] {
        assert!(finds(mutant, &of(CollectionKind::Set)), "{mutant:?}");
    }
    assert!(finds(Mutant::OldScoreStays, &of(CollectionKind::SortedSet)));
    assert!(finds(Mutant::RunsMixed, &runs_stay_together));
    assert!(finds(Mutant::RightsUnchecked, &bound_holds));
    assert!(finds(Mutant::LostRangeBeginOverlooked, &what_lies_behind_a_lost_begin_is_found));
}
