//! Makes a cluster of one from a member that does not run: the table of members in its store keeps this one alone.
//! What the member's log has, committed or not, stays. The other members must never come back.

use crate::error::Error;
use crate::member_store::LIVE;
use base::{NodeId, Table};
use coord::{MEMBERS_KEY, Members};
use disk::{Disk, RowRef, Store, guard};
use std::sync::Arc;

/// False if the store has no table of members with this one in it.
pub fn keep_only(disk: Arc<dyn Disk>, cache_bytes: usize, id: NodeId) -> Result<bool, Error> {
    guard::catch_damage(LIVE, || {
        let store = Store::open(disk, LIVE, cache_bytes)?;
        let Some(mut members) = Members::read(&store.view()?)? else { return Ok(false) };
        if !members.keep_only(id) {
            return Ok(false);
        }
        let table = members.encode();
        let row = RowRef { table: Table::Meta, key: MEMBERS_KEY, value: Some(&table) };
        store.write_rows(&mut std::iter::once(row))?;
        Ok(true)
    })
}
