//! Clients: each asks one thing at a time, of any member, and gives up after a while.
//! What they asked and heard becomes the history that the judges read.

use crate::history::{History, Operation, Outcome};
use crate::host::outcome_of;
use crate::workload::Workload;
use crate::world::{Checked, Event, World};
use base::rng::mix;
use base::{Code, ProposalId, Token};
use coord::Command;
use coord::reply::{Body, Reply};
use coord::request::Request;
use node::{Input, Work};
use std::time::Duration;

pub struct Clients {
    pub history: History,
    pub workload: Workload,
    /// The operation that each client waits for.
    asking: Vec<Option<usize>>,
    pub stopped: bool,
}

const PATIENCE_US: u64 = 3_000_000;
const DEADLINE: Duration = Duration::from_millis(2_500);

impl Clients {
    pub fn new(count: usize) -> Clients {
        Clients { history: Vec::new(), workload: Workload::new(), asking: vec![None; count], stopped: false }
    }

    fn settle(&mut self, operation: usize, now: u64, outcome: Outcome) -> Option<usize> {
        let client = self.asking.iter().position(|asked| *asked == Some(operation))?;
        self.asking[client] = None;
        if let Outcome::Done(reply) = &outcome {
            self.workload.learn(reply);
        }
        let entry = &mut self.history[operation];
        entry.returned = (outcome != Outcome::Unknown).then_some(now);
        entry.outcome = outcome;
        Some(client)
    }
}

impl World {
    pub fn ask(&mut self, client: usize) -> Checked {
        if self.clients.stopped {
            return Ok(());
        }
        let host = self.rng.between(0, self.hosts.len() as u64) as usize;
        if self.hosts[host].process.is_none() {
            self.agenda.after(100_000, Event::Ask { client });
            return Ok(());
        }
        let request = self.clients.workload.next(&mut self.rng);
        self.ask_host(client, host, request);
        Ok(())
    }

    /// Sends one request and notes it in the history; returns its place there.
    pub fn ask_host(&mut self, client: usize, host: usize, request: Request) -> usize {
        let operation = self.clients.history.len();
        self.clients.history.push(Operation {
            client: client as u64,
            invoked: self.agenda.now(),
            returned: None,
            request,
            outcome: Outcome::Unknown,
        });
        self.clients.asking[client] = Some(operation);
        let life = self.hosts[host].life;
        self.agenda.after(100, Event::Arrive { host, life, operation });
        self.agenda.after(PATIENCE_US, Event::GiveUp { operation });
        operation
    }

    pub fn arrive(&mut self, host: usize, operation: usize) -> Checked {
        let deadline = self.local_now(host).after(DEADLINE);
        let request = self.clients.history[operation].request.clone();
        let work = if request.is_read_only() {
            Work::Read(request)
        } else {
            let mut bytes = Vec::new();
            Command::from_request(request).expect("what writes is a command").encode(&mut bytes);
            Work::Propose(bytes.into())
        };
        let origin = self.hosts[host].id;
        let process = self.process(host);
        process.tokens += 1;
        let token = Token(process.tokens);
        process.waiting.insert(token, operation);
        let id = ProposalId { origin, boot: process.member.boot, seq: token.0 };
        self.truth.asked(id, operation);
        self.drive(host, Input::Request(node::Request { token, deadline, work }))
    }

    /// A member answers.
    pub fn answer(&mut self, host: usize, token: Token, result: Result<Reply, Code>) {
        match self.process(host).waiting.remove(&token) {
            Some(operation) => match result {
                Ok(Reply { revision, body: Body::Large(range) }) => {
                    self.begin_reading(host, operation, revision, *range);
                }
                result => self.settle(operation, outcome_of(result)),
            },
            None => self.tell_tenant(host, token, &result),
        }
    }

    pub fn give_up(&mut self, operation: usize) -> Checked {
        self.settle(operation, Outcome::Unknown);
        Ok(())
    }

    /// Ends an operation for its client, who thinks for a while and asks the next thing.
    pub fn settle(&mut self, operation: usize, outcome: Outcome) {
        let now = self.agenda.now();
        let counter = match &outcome {
            Outcome::Done(_) => &mut self.tally.answered,
            Outcome::Refused(_) => &mut self.tally.refused,
            Outcome::Unknown => &mut self.tally.unknown,
        };
        if let Some(client) = self.clients.settle(operation, now, outcome) {
            *counter += 1;
            self.trace = mix(self.trace ^ operation as u64);
            let think = self.rng.between(1_000, self.settings.think_us);
            self.agenda.after(think, Event::Ask { client });
        }
    }
}
