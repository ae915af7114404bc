//! Contests: clients read, write, create, replace and delete the same few keys at once, under conditions, through any
//! node, while nodes crash, are cut off, lose a disk and a partition moves. Judged is whether what they were told could
//! have happened one after the other (`linear.rs`).

use super::linear::{Deed, Entry, History};
use super::world::{MS, World, member};
use super::{SECOND, awake, key, put, write};
use crate::ballot::Round;
use crate::context::Context;
use crate::mesh::{Reply, Request};
use crate::mutant::Mutant;
use crate::op::{Attributes, Op};
use crate::record::{Body, Kind, Record};
use crate::request::{Get, Level, Write};
use crate::rows;
use crate::session::Session;
use crate::topology::Epoch;
use base::{Code, NodeId, ReplyToken};
use std::collections::BTreeMap;
use std::time::Duration;

const CLIENTS: usize = 4;
const KEYS: u64 = 3;

/// Three clients create each key at once, through three nodes; the keys that not exactly one of them created.
pub fn several_winners(seed: u64) -> Vec<(u64, usize)> {
    let mut world = awake(seed, 3);
    let mut wrong = Vec::new();
    for n in 0..40 {
        let create = |world: &mut World, node: u64| -> ReplyToken {
            let write =
                Write { expect: Some(Context::default()), ..put(&format!("k{n}"), &format!("{node}")) };
            world.ask(NodeId(node), Request::write(write))
        };
        let tokens: Vec<ReplyToken> = (1..=3).map(|node| create(&mut world, node)).collect();
        world.run(SECOND);
        let won = tokens.iter().filter(|token| matches!(world.replies.get(token), Some(Reply::Written(_))));
        let won = won.count();
        if won != 1 {
            wrong.push((n, won));
        }
    }
    wrong
}

#[test]
fn the_last_proposer_of_a_key_skips_the_promises() {
    let mut world = awake(7, 3);
    let mut seen = Context::default();
    let mut asked = 0;
    for n in 0..12 {
        let reply = world.call(n % 3 + 1, Request::write(replace("k", &n.to_string(), &seen)));
        let Reply::Written(record) = reply else { panic!("{n}: {reply:?}") };
        seen = record.context;
        if n == 0 {
            asked = world.n_prepares;
        }
        let reply = world.call((n + 1) % 3 + 1, linear_read("k"));
        assert!(
            matches!(&reply, Reply::Got(finish_session_read) if finish_session_read.record.as_deref().and_then(text) == Some(n.to_string()))
        );
    }
    assert_eq!(world.n_prepares, asked, "whichever node was asked, the same one has changed it");
}

#[test]
fn a_key_that_was_deleted_by_a_ballot_is_plain_again_when_that_is_forgotten() {
    let mut world = World::with_rounds(8, 3, Duration::from_secs(20));
    world.run(SECOND);
    let reply = world.call(1, Request::write(replace("k", "v", &Context::default())));
    assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    let reply = world.call(2, Request::write(write("k", Kind::Register, Op::Delete)));
    assert!(matches!(reply, Reply::Written(_)), "{reply:?}");
    world.run(700 * SECOND);
    assert_eq!((world.leftovers(1), world.leftovers(16), world.leftovers(17)), (0, 0, 0));
    let before = world.n_prepares;
    assert_eq!(super::value(&world.call(1, Request::write(put("k", "plain")))).as_deref(), Some("plain"));
    assert_eq!(world.n_prepares, before, "a plain write asks for nothing");
    world.run(SECOND);
    let reply = world.call(2, linear_read("k"));
    assert!(
        matches!(&reply, Reply::Got(finish_session_read) if finish_session_read.record.as_deref().and_then(text).as_deref() == Some("plain"))
    );
}

/// Found in 0.1.0, in 31 of 40 keys of the first seed.
#[test]
fn of_several_clients_that_create_a_key_one_wins() {
    for seed in 0..3 {
        assert_eq!(several_winners(seed), [], "seed {seed}");
    }
}

pub fn linear_read(name: &str) -> Request {
    let (session, min) = (Session::default(), Context::default());
    Request::Get(Box::new(Get { key: key(name), r: None, level: Level::Linearizable, session, min }))
}

pub fn replace(name: &str, value: &str, seen: &Context) -> Write {
    Write { expect: Some(seen.clone()), ..put(name, value) }
}

fn linear(write: Write) -> Write {
    Write { attributes: Attributes { level: Level::Linearizable, ..write.attributes }, ..write }
}

/// What a client saw last of a key.
type Seen = Option<(String, Context)>;

/// What a client is doing.
struct Doing {
    token: ReplyToken,
    name: String,
    entry: Entry,
    /// What to ask again under the same id, if what came of it is not told.
    again: Option<Request>,
    /// It is asked for the second time, and the first may be under way still.
    is_repeated: bool,
}

#[derive(Default)]
struct Contest {
    histories: BTreeMap<String, History>,
    seen: BTreeMap<(usize, String), Seen>,
    n_done: usize,
    wrong: Vec<String>,
}

fn text(record: &Record) -> Option<String> {
    super::value(&Reply::Found(Some(Box::new(record.clone()))))
}

impl Contest {
    fn begin(&mut self, world: &mut World, client: usize, n: usize) -> Doing {
        let nodes: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
        let node = *world.rng.pick(&nodes);
        let name = format!("k{}", world.rng.between(0, KEYS - 1));
        let seen = self.seen.get(&(client, name.clone())).cloned().flatten();
        let new = n.to_string();
        let (request, deed) = match (world.rng.between(0, 11), seen) {
            (0..=2, _) => (linear_read(&name), Deed::Read),
            (3, _) => (Request::write(linear(put(&name, &new))), Deed::Write(Some(new))),
            (4, _) => (Request::write(put(&name, &new)), Deed::Write(Some(new))),
            (5, _) => {
                let delete = linear(write(&name, Kind::Register, Op::Delete));
                (Request::write(delete), Deed::Write(None))
            }
            (6..=9, Some((old, context))) => {
                (Request::write(replace(&name, &new, &context)), Deed::Replace(Some(old), new))
            }
            _ => (Request::write(replace(&name, &new, &Context::default())), Deed::Replace(None, new)),
        };
        let request = match request {
            // The others are proposed without asking, where the node has the promises already.
            Request::Write(write) if write.is_decided() && world.rng.chance(500_000) => {
                let attributes = Attributes { request: Some(n as u64), ..write.attributes.clone() };
                Request::write(Write { attributes, ..(*write).clone() })
            }
            request => request,
        };
        let again = Some(request.clone())
            .filter(|request| matches!(request, Request::Write(write) if write.attributes.request.is_some()));
        // Two in three through whichever node, so that several propose at once.
        let token = match request {
            Request::Write(write) if write.is_decided() && world.rng.chance(666_000) => {
                world.pass_on(node, (*write).clone())
            }
            request => world.ask(node, request),
        };
        let entry = Entry::begun(deed, world.now);
        Doing { token, name, entry, again, is_repeated: false }
    }

    /// The same request through any node, unless it was asked for twice.
    fn repeat(world: &mut World, doing: &mut Doing) -> bool {
        let Some(request) = doing.again.take() else { return false };
        let nodes: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
        let node = *world.rng.pick(&nodes);
        doing.token = world.ask(node, request);
        doing.is_repeated = true;
        true
    }

    fn end(&mut self, client: usize, doing: Doing, reply: Option<Reply>, now: u64) {
        let Doing { name, mut entry, is_repeated, .. } = doing;
        let history = self.histories.entry(name.clone()).or_default();
        let mut saw = |record: Option<&Record>| {
            let seen = record.and_then(|record| Some((text(record)?, record.context.clone())));
            self.seen.insert((client, name.clone()), seen);
        };
        match reply {
            Some(Reply::Got(finish_session_read)) => {
                saw(finish_session_read.record.as_deref());
                entry.ended(now, finish_session_read.record.as_deref().and_then(text));
            }
            Some(Reply::Written(record)) => {
                saw(Some(&record));
                entry.done(now);
            }
            // Under its id it is refused for good: the first attempt has no effect either.
            Some(Reply::Conflict(record)) if is_repeated => return saw(Some(&record)),
            Some(Reply::Refused(_) | Reply::Unavailable { .. }) if is_repeated => entry.open(),
            Some(Reply::Conflict(record)) => {
                saw(Some(&record));
                entry.failed(now, text(&record));
            }
            Some(Reply::Refused(Code::UnknownContext)) => {
                self.wrong.push(format!("{name}: a context that was shown is unknown"));
                return;
            }
            // It was not done, and will not be.
            Some(Reply::Refused(_) | Reply::Unavailable { .. }) => return,
            Some(Reply::Indeterminate { .. }) | None => entry.open(),
            Some(other) => panic!("{other:?}"),
        }
        self.n_done += 1;
        history.push(entry);
    }
}

#[derive(Default)]
struct Mishaps {
    wiped: bool,
    moved: bool,
}

impl Mishaps {
    fn strike(&mut self, world: &mut World) {
        let nodes: Vec<NodeId> = world.hosts.keys().copied().collect();
        let node = *world.rng.pick(&nodes);
        let down = world.hosts.values().filter(|host| host.mesh.is_none()).count();
        match world.rng.between(0, 200) {
            0..=4 if down < 1 && world.hosts[&node].mesh.is_some() => world.crash(node),
            5..=16 if world.hosts[&node].mesh.is_none() => world.start(node),
            17..=20 => world.isolate(node),
            21..=30 => world.cut.clear(),
            31 => nodes.iter().for_each(|node| world.crash(*node)),
            32..=36 if !self.wiped && down == 0 && world.cut.is_empty() => {
                self.wiped = true;
                world.wipe(node);
                world.start(node);
            }
            37..=40 => {
                let other = *world.rng.pick(&nodes);
                world.cut.insert((node, other));
            }
            41..=43 if !self.moved => {
                self.moved = true;
                world.add(NodeId(9));
                let epoch = Epoch(world.topology.epoch.0 + 1);
                let leaving = if world.rng.chance(500_000) { vec![NodeId(1)] } else { vec![] };
                let next = world.topology.begin(epoch, &[member(9)], &leaving).unwrap();
                world.publish(next);
            }
            44 => world.sync_max = world.rng.between(2, 100) * MS,
            45 => world.delay_max = world.rng.between(1, 60) * MS,
            _ => {}
        }
    }
}

/// What went wrong, and how much was done.
pub fn contest(seed: u64) -> (Vec<String>, usize) {
    let nodes = 3 + seed % 2;
    let mut world = World::new(seed, nodes);
    let (mut contest, mut mishaps) = (Contest::default(), Mishaps::default());
    for host in world.hosts.values_mut() {
        host.skew_ms = world.rng.between(0, 600) as i64 - 300;
    }
    world.run(2 * SECOND);
    world.loss_per_million = world.rng.between(0, 40_000);
    let mut doing: BTreeMap<usize, Doing> = BTreeMap::new();
    let mut n = 0;
    while n < 110 {
        mishaps.strike(&mut world);
        if world.topology.is_moving() && n % 3 == 0 {
            world.advance_move();
        }
        for client in 0..CLIENTS {
            if !doing.contains_key(&client) && world.rng.chance(400_000) {
                n += 1;
                doing.insert(client, contest.begin(&mut world, client, n));
            }
        }
        let step = world.rng.between(1, 30 * MS);
        world.run(step);
        for client in 0..CLIENTS {
            let Some(one) = doing.get(&client) else { continue };
            let reply = world.replies.remove(&one.token);
            if reply.is_some() || world.now > world.asked_at[&one.token] + SECOND {
                let mut one = doing.remove(&client).unwrap();
                let is_open = matches!(reply, None | Some(Reply::Indeterminate { .. }));
                if is_open && Contest::repeat(&mut world, &mut one) {
                    doing.insert(client, one);
                } else {
                    contest.end(client, one, reply, world.now);
                }
            }
        }
    }
    for (client, one) in doing {
        contest.end(client, one, None, world.now);
    }
    world.heal();
    world.delay_max = 3 * MS;
    for _ in 0..24 {
        world.advance_move();
        world.run(SECOND / 2);
        if !world.topology.is_moving() && world.differences().is_empty() {
            break;
        }
    }
    let mut wrong = judge_the_end(&mut world, &mut contest);
    wrong.append(&mut contest.wrong);
    for (name, history) in &contest.histories {
        wrong.extend(history.violation().map(|violation| format!("{name}: {violation}")));
    }
    (wrong, contest.n_done)
}

/// Every node shows the same, as part of the history, and all replicas hold the same.
fn judge_the_end(world: &mut World, contest: &mut Contest) -> Vec<String> {
    let mut wrong = Vec::new();
    let members: Vec<NodeId> = world.topology.members().iter().map(|member| member.node).collect();
    for n in 0..KEYS {
        let name = format!("k{n}");
        for node in &members {
            let mut entry = Entry::begun(Deed::Read, world.now);
            match world.call(node.0, linear_read(&name)) {
                Reply::Got(finish_session_read) => {
                    entry.ended(world.now, finish_session_read.record.as_deref().and_then(text))
                }
                other => wrong.push(format!("{name} cannot be read at {node:?}: {other:?}")),
            }
            contest.histories.entry(name.clone()).or_default().push(entry);
        }
    }
    world.run(4 * SECOND);
    let differences = world.differences();
    if !differences.is_empty() {
        wrong.push(format!("{} replicas differ, such as {:?}", differences.len(), differences[0]));
    }
    wrong
}

/// A few, or as many as `MESH_CONTESTS` says.
#[expect(clippy::disallowed_methods, reason = "a test may be told to take its time")]
fn n_contests() -> u64 {
    std::env::var("MESH_CONTESTS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12)
}

#[test]
fn contests_could_have_happened_one_after_the_other() {
    let (mut wrong, mut done) = (Vec::new(), 0);
    for seed in 1..=n_contests() {
        let (violations, n_done) = contest(seed);
        wrong.extend(violations.into_iter().map(|violation| format!("seed {seed}: {violation}")));
        done += n_done;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(done > 900, "{done} were done");
}

/// A contest as a scene.
fn contested(seed: u64) -> Option<String> {
    contest(seed + 1).0.into_iter().next()
}

/// Three nodes that hold a key, decided through the first one, with what the key holds.
fn decided(seed: u64) -> (World, Context) {
    let mut world = awake(seed, 3);
    let create = world.pass_on(NodeId(1), replace("k", "base", &Context::default()));
    world.run(SECOND);
    let Some(Reply::Written(base)) = world.replies.remove(&create) else { panic!("not created") };
    (world, base.context)
}

/// Whether the second node has promised the third's round.
fn is_promised(world: &World) -> bool {
    let host = &world.hosts[&NodeId(2)];
    let row = host.mesh.as_ref().unwrap().replica.storage.get(&host.rows, &rows::promise(&key("k"))).0;
    row.and_then(Round::from_bytes).is_some_and(|round| round.node == NodeId(3))
}

fn both_won(world: &mut World, tokens: [ReplyToken; 2]) -> Option<String> {
    world.run(SECOND);
    let won = |token: &&ReplyToken| matches!(world.replies.get(token), Some(Reply::Written(_)));
    (tokens.iter().filter(won).count() > 1).then(|| "both of two have replaced what they saw".to_owned())
}

/// The third node has the second's promise, and its proposal does not get there; the first one, which cannot hear the
/// third, has its own accepted there. Then the third's arrives.
fn a_promise_is_passed_over(seed: u64) -> Option<String> {
    let (mut world, base) = decided(seed);
    let (a, b, c) = (NodeId(1), NodeId(2), NodeId(3));
    world.cut.extend([(a, c), (c, a)]);
    let third = world.pass_on(c, replace("k", "third", &base));
    for _ in 0..2_000 {
        if is_promised(&world) {
            break;
        }
        world.run(50);
    }
    world.cut.insert((c, b));
    world.run(10 * MS);
    let first = world.pass_on(a, replace("k", "first", &base));
    world.run(60 * MS);
    world.cut.remove(&(c, b));
    both_won(&mut world, [first, third])
}

fn a_promise_is_forgotten_in_a_crash(seed: u64) -> Option<String> {
    let (mut world, base) = decided(seed);
    let (a, b, c) = (NodeId(1), NodeId(2), NodeId(3));
    world.cut.extend([(a, c), (c, a)]);
    world.sync_max = 200 * MS;
    let third = world.pass_on(c, replace("k", "third", &base));
    for _ in 0..2_000 {
        if is_promised(&world) {
            break;
        }
        world.run(50);
    }
    world.cut.insert((c, b));
    world.run(5 * MS);
    world.crash(b);
    world.sync_max = 2 * MS;
    world.start(b);
    world.run(60 * MS);
    let first = world.pass_on(a, replace("k", "first", &base));
    world.run(60 * MS);
    world.cut.remove(&(c, b));
    both_won(&mut world, [first, third])
}

/// The second and third node decide about a key without the first, which decided it last. Then the first is asked to replace
/// what they have written, or to create what they have deleted.
fn the_last_proposer_was_passed_by(seed: u64) -> Option<String> {
    let (mut world, base) = decided(seed);
    let (a, c) = (NodeId(1), NodeId(3));
    world.isolate(a);
    let deletes = seed % 2 == 1;
    let change = if deletes {
        Write { expect: Some(base), ..write("k", Kind::Register, Op::Delete) }
    } else {
        replace("k", "third", &base)
    };
    let third = world.pass_on(c, change);
    world.run(60 * MS);
    let Some(Reply::Written(changed)) = world.replies.remove(&third) else { return None };
    world.cut.clear();
    let seen = if deletes { Context::default() } else { changed.context };
    let first = world.pass_on(a, replace("k", "first", &seen));
    world.run(SECOND);
    let reply = world.replies.remove(&first);
    (!matches!(reply, Some(Reply::Written(_)))).then(|| format!("what is there was expected, and: {reply:?}"))
}

/// What two of three have decided is with one of them, after the other's disk was lost. The replica that has it does not
/// hear of that loss.
fn a_voter_without_its_disk(seed: u64) -> Option<String> {
    let (mut world, base) = decided(seed);
    let (a, b, c) = (NodeId(1), NodeId(2), NodeId(3));
    world.isolate(a);
    let third = world.pass_on(c, replace("k", "third", &base));
    world.run(SECOND / 2);
    world.cut.clear();
    world.isolate(c);
    world.wipe(b);
    world.start(b);
    world.run(SECOND / 2);
    let first = world.pass_on(a, replace("k", "first", &base));
    both_won(&mut world, [first, third])
}

/// A key is on its way from a, b, c to a, b and a newcomer; b and c decide about it without the others, and when readers
/// ask the new list, the others do without b and c.
fn one_list_decides(seed: u64) -> Option<String> {
    let mut world = awake(seed, 5);
    world.add(NodeId(6));
    let joining = world.topology.begin(Epoch(2), &[member(6)], &[]).unwrap();
    let placement = joining.placement();
    let lists = |name: &String| {
        let partition = key(name).partition();
        (placement.now.of(partition, 3).to_vec(), placement.next.of(partition, 3).to_vec())
    };
    let is_moved = |name: &String| {
        let (old, new) = lists(name);
        new.contains(&NodeId(6)) && old.iter().filter(|node| new.contains(node)).count() == 2
    };
    let name = (0..).map(|n| format!("k{n}")).find(is_moved).unwrap();
    let (old, new) = lists(&name);
    let partition = key(&name).partition();
    let leaves = *old.iter().find(|node| !new.contains(node)).unwrap();
    let stays: Vec<NodeId> = old.into_iter().filter(|node| *node != leaves).collect();
    let create = world.pass_on(stays[0], replace(&name, "base", &Context::default()));
    world.run(SECOND / 2);
    let Some(Reply::Written(base)) = world.replies.remove(&create) else { panic!("not created") };
    world.publish(joining);
    for _ in 0..80 {
        if world.progress.steps(&world.topology, &placement).switch.contains(partition) {
            break;
        }
        world.run(SECOND / 4);
    }
    let apart = [stays[1], leaves];
    world.split(&apart);
    world.deaf.extend(apart);
    let first = world.pass_on(leaves, replace(&name, "first", &base.context));
    world.run(SECOND);
    for _ in 0..8 {
        world.advance_move();
        world.run(SECOND / 8);
    }
    let second = world.pass_on(stays[0], replace(&name, "second", &base.context));
    both_won(&mut world, [first, second])
}

fn add_decided(nth: u64, amount: i128) -> Write {
    let attributes = Attributes { request: Some(nth), level: Level::Linearizable, ..Attributes::default() };
    Write { attributes, ..write("c", Kind::Counter, Op::Add(amount)) }
}

/// A request that was decided comes again through every node, when many others have come in between through other nodes, and
/// then under another amount.
fn a_decided_request_comes_again(seed: u64) -> Option<String> {
    let mut world = awake(seed, 3);
    let ask = |world: &mut World, node: u64, write: Write| {
        let token = world.pass_on(NodeId(node), write);
        world.run(SECOND);
        world.replies.remove(&token)
    };
    ask(&mut world, 1, add_decided(100, 5));
    for n in 0..12 {
        ask(&mut world, 1 + n % 3, add_decided(n, 1));
    }
    world.wipe(NodeId(1));
    world.start(NodeId(1));
    world.run(10 * SECOND);
    for n in 0..12 {
        ask(&mut world, 1 + n % 3, add_decided(50 + n, 1));
    }
    for node in 1..=3 {
        let reply = ask(&mut world, node, add_decided(100, 5));
        if !matches!(reply, Some(Reply::Written(_))) {
            return Some(format!("through node {node}: {reply:?}"));
        }
    }
    let other = ask(&mut world, 2, add_decided(100, 6));
    if !matches!(other, Some(Reply::Refused(Code::RequestIdReused))) {
        return Some(format!("with another amount: {other:?}"));
    }
    let reply = world.call(3, linear_read("c"));
    let Reply::Got(finish_session_read) = &reply else { return Some(format!("{reply:?}")) };
    let count = finish_session_read.record.as_ref().map(|record| record.body.clone());
    let Some(Body::Counter(tally)) = &count else { return Some(format!("{count:?}")) };
    (tally.value() != 29).then(|| format!("counted {} of 29", tally.value()))
}

/// Scenes in which a rule matters, and the bug that breaks it.
pub const SCENES: [(&str, super::Scene, Mutant); 7] = [
    ("a decided request comes again", a_decided_request_comes_again, Mutant::DecidedRequestDropped),
    ("plain writes among conditions", contested, Mutant::PlainMixedIn),
    ("a promise is forgotten in a crash", a_promise_is_forgotten_in_a_crash, Mutant::PromiseNotDurable),
    ("a promise is passed over", a_promise_is_passed_over, Mutant::PromiseUnchecked),
    ("the last proposer was passed by", the_last_proposer_was_passed_by, Mutant::StaleTurnAnswers),
    ("a voter without its disk", a_voter_without_its_disk, Mutant::EmptiedPromises),
    ("one list decides", one_list_decides, Mutant::OneListDecides),
];

#[test]
fn scenes_of_ballots_end_well() {
    super::end_well(&SCENES, 8);
}

#[test]
fn every_planted_bug_of_ballots_shows_in_its_scene() {
    super::show(&SCENES);
}
