//! The seeded world: hosts, the network between them, clients, and a nemesis.
//! It steps real members event by event in true time; whatever happens follows from the seed alone, and a
//! rolling hash of the events proves it. See `run` for what is checked.

use crate::auth_users::AuthUsers;
use crate::clients::Clients;
use crate::counts::WorldCounts;
use crate::crash_points::{self, CrashPoints, Point};
use crate::document_writers::DocumentWriters;
use crate::event_queue::EventQueue;
use crate::host::{Clock, Host, Process};
use crate::lease_holders::{LeaseHolders, SideRequest};
use crate::lock_clients::{Job, LockClients};
use crate::lost_disks::Loss;
use crate::nemesis::ProcessEnd;
use crate::network::Network;
use crate::operators::Operators;
use crate::oracle::{Checker, Oracle, Violation};
use crate::real_time::RealTimeFacts;
use crate::rounds::CompactionRounds;
use crate::run::Kind;
use crate::scenario::Bias;
use crate::sessions::{self, Sessions};
use crate::settings::Settings;
use crate::truth::Truth;
use crate::watchers::Watchers;
use base::rng::mix;
use base::{Code, Index, LeaseId, NodeId, ReplyToken, Rng};
use bytes::Bytes;
use coord::Members;
use coord::reply::Reply;
use coord::watch::StreamId;
use disk::SimDisk;
use engine::LogFile;
use node::lock_waits::WaitOutcome;
use node::member::config_of;
use node::{ClientWork, Consensus, ConsensusInput, ConsensusOutput, Frame, WaitId, apply};
use raft::RaftEvent;
use std::sync::Arc;

pub struct World {
    pub events: EventQueue<Event>,
    pub rng: Rng,
    pub hosts: Vec<Host>,
    pub network: Network,
    pub clients: Clients,
    pub watchers: Watchers,
    pub oracle: Oracle,
    pub truth: Truth,
    pub lease_holders: LeaseHolders,
    pub lock_clients: LockClients,
    pub sessions: Sessions,
    pub real_time: RealTimeFacts,
    pub rounds: CompactionRounds,
    pub crash_points: CrashPoints,
    pub operators: Operators,
    pub document_writers: DocumentWriters,
    pub auth_users: AuthUsers,
    /// What a judge found where it could not say so at once.
    pub broken: Option<Violation>,
    pub settings: Settings,
    pub counts: WorldCounts,
    pub trace: u64,
    /// Faults have stopped for good.
    pub calm: bool,
    /// Since then nothing was broken, mended, started or elected.
    pub quiet_since: u64,
}

/// Everything that can happen. Those with a `life` happen to one life of a process only.
#[derive(Debug)]
pub enum Event {
    Tick { host: usize, pid: u32 },
    Deliver { from: usize, to: usize, bytes: Bytes },
    Write { host: usize, pid: u32 },
    Synced { host: usize, pid: u32 },
    ApplyTurn { host: usize, pid: u32 },
    Flush { host: usize, pid: u32 },
    Report { host: usize, pid: u32, input: ConsensusInput },
    Ask { client: usize },
    LeaseHolder { lease_holder: usize },
    SideRequest { host: usize, pid: u32, side_request: SideRequest, work: ClientWork },
    Arrive { host: usize, pid: u32, operation: usize },
    LockStep { lock_client: usize, turn: u64 },
    Renew { lock_client: usize, lease: LeaseId },
    Job { host: usize, pid: u32, job: Job },
    News { host: usize, pid: u32, id: WaitId, news: WaitOutcome },
    Told { host: usize, pid: u32, token: ReplyToken, result: Box<Result<Reply, Code>> },
    Hold { host: usize, pid: u32, hold: apply::HoldId },
    Piece { host: usize, pid: u32, hold: apply::HoldId },
    GiveUp { operation: usize, attempt: u32 },
    Retry { operation: usize },
    Session { client: usize },
    Watch { watcher: usize },
    Consume { watcher: usize, stream: StreamId },
    Whim { watcher: usize },
    Nemesis,
    Operate,
    DocumentWriter,
    Administer,
    AuthUser { auth_user: usize },
    Retire { host: usize },
    Restart { host: usize },
    Resume { host: usize },
    SpaceReturns { host: usize },
    Heal,
    Part { side: u64 },
    Ambush { lost: usize, behind: u64, disks: u64, loss: Loss },
    Blackout,
    Strike { host: usize },
    PowerCut { host: usize },
}

pub type Checked = Result<(), Violation>;

impl World {
    pub fn new(seed: u64, bias: Bias, kind: Kind) -> World {
        let mut rng = Rng::new(seed);
        let mut settings = Settings::draw(&mut rng, bias, kind);
        settings.draw_compaction(&mut Rng::new(mix(!seed)));
        let hosts = (0..settings.members).map(|number| new_host(number, &mut rng)).collect();
        let network = Network::new(&mut rng, settings.members);
        let clients = Clients::new(settings.clients);
        let watchers = Watchers::new(settings.watchers);
        let lock_clients = LockClients::new(&mut Rng::new(mix(seed)), settings.lock_clients);
        let mut world = World {
            events: EventQueue::new(),
            rng,
            hosts,
            network,
            clients,
            watchers,
            oracle: Oracle::default(),
            truth: Truth::new(),
            lease_holders: LeaseHolders::default(),
            lock_clients,
            sessions: Sessions::default(),
            real_time: RealTimeFacts::default(),
            rounds: CompactionRounds::default(),
            crash_points: CrashPoints::default(),
            operators: Operators::default(),
            document_writers: DocumentWriters::default(),
            auth_users: AuthUsers::new(settings.auth_users),
            broken: None,
            settings,
            counts: WorldCounts::default(),
            trace: mix(seed),
            calm: false,
            quiet_since: 0,
        };
        for host in 0..world.hosts.len() {
            let delay = world.rng.between(0, 50_000);
            world.events.after(delay, Event::Restart { host });
        }
        for client in 0..world.settings.clients {
            let delay = world.rng.between(500_000, 2_000_000);
            world.events.after(delay, Event::Ask { client });
        }
        for client in (0..world.settings.clients).filter(|client| sessions::is_careful(*client)) {
            let delay = world.rng.between(300_000, 1_500_000);
            world.events.after(delay, Event::Session { client });
        }
        for watcher in 0..world.settings.watchers {
            let delay = world.rng.between(500_000, 5_000_000);
            world.events.after(delay, Event::Watch { watcher });
            world.events.after(delay, Event::Whim { watcher });
        }
        for lease_holder in 0..world.settings.lease_holders {
            let delay = world.rng.between(500_000, 2_000_000);
            world.events.after(delay, Event::LeaseHolder { lease_holder });
        }
        for lock_client in 0..world.lock_clients.count() {
            let delay = world.rng.between(500_000, 2_000_000);
            world.events.after(delay, Event::LockStep { lock_client, turn: 0 });
        }
        world.start_auth_users();
        world.events.after(3_000_000, Event::Nemesis);
        world.events.after(3_500_000, Event::Operate);
        world.events.after(3_600_000, Event::DocumentWriter);
        world
    }

    /// Lets everything happen that happens until then.
    pub fn run_until(&mut self, until: u64) -> Checked {
        while let Some(event) = self.events.next(until) {
            self.counts.events += 1;
            self.happen(event)?;
            self.broken.take().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Checked {
        self.trace = mix(self.trace ^ mix(self.events.now()) ^ event.mark());
        if let Some((host, pid)) = event.process() {
            if self.hosts[host].pid != pid || self.hosts[host].process.is_none() {
                return Ok(());
            }
            if self.hosts[host].paused {
                // A stopped process finds everything when it goes on; until then it is asked again.
                self.events.after(20_000, event);
                return Ok(());
            }
        }
        match event {
            Event::Tick { host, pid } => self.tick(host, pid),
            Event::Deliver { from, to, bytes } => self.deliver(from, to, bytes),
            Event::Write { host, .. } => self.write(host),
            Event::Synced { host, .. } => self.synced(host),
            Event::ApplyTurn { host, .. } => self.apply_turn(host),
            Event::Flush { host, .. } => self.flush(host),
            Event::Report { host, input, .. } => self.drive(host, input),
            Event::Ask { client } => self.ask(client),
            Event::LeaseHolder { lease_holder } => self.lease_holder(lease_holder),
            Event::SideRequest { host, side_request, work, .. } => {
                self.side_request(host, side_request, work)
            }
            Event::Arrive { host, operation, .. } => self.arrive(host, operation),
            Event::LockStep { lock_client, turn } => self.lock_step(lock_client, turn),
            Event::Renew { lock_client, lease } => self.renew(lock_client, lease),
            Event::Job { host, job, .. } => self.take_job(host, job),
            Event::News { host, id, news, .. } => self.lock_news(host, id, news),
            Event::Told { host, token, result, .. } => self.answer_lock_client(host, token, *result),
            Event::Hold { host, hold, .. } => self.hold(host, hold),
            Event::Piece { host, hold, .. } => self.piece(host, hold),
            Event::GiveUp { operation, attempt } => self.give_up(operation, attempt),
            Event::Retry { operation } => self.retry(operation),
            Event::Session { client } => self.keep_session(client),
            Event::Watch { watcher } => self.connect_watcher(watcher),
            Event::Consume { stream, .. } => self.consume(stream),
            Event::Whim { watcher } => self.have_whim(watcher),
            Event::Nemesis => self.nemesis(),
            Event::Operate => self.operate(),
            Event::DocumentWriter => self.write_document(),
            Event::Administer => self.administer(),
            Event::AuthUser { auth_user } => self.auth_user(auth_user),
            Event::Retire { host } => {
                self.retire_when_told(host);
                Ok(())
            }
            Event::Restart { host } => self.start(host),
            Event::Resume { host } => {
                self.hosts[host].paused = false;
                Ok(())
            }
            Event::SpaceReturns { host } => {
                self.hosts[host].disk.set_space(u64::MAX);
                Ok(())
            }
            Event::Heal => {
                self.network.heal();
                Ok(())
            }
            Event::Part { side } => {
                self.part(side);
                Ok(())
            }
            Event::Ambush { lost, behind, disks, loss } => {
                self.ambush(lost, behind, disks, loss);
                Ok(())
            }
            Event::Strike { host } => {
                if !self.calm {
                    self.strike(host, ProcessEnd::Killed);
                }
                Ok(())
            }
            Event::PowerCut { host } => {
                self.lose_power(host);
                Ok(())
            }
            Event::Blackout => {
                if !self.calm {
                    self.strike_all();
                }
                Ok(())
            }
        }
    }

    /// Starts the process of a host from its disk.
    pub fn start(&mut self, host: usize) -> Checked {
        if self.hosts[host].process.is_some() || !self.may_start(host) {
            return Ok(());
        }
        let params = self.settings.member_params(host, &self.hosts);
        let now = self.events.now();
        let machine = &mut self.hosts[host];
        let disk = Arc::new(machine.disk.clone());
        let faults_before = faults_of(&machine.disk);
        let member = match engine::open(disk, &params, machine.clock.at(now)) {
            Ok(member) => member,
            Err(_) if machine.disk.has_lost_power() || faults_of(&machine.disk) > faults_before => {
                if machine.disk.has_lost_power() {
                    machine.disk.crash()
                } else {
                    machine.disk.kill()
                }
                self.counts.disk_errors += 1;
                self.events.after(500_000, Event::Restart { host });
                return Ok(());
            }
            Err(_) if machine.damaged => {
                self.replace_damaged(host);
                self.events.after(500_000, Event::Restart { host });
                return Ok(());
            }
            Err(error) => {
                let what = format!("{} cannot start: {error}", machine.id);
                return Err(Violation { checker: Checker::Restart, what });
            }
        };
        self.quiet_since = now;
        machine.pid += 1;
        machine.paused = false;
        machine.damaged = false;
        let pid = machine.pid;
        self.counts.tails_cut += u64::from(member.recovery.torn.is_some());
        let applied = member.apply.applied().index;
        let hash = member.apply.state_hash();
        machine.process = Some(Process::new(member));
        if applied > Index::ZERO {
            self.oracle.applied(machine.id, applied, hash)?;
        }
        if pid == 1 && host >= self.settings.members {
            self.reach(host, Point::NewMemberStarted);
        }
        self.events.after(1_000, Event::Tick { host, pid });
        self.collect(host, ConsensusOutput::default())
    }

    fn tick(&mut self, host: usize, pid: u32) -> Checked {
        let span = self.hosts[host].clock.true_span(self.settings.tick_us);
        self.events.after(span, Event::Tick { host, pid });
        let millis = (self.local_now(host).0 / 1_000) as i64;
        self.process(host).to_apply.push_back(apply::ApplyInput::TimeOfDay(millis));
        self.hand_to_apply(host, apply::ApplyInput::Tick);
        self.drive(host, ConsensusInput::Tick)
    }

    fn deliver(&mut self, from: usize, to: usize, bytes: Bytes) -> Checked {
        if self.network.is_cut(from, to) || self.hosts[to].process.is_none() {
            return Ok(());
        }
        if self.hosts[to].paused {
            self.events.after(20_000, Event::Deliver { from, to, bytes });
            return Ok(());
        }
        let frame = Frame::decode(bytes).expect("a member sends what a member can read");
        let from = self.hosts[from].id;
        self.drive(to, ConsensusInput::Received { from, frame })
    }

    /// One turn of the consensus thread.
    pub fn drive(&mut self, host: usize, input: ConsensusInput) -> Checked {
        let mut out = ConsensusOutput::default();
        let now = self.local_now(host);
        self.consensus(host).step(now, input, &mut out);
        self.collect(host, out)?;
        self.check_config(host)
    }

    fn collect(&mut self, host: usize, mut out: ConsensusOutput) -> Checked {
        let now = self.local_now(host);
        self.consensus(host).collect(now, &mut out);
        self.perform(host, out)
    }

    fn perform(&mut self, host: usize, out: ConsensusOutput) -> Checked {
        let ConsensusOutput { send, persist, committed, reads, refused, answered, leading, .. } = out;
        let ConsensusOutput { stage, snapshots, released, events, peer_messages, .. } = out;
        let id = self.hosts[host].id;
        for note in events {
            self.note(host, note)?;
        }
        for (to, frame) in send {
            self.send(host, to, frame.encode());
        }
        self.reach_by_entries(host, &persist, &committed);
        for entry in &committed {
            self.oracle.committed(id, entry)?;
            self.truth.committed(entry);
            self.auth_users.committed(self.events.now(), entry);
            self.lease_ends(entry)?;
            if self.lock_clients.count() > 0 {
                self.lock_clients.judge.committed(entry)?;
            }
        }
        if let Some(term) = leading {
            self.hand_to_apply(host, apply::ApplyInput::Leading(term));
        }
        // One entry at a time, so that states are compared at every index.
        for entry in committed {
            self.hand_to_apply(host, apply::ApplyInput::Committed(vec![entry]));
        }
        for batch in reads {
            self.hand_to_apply(host, apply::ApplyInput::Read(batch));
        }
        for (from, message) in peer_messages {
            self.hand_to_apply(host, apply::ApplyInput::PeerMessage { from, message });
        }
        for (token, code) in refused {
            self.answer(host, token, Err(code));
        }
        for (token, reply) in answered {
            self.answer(host, token, Ok(reply));
        }
        let pid = self.hosts[host].pid;
        for stage in stage {
            self.reach_by_stage(host, &stage);
            let staged = self.process(host).member.member_store.stage(stage);
            let Some(staged) = self.unless_disk_error(host, staged) else { return Ok(()) };
            if let Some(staged) = staged {
                let delay = self.rng.between(100, 20_000);
                let input = ConsensusInput::Staged { id: staged.id, at: staged.at, config: staged.config };
                self.events.after(delay, Event::Report { host, pid, input });
            }
        }
        for order in snapshots {
            self.reach(host, Point::SnapshotOrdered);
            self.send_snapshot(host, order);
        }
        if let Some(index) = released {
            let cut = self.process(host).member.member_log.release(index);
            if self.unless_disk_error(host, cut).is_none() {
                return Ok(());
            }
        }
        self.process(host).to_persist.extend(persist);
        self.persist(host)
    }

    fn note(&mut self, host: usize, note: RaftEvent) -> Checked {
        match note {
            RaftEvent::Leadership { term, role: raft::Role::Leader, .. } => {
                let id = self.hosts[host].id;
                self.oracle.leads(term, id)?;
                self.counts.elections += 1;
                self.quiet_since = self.events.now();
            }
            RaftEvent::Installed(_) => self.counts.snapshots += 1,
            RaftEvent::Leadership { .. } | RaftEvent::CaughtUp | RaftEvent::SteppedDown(_) => {}
        }
        Ok(())
    }

    fn send(&mut self, from: usize, to: NodeId, bytes: Bytes) {
        let to = self.host_of(to);
        self.counts.messages += 1;
        for delay in self.network.fate(&mut self.rng).into_iter().flatten() {
            self.events.after(delay, Event::Deliver { from, to, bytes: bytes.clone() });
        }
    }

    fn send_snapshot(&mut self, host: usize, order: node::SnapshotRequest) {
        let to = self.host_of(order.to);
        let peer = order.to;
        let stream = self.process(host).member.member_store.snapshot(order);
        let Some(stream) = self.unless_disk_error(host, stream) else { return };
        let now = self.events.now();
        let mut sent = true;
        let mut last = 0;
        for frame in stream {
            match self.network.stream_fate(&mut self.rng, now, (host, to)) {
                Some(delay) => {
                    last = delay;
                    self.events.after(delay, Event::Deliver { from: host, to, bytes: frame.encode() });
                }
                None => sent = false,
            }
        }
        // A stream that broke may be noticed by the sender or not.
        let ok = sent || self.rng.chance(500_000);
        let pid = self.hosts[host].pid;
        let input = ConsensusInput::SnapshotSent { to: peer, ok };
        self.events.after(last + 1_000, Event::Report { host, pid, input });
    }

    /// Writes what has gathered, if the disk is free. Between installing a snapshot and writing its records
    /// there is time for everything to go wrong.
    fn persist(&mut self, host: usize) -> Checked {
        let process = self.process(host);
        if !process.writing.is_empty() || process.to_persist.is_empty() {
            return Ok(());
        }
        process.writing = std::mem::take(&mut process.to_persist);
        let installs: Vec<_> = process.writing.iter().filter_map(|persist| persist.install).collect();
        if installs.is_empty() {
            return self.write(host);
        }
        for at in installs {
            if !self.install(host, at)? {
                return Ok(());
            }
        }
        let delay = self.rng.between(10, 50_000);
        let pid = self.hosts[host].pid;
        self.events.after(delay, Event::Write { host, pid });
        Ok(())
    }

    /// Written, but durable only when `Synced` happens.
    fn write(&mut self, host: usize) -> Checked {
        let process = self.process(host);
        let written = process.member.member_log.write(&process.writing);
        let installs = process.writing.iter().any(|persist| persist.install.is_some());
        if self.unless_disk_error(host, written).is_some() {
            if installs {
                self.reach(host, Point::InstallWritten);
            }
            let slow = self.events.now() < self.hosts[host].slow_until;
            let delay = self.settings.sync_latency(&mut self.rng, slow);
            let pid = self.hosts[host].pid;
            self.events.after(delay, Event::Synced { host, pid });
        }
        Ok(())
    }

    fn synced(&mut self, host: usize) -> Checked {
        let synced = self.process(host).member.member_log.sync();
        if self.unless_disk_error(host, synced).is_none() {
            return Ok(());
        }
        let written = std::mem::take(&mut self.process(host).writing);
        let seq = written.last().expect("a sync follows a write").seq;
        self.drive(host, ConsensusInput::Persisted(seq))?;
        if self.hosts[host].process.is_some() { self.persist(host) } else { Ok(()) }
    }

    /// Hands something to the apply thread, which takes it when it comes to it.
    pub fn hand_to_apply(&mut self, host: usize, input: apply::ApplyInput) {
        let delay = self.rng.between(10, 2_000);
        let pid = self.hosts[host].pid;
        let process = self.process(host);
        process.to_apply.push_back(input);
        if !process.apply_planned {
            process.apply_planned = true;
            self.events.after(delay, Event::ApplyTurn { host, pid });
        }
    }

    fn apply_turn(&mut self, host: usize) -> Checked {
        let now = self.local_now(host);
        let id = self.hosts[host].id;
        let mut out = apply::ApplyOutput::default();
        let process = self.hosts[host].process.as_mut().expect("the event's life goes on");
        process.apply_planned = false;
        let before = process.applied();
        let floor_before = process.member.apply.compacted();
        for input in std::mem::take(&mut process.to_apply) {
            let member = &mut process.member;
            member.apply.step(now, member.member_store.view(), input, &mut out);
            self.oracle.applied(id, member.apply.applied().index, member.apply.state_hash())?;
        }
        let index = process.applied();
        let floor = process.member.apply.compacted();
        let catching_up = process.member.apply.is_catching_up();
        let pid = self.hosts[host].pid;
        if catching_up {
            self.hand_to_apply(host, apply::ApplyInput::Tick);
        }
        if self.process(host).member.apply.is_diverged() {
            let what = format!("{} fenced itself, and every state was the same", self.hosts[host].id);
            return Err(Violation { checker: Checker::SameState, what });
        }
        self.note_rounds(host, floor, &out)?;
        self.reach_by_turn(host, floor > floor_before, &out);
        self.learn_tokens(host, out.tokens);
        for response in out.watch {
            self.send_to_watcher(response);
        }
        for (token, result) in out.replies {
            self.answer(host, token, result);
        }
        for (id, news) in out.locks {
            self.events.after(1, Event::News { host, pid, id, news });
        }
        let answers = out.answers.into_iter().map(|answer| ConsensusInput::Answered(vec![answer]));
        let peer_messages =
            out.peer_messages.into_iter().map(|(to, message)| ConsensusInput::SendPeerMessage(to, message));
        for input in
            answers.chain(peer_messages).chain(out.proposals.into_iter().map(ConsensusInput::LeaderProposals))
        {
            self.report(host, input);
        }
        for (index, members) in &out.members {
            self.members_changed(*index, members)?;
        }
        let configs = out.members.iter().map(|(index, members)| (*index, config_of(members))).collect();
        if index > before || !out.finished.is_empty() {
            self.report(host, ConsensusInput::Applied { index, finished: out.finished, configs });
        }
        if let Some(flush) = out.flush {
            self.process(host).flush = Some(flush);
            // What is flushed was told before.
            let told = self.process(host).reported_at.saturating_sub(self.events.now());
            let delay = told + self.rng.between(500, 60_000);
            self.events.after(delay, Event::Flush { host, pid });
        }
        Ok(())
    }

    /// Apply tells consensus something. There is one queue between the two, so what is said first is heard first: the
    /// lease clock counts on it when it takes back what it has proposed.
    fn report(&mut self, host: usize, input: ConsensusInput) {
        let now = self.events.now();
        let delay = self.rng.between(10, 1_000);
        let pid = self.hosts[host].pid;
        let process = self.process(host);
        process.reported_at = process.reported_at.max(now + delay);
        let delay = process.reported_at - now;
        self.events.after(delay, Event::Report { host, pid, input });
    }

    fn flush(&mut self, host: usize) -> Checked {
        let Some(flush) = self.process(host).flush.take() else { return Ok(()) };
        let sweeps = crash_points::sweeps(&flush);
        if sweeps {
            self.reach(host, Point::SweepWritten);
        }
        let flushed = self.process(host).member.member_store.flush(&flush);
        if self.unless_disk_error(host, flushed).is_none() {
            return Ok(());
        }
        if sweeps {
            self.reach(host, Point::SweepFlushed);
        }
        let members = self.process(host).member.apply.members().clone();
        if members != self.hosts[host].flushed_members {
            self.hosts[host].flushed_members = members;
            self.reach(host, Point::ChangeFlushed);
        }
        self.counts.flushes += 1;
        self.hand_to_apply(host, apply::ApplyInput::Flushed(flush.number));
        self.drive(host, ConsensusInput::Flushed(flush.at))
    }

    /// Trouble with the disk ends the process; what the disk then holds depends on the trouble.
    pub fn unless_disk_error<T>(&mut self, host: usize, result: Result<T, engine::Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(_) => {
                self.counts.disk_errors += 1;
                self.stop(host, ProcessEnd::DiskError);
                None
            }
        }
    }

    pub fn process(&mut self, host: usize) -> &mut Process {
        self.hosts[host].process.as_mut().expect("only a running process acts")
    }

    fn consensus(&mut self, host: usize) -> &mut Consensus {
        &mut self.process(host).member.consensus
    }

    pub fn local_now(&self, host: usize) -> base::Instant {
        self.hosts[host].clock.at(self.events.now())
    }

    fn host_of(&self, id: NodeId) -> usize {
        self.hosts.iter().position(|host| host.id == id).expect("members know only members")
    }

    /// The host that leads, as far as it knows.
    pub fn leader(&self) -> Option<usize> {
        let leads = |host: &Host| {
            let status = host.process.as_ref()?.member.consensus.status();
            (status.role == raft::Role::Leader).then_some(status.term)
        };
        (0..self.hosts.len())
            .filter(|host| leads(&self.hosts[*host]).is_some())
            .max_by_key(|host| leads(&self.hosts[*host]))
    }
}

/// Faults of the disk that were felt so far.
fn faults_of(disk: &SimDisk) -> u64 {
    let counters = disk.counters();
    counters.syncs_failed + counters.space_refused
}

pub fn new_host(number: usize, rng: &mut Rng) -> Host {
    let parts_per_million = rng.between(0, 100_001) as i64 - 50_000;
    Host {
        // Ids are hashes in the product: neither small nor in a row.
        id: NodeId(mix(number as u64 + 1)),
        disk: SimDisk::new(rng.next_u64()),
        process: None,
        pid: 0,
        paused: false,
        clock: Clock { parts_per_million, ahead: rng.between(0, 10_000_000) },
        slow_until: 0,
        flushed_members: Members::default(),
        disks: 0,
        damaged: false,
        retired: false,
    }
}
