//! The seeded world: hosts, the network between them, clients, and a nemesis.
//! It steps real members event by event in true time; whatever happens follows from the seed alone, and a
//! rolling hash of the events proves it. See `run` for what is checked.

use crate::agenda::Agenda;
use crate::clerks::Clerks;
use crate::clients::Clients;
use crate::contenders::{Contenders, Job};
use crate::crash_points::{self, CrashPoints, Point};
use crate::guests::Guests;
use crate::host::{Clock, Host, Process};
use crate::lost_disks::Loss;
use crate::nemesis::Death;
use crate::network::Network;
use crate::operators::Operators;
use crate::oracle::{Checker, Oracle, Violation};
use crate::registers::Registers;
use crate::rounds::Rounds;
use crate::run::Kind;
use crate::scenario::Bias;
use crate::sessions::{self, Sessions};
use crate::settings::Settings;
use crate::tally::Tally;
use crate::tenants::{Errand, Tenants};
use crate::truth::Truth;
use crate::watchers::Watchers;
use base::rng::mix;
use base::{Code, Index, LeaseId, NodeId, Rng, Token};
use bytes::Bytes;
use coord::Members;
use coord::reply::Reply;
use coord::watch::StreamId;
use disk::SimDisk;
use node::apply::HoldId;
use node::member::config_of;
use node::waits::News;
use node::{Consensus, Frame, Input, Output, WaitId, Work, apply};
use raft::Note;
use std::sync::Arc;

pub struct World {
    pub agenda: Agenda<Event>,
    pub rng: Rng,
    pub hosts: Vec<Host>,
    pub network: Network,
    pub clients: Clients,
    pub watchers: Watchers,
    pub oracle: Oracle,
    pub truth: Truth,
    pub tenants: Tenants,
    pub contenders: Contenders,
    pub sessions: Sessions,
    pub registers: Registers,
    pub rounds: Rounds,
    pub crash_points: CrashPoints,
    pub operators: Operators,
    pub clerks: Clerks,
    pub guests: Guests,
    /// What a judge found where it could not say so at once.
    pub broken: Option<Violation>,
    pub settings: Settings,
    pub tally: Tally,
    pub trace: u64,
    /// Faults have stopped for good.
    pub calm: bool,
    /// Since then nothing was broken, mended, started or elected.
    pub quiet_since: u64,
}

/// Everything that can happen. Those with a `life` happen to one life of a process only.
#[derive(Debug)]
pub enum Event {
    Tick { host: usize, life: u32 },
    Deliver { from: usize, to: usize, bytes: Bytes },
    Write { host: usize, life: u32 },
    Synced { host: usize, life: u32 },
    ApplyTurn { host: usize, life: u32 },
    Flush { host: usize, life: u32 },
    Report { host: usize, life: u32, input: Input },
    Ask { client: usize },
    Tenant { tenant: usize },
    Errand { host: usize, life: u32, errand: Errand, work: Work },
    Arrive { host: usize, life: u32, operation: usize },
    Contend { contender: usize, turn: u64 },
    Renew { contender: usize, lease: LeaseId },
    Job { host: usize, life: u32, job: Job },
    News { host: usize, life: u32, id: WaitId, news: News },
    Told { host: usize, life: u32, token: Token, result: Box<Result<Reply, Code>> },
    Hold { host: usize, life: u32, hold: HoldId },
    Piece { host: usize, life: u32, hold: HoldId },
    GiveUp { operation: usize, attempt: u32 },
    Retry { operation: usize },
    Session { client: usize },
    Watch { watcher: usize },
    Consume { watcher: usize, stream: StreamId },
    Whim { watcher: usize },
    Nemesis,
    Operate,
    Clerk,
    Administer,
    Guest { guest: usize },
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
        let contenders = Contenders::new(&mut Rng::new(mix(seed)), settings.contenders);
        let mut world = World {
            agenda: Agenda::new(),
            rng,
            hosts,
            network,
            clients,
            watchers,
            oracle: Oracle::default(),
            truth: Truth::new(),
            tenants: Tenants::default(),
            contenders,
            sessions: Sessions::default(),
            registers: Registers::default(),
            rounds: Rounds::default(),
            crash_points: CrashPoints::default(),
            operators: Operators::default(),
            clerks: Clerks::default(),
            guests: Guests::new(settings.guests),
            broken: None,
            settings,
            tally: Tally::default(),
            trace: mix(seed),
            calm: false,
            quiet_since: 0,
        };
        for host in 0..world.hosts.len() {
            let delay = world.rng.between(0, 50_000);
            world.agenda.after(delay, Event::Restart { host });
        }
        for client in 0..world.settings.clients {
            let delay = world.rng.between(500_000, 2_000_000);
            world.agenda.after(delay, Event::Ask { client });
        }
        for client in (0..world.settings.clients).filter(|client| sessions::is_careful(*client)) {
            let delay = world.rng.between(300_000, 1_500_000);
            world.agenda.after(delay, Event::Session { client });
        }
        for watcher in 0..world.settings.watchers {
            let delay = world.rng.between(500_000, 5_000_000);
            world.agenda.after(delay, Event::Watch { watcher });
            world.agenda.after(delay, Event::Whim { watcher });
        }
        for tenant in 0..world.settings.tenants {
            let delay = world.rng.between(500_000, 2_000_000);
            world.agenda.after(delay, Event::Tenant { tenant });
        }
        for contender in 0..world.contenders.count() {
            let delay = world.rng.between(500_000, 2_000_000);
            world.agenda.after(delay, Event::Contend { contender, turn: 0 });
        }
        world.invite_guests();
        world.agenda.after(3_000_000, Event::Nemesis);
        world.agenda.after(3_500_000, Event::Operate);
        world.agenda.after(3_600_000, Event::Clerk);
        world
    }

    /// Lets everything happen that happens until then.
    pub fn run_until(&mut self, until: u64) -> Checked {
        while let Some(event) = self.agenda.next(until) {
            self.tally.events += 1;
            self.happen(event)?;
            self.broken.take().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Checked {
        self.trace = mix(self.trace ^ mix(self.agenda.now()) ^ event.mark());
        if let Some((host, life)) = event.process() {
            if self.hosts[host].life != life || self.hosts[host].process.is_none() {
                return Ok(());
            }
            if self.hosts[host].paused {
                // A stopped process finds everything when it goes on; until then it is asked again.
                self.agenda.after(20_000, event);
                return Ok(());
            }
        }
        match event {
            Event::Tick { host, life } => self.tick(host, life),
            Event::Deliver { from, to, bytes } => self.deliver(from, to, bytes),
            Event::Write { host, .. } => self.write(host),
            Event::Synced { host, .. } => self.synced(host),
            Event::ApplyTurn { host, .. } => self.apply_turn(host),
            Event::Flush { host, .. } => self.flush(host),
            Event::Report { host, input, .. } => self.drive(host, input),
            Event::Ask { client } => self.ask(client),
            Event::Tenant { tenant } => self.tenant(tenant),
            Event::Errand { host, errand, work, .. } => self.errand(host, errand, work),
            Event::Arrive { host, operation, .. } => self.arrive(host, operation),
            Event::Contend { contender, turn } => self.contend(contender, turn),
            Event::Renew { contender, lease } => self.renew(contender, lease),
            Event::Job { host, job, .. } => self.take_job(host, job),
            Event::News { host, id, news, .. } => self.lock_news(host, id, news),
            Event::Told { host, token, result, .. } => self.tell_contender(host, token, *result),
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
            Event::Clerk => self.write_document(),
            Event::Administer => self.administer(),
            Event::Guest { guest } => self.guest(guest),
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
                    self.strike(host, Death::Killed);
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
        let now = self.agenda.now();
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
                self.tally.troubles += 1;
                self.agenda.after(500_000, Event::Restart { host });
                return Ok(());
            }
            Err(_) if machine.damaged => {
                self.replace_damaged(host);
                self.agenda.after(500_000, Event::Restart { host });
                return Ok(());
            }
            Err(error) => {
                let what = format!("{} cannot start: {error}", machine.id);
                return Err(Violation { checker: Checker::Restart, what });
            }
        };
        self.quiet_since = now;
        machine.life += 1;
        machine.paused = false;
        machine.damaged = false;
        let life = machine.life;
        self.tally.tails_cut += u64::from(member.recovery.torn.is_some());
        let applied = member.apply.applied().index;
        let hash = member.apply.state_hash();
        machine.process = Some(Process::new(member));
        if applied > Index::ZERO {
            self.oracle.applied(machine.id, applied, hash)?;
        }
        if life == 1 && host >= self.settings.members {
            self.reach(host, Point::NewMemberStarted);
        }
        self.agenda.after(1_000, Event::Tick { host, life });
        self.collect(host, Output::default())
    }

    fn tick(&mut self, host: usize, life: u32) -> Checked {
        let span = self.hosts[host].clock.true_span(self.settings.tick_us);
        self.agenda.after(span, Event::Tick { host, life });
        let millis = (self.local_now(host).0 / 1_000) as i64;
        self.process(host).to_apply.push_back(apply::Input::TimeOfDay(millis));
        self.hand_to_apply(host, apply::Input::Tick);
        self.drive(host, Input::Tick)
    }

    fn deliver(&mut self, from: usize, to: usize, bytes: Bytes) -> Checked {
        if self.network.is_cut(from, to) || self.hosts[to].process.is_none() {
            return Ok(());
        }
        if self.hosts[to].paused {
            self.agenda.after(20_000, Event::Deliver { from, to, bytes });
            return Ok(());
        }
        let frame = Frame::decode(bytes).expect("a member sends what a member can read");
        let from = self.hosts[from].id;
        self.drive(to, Input::Received { from, frame })
    }

    /// One turn of the consensus thread.
    pub fn drive(&mut self, host: usize, input: Input) -> Checked {
        let mut out = Output::default();
        let now = self.local_now(host);
        self.consensus(host).step(now, input, &mut out);
        self.collect(host, out)?;
        self.check_config(host)
    }

    fn collect(&mut self, host: usize, mut out: Output) -> Checked {
        let now = self.local_now(host);
        self.consensus(host).collect(now, &mut out);
        self.perform(host, out)
    }

    fn perform(&mut self, host: usize, out: Output) -> Checked {
        let Output { send, persist, committed, reads, refused, answered, leading, .. } = out;
        let Output { stage, snapshots, released, notes, words, .. } = out;
        let id = self.hosts[host].id;
        for note in notes {
            self.note(host, note)?;
        }
        for (to, frame) in send {
            self.send(host, to, frame.encode());
        }
        self.reach_by_entries(host, &persist, &committed);
        for entry in &committed {
            self.oracle.committed(id, entry)?;
            self.truth.committed(entry);
            self.guests.committed(self.agenda.now(), entry);
            self.lease_ends(entry)?;
            if self.contenders.count() > 0 {
                self.contenders.judge.committed(entry)?;
            }
        }
        if let Some(term) = leading {
            self.hand_to_apply(host, apply::Input::Leading(term));
        }
        // One entry at a time, so that states are compared at every index.
        for entry in committed {
            self.hand_to_apply(host, apply::Input::Committed(vec![entry]));
        }
        for batch in reads {
            self.hand_to_apply(host, apply::Input::Read(batch));
        }
        for (from, word) in words {
            self.hand_to_apply(host, apply::Input::Word { from, word });
        }
        for (token, code) in refused {
            self.answer(host, token, Err(code));
        }
        for (token, reply) in answered {
            self.answer(host, token, Ok(reply));
        }
        let life = self.hosts[host].life;
        for stage in stage {
            self.reach_by_stage(host, &stage);
            let staged = self.process(host).member.vault.stage(stage);
            let Some(staged) = self.unless_trouble(host, staged) else { return Ok(()) };
            if let Some(staged) = staged {
                let delay = self.rng.between(100, 20_000);
                let input = Input::Staged { id: staged.id, at: staged.at, config: staged.config };
                self.agenda.after(delay, Event::Report { host, life, input });
            }
        }
        for order in snapshots {
            self.reach(host, Point::SnapshotOrdered);
            self.send_snapshot(host, order);
        }
        if let Some(index) = released {
            let cut = self.process(host).member.journal.release(index);
            if self.unless_trouble(host, cut).is_none() {
                return Ok(());
            }
        }
        self.process(host).to_persist.extend(persist);
        self.persist(host)
    }

    fn note(&mut self, host: usize, note: Note) -> Checked {
        match note {
            Note::Leadership { term, role: raft::Role::Leader, .. } => {
                let id = self.hosts[host].id;
                self.oracle.leads(term, id)?;
                self.tally.elections += 1;
                self.quiet_since = self.agenda.now();
            }
            Note::Installed(_) => self.tally.snapshots += 1,
            Note::Leadership { .. } | Note::CaughtUp | Note::SteppedDown(_) => {}
        }
        Ok(())
    }

    fn send(&mut self, from: usize, to: NodeId, bytes: Bytes) {
        let to = self.host_of(to);
        self.tally.messages += 1;
        for delay in self.network.fate(&mut self.rng).into_iter().flatten() {
            self.agenda.after(delay, Event::Deliver { from, to, bytes: bytes.clone() });
        }
    }

    fn send_snapshot(&mut self, host: usize, order: node::SnapshotOrder) {
        let to = self.host_of(order.to);
        let peer = order.to;
        let stream = self.process(host).member.vault.snapshot(order);
        let Some(stream) = self.unless_trouble(host, stream) else { return };
        let now = self.agenda.now();
        let mut sent = true;
        let mut last = 0;
        for frame in stream {
            match self.network.stream_fate(&mut self.rng, now, (host, to)) {
                Some(delay) => {
                    last = delay;
                    self.agenda.after(delay, Event::Deliver { from: host, to, bytes: frame.encode() });
                }
                None => sent = false,
            }
        }
        // A stream that broke may be noticed by the sender or not.
        let ok = sent || self.rng.chance(500_000);
        let life = self.hosts[host].life;
        let input = Input::SnapshotSent { to: peer, ok };
        self.agenda.after(last + 1_000, Event::Report { host, life, input });
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
        let life = self.hosts[host].life;
        self.agenda.after(delay, Event::Write { host, life });
        Ok(())
    }

    /// Written, but durable only when `Synced` happens.
    fn write(&mut self, host: usize) -> Checked {
        let process = self.process(host);
        let written = process.member.journal.write(&process.writing);
        let installs = process.writing.iter().any(|persist| persist.install.is_some());
        if self.unless_trouble(host, written).is_some() {
            if installs {
                self.reach(host, Point::InstallWritten);
            }
            let slow = self.agenda.now() < self.hosts[host].slow_until;
            let delay = self.settings.sync_latency(&mut self.rng, slow);
            let life = self.hosts[host].life;
            self.agenda.after(delay, Event::Synced { host, life });
        }
        Ok(())
    }

    fn synced(&mut self, host: usize) -> Checked {
        let synced = self.process(host).member.journal.sync();
        if self.unless_trouble(host, synced).is_none() {
            return Ok(());
        }
        let written = std::mem::take(&mut self.process(host).writing);
        let seq = written.last().expect("a sync follows a write").seq;
        self.drive(host, Input::Persisted(seq))?;
        if self.hosts[host].process.is_some() { self.persist(host) } else { Ok(()) }
    }

    /// Hands something to the apply thread, which takes it when it comes to it.
    pub fn hand_to_apply(&mut self, host: usize, input: apply::Input) {
        let delay = self.rng.between(10, 2_000);
        let life = self.hosts[host].life;
        let process = self.process(host);
        process.to_apply.push_back(input);
        if !process.apply_planned {
            process.apply_planned = true;
            self.agenda.after(delay, Event::ApplyTurn { host, life });
        }
    }

    fn apply_turn(&mut self, host: usize) -> Checked {
        let now = self.local_now(host);
        let id = self.hosts[host].id;
        let mut out = apply::Output::default();
        let process = self.hosts[host].process.as_mut().expect("the event's life goes on");
        process.apply_planned = false;
        let before = process.applied();
        let floor_before = process.member.apply.compacted();
        for input in std::mem::take(&mut process.to_apply) {
            let member = &mut process.member;
            member.apply.step(now, member.vault.view(), input, &mut out);
            self.oracle.applied(id, member.apply.applied().index, member.apply.state_hash())?;
        }
        let index = process.applied();
        let floor = process.member.apply.compacted();
        let catching_up = process.member.apply.is_catching_up();
        let life = self.hosts[host].life;
        if catching_up {
            self.hand_to_apply(host, apply::Input::Tick);
        }
        if self.process(host).member.apply.is_astray() {
            let what = format!("{} fenced itself, and every state was the same", self.hosts[host].id);
            return Err(Violation { checker: Checker::SameState, what });
        }
        self.note_rounds(host, floor, &out)?;
        self.reach_by_turn(host, floor > floor_before, &out);
        self.hear_of_tokens(host, out.tokens);
        for response in out.watch {
            self.send_to_watcher(response);
        }
        for (token, result) in out.replies {
            self.answer(host, token, result);
        }
        for (id, news) in out.locks {
            self.agenda.after(1, Event::News { host, life, id, news });
        }
        let answers = out.answers.into_iter().map(|(asker, answer)| Input::Answered(asker, answer));
        let words = out.words.into_iter().map(|(to, word)| Input::Say(to, word));
        for input in answers.chain(words).chain(out.proposals.into_iter().map(Input::Lessor)) {
            self.report(host, input);
        }
        for (index, members) in &out.members {
            self.members_changed(*index, members)?;
        }
        let configs = out.members.iter().map(|(index, members)| (*index, config_of(members))).collect();
        if index > before || !out.finished.is_empty() {
            self.report(host, Input::Applied { index, finished: out.finished, configs });
        }
        if let Some(flush) = out.flush {
            self.process(host).flush = Some(flush);
            // What is flushed was told before.
            let told = self.process(host).reported_at.saturating_sub(self.agenda.now());
            let delay = told + self.rng.between(500, 60_000);
            self.agenda.after(delay, Event::Flush { host, life });
        }
        Ok(())
    }

    /// Apply tells consensus something. There is one queue between the two, so what is said first is heard first: the
    /// lessor counts on it when it takes back what it has proposed.
    fn report(&mut self, host: usize, input: Input) {
        let now = self.agenda.now();
        let delay = self.rng.between(10, 1_000);
        let life = self.hosts[host].life;
        let process = self.process(host);
        process.reported_at = process.reported_at.max(now + delay);
        let delay = process.reported_at - now;
        self.agenda.after(delay, Event::Report { host, life, input });
    }

    fn flush(&mut self, host: usize) -> Checked {
        let Some(flush) = self.process(host).flush.take() else { return Ok(()) };
        let sweeps = crash_points::sweeps(&flush);
        if sweeps {
            self.reach(host, Point::SweepWritten);
        }
        let flushed = self.process(host).member.vault.flush(&flush);
        if self.unless_trouble(host, flushed).is_none() {
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
        self.tally.flushes += 1;
        self.hand_to_apply(host, apply::Input::Flushed(flush.number));
        self.drive(host, Input::Flushed(flush.at))
    }

    /// Trouble with the disk ends the process; what the disk then holds depends on the trouble.
    pub fn unless_trouble<T>(&mut self, host: usize, result: Result<T, engine::Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(_) => {
                self.tally.troubles += 1;
                self.stop(host, Death::Trouble);
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
        self.hosts[host].clock.at(self.agenda.now())
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
        life: 0,
        paused: false,
        clock: Clock { parts_per_million, ahead: rng.between(0, 10_000_000) },
        slow_until: 0,
        flushed_members: Members::default(),
        disks: 0,
        damaged: false,
        retired: false,
    }
}
