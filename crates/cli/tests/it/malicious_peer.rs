//! A peer that lies to real members: frames whose fields cannot be right are counted, end no process, and leave no trace that a
//! restart would meet. The frames that once ended members are sent as they were; then the tool makes some thousand of its own.

use crate::etcd::{get, put};
use crate::process::{Member, Plan, until};
use crate::tour::block_on;
use bytes::Bytes;
use fuzz_targets::frames::{self, RaftMessage};
use malicious_peer::{Connection, Hello, Limit};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// A term that no cluster reaches, and whose successors fit into no message.
const IMPOSSIBLE_TERM: u64 = 1 << 62;
/// Far beyond what elections of this test can reach.
const TERM_MAX: u64 = 1 << 20;
const FRAMES: u64 = 5_000;
/// The frames take a second; the rest is for a busy machine.
const TIME: Duration = Duration::from_secs(60);

/// Of whom frames say that they come, whom they are for, and how far the cluster is.
struct Facts {
    hello: Hello,
    term: u64,
    index: u64,
}

impl Facts {
    fn of(members: &[Member], liar: usize, target: usize) -> Facts {
        let status = |nth: usize| {
            until("a member says where it stands", || {
                block_on(async { members[nth].etcd().await.status().await.ok() })
            })
        };
        let (from, to) = (status(liar), status(target));
        let header = to.header.unwrap();
        let hello =
            Hello { cluster: header.cluster_id, from: from.header.unwrap().member_id, to: header.member_id };
        Facts { hello, term: to.raft_term, index: to.raft_index }
    }

    fn message(&self, kind: u8, term: u64) -> RaftMessage {
        RaftMessage { kind, from: self.hello.from, to: self.hello.to, term, ..RaftMessage::default() }
    }

    /// Entries that follow on what no log has.
    fn append_beyond_the_log(&self) -> Bytes {
        let index = self.index + 1_000;
        RaftMessage { index, commit: index, ..self.message(frames::APPEND, self.term) }.frame()
    }

    fn commit_beyond_the_log(&self) -> Bytes {
        RaftMessage { commit: self.index + 1_000, ..self.message(frames::HEARTBEAT, self.term) }.frame()
    }

    fn impossible_terms(&self) -> Vec<Bytes> {
        const KINDS: [u8; 8] = [
            frames::APPEND,
            frames::APPEND_RESPONSE,
            frames::VOTE,
            frames::VOTE_RESPONSE,
            frames::HEARTBEAT,
            frames::HEARTBEAT_RESPONSE,
            frames::PRE_VOTE,
            frames::PRE_VOTE_RESPONSE,
        ];
        let terms = [IMPOSSIBLE_TERM, u64::MAX];
        terms.iter().flat_map(|term| KINDS.iter().map(|kind| self.message(*kind, *term).frame())).collect()
    }

    /// A begin of a snapshot whose members are these.
    fn snapshot_begin(&self, voters: &[u64], learners: &[u64]) -> Bytes {
        let members = [voters.to_vec(), learners.to_vec(), Vec::new()];
        let snapshot = Some((self.term, self.index + 100, members));
        let mut body = Vec::new();
        RaftMessage { snapshot, ..self.message(frames::SNAPSHOT, self.term) }.encode(&mut body);
        frames::snapshot_part(frames::SNAPSHOT_BEGIN, 1, 0, &body)
    }

    fn snapshots(&self) -> Vec<Vec<Bytes>> {
        let end = |nth: u32| frames::snapshot_part(frames::SNAPSHOT_END, 1, nth, &[]);
        let (from, to) = (self.hello.from, self.hello.to);
        vec![
            vec![end(0)],
            vec![self.snapshot_begin(&[], &[]), end(1)],
            vec![self.snapshot_begin(&[from, to], &[to]), end(1)],
            vec![self.snapshot_begin(&[from, from], &[]), end(1)],
        ]
    }

    /// All that once ended a member, or kept it from ever having a leader again.
    fn forged(&self) -> Vec<Vec<Bytes>> {
        let alone = [self.append_beyond_the_log(), self.commit_beyond_the_log()];
        let terms = self.impossible_terms();
        alone.into_iter().chain(terms).map(|frame| vec![frame]).chain(self.snapshots()).collect()
    }
}

/// Sends them in one envelope, as that peer, and waits until they were read or the connection was closed.
fn send(peer_port: u16, hello: &Hello, frames: &[Bytes]) {
    let mut connection = Connection::open(SocketAddr::from(([127, 0, 0, 1], peer_port))).unwrap();
    assert!(connection.greet(hello).unwrap(), "the member takes this side for its peer");
    if connection.send(frames).is_ok() {
        // Either is right: the frames were dropped, or the connection was closed for them.
        let _ = connection.wait_until_read();
    }
}

fn write(member: &Member, key: String) {
    until("it takes a write", || {
        block_on(async { member.etcd().await.put(put(key.clone(), "v")).await.ok() })
    });
}

fn term(member: &Member) -> u64 {
    until("it says where it stands", || block_on(async { member.etcd().await.status().await.ok() })).raft_term
}

#[test]
fn frames_that_cannot_be_right_end_no_member_and_leave_no_trace() {
    let plans = Plan::cluster(3);
    let mut members: Vec<Member> = plans.iter().map(Plan::start).collect();
    members.iter().for_each(Member::wait_ready);
    write(&members[0], "kept".to_owned());
    for (target, plan) in plans.iter().enumerate() {
        let liar = (target + 1) % 3;
        let n_forged = Facts::of(&members, liar, target).forged().len();
        for nth in 0..n_forged {
            let facts = Facts::of(&members, liar, target);
            send(plan.peer_port, &facts.hello, &facts.forged()[nth]);
            assert!(members.iter_mut().all(Member::is_running), "frame {nth} ended member {target}");
        }
        members.iter().for_each(|member| write(member, format!("after-{target}")));
    }
    assert!(members.iter().map(term).all(|term| term < TERM_MAX));
    let refused = |member: &Member| member.metric(r#"althing_peer_frames_refused_total{reason="term-jump"}"#);
    assert!(members.iter().all(|member| refused(member) > 0.0), "they are counted");

    members.iter_mut().for_each(Member::kill);
    let members: Vec<Member> = plans.iter().map(Plan::start).collect();
    for (nth, member) in members.iter().enumerate() {
        write(member, format!("again-{nth}"));
        let found = block_on(async { member.etcd().await.range(get("kept")).await.unwrap().count });
        assert_eq!(found, 1);
    }
    assert!(members.iter().map(term).all(|term| term < TERM_MAX));
}

#[test]
fn members_live_through_some_thousand_lies_and_keep_what_they_acknowledged() {
    let limit = Limit { frames: FRAMES, time: TIME };
    let report = malicious_peer::run(Path::new(env!("CARGO_BIN_EXE_althing")), 1, limit, |_| {});
    let report = report.unwrap_or_else(|trouble| panic!("{}", trouble.0));
    assert!(report.counts.frames > 0 && report.refused_by_members > 0, "{report:?}");
}
