//! `/v1/regions`: the other regions that hold the same data, and how far each is, as this node sees it.
//! The table is a document of the cluster; each region has its own, and lists the others. Removing a region
//! evicts it: from then on nothing is stored or waited for on its account.

use super::refusal::Refusal;
use super::request_head::{WholeBody, parse_json};
use super::{Rest, json};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base::Code;
use mesh::{Region, RegionId, RegionState, Regions, documents};
use serde::Deserialize;
use serde_json::{Value, json as object};
use server::mesh::handle::RegionInfo;

const RIGHT: &str = r#"{"peers": ["10.1.0.1:2380"]}, peer addresses of some nodes of that region"#;
/// How often a compare-and-set is repeated after a conflict.
const ATTEMPTS: usize = 8;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegionBody {
    peers: Vec<String>,
}

pub async fn list(rest: Rest) -> Result<Response, Refusal> {
    Ok(json(&document(&rest)))
}

pub fn document(rest: &Rest) -> Value {
    let (version, all) = rest.mesh().regions();
    let status = rest.mesh().status();
    let machine = status.machine.as_ref();
    object!({
        "region": rest.region(),
        "node": rest.handle().identity().name,
        "version": version,
        "digest": machine.and_then(|machine| machine.digest).map(hex),
        "log": machine.map(|machine| object!({
            "first": machine.log_begins + 1, "last": machine.log_ends, "bytes": machine.log_bytes,
        })),
        "regions": all.iter().map(render).collect::<Vec<_>>(),
    })
}

pub async fn get(rest: Rest, Path(name): Path<String>) -> Result<Response, Refusal> {
    let (_, all) = rest.mesh().regions();
    let found = all.iter().find(|abroad| abroad.region.name == name);
    found.map(|abroad| json(&render(abroad))).ok_or_else(|| unknown(&name))
}

pub async fn put(
    rest: Rest,
    Path(name): Path<String>,
    WholeBody(body): WholeBody,
) -> Result<Response, Refusal> {
    let places: RegionBody = parse_json(&body, RIGHT)?;
    if name == rest.region() {
        return Err(Refusal::new(Code::BadRegion, format!("`{name}` is this region; list the others")));
    }
    if places.peers.is_empty() || !places.peers.iter().all(|place| is_host_and_port(place)) {
        return Err(Refusal::bad(format!("peers must be one or more HOST:PORT; right is {RIGHT}")));
    }
    let created = update(&rest, |table| {
        let created = table.get(RegionId::of(&name)).is_none();
        Ok((table.with(Region::new(&name, places.peers.clone()))?, created))
    });
    let status = if created.await? { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(object!({ "region": name, "peers": places.peers }))).into_response())
}

pub async fn delete(rest: Rest, Path(name): Path<String>) -> Result<Response, Refusal> {
    let evicted = update(&rest, |table| Ok((table.without(RegionId::of(&name))?, ())));
    evicted.await.map_err(|refusal| match refusal.code {
        Code::UnknownRegion => unknown(&name),
        _ => refusal,
    })?;
    Ok(json(&object!({ "status": "evicted", "region": name })))
}

/// Changes the document; repeats if another request has changed it meanwhile.
async fn update<T>(
    rest: &Rest,
    change: impl Fn(&Regions) -> Result<(Regions, T), Refusal>,
) -> Result<T, Refusal> {
    for _ in 0..ATTEMPTS {
        let (version, table) = match rest.handle().documents().get(documents::REGIONS).await? {
            None => (0, Regions::default()),
            Some((version, bytes)) => {
                let illegible =
                    || Refusal::new(Code::NotSeenHere, "the table of regions cannot be read here");
                (version, Regions::decode(bytes).ok_or_else(illegible)?)
            }
        };
        let (changed, outcome) = change(&table)?;
        match rest.handle().documents().set(documents::REGIONS, version, changed.encode()).await {
            Ok(_) => return Ok(outcome),
            Err(Code::DocumentChanged) => {}
            Err(code) => return Err(code.into()),
        }
    }
    Err(Refusal::new(Code::TooManyRequests, "others change the regions all the time; try again"))
}

fn unknown(name: &str) -> Refusal {
    let message = format!("no region `{name}` is listed here; PUT /v1/regions/{name} {RIGHT} lists it");
    Refusal::new(Code::UnknownRegion, message)
}

fn is_host_and_port(text: &str) -> bool {
    let apart = text.rsplit_once(':');
    apart.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok() && text.len() <= 512)
}

fn render(abroad: &RegionInfo) -> Value {
    let nodes = abroad.nodes.iter();
    let nodes: Vec<Value> =
        nodes.map(|(node, address)| object!({ "node": hex(node.0), "peer": address })).collect();
    let mut shown = object!({
        "region": abroad.region.name,
        "peers": abroad.region.seeds,
        "nodes": nodes,
        "trouble": abroad.trouble,
    });
    if let (Some(state), Some(fields)) = (&abroad.state, shown.as_object_mut()) {
        let Value::Object(more) = state_of(state) else { unreachable!("it is an object") };
        fields.extend(more);
    }
    shown
}

fn state_of(state: &RegionState) -> Value {
    let position = |(actor, position): &(mesh::Actor, u64)| object!({ "node": hex(actor.node.0), "incarnation": actor.incarnation, "position": position });
    object!({
        "healthy": state.is_healthy,
        "silent_ms": state.silent_for.map(|silence| silence.as_millis() as u64),
        "acknowledged": state.acked,
        "last": state.last,
        "lag_out_ms": state.lag_out_ms,
        "lag_in_ms": state.lag_in_ms,
        "positions": state.positions.iter().map(position).collect::<Vec<_>>(),
        "digest": hex(state.digest),
        "shards_same": state.n_same,
    })
}

fn hex(number: u64) -> String {
    format!("{number:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_hosts_with_ports() {
        assert!(is_host_and_port("db.example.com:2380") && is_host_and_port("[::1]:1"));
        assert!(
            !is_host_and_port("db")
                && !is_host_and_port(":1")
                && !is_host_and_port("db:port")
                && !is_host_and_port("db:99999")
        );
    }
}
