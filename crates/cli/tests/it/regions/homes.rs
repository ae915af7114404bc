//! Homes with a lease over real processes: one region alone writes, says so to the others, and loses its place to one of
//! them when it falls silent. What it wants to write when it wakes up is refused.

use super::world::World;
use crate::process::until;
use crate::rest::Rest;

const HOME: &str = "/v1/namespaces/default/home";

fn put_status(rest: Rest, key: &str) -> u16 {
    rest.put(&format!("/v1/data/{key}"), r#"{"value": 1}"#).status
}

#[test]
fn a_home_passes_on_when_its_region_falls_silent_and_late_writes_are_refused() {
    let world = World::start(3, 1);
    let rest = |region: usize| world.regions[region].rest(0);
    let given = rest(0).put(HOME, r#"{"region": "r0", "lease_ms": 3000}"#);
    assert_eq!((given.status, &given.json()["epoch"]), (200, &1.into()));
    assert_eq!(rest(0).put(HOME, r#"{"region": "r0", "lease_ms": 1}"#).status, 400);
    until("the others confirm the owner", || (put_status(rest(0), "k") == 200).then_some(()));
    for other in [1, 2] {
        until("the others were told", || (put_status(rest(other), "k") == 421).then_some(()));
    }
    // Keys below a prefix may be another's.
    assert_eq!(rest(0).put(HOME, r#"{"region": "r2", "prefix": "r2/", "lease_ms": 3000}"#).status, 200);
    until("the part has its own owner", || (put_status(rest(2), "r2/k") == 200).then_some(()));
    assert_eq!(put_status(rest(0), "r2/k"), 421);
    assert_eq!(rest(2).get("/v1/data/r2/k").json()["home_region"], "r2");
    assert_eq!(rest(0).get(HOME).json()["parts"][0]["prefix"], "r2/");

    world.regions[0].members[0].signal("STOP");
    let owner = until("another takes it", || (1..3).find(|other| put_status(rest(*other), "k") == 200));
    let home = rest(owner).get(HOME).json();
    assert_eq!((&home["home_region"], &home["writable_here"]), (&format!("r{owner}").into(), &true.into()));
    assert!(home["epoch"].as_u64() > Some(1), "{home}");
    assert_eq!(put_status(rest(3 - owner), "k"), 421, "there is one owner");

    world.regions[0].members[0].signal("CONT");
    until("the first hears who owns it now", || match put_status(rest(0), "k") {
        421 => Some(()),
        503 => None,
        status => panic!("{status} for a late write"),
    });
    until("all agree", || {
        let homes = (0..3).map(|region| rest(region).get(HOME).json());
        let told: Vec<_> = homes.map(|home| (home["home_region"].clone(), home["epoch"].clone())).collect();
        told.iter().all(|one| one == &told[0]).then_some(())
    });
}
