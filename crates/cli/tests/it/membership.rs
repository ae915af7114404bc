//! Members come and go while clients write: by `althing member`, by `etcdctl`, and by nodes that join of their own
//! accord; nothing that was acknowledged is lost, and who was removed says so and ends.

use crate::etcd::{Etcd, put};
use crate::etcdctl::{Etcdctl, binary};
use crate::process::{Member, Plan, althing, free_port, until};
use crate::tour::block_on;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A node that joins the cluster of the member that listens there.
pub fn joiner(name: &str, ask: u16) -> Plan {
    let peer_port = free_port();
    Plan {
        name: name.to_owned(),
        peer_port,
        http_port: 0,
        cluster: format!("{name}=127.0.0.1:{peer_port}"),
        dir: Arc::new(TempDir::new().unwrap()),
        extra: vec!["--join".into(), format!("127.0.0.1:{ask}")],
    }
}

fn three() -> (Vec<Plan>, Vec<Member>) {
    let plans = Plan::cluster(3);
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    until("all have told where they serve", || (started(&members[0]) == 3).then_some(()));
    (plans, members)
}

fn members_at(member: &Member) -> Vec<proto::etcdserverpb::Member> {
    block_on(async { member.etcd().await.members().await.unwrap() })
}

fn started(member: &Member) -> usize {
    members_at(member).iter().filter(|member| !member.client_ur_ls.is_empty()).count()
}

fn id_at(member: &Member, peer_port: u16) -> String {
    let url = format!("http://127.0.0.1:{peer_port}");
    let listed = members_at(member).into_iter().find(|member| member.peer_ur_ls[0] == url);
    format!("{:x}", listed.expect("it is listed").id)
}

fn change(member: &Member, args: &[&str]) -> String {
    let output =
        althing().arg("member").args(args).args(["--endpoints", &member.endpoint()]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

/// Writes numbers through one member until it is told to stop; answers how many were acknowledged.
struct Load {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    writer: JoinHandle<()>,
}

impl Load {
    fn start(member: &Member) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let (stopped, counted, endpoint) = (stop.clone(), acknowledged.clone(), member.endpoint());
        let writer = std::thread::spawn(move || {
            block_on(async {
                let mut etcd = Etcd::connect(&endpoint).await;
                while !stopped.load(Ordering::Relaxed) {
                    let next = counted.load(Ordering::Relaxed) + 1;
                    if etcd.put(put(format!("key{next}"), "value")).await.is_ok() {
                        counted.store(next, Ordering::Relaxed);
                    }
                }
            });
        });
        Load { stop, acknowledged, writer }
    }

    fn wait_for_more(&self) {
        let before = self.acknowledged.load(Ordering::Relaxed);
        until("writes go on", || (self.acknowledged.load(Ordering::Relaxed) > before + 20).then_some(()));
    }

    /// Everything that was acknowledged is there, through each of these.
    fn finish(self, members: &[&Member]) {
        self.stop.store(true, Ordering::Relaxed);
        self.writer.join().unwrap();
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        for member in members {
            let output = althing()
                .args([
                    "get",
                    "key",
                    "--prefix",
                    "--count-only",
                    "-w",
                    "fields",
                    "--endpoints",
                    &member.endpoint(),
                ])
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            let count = told.lines().find_map(|line| line.strip_prefix("\"Count\" : ")?.parse::<u64>().ok());
            assert!(count.is_some_and(|count| count >= acknowledged), "{acknowledged} written: {told}");
        }
    }
}

#[test]
fn a_cluster_grows_to_five_and_shrinks_to_three_under_load() {
    let (plans, mut members) = three();
    let load = Load::start(&members[0]);
    let newcomers = [joiner("d", plans[1].peer_port), joiner("e", plans[2].peer_port)];
    let joined: Vec<Member> = newcomers.iter().map(Plan::start_ready).collect();
    until("five have started", || (started(&members[0]) == 5).then_some(()));
    load.wait_for_more();
    for gone in [2, 1] {
        let id = id_at(&members[0], plans[gone].peer_port);
        assert!(change(&members[0], &["remove", &id]).contains("removed"));
        assert!(!members[gone].wait_exit().success(), "it says why by its exit code");
        assert!(plans[gone].log().contains("removed from the cluster"), "{}", plans[gone].log());
        load.wait_for_more();
    }
    assert_eq!(started(&joined[0]), 3);
    load.finish(&[&members[0], &joined[0], &joined[1]]);
    let mut again = plans[1].spawn();
    assert!(!again.wait().unwrap().success(), "a member that was removed does not start again");
}

/// Two are a majority only together: the first stops leading before the second is there, and is elected again when the second
/// has asked how far its log reaches.
#[test]
fn a_second_member_starts_when_the_first_has_stopped_leading() {
    let plan = &Plan::cluster(1)[0];
    let first = plan.start_ready();
    let second = joiner("b", plan.peer_port);
    let url = format!("https://127.0.0.1:{}", second.peer_port);
    let added = change(&first, &["add", "b", "--peer-urls", &url]);
    let token = added.lines().find_map(|line| line.strip_prefix("ALTHING_JOIN_TOKEN=\"")?.strip_suffix('"'));
    until("it has no majority", || (!first.leads()).then_some(()));
    let newcomer = second.with(&["--join-token", token.expect("it prints a token")]).start_ready();
    block_on(async { newcomer.etcd().await.put(put("key", "value")).await.unwrap() });
    until("both have started", || (started(&newcomer) == 2).then_some(()));
}

#[test]
fn the_leader_can_be_removed_and_a_member_that_is_down_too() {
    let (plans, mut members) = three();
    let fourth = joiner("d", plans[0].peer_port);
    let newcomer = fourth.start_ready();
    until("four have started", || (started(&newcomer) == 4).then_some(()));
    let leads = until("there is a leader", || members.iter().position(Member::leads));
    change(&newcomer, &["remove", &id_at(&newcomer, plans[leads].peer_port)]);
    assert!(!members[leads].wait_exit().success());
    let down = (leads + 1) % 3;
    let id = id_at(&newcomer, plans[down].peer_port);
    members[down].kill();
    let load = Load::start(&newcomer);
    load.wait_for_more();
    change(&newcomer, &["remove", &id]);
    load.wait_for_more();
    let mut again = plans[down].spawn();
    assert!(!again.wait().unwrap().success(), "it hears from the others that it was removed");
    load.finish(&[&newcomer]);
}

#[test]
fn a_member_whose_disk_is_lost_is_replaced() {
    let (plans, mut members) = three();
    let load = Load::start(&members[0]);
    load.wait_for_more();
    members[2].kill();
    std::fs::remove_dir_all(plans[2].data_dir()).unwrap();
    let id = id_at(&members[0], plans[2].peer_port);
    assert!(change(&members[0], &["replace", &id]).contains("added"));
    let replacement = plans[2].clone().with(&["--join", &format!("127.0.0.1:{}", plans[0].peer_port)]);
    let replacement = replacement.start_ready();
    until("three have started", || (started(&members[0]) == 3).then_some(()));
    assert_ne!(id_at(&members[0], plans[2].peer_port), id, "it is another member");
    load.wait_for_more();
    members[1].kill();
    load.wait_for_more();
    load.finish(&[&members[0], &replacement]);
}

#[test]
fn a_member_whose_disk_is_lost_comes_back_under_its_id_and_is_trusted_again() {
    let (plans, mut members) = three();
    let leads = until("there is a leader", || members.iter().position(Member::leads));
    let (wiped, stays) = ((leads + 1) % 3, (leads + 2) % 3);
    let load = Load::start(&members[stays]);
    load.wait_for_more();
    members[wiped].kill();
    std::fs::remove_dir_all(plans[wiped].data_dir()).unwrap();
    let again = plans[wiped].start_ready();
    until("it has everything again", || plans[wiped].log().contains("voting again").then_some(()));
    members[leads].kill();
    load.wait_for_more();
    load.finish(&[&members[stays], &again]);
}

#[test]
fn the_leader_is_replaced_by_another_machine_in_one_step() {
    let (plans, mut members) = three();
    let leads = until("there is a leader", || members.iter().position(Member::leads));
    let stays = (leads + 1) % 3;
    let load = Load::start(&members[stays]);
    load.wait_for_more();
    let id = id_at(&members[stays], plans[leads].peer_port);
    let fourth = joiner("d", plans[stays].peer_port);
    let url = format!("http://127.0.0.1:{}", fourth.peer_port);
    assert!(change(&members[stays], &["replace", &id, "--peer-urls", &url]).contains("replaced by"));
    assert!(!members[leads].wait_exit().success(), "who was replaced goes");
    let newcomer = fourth.start_ready();
    until("three have started", || (started(&members[stays]) == 3).then_some(()));
    assert_eq!(members_at(&newcomer).len(), 3, "the replacement is settled");
    members[(leads + 2) % 3].kill();
    load.wait_for_more();
    load.finish(&[&members[stays], &newcomer]);
}

#[test]
fn etcdctl_adds_promotes_updates_and_removes() {
    let Some(binary) = binary("etcdctl_adds_promotes_updates_and_removes") else { return };
    let (plans, members) = three();
    let run = |args: &[&str]| Etcdctl::of(&binary, std::slice::from_ref(&members[0])).run(args, "");
    let load = Load::start(&members[0]);
    let fourth = joiner("d", plans[0].peer_port);
    let url = format!("http://127.0.0.1:{}", fourth.peer_port);
    let added = run(&["member", "add", "d", "--learner", "--peer-urls", &url]);
    assert!(added.contains("ETCD_INITIAL_CLUSTER_STATE=\"existing\""), "{added}");
    let id = id_at(&members[0], fourth.peer_port);
    assert!(run(&["member", "list"]).contains(&format!("{id}, unstarted, , {url}, , true")));
    let early = run(&["member", "promote", &id]);
    assert!(early.contains("can only promote a learner member which is in sync with leader"), "{early}");
    let second = run(&["member", "add", "e", "--learner", "--peer-urls", "http://127.0.0.1:1"]);
    assert!(second.contains("too many learner members in cluster"), "{second}");

    let newcomer = fourth.start_ready();
    until("it has caught up", || {
        run(&["member", "promote", &id]).contains("promoted in cluster").then_some(())
    });
    let again = run(&["member", "promote", &id]);
    assert!(again.contains("can only promote a learner member"), "{again}");
    let moved = format!("{url},http://127.0.0.1:1");
    assert!(run(&["member", "update", &id, "--peer-urls", &moved]).contains("updated in cluster"));
    load.wait_for_more();
    assert!(run(&["member", "remove", &id]).contains("removed from cluster"));
    drop(newcomer);
    load.finish(&[&members[0]]);
}

#[test]
fn etcdctl_looks_after_three_members_under_load() {
    let Some(binary) = binary("etcdctl_looks_after_three_members_under_load") else { return };
    let (_plans, members) = three();
    let run = |args: &[&str]| Etcdctl::of(&binary, &members).run(args, "");
    let load = Load::start(&members[0]);
    load.wait_for_more();
    assert_eq!(run(&["defrag"]).matches("Finished defragmenting").count(), 3);
    load.wait_for_more();
    assert_eq!(run(&["endpoint", "hashkv"]).lines().count(), 3);
    assert_eq!(run(&["alarm", "list"]), "");
    until("it is handed over", || {
        let leads = members.iter().position(Member::leads)?;
        let heir = Etcdctl::of(&binary, std::slice::from_ref(&members[(leads + 1) % 3]));
        let heir = heir.run(&["endpoint", "status"], "").split(", ").nth(1)?.to_owned();
        run(&["move-leader", &heir]).contains("Leadership transferred from").then_some(())
    });
    load.wait_for_more();
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("backup");
    let other = Etcdctl::of(&binary, std::slice::from_ref(&members[1]));
    let saved = other.run(&["snapshot", "save", file.to_str().unwrap()], "");
    assert!(saved.contains("Snapshot saved at"), "{saved}");
    let told = althing().args(["snapshot", "status"]).arg(&file).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    load.wait_for_more();
    load.finish(&[&members[0], &members[1], &members[2]]);
}
