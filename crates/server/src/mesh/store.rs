//! The thread that owns the mesh's store: it flushes in the order of the commands and hands out the view that shows what it
//! wrote. A store that cannot be written ends the process. Rows that the machine no longer needs are freed here too, where no
//! request waits for it.

use crate::core::Core;
use crate::durable_log;
use crate::fatal::fatal;
use crate::mesh::node::MeshMessage;
use engine::MeshStore;
use mesh::{Flush, FlushedRows};
use std::time::Instant;

/// What is asked of the thread.
pub(crate) enum StoreCommand {
    Flush(Flush),
    Free(FlushedRows),
}

pub(crate) fn run(core: &Core, mut store: MeshStore) {
    show(core, &store);
    let mut orders: Vec<StoreCommand> = Vec::new();
    while core.mesh.store.take(&mut orders, None) {
        for order in orders.drain(..) {
            match order {
                StoreCommand::Flush(asked) => flush(core, &mut store, &asked),
                StoreCommand::Free(spent) => drop(spent),
            }
        }
    }
}

fn flush(core: &Core, store: &mut MeshStore, flush: &Flush) {
    let start = Instant::now();
    store.flush(flush).unwrap_or_else(|error| fatal("flushing to the store of the mesh", &error));
    core.metrics.mesh.store_commit_seconds.observe(start.elapsed().as_secs_f64());
    // Room that a flush has made or taken is seen before the flush is heard of.
    show(core, store);
    core.mesh.actor.queue.push(MeshMessage::Flushed { number: flush.number, view: store.view() });
    core.mesh.log.push(durable_log::Order::Release(flush.upto));
}

fn show(core: &Core, store: &MeshStore) {
    let measured = store.file_bytes().and_then(|bytes| Ok((bytes, store.taken_bytes()?)));
    let (bytes, taken) = measured.unwrap_or_else(|error| fatal("measuring the store of the mesh", &error));
    core.mesh.status_board.set_store_bytes(bytes, taken);
}
