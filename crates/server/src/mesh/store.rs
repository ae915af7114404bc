//! The store of the mesh, as the thread that owns it uses it: it hands out the view that shows what it wrote. Rows that the
//! machine no longer needs are freed here too, where no request waits for it.

use crate::core::Core;
use crate::defrag::Defrag;
use crate::durable_log;
use crate::mesh::node::MeshMessage;
use crate::store_thread::StoreAdapter;
use engine::{Error, MeshStore};
use mesh::{Flush, FlushedRows};
use prometheus_client::metrics::histogram::Histogram;
use std::sync::Arc;

pub(crate) struct RowStore {
    core: Arc<Core>,
    store: MeshStore,
}

impl RowStore {
    pub fn new(core: Arc<Core>, store: MeshStore) -> RowStore {
        RowStore { core, store }
    }
}

impl StoreAdapter for RowStore {
    type Owner = MeshStore;
    type Flush = Flush;
    /// To be freed.
    type Order = FlushedRows;
    const NAME: &'static str = "the store of the mesh";
    const LABEL: &'static str = "mesh";

    fn owner(&mut self) -> &mut MeshStore {
        &mut self.store
    }

    fn flush(&mut self, flush: &Flush) -> Result<(), Error> {
        self.store.flush(flush)
    }

    fn flush_seconds(&self) -> &Histogram {
        &self.core.metrics.mesh.store_commit_seconds
    }

    fn report_flush(&mut self, flush: &Flush) {
        self.core.mesh.actor.post(MeshMessage::Flushed { number: flush.number, view: self.store.view() });
        self.core.mesh.log.push(durable_log::Order::Release(flush.upto));
    }

    fn carry_out(&mut self, flushed_rows: FlushedRows, _: &mut Defrag) {
        drop(flushed_rows);
    }

    fn step_defrag(&mut self, defrag: &mut Defrag) -> bool {
        let is_rewritten = defrag.step(&mut self.store);
        if is_rewritten {
            self.core.mesh.actor.post(MeshMessage::Rewritten(self.store.view()));
        }
        is_rewritten
    }

    fn publish_size(&self, taken_bytes: u64, _: u64) {
        self.core.mesh.status.set_store_bytes(taken_bytes);
    }
}
