//! Clients: each asks one thing at a time, of any member, and gives up after a while.
//! What they asked and heard becomes the history that the judges read.

use crate::history::{History, ModelRequest, Operation, Outcome};
use crate::host::outcome_of;
use crate::operators::HOSTS_MAX;
use crate::oracle::{Checker, Violation};
use crate::workload::Workload;
use crate::world::{Checked, Event, World};
use base::rng::mix;
use base::{Code, ProposalId, ReplyToken};
use bytes::Bytes;
use coord::reply::{Body, Reply};
use coord::request::Request;
use coord::{Caller, Command, IdempotentCommand};
use node::{ClientWork, ConsensusInput};
use std::time::Duration;

pub struct Clients {
    pub history: History,
    pub workload: Workload,
    /// The operation that each client waits for.
    asking: Vec<Option<usize>>,
    pub stopped: bool,
}

const PATIENCE_US: u64 = 3_000_000;
/// A client that can retry does so long before the member gives up.
const PATIENCE_FOR_AN_ATTEMPT_US: (u64, u64) = (100_000, 1_500_000);
const DEADLINE: Duration = Duration::from_millis(2_500);

impl Clients {
    pub fn new(count: usize) -> Clients {
        // In the end a different client asks each member.
        let asking = vec![None; count.max(HOSTS_MAX)];
        Clients { history: Vec::new(), workload: Workload::new(), asking, stopped: false }
    }

    pub fn is_under_way(&self, operation: usize) -> bool {
        self.asking.contains(&Some(operation))
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
        let host = self.any_host();
        if self.hosts[host].process.is_none() {
            self.events.after(100_000, Event::Ask { client });
            return Ok(());
        }
        let request = self.clients.workload.next(&mut self.rng, self.settings.bias.mix);
        self.ask_host(client, host, request);
        Ok(())
    }

    /// Sends one request and notes it in the history; returns its place there.
    pub fn ask_host(&mut self, client: usize, host: usize, request: Request) -> usize {
        let operation = self.clients.history.len();
        self.clients.history.push(Operation {
            client: client as u64,
            invoked: self.events.now(),
            returned: None,
            request: request.into(),
            outcome: Outcome::Unknown,
        });
        self.clients.asking[client] = Some(operation);
        self.identify(client, operation);
        self.send_operation(host, operation);
        operation
    }

    /// Sends it for the first time, or again.
    pub fn send_operation(&mut self, host: usize, operation: usize) {
        let pid = self.hosts[host].pid;
        self.events.after(100, Event::Arrive { host, pid, operation });
        let patience = match self.sessions.id_of(operation) {
            Some(_) => self.rng.between(PATIENCE_FOR_AN_ATTEMPT_US.0, PATIENCE_FOR_AN_ATTEMPT_US.1),
            None => PATIENCE_US,
        };
        let attempt = self.sessions.attempt_of(operation);
        self.events.after(patience, Event::GiveUp { operation, attempt });
    }

    pub fn arrive(&mut self, host: usize, operation: usize) -> Checked {
        let deadline = self.local_now(host).after(DEADLINE);
        let ModelRequest::Kv(request) = self.clients.history[operation].request.clone() else {
            unreachable!("clients ask about keys")
        };
        let work = if request.is_read_only() {
            ClientWork::Read(request, Caller::Anonymous)
        } else {
            ClientWork::Propose(self.command_of(operation, request))
        };
        let origin = self.hosts[host].id;
        let process = self.process(host);
        process.tokens += 1;
        let token = ReplyToken(process.tokens);
        process.waiting.insert(token, operation);
        let id = ProposalId { origin, boot: process.member.boot, seq: token.0 };
        self.truth.asked(id, operation);
        self.drive(host, ConsensusInput::Request(node::ClientRequest { token, deadline, work }))
    }

    fn command_of(&self, operation: usize, request: Request) -> Bytes {
        let command = Command::from_request(request).expect("what writes is a command");
        let command = match self.sessions.id_of(operation) {
            Some(id) => {
                Command::Idempotent(IdempotentCommand::new(id, command).expect("clients may ask for it"))
            }
            None => command,
        };
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        bytes.into()
    }

    /// A member answers.
    pub fn answer(&mut self, host: usize, token: ReplyToken, result: Result<Reply, Code>) {
        if self.process(host).is_for_lock_client(token) {
            let pid = self.hosts[host].pid;
            return self.events.after(1, Event::Told { host, pid, token, result: Box::new(result) });
        }
        let Some(operation) = self.process(host).waiting.remove(&token) else {
            return self.answer_side_request(host, token, &result);
        };
        let result = match result {
            Ok(Reply { revision, body: Body::Large(range) }) => {
                return self.begin_reading(host, operation, revision, *range);
            }
            result => result,
        };
        let refusal = result.as_ref().err().copied();
        let outcome = self.sessions.outcome_of(operation, outcome_of(result));
        match refusal {
            Some(Code::SessionUnknown | Code::RequestForgotten) => {
                if let Some(id) = self.sessions.id_of(operation) {
                    self.sessions.lost(id.session);
                }
                self.sessions.give_up(operation);
            }
            Some(Code::RequestIdReused) => {
                let what = format!("no id was used twice\n  > {}", self.clients.history[operation]);
                self.broken.get_or_insert(Violation { checker: Checker::Linearizable, what });
            }
            _ => {}
        }
        self.settle(operation, outcome);
    }

    pub fn give_up(&mut self, operation: usize, attempt: u32) -> Checked {
        if self.sessions.attempt_of(operation) == attempt {
            self.settle(operation, Outcome::Unknown);
        }
        Ok(())
    }

    /// Ends an operation for its client, who thinks for a while and asks the next thing; unless it asks again.
    pub fn settle(&mut self, operation: usize, outcome: Outcome) {
        if outcome == Outcome::Unknown && self.try_again(operation) {
            return;
        }
        self.sessions.give_up(operation);
        let now = self.events.now();
        let counter = match &outcome {
            Outcome::Done(_) => &mut self.counts.answered,
            Outcome::Refused(_) => &mut self.counts.refused,
            Outcome::Unknown => &mut self.counts.unknown,
        };
        if let Some(client) = self.clients.settle(operation, now, outcome) {
            *counter += 1;
            self.trace = mix(self.trace ^ operation as u64);
            let think = self.rng.between(1_000, self.settings.think_us);
            self.events.after(think, Event::Ask { client });
        }
    }
}
