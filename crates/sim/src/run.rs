//! One seed from beginning to end: a stormy part, a calm part in which the cluster must come back, and then
//! the judges. A panic of the product's own assertions is a finding like any other.

use crate::counts::WorldCounts;
use crate::crash_points::Point;
use crate::durable;
use crate::history::Outcome;
use crate::linear::{self, Verdict};
use crate::oracle::{Checker, Violation};
use crate::scenario::{self, Scenario};
use crate::watch_checker;
use crate::world::{Checked, World};
use base::mutant::{self, PlantedBug};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) const STORM_US: u64 = 60_000_000;
const CALM_US: u64 = 20_000_000;
/// After the storm, answers must come by then.
const RECOVERY_US: u64 = 10_000_000;
const SETTLE_US: u64 = 5_000_000;

/// True time that one seed covers.
pub const SEED_US: u64 = STORM_US + CALM_US + 2 * SETTLE_US;

pub struct Report {
    pub seed: u64,
    pub trace: u64,
    pub counts: WorldCounts,
    pub violation: Option<Violation>,
    /// How often that happened which the scenario is about.
    pub met: u64,
}

/// What the clients of a world do. Each kind has its judges: those of one read every revision that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Puts, reads, transactions, watches, leases, compactions.
    Mixed,
    /// Locks and fenced writes.
    Locks,
    /// Users with few permissions, while auth is on.
    Auth,
}

impl Kind {
    /// Every fourth world without a bias is about locks.
    fn of(scenario: &Scenario, seed: u64) -> Kind {
        let is_storm = scenario.name == scenario::STORM.name;
        if scenario.name == scenario::AUTH.name {
            Kind::Auth
        } else if scenario.bias.only_locks || is_storm && seed.is_multiple_of(4) {
            Kind::Locks
        } else {
            Kind::Mixed
        }
    }
}

/// In the world without a bias.
pub fn run(seed: u64, planted: Option<PlantedBug>) -> Report {
    run_in(&scenario::STORM, seed, planted)
}

pub fn run_in(scenario: &Scenario, seed: u64, planted: Option<PlantedBug>) -> Report {
    run_to(scenario, seed, planted, None).0
}

/// The power goes every so many times that a host is at a point. Tells how often it did.
pub fn run_to(
    scenario: &Scenario,
    seed: u64,
    planted: Option<PlantedBug>,
    crash: Option<(Point, u64)>,
) -> (Report, u64) {
    mutant::plant(planted);
    let kind = Kind::of(scenario, seed);
    let mut world = World::new(seed, scenario.bias, kind);
    world.crash_points.chosen = crash;
    let checked = catch_unwind(AssertUnwindSafe(|| match kind {
        Kind::Mixed => live_through(&mut world),
        Kind::Locks => fight_through(&mut world),
        Kind::Auth => visit_through(&mut world),
    }));
    mutant::plant(None);
    let violation = match checked {
        Ok(checked) => checked.err(),
        Err(panic) => Some(Violation { checker: Checker::Assertion, what: words_of(panic) }),
    };
    let report =
        Report { seed, trace: world.trace, counts: world.counts, violation, met: (scenario.met)(&world) };
    (report, world.crash_points.crashes)
}

/// Waits until the cluster must have come back. If a member that may have forgotten something is needed for a majority, that and all that
/// follows takes so much longer.
fn recover(world: &mut World) -> Result<u64, Violation> {
    let doubted = world.has_doubting_member();
    world.run_until(STORM_US + RECOVERY_US)?;
    let late = if doubted || world.has_doubting_member() { CALM_US } else { 0 };
    world.accept_loss()?;
    world.run_until(STORM_US + RECOVERY_US + late)?;
    Ok(late)
}

fn live_through(world: &mut World) -> Checked {
    world.run_until(STORM_US)?;
    world.calm_down();
    let late = recover(world)?;
    let answered = world.counts.answered;
    world.owe_compaction();
    world.run_until(STORM_US + CALM_US + late)?;
    world.check_compacted()?;
    check_answered_since(world, answered)?;
    world.clients.stopped = true;
    world.run_until(STORM_US + CALM_US + SETTLE_US + late)?;
    read_everything_everywhere(world, SEED_US + late)?;
    same_everywhere(world)?;
    world.check_all_ended()?;
    world.check_settled()?;
    world.check_history()?;
    world.check_documents()?;
    judge(world)?;
    watch_checker::check(&world.watchers, &world.truth)
}

/// The same storm over a world of locks. No client asks for more once the cluster has come back; then every waiting client
/// has its turn, and in the end nothing is held.
fn fight_through(world: &mut World) -> Checked {
    world.run_until(STORM_US)?;
    world.calm_down();
    let answered = world.counts.answered;
    let late = recover(world)?;
    check_answered_since(world, answered)?;
    world.lock_clients.stopped = true;
    world.run_until(SEED_US + late)?;
    // A long queue takes its time, but it must not stand still.
    let mut until = SEED_US + late;
    let mut handed_over = 0;
    while world.lock_clients.check_over().is_err() && world.lock_clients.judge.handed_over > handed_over {
        handed_over = world.lock_clients.judge.handed_over;
        until += SETTLE_US;
        world.run_until(until)?;
    }
    world.lock_clients.check_over()?;
    // The last leases end, and then there is nothing left to say.
    world.run_until(until + 2 * SETTLE_US)?;
    world.check_all_ended()?;
    same_everywhere(world)?;
    world.check_documents()
}

/// The same storm over a cluster with auth on: everything that is carried out for a guest is judged at once.
fn visit_through(world: &mut World) -> Checked {
    world.run_until(STORM_US)?;
    world.calm_down();
    let answered = world.counts.answered;
    let late = recover(world)?;
    check_answered_since(world, answered)?;
    world.auth_users.stopped = true;
    world.run_until(SEED_US + late)?;
    same_everywhere(world)?;
    world.check_documents()
}

/// One linearizable read through every member, after which the history shows whether anything was lost.
fn read_everything_everywhere(world: &mut World, until: u64) -> Checked {
    let hosts = world.member_hosts();
    let asked: Vec<usize> = hosts
        .iter()
        .enumerate()
        .map(|(nth, host)| world.ask_host(nth, *host, durable::read_everything()))
        .collect();
    world.run_until(until)?;
    let unanswered =
        asked.iter().find(|read| !matches!(world.clients.history[**read].outcome, Outcome::Done(_)));
    match unanswered {
        Some(_) => {
            let standings = standings(world);
            Err(not_live(format!("a member of the healed cluster does not answer a read: {standings}")))
        }
        None => Ok(()),
    }
}

fn check_answered_since(world: &World, answered: u64) -> Checked {
    if world.counts.answered > answered {
        return Ok(());
    }
    Err(not_live(format!("nothing is answered although faults have stopped: {}", standings(world))))
}

fn standings(world: &World) -> String {
    let members = world.member_hosts();
    members.into_iter().map(|host| world.standing(host)).collect::<Vec<_>>().join("; ")
}

fn same_everywhere(world: &World) -> Checked {
    let applied: Vec<_> = world
        .member_hosts()
        .into_iter()
        .map(|host| {
            world.hosts[host]
                .process
                .as_ref()
                .map(|process| (process.applied(), process.member.apply.state_hash()))
        })
        .collect();
    if applied.iter().any(|state| state.is_none() || *state != applied[0]) {
        return Err(not_live(format!("members of the healed cluster differ: {applied:?}")));
    }
    Ok(())
}

fn judge(world: &World) -> Checked {
    let history = &world.clients.history;
    world.real_time.check(history)?;
    match linear::check_hinted(history, &|number| world.truth.landed(number, &history[number])) {
        Verdict::Lawful(_) => Ok(()),
        Verdict::Violation(found) => {
            Err(Violation { checker: Checker::Linearizable, what: found.to_string() })
        }
        Verdict::Undecided(stuck) => Err(Violation {
            checker: Checker::Linearizable,
            what: format!("the search ran out of its budget {stuck}"),
        }),
    }
}

fn not_live(what: String) -> Violation {
    Violation { checker: Checker::Live, what }
}

fn words_of(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_string()
}
