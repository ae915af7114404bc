//! Planted bugs of what the simulator does not run: each is planted in the processes of a test of this binary, which must fail
//! with it. The others are found by tests of their crates.

use base::mutant::PlantedBug;
use std::process::Command;

/// Each bug with a test that finds it.
const HUNTS: [(PlantedBug, &str); 8] = [
    (api::Mutant::HostUnchecked.bug(), "browsers::no_page_of_another_site_reads_or_writes"),
    (api::Mutant::OriginUnchecked.bug(), "browsers::no_page_of_another_site_reads_or_writes"),
    (
        api::Mutant::DataPermissionUnchecked.bug(),
        "data_auth::every_kind_of_route_is_for_those_who_have_its_permission",
    ),
    (
        api::Mutant::ProxyTakenForCaller.bug(),
        "certificates::a_certificate_counts_on_http2_where_nothing_else_says_who_asks_and_ends_with_its_rights",
    ),
    (
        api::Mutant::DeadlineToldEarly.bug(),
        "deadlines::no_answer_says_that_a_deadline_has_passed_before_it_has",
    ),
    (
        api::Mutant::ValueUnchecked.bug(),
        "rest_malformed::values_that_cannot_be_shown_are_not_stored_and_listings_go_on",
    ),
    (
        server::Mutant::LoginAddressForgotten.bug(),
        "login::a_flood_of_names_from_one_address_keeps_no_other_address_out",
    ),
    (server::Mutant::ExpiredTokenTaken.bug(), "socket_matrix::a_socket_is_for_those_who_have_its_permission"),
];

/// Those that a test of their crate finds.
const FOUND_BY_CRATES: [PlantedBug; 6] = [
    api::Mutant::BudgetNotGivenBack.bug(),
    server::Mutant::JoinTokenServesTwice.bug(),
    server::Mutant::PeerAddressUnchecked.bug(),
    server::Mutant::QuestionsUncounted.bug(),
    server::Mutant::RefusalNotRecorded.bug(),
    http2::Mutant::FramesUncharged.bug(),
];

fn all() -> Vec<PlantedBug> {
    let api = api::Mutant::ALL.iter().map(|mutant| mutant.bug());
    let server = server::Mutant::ALL.iter().map(|mutant| mutant.bug());
    api.chain(server).chain(http2::Mutant::ALL.iter().map(|mutant| mutant.bug())).collect()
}

#[test]
fn every_bug_has_a_test_that_finds_it_and_a_name_of_its_own() {
    let simulated = sim::mutants::all();
    for bug in all() {
        let is_hunted = HUNTS.iter().any(|(hunted, _)| *hunted == bug);
        assert_ne!(is_hunted, FOUND_BY_CRATES.contains(&bug), "{} is found at one place", bug.name());
        assert!(!simulated.contains(&bug), "{} names two bugs", bug.name());
    }
    assert_eq!(all().len(), HUNTS.len() + FOUND_BY_CRATES.len());
}

#[test]
fn every_planted_bug_fails_the_test_that_is_to_find_it() {
    for (bug, test) in HUNTS {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--test-threads", "1"])
            .env("PLANTED_BUG", bug.name())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("0 passed; 1 failed"), "{} is not found by {test}: {told}", bug.name());
    }
}
