//! Custom values: the handler of a key merges a write with the local value, and folds concurrent values when they are read.
//! Replicas store and merge siblings; handlers do not change that. Values whose handler is a script are returned as
//! siblings, and a write to them is applied as it is: the shell runs scripts (ADR 57).

use crate::handler::{FoldedValue, Handler, Handlers, NoScript};
use crate::mesh::coordinator::Coordinator;
use crate::mesh::{MeshEvent, Turn};
use crate::mutant::Mutant;
use crate::op::{Attributes, Op};
use crate::record::{Body, Kind, Record};
use crate::request::{Reply, Write};
use base::Code;
use base::mutant::planted;
use bytes::Bytes;

impl Coordinator {
    pub(in crate::mesh) fn step_handlers(&mut self, handlers: Handlers) {
        self.handlers = handlers;
    }

    /// A write that names a handler must find it: without one, values that were written apart come to the last of them.
    pub(in crate::mesh) fn check_handler(&self, write: &Write) -> Result<(), Code> {
        let Some(name) = &write.attributes.handler else { return Ok(()) };
        match self.handlers.get(&String::from_utf8_lossy(name)) {
            Some(_) => Ok(()),
            None if planted(Mutant::UnknownHandlerTaken) => Ok(()),
            None => Err(Code::UnknownHandler),
        }
    }

    fn fold(&self, t: &mut Turn<'_>, name: &[u8], body: &Body) -> Option<Bytes> {
        let Body::Siblings(siblings) = body else { return None };
        let name_text = String::from_utf8_lossy(name);
        if self.handlers.get(&name_text).as_ref().is_some_and(Handler::is_script) {
            return None;
        }
        let FoldedValue { value, fell_back } = self.handlers.fold(&name_text, siblings, &NoScript)?;
        if fell_back {
            t.out.events.push(MeshEvent::HandlerFellBack { handler: Bytes::copy_from_slice(name) });
        }
        Some(value)
    }

    /// A write to a custom value replaces all that is here by what its handler makes of it and the new value. None if
    /// the write is to be done as it is.
    pub(in crate::mesh) fn with_handler(
        &self,
        t: &mut Turn<'_>,
        local: Option<&Record>,
        write: &Write,
    ) -> Option<Write> {
        let (Kind::Custom, Op::Put(new)) = (write.kind, &write.op) else { return None };
        let local = local.filter(|local| local.kind == Kind::Custom && local.is_live(t.now.wall_ms))?;
        let named = write.attributes.handler.clone().or_else(|| handler_of(local));
        let name = named.clone().unwrap_or_default();
        let handler = self.handlers.get(&String::from_utf8_lossy(&name));
        if handler.as_ref().is_some_and(Handler::is_script) {
            return None;
        }
        let here = self.fold(t, &name, &local.body);
        let merged = handler.zip(here).and_then(|(handler, here)| handler.merge(&NoScript, &here, new));
        let context = Some(local.context.clone());
        let attributes = Attributes { context, handler: named, ..write.attributes.clone() };
        Some(Write { op: Op::Put(merged.unwrap_or_else(|| new.clone())), attributes, ..write.clone() })
    }

    /// The reply as the client sees it: custom values are folded.
    pub(in crate::mesh) fn present(&self, t: &mut Turn<'_>, reply: Reply) -> Reply {
        match reply {
            Reply::Found(Some(record)) => Reply::Found(Some(self.show(t, record))),
            Reply::Written(record) => Reply::Written(self.show(t, record)),
            other => other,
        }
    }

    pub(in crate::mesh) fn show(&self, t: &mut Turn<'_>, mut record: Box<Record>) -> Box<Record> {
        if record.kind == Kind::Custom
            && let Some(value) = self.fold(t, &handler_of(&record).unwrap_or_default(), &record.body)
            && let Body::Siblings(siblings) = &record.body
        {
            record.body = Body::Siblings(siblings.folded(value));
        }
        record
    }
}

fn handler_of(record: &Record) -> Option<Bytes> {
    record.header.rare.as_ref().and_then(|rare| rare.handler.clone())
}
