//! Counts of what was executed, for metrics: operations as etcd counts them, and commands by kind and outcome.
//! Commands and replies go in, numbers come out. Nothing is decided by them.

use base::Code;
use coord::Command;
use coord::reply::{Body, Reply};

/// The kinds of commands by which the time of applying is told; names are etcd's.
pub const COMMAND_KINDS: [&str; 9] = [
    "Put",
    "DeleteRange",
    "Txn",
    "Compaction",
    "LeaseGrant",
    "LeaseRevoke",
    "LeaseCheckpoint",
    "Alarm",
    "Other",
];

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// Alone, in transactions, and by their compares.
    pub ranges: u64,
    pub puts: u64,
    pub deletes: u64,
    /// Transactions of more than one operation.
    pub txns: u64,
    /// Keys and values of puts.
    pub put_bytes: u64,
    pub leases_granted: u64,
    pub leases_revoked: u64,
    /// Writes and checks with a token that a later holder of the lock has overtaken.
    pub fence_refusals: u64,
    /// Commands by kind, refused and carried out.
    pub commands: [[u64; 2]; COMMAND_KINDS.len()],
    /// Reads that were refused and answered.
    pub reads: [u64; 2],
}

impl OpCounts {
    /// A command was applied, as it is without its caller.
    pub fn add_command(&mut self, command: &Command, reply: &Result<Reply, Code>) {
        let (command, is_done) = (unwrapped(command), reply.is_ok());
        self.commands[kind_of(command)][usize::from(is_done)] += 1;
        let Ok(reply) = reply else { return };
        match command {
            Command::LeaseGrant(_) => self.leases_granted += 1,
            Command::LeaseRevoke(_) => self.leases_revoked += 1,
            Command::Put(put) => {
                self.put_bytes += (put.key.len() + put.value.as_ref().map_or(0, |value| value.len())) as u64;
            }
            _ => {}
        }
        let before = self.ranges + self.puts + self.deletes;
        if let Command::Txn(txn) = command {
            self.ranges += txn.compares.len() as u64;
        }
        self.add_body(&reply.body);
        self.txns += u64::from(self.ranges + self.puts + self.deletes - before > 1);
    }

    pub fn add_read(&mut self, reply: &Result<Reply, Code>) {
        self.reads[usize::from(reply.is_ok())] += 1;
        if let Ok(reply) = reply {
            self.add_body(&reply.body);
        }
    }

    fn add_body(&mut self, body: &Body) {
        match body {
            Body::Range(_) | Body::Large(_) => self.ranges += 1,
            Body::Put(_) => self.puts += 1,
            Body::Delete(_) => self.deletes += 1,
            Body::Fenced(_) => self.fence_refusals += 1,
            Body::Txn(txn) => txn.bodies.iter().for_each(|body| self.add_body(body)),
            _ => {}
        }
    }
}

fn unwrapped(command: &Command) -> &Command {
    match command {
        Command::Idempotent(once) => once.command(),
        command => command,
    }
}

fn kind_of(command: &Command) -> usize {
    match command {
        Command::Put(_) => 0,
        Command::Delete(_) => 1,
        Command::Txn(_) | Command::Fenced(_) => 2,
        Command::Compact(_) => 3,
        Command::LeaseGrant(_) => 4,
        Command::LeaseRevoke(_) => 5,
        Command::LeaseCheckpoint(_) => 6,
        Command::Alarm(_) => 7,
        _ => COMMAND_KINDS.len() - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Revision;
    use coord::reply::{DeleteReply, FenceRefusal, PutReply, TxnReply};
    use coord::request::{Put, Txn};

    fn done(body: Body) -> Result<Reply, Code> {
        Ok(Reply { revision: Revision(2), body })
    }

    #[test]
    fn operations_are_counted_as_etcd_counts_them() {
        let mut counts = OpCounts::default();
        let put =
            Command::Put(Put { key: "k".into(), value: Some("vv".into()), lease: None, prev_kv: false });
        counts.add_command(&put, &done(Body::Put(PutReply::default())));
        counts.add_command(&put, &Err(Code::NoSpace));
        assert_eq!((counts.puts, counts.txns, counts.put_bytes), (1, 0, 3));
        assert_eq!(counts.commands[0], [1, 1]);
        let txn = Command::Txn(Txn { compares: vec![], success: vec![], failure: vec![] });
        let bodies = vec![Body::Put(PutReply::default()), Body::Delete(DeleteReply::default())];
        counts.add_command(&txn, &done(Body::Txn(TxnReply { succeeded: true, bodies })));
        assert_eq!((counts.puts, counts.deletes, counts.txns), (2, 1, 1));
        let refusal = FenceRefusal { lock: "l".into(), given: Revision(1), last: Revision(2) };
        counts.add_command(&put, &done(Body::Fenced(refusal)));
        assert_eq!((counts.fence_refusals, counts.puts), (1, 2));
        counts.add_read(&Err(Code::Compacted));
        assert_eq!((counts.reads, counts.ranges), ([1, 0], 0));
    }
}
