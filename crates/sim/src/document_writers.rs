//! Clerks replace documents while everything else goes on, each having read what some member has applied, which may be
//! old. The committed log says which of them came first: a clerk who is told a version must find its own text there,
//! one version above what it had read, and in the end every member has the newest of each.

use crate::lease_holders::{SideRequest, propose};
use crate::oracle::{Checker, Violation};
use crate::world::{Checked, Event, World};
use base::Code;
use bytes::Bytes;
use coord::reply::{Body, Reply};
use coord::{Command, SetDocument};
use std::collections::BTreeMap;

const NAMES: [&str; 3] = ["a", "b", "cluster/c"];
const PAUSE_US: (u64, u64) = (300_000, 2_000_000);

/// What the committed log has made of the documents, by rules of its own.
#[derive(Default)]
pub struct CommittedDocuments {
    versions: BTreeMap<(String, u64), Bytes>,
    newest: BTreeMap<String, u64>,
}

impl CommittedDocuments {
    pub fn record(&mut self, set: SetDocument) {
        let newest = self.newest.entry(set.name.clone()).or_default();
        if *newest == set.expect {
            *newest += 1;
            self.versions.insert((set.name, *newest), set.bytes);
        }
    }
}

#[derive(Default)]
pub struct DocumentWriters {
    /// What was asked for, by number.
    asked: Vec<SetDocument>,
    told: Vec<(usize, u64)>,
}

impl DocumentWriters {
    pub fn answered(&mut self, number: usize, reply: &Result<Reply, Code>) {
        if let Ok(Reply { body: Body::Document { version }, .. }) = reply {
            self.told.push((number, *version));
        }
    }
}

impl World {
    /// A clerk looks in, and another one comes later.
    pub fn write_document(&mut self) -> Checked {
        if self.calm {
            return Ok(());
        }
        let pause = self.rng.between(PAUSE_US.0, PAUSE_US.1);
        self.events.after(pause, Event::DocumentWriter);
        let running: Vec<usize> =
            (0..self.hosts.len()).filter(|host| self.hosts[*host].process.is_some()).collect();
        if running.is_empty() {
            return Ok(());
        }
        let (reads, asks) = (*self.rng.pick(&running), *self.rng.pick(&running));
        let name = *self.rng.pick(&NAMES);
        let expect = self.process(reads).member.apply.documents().get(name).map_or(0, |found| found.version);
        let number = self.document_writers.asked.len();
        let set = SetDocument { name: name.to_owned(), expect, bytes: number.to_string().into() };
        let work = propose(&Command::Document(set.clone()));
        self.document_writers.asked.push(set);
        let side_request = SideRequest::of_document_writer(self.events.now(), number);
        let pid = self.hosts[asks].pid;
        self.events.after(100, Event::SideRequest { host: asks, pid, side_request, work });
        Ok(())
    }

    /// In the end.
    pub fn check_documents(&self) -> Checked {
        let committed_documents = &self.truth.committed_documents;
        let wrong = |what: String| Err(Violation { checker: Checker::Document, what });
        for (number, version) in &self.document_writers.told {
            let asked = &self.document_writers.asked[*number];
            let in_log = committed_documents.versions.get(&(asked.name.clone(), *version));
            if *version != asked.expect + 1 || in_log != Some(&asked.bytes) {
                return wrong(format!("{asked:?} was told version {version}, which holds {in_log:?}"));
            }
        }
        for host in self.member_hosts() {
            let Some(process) = self.hosts[host].process.as_ref() else { continue };
            let documents = process.member.apply.documents();
            for (name, newest) in &committed_documents.newest {
                let found = documents.get(name).map(|found| (found.version, found.bytes.clone()));
                let right = committed_documents
                    .versions
                    .get(&(name.clone(), *newest))
                    .map(|text| (*newest, text.clone()));
                if found != right {
                    let id = self.hosts[host].id;
                    return wrong(format!("{id} has {found:?} for {name}, the log says {right:?}"));
                }
            }
        }
        Ok(())
    }
}
