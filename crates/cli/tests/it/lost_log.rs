//! Members that have lost part of their files: what was acknowledged is served or waited for, never missed in silence, and
//! a process that cannot go on says what to do.

use crate::etcd::{get, put};
use crate::process::{Member, Plan, althing, until};
use crate::rest::Rest;
use crate::tour::block_on;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

const SEGMENT: &str = "wal-0000000000000001";
const MANIFEST: &str = "wal-manifest";
const STORE: &str = "store.redb";

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn verify(plan: &Plan) -> (Option<i32>, String) {
    let output = althing().arg("verify").arg(plan.data_dir()).output().unwrap();
    (output.status.code(), text(&output))
}

/// A start that must be refused.
fn refused(plan: &Plan) -> String {
    let child = plan.command().stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let told = text(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(!told.contains("panicked"), "{told}");
    told
}

fn write(member: &Member, key: &str) {
    let attempt = || async { member.etcd().await.put(put(key.to_owned(), "value")).await.ok() };
    until("it takes a write", || block_on(attempt()));
}

/// How many keys of this name there are, if the member can tell.
fn count(member: &Member, key: &str) -> Option<i64> {
    block_on(async { member.etcd().await.range(get(key.to_owned())).await.ok().map(|found| found.count) })
}

/// The first segment of the log in a directory, and where its last byte that is not zero lies.
fn log_end(dir: &Path) -> (PathBuf, u64) {
    let path = dir.join(SEGMENT);
    let bytes = std::fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    (path, end as u64)
}

fn flip(path: &PathBuf, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

fn cut(path: &PathBuf, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

/// A member of its own with some keys, that was killed.
fn killed_single() -> Plan {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    (0..20).for_each(|n| write(&member, &format!("key/{n}")));
    member.kill();
    plan
}

/// The same, stopped in order: its store has everything, so that a log without anything is told from a new one.
fn stopped_single() -> Plan {
    let plan = Plan::single();
    let mut member = plan.start_ready();
    write(&member, "key");
    member.signal("TERM");
    assert!(member.wait_exit().success());
    plan
}

#[test]
fn a_member_that_is_alone_does_not_start_without_its_log() {
    for names in [&[SEGMENT][..], &[MANIFEST], &[SEGMENT, MANIFEST]] {
        let plan = stopped_single();
        for name in names {
            std::fs::remove_file(plan.data_dir().join(name)).unwrap();
        }
        let (code, told) = verify(&plan);
        assert_eq!(code, Some(1), "{names:?}: {told}");
        assert!(told.contains("missing"), "{told}");
        let told = refused(&plan);
        assert!(told.contains("missing") && told.contains("althing snapshot restore"), "{told}");
    }
}

#[test]
fn a_member_that_is_alone_does_not_start_on_a_log_that_was_cut_short() {
    let plan = killed_single();
    let (path, end) = log_end(&plan.data_dir());
    cut(&path, end - 8);
    let (code, told) = verify(&plan);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("was cut off"), "{told}");
    let told = refused(&plan);
    assert!(told.contains("was cut off") && told.contains("althing snapshot restore"), "{told}");
}

/// Two of three acknowledge a write while the third is down; then the log of the second is damaged, and it is started with
/// the third alone.
struct Scene {
    plans: Vec<Plan>,
    left: Vec<Member>,
}

impl Scene {
    fn open(damage: impl Fn(&PathBuf, u64)) -> Scene {
        let plans = Scene::acknowledge();
        let (path, end) = log_end(&plans[1].data_dir());
        damage(&path, end);
        let left = plans[1..].iter().map(Plan::start).collect();
        Scene { plans, left }
    }

    /// All are down in the end.
    fn acknowledge() -> Vec<Plan> {
        let plans = Plan::cluster(3);
        let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
        members.iter().for_each(Member::wait_ready);
        // A member that started empty is in doubt until something of its own is committed.
        members.iter().for_each(|member| write(member, "before"));
        members[2].kill();
        members[..2].iter().for_each(Member::wait_ready);
        write(&members[0], "acknowledged");
        members[..2].iter_mut().for_each(Member::kill);
        plans
    }

    /// The id of the member that the damaged one waits for, once it has heard from the other.
    fn wait_until_it_says_whom_it_waits_for(&self) -> String {
        until("it says whom it waits for", || {
            let status = block_on(async { self.left[0].etcd().await.status().await.ok() })?;
            let told = status.errors.iter().filter_map(|error| error.split_once("waits for member "));
            let told: Vec<_> = told.map(|(_, rest)| rest).collect();
            assert_eq!(status.leader, 0);
            let [rest] = told[..] else { return None };
            rest.split(' ').next().map(str::to_owned)
        })
    }

    fn serves_everything_when_all_are_back(self) {
        self.wait_until_it_says_whom_it_waits_for();
        let first = self.plans[0].start();
        for member in self.left.iter().chain([&first]) {
            let found = until("it answers", || count(member, "acknowledged"));
            assert_eq!(found, 1, "an acknowledged write is gone");
        }
    }
}

#[test]
fn a_write_is_not_lost_with_the_last_frame_of_one_log() {
    Scene::open(flip).serves_everything_when_all_are_back();
}

#[test]
fn a_write_is_not_lost_with_the_end_of_one_log() {
    Scene::open(|path, end| cut(path, end - 8)).serves_everything_when_all_are_back();
}

#[test]
fn a_write_is_not_lost_with_the_disk_of_one_member() {
    let remove = |path: &PathBuf, _| std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    Scene::open(remove).serves_everything_when_all_are_back();
}

#[test]
fn a_member_does_not_start_without_a_file_of_its_log_and_the_others_have_what_it_acknowledged() {
    for name in [SEGMENT, MANIFEST] {
        let plans = Scene::acknowledge();
        std::fs::remove_file(plans[1].data_dir().join(name)).unwrap();
        let (code, told) = verify(&plans[1]);
        assert_eq!(code, Some(1), "{name}: {told}");
        let told = refused(&plans[1]);
        assert!(told.contains("missing") && told.contains("Replace this member"), "{name}: {told}");
        let others = [&plans[0], &plans[2]].map(Plan::start);
        for member in &others {
            assert_eq!(until("it answers", || count(member, "acknowledged")), 1);
        }
    }
}

/// Data that two of three nodes acknowledged while the third was down, which is all that knows it in the end: all are down.
fn acknowledged_data() -> Vec<Plan> {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(|member| Rest::of(member).wait_for_ring(3));
    members[2].kill();
    until("data is written", || {
        let answer = Rest::of(&members[0]).put("/v1/data/acknowledged", r#"{"value": "kept"}"#);
        (answer.status == 200).then_some(())
    });
    members[..2].iter_mut().for_each(Member::kill);
    plans
}

#[test]
fn data_is_not_lost_with_the_last_frame_of_one_log_of_the_data_plane() {
    let plans = acknowledged_data();
    let (path, end) = log_end(&plans[1].data_dir().join("mesh"));
    flip(&path, end);
    let left: Vec<Member> = plans[1..].iter().map(Plan::start).collect();
    left.iter().for_each(Member::wait_ready);
    let read = |member: &Member| Rest::of(member).get("/v1/data/acknowledged?timeout_ms=500");
    for member in left.iter().cycle().take(10) {
        let status = read(member).status;
        assert!([200, 503].contains(&status), "answered {status} without the node that has it");
    }
    let first = plans[0].start();
    for member in left.iter().chain([&first]) {
        let found = until("it is read", || {
            let answer = read(member);
            assert!([200, 503].contains(&answer.status), "answered {}", answer.status);
            (answer.status == 200).then(|| answer.json())
        });
        assert_eq!(found["value"], "kept");
    }
}

#[test]
fn a_node_does_not_start_on_a_log_of_the_data_plane_that_lost_files_or_was_cut_short() {
    let remove = |path: &PathBuf, _| std::fs::remove_file(path).unwrap();
    let shorten = |path: &PathBuf, end| cut(path, end - 8);
    for damage in [remove as fn(&PathBuf, u64), shorten] {
        let plan = Plan::single();
        let mut member = plan.start_ready();
        Rest::of(&member).wait_for_ring(1);
        assert_eq!(Rest::of(&member).put("/v1/data/k", r#"{"value": 1}"#).status, 200);
        member.kill();
        let (path, end) = log_end(&plan.data_dir().join("mesh"));
        damage(&path, end);
        let (code, told) = verify(&plan);
        assert_eq!(code, Some(1), "{told}");
        let told = refused(&plan);
        assert!(told.contains("Move the directory `mesh` away"), "{told}");
    }
}

#[test]
fn an_operator_can_go_on_without_a_member_that_is_gone() {
    let scene = Scene::open(flip);
    let gone = scene.wait_until_it_says_whom_it_waits_for();
    let endpoints = scene.left.iter().map(|member| member.client.to_string()).collect::<Vec<_>>().join(",");
    let accept =
        || althing().args(["member", "accept-loss", &gone, "--endpoints", &endpoints]).output().unwrap();
    let output = accept();
    assert!(output.status.success(), "{}", text(&output));
    for member in &scene.left {
        let found = until("it answers", || count(member, "before"));
        assert_eq!(found, 1);
    }
    write(&scene.left[0], "after");
    assert!(scene.plans[1].log().contains("operator accepted the loss of a member"));
    until("no member waits any more", || (!accept().status.success()).then_some(()));
}

#[test]
fn a_store_that_was_cut_short_or_damaged_says_what_to_do() {
    for mesh in [false, true] {
        for (len, flipped) in [(Some(100_000), None), (Some(5_000), None), (None, Some(4_096 + 20))] {
            let plan = killed_single();
            let dir = if mesh { plan.data_dir().join("mesh") } else { plan.data_dir() };
            let path = dir.join(STORE);
            if let Some(len) = len {
                cut(&path, len);
            }
            if let Some(at) = flipped {
                flip(&path, at);
            }
            let (code, told) = verify(&plan);
            assert_eq!(code, Some(1), "{told}");
            assert!(told.contains(STORE) && !told.contains("panicked"), "{told}");
            let told = refused(&plan);
            let advice = if mesh { "Move the directory `mesh` away" } else { "Replace this member" };
            assert!(told.contains(STORE) && told.contains(advice), "{told}");
        }
    }
}

#[test]
fn members_that_start_again_know_each_other() {
    let plans = Plan::cluster(3);
    for _ in 0..3 {
        let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
        members.iter().for_each(Member::wait_ready);
        members.iter_mut().for_each(Member::kill);
    }
    for plan in &plans {
        let log = plan.log();
        assert!(!log.contains("it does not know this member"), "{log}");
    }
}
