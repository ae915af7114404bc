//! `/v1/conflicts`: last writes that lost against one that had not seen them, and how to bring one back.
//! What is listed is what the nodes of this region have resolved, by the time of the winner, and which nodes could not be
//! asked. A restored value is a write like any other: it overwrites the winner, and is visible once it is written.

use super::refusal::Refusal;
use super::request_head::{RequestHead, now_ms};
use super::value::{self, kind_name};
use super::write::settled;
use super::{Rest, clock, date, home, json};
use axum::extract::Path;
use axum::response::Response;
use base::limits::MESH_PAGE_KEYS_MAX;
use base::{Code, FormatLevel};
use bytes::Bytes;
use mesh::{Conflict, ConflictOrder, ConflictPage, Key, ListConflicts, Record, conflict_row_key};
use serde_json::{Value, json as object};
use std::fmt::Write as _;
use std::sync::Arc;

pub const LIST_PARAMS: [&str; 5] = ["limit", "page", "order", "key", "filter"];
const LIMIT_MAX: u64 = 1_000;
const LIMIT_DEFAULT: u64 = 100;
/// Pages of the log that are looked through for the conflicts of one key.
const PAGES_MAX: usize = 16;

pub async fn list(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&LIST_PARAMS)?;
    let limit = head.query.number("limit", 1, LIMIT_MAX)?.unwrap_or(LIMIT_DEFAULT) as usize;
    let page = head.query.get("page").unwrap_or("");
    let order = match head.query.get("order") {
        None | Some("oldest") => ConflictOrder::Oldest,
        Some("newest") => newest_first(&rest),
        Some(other) => return Err(Refusal::bad(format!("`order={other}` is neither oldest nor newest"))),
    };
    let list = ListConflicts { after: place_of(page)?, limit, order };
    if head.query.get("key").is_some() {
        let found = of_key(&rest, &head.key()?, list).await?;
        return Ok(json(&page_of(&rest, &found, order)));
    }
    Ok(json(&filtered(&rest, head.query.get("filter").unwrap_or(""), list).await?))
}

/// Nodes of 0.1.0 list the oldest first alone; until an upgrade is finalized there may be some.
pub fn newest_first(rest: &Rest) -> ConflictOrder {
    let is_known = rest.handle().formats().require(FormatLevel(1)).is_ok();
    if is_known { ConflictOrder::Newest } else { ConflictOrder::Oldest }
}

/// A page of the newest conflicts, for a page that shows them as they come.
pub async fn newest(rest: &Rest, filter: &str, page: &str, limit: usize) -> Result<Value, Refusal> {
    filtered(rest, filter, ListConflicts { after: place_of(page)?, limit, order: newest_first(rest) }).await
}

/// Where a page begins; empty for the first.
fn place_of(page: &str) -> Result<Option<Bytes>, Refusal> {
    Some(page).filter(|page| !page.is_empty()).map(parse_id).transpose()
}

/// A page of conflicts whose namespace and key have this text in them.
async fn filtered(rest: &Rest, filter: &str, list: ListConflicts) -> Result<Value, Refusal> {
    let order = list.order;
    if filter.is_empty() {
        return Ok(page_of(rest, &listed(rest, list).await?, order));
    }
    let spaces = rest.spaces().here(rest.handle());
    let is_wanted = |conflict: &Conflict| {
        let space = spaces.name_of(conflict.key.namespace_id()).unwrap_or("?");
        format!("{space}/{}", String::from_utf8_lossy(&conflict.key.name())).contains(filter)
    };
    Ok(page_of(rest, &matching(rest, is_wanted, list).await?, order))
}

fn page_of(rest: &Rest, page: &ConflictPage, order: ConflictOrder) -> Value {
    let ConflictPage { conflicts: found, next, missing } = page;
    let shown: Vec<Value> = found.iter().map(|conflict| render(rest, conflict)).collect();
    let missing: Vec<String> = missing.iter().map(|node| format!("{:x}", node.0)).collect();
    object!({
        "conflicts": shown,
        "next_page": next.as_ref().map(|next| name_of(next)),
        "nodes_missing": missing,
        "order": if order == ConflictOrder::Newest { "newest" } else { "oldest" },
    })
}

/// The conflicts of one key after a position, within a bounded number of pages; the next request continues there.
pub async fn of_key(rest: &Rest, key: &Key, list: ListConflicts) -> Result<ConflictPage, Refusal> {
    matching(rest, |conflict| conflict.key == *key, list).await
}

/// The same for those that are wanted.
async fn matching(
    rest: &Rest,
    is_wanted: impl Fn(&Conflict) -> bool,
    ListConflicts { after, limit, order }: ListConflicts,
) -> Result<ConflictPage, Refusal> {
    let mut found = ConflictPage { next: after, ..ConflictPage::default() };
    for _ in 0..PAGES_MAX {
        let page = listed(rest, ListConflicts { after: found.next.take(), limit: MESH_PAGE_KEYS_MAX, order })
            .await?;
        found.missing.extend(page.missing);
        found.next = page.next;
        let remaining = limit - found.conflicts.len();
        let mut ours = page.conflicts.into_iter().filter(&is_wanted);
        found.conflicts.extend(ours.by_ref().take(remaining));
        if ours.next().is_some() {
            found.next = found.conflicts.last().map(Conflict::cursor);
        }
        if found.next.is_none() || found.conflicts.len() == limit {
            break;
        }
    }
    found.missing.sort_unstable();
    found.missing.dedup();
    Ok(found)
}

/// What all nodes of the region have after a position.
async fn listed(rest: &Rest, list: ListConflicts) -> Result<ConflictPage, Refusal> {
    let mut listed = rest.get(list, None).await?;
    listed.conflicts.retain(|conflict| rest.may_read(&conflict.key));
    Ok(listed)
}

pub async fn get(rest: Rest, Path(id): Path<String>) -> Result<Response, Refusal> {
    Ok(json(&render(&rest, &find(&rest, &id).await?)))
}

/// Writes the loser again, as it was.
pub async fn restore(rest: Rest, Path(id): Path<String>) -> Result<Response, Refusal> {
    let conflict = find(&rest, &id).await?;
    let key = &conflict.key;
    let mut write = conflict.restore().map_err(|code| match code {
        Code::WrongType => Refusal::new(code, "only what lost as a whole can be brought back"),
        code => code.into(),
    })?;
    // Brought back, it stays.
    write.attributes.expires_ms = write.attributes.expires_ms.filter(|at_ms| *at_ms > now_ms());
    let name = rest.spaces().here(rest.handle()).name_of(key.namespace_id()).map(str::to_owned);
    if let Some(name) = name {
        let space = rest.spaces().find(rest.handle(), &name).await?;
        if let Some((fence, home)) = home::fence(&rest, &space, key)? {
            (write.attributes.fence, write.attributes.home) = (Some(fence), Some(home));
        }
    }
    let record = settled(&rest, rest.ask(Arc::new(write), None).await?)?;
    let counts = clock::by_region(&record.context, |region| rest.region_name(region));
    let mut response = json(&object!({
        "status": "restored",
        "key": String::from_utf8_lossy(&key.name()),
        "value": value::show(&record).0,
        "vector_clock": counts,
    }));
    response.headers_mut().insert("x-vector-clock", clock::header_of(&record.context));
    Ok(response)
}

async fn find(rest: &Rest, id: &str) -> Result<Conflict, Refusal> {
    let wanted = parse_id(id)?;
    let absent = || {
        let message = "no node that answered has such a conflict; GET /v1/conflicts lists those there are";
        Refusal::new(Code::ConflictUnknown, message)
    };
    let first = ListConflicts { after: Some(before(&wanted)), limit: 1, ..ListConflicts::default() };
    let ConflictPage { conflicts: found, .. } = listed(rest, first).await?;
    found.into_iter().find(|conflict| id_of(conflict) == wanted).ok_or_else(absent)
}

fn id_of(conflict: &Conflict) -> Bytes {
    conflict_row_key(&conflict.key, &conflict.winner, &conflict.loser)
}

/// The last place in front of this one, of those of the same length.
fn before(id: &[u8]) -> Bytes {
    let mut place = id.to_vec();
    for byte in place.iter_mut().rev() {
        *byte = byte.wrapping_sub(1);
        if *byte != 0xff {
            break;
        }
    }
    place.into()
}

fn name_of(id: &[u8]) -> String {
    id.iter().fold(String::new(), |mut name, byte| {
        write!(name, "{byte:02x}").expect("text can be written to");
        name
    })
}

fn parse_id(name: &str) -> Result<Bytes, Refusal> {
    let digit = |at: usize| name.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let hexadecimal = name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lawful = hexadecimal && name.len().is_multiple_of(2) && (2..=128).contains(&name.len());
    let bytes: Option<Vec<u8>> = (0..name.len()).step_by(2).map(digit).collect();
    bytes
        .filter(|_| lawful)
        .map(Bytes::from)
        .ok_or_else(|| Refusal::bad(format!("`{name}` is no id of a conflict; GET /v1/conflicts tells them")))
}

pub fn render(rest: &Rest, conflict: &Conflict) -> Value {
    let Conflict { key, winner, loser, rule, source, at_ms } = conflict;
    let spaces = rest.spaces().here(rest.handle());
    let counts = |record: &Record| clock::by_region(&record.context, |region| rest.region_name(region));
    // The one that came is that of the source; within a region either may be called so.
    let (local, remote) =
        if *source == loser.header.dot.actor.region { (winner, loser) } else { (loser, winner) };
    object!({
        "conflict_id": name_of(&id_of(conflict)),
        "namespace": spaces.name_of(key.namespace_id()),
        "key": String::from_utf8_lossy(&key.name()),
        "type": kind_name(loser.kind),
        "resolution_strategy": rule.name(),
        "winning_value": value::show(winner).0,
        "losing_value": value::show(loser).0,
        "losing_values": value::show_all(loser),
        "winning_clock": counts(winner),
        "losing_clock": counts(loser),
        "local_clock": counts(local),
        "remote_clock": counts(remote),
        "winner_deleted": winner.is_tombstone(),
        "loser_deleted": loser.is_tombstone(),
        "source_region": rest.region_name(*source),
        "losing_write_at": date::rfc3339(loser.updated_ms()),
        "resolved_at": date::rfc3339(*at_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_and_nonsense_is_refused() {
        let id = Bytes::from_static(&[0x63, 0, 0xff]);
        assert_eq!(parse_id(&name_of(&id)).unwrap(), id);
        for name in ["", "6", "zz", "é0", "+1", &"00".repeat(65)] {
            assert!(parse_id(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_place_before_is_the_next_smaller_one() {
        assert_eq!(before(&[1, 2]), Bytes::from_static(&[1, 1]));
        assert_eq!(before(&[1, 0, 0]), Bytes::from_static(&[0, 0xff, 0xff]));
    }
}
