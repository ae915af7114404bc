//! `/v1/regions`: the other regions that hold the same data, and how far each is, as this node sees it.
//! The table is a document of the cluster; each region has its own, and lists the others. Removing a region
//! evicts it: from then on nothing is stored or waited for on its account.

use super::documents::update;
use super::refusal::Refusal;
use super::request_head::{WholeBody, parse_json};
use super::{Rest, json};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base::Code;
use mesh::{Region, RegionId, RegionState, Regions};
use serde::Deserialize;
use serde_json::{Value, json as object};
use server::mesh::handle::RegionInfo;

const RIGHT: &str = r#"{"peers": ["10.1.0.1:2380"]}, peer addresses of some nodes of that region"#;

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
    let found = all.iter().find(|remote| remote.region.name == name);
    found.map(|remote| json(&render(remote))).ok_or_else(|| unknown(&name))
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
    let created = update(&rest, |table: &mut Regions| {
        let created = table.get(RegionId::of(&name)).is_none();
        *table = table.with(Region::new(&name, places.peers.clone()))?;
        Ok(created)
    });
    let status = if created.await? { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(object!({ "region": name, "peers": places.peers }))).into_response())
}

pub async fn delete(rest: Rest, Path(name): Path<String>) -> Result<Response, Refusal> {
    let evicted = update(&rest, |table: &mut Regions| {
        *table = table.without(RegionId::of(&name))?;
        Ok(())
    });
    evicted.await.map_err(|refusal| match refusal.code {
        Code::UnknownRegion => unknown(&name),
        _ => refusal,
    })?;
    Ok(json(&object!({ "status": "evicted", "region": name })))
}

fn unknown(name: &str) -> Refusal {
    let message = format!("no region `{name}` is listed here; PUT /v1/regions/{name} {RIGHT} lists it");
    Refusal::new(Code::UnknownRegion, message)
}

fn is_host_and_port(text: &str) -> bool {
    let apart = text.rsplit_once(':');
    apart.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok() && text.len() <= 512)
}

fn render(remote: &RegionInfo) -> Value {
    let nodes = remote.nodes.iter();
    let nodes: Vec<Value> =
        nodes.map(|(node, address)| object!({ "node": hex(node.0), "peer": address })).collect();
    let mut shown = object!({
        "region": remote.region.name,
        "peers": remote.region.seeds,
        "nodes": nodes,
        "trouble": remote.trouble,
    });
    if let (Some(state), Some(fields)) = (&remote.state, shown.as_object_mut()) {
        fields.extend(state_of(state).map(|(name, value)| (name.to_owned(), value)));
    }
    shown
}

fn state_of(state: &RegionState) -> [(&'static str, Value); 9] {
    let position = |(actor, position): &(mesh::Actor, u64)| object!({ "node": hex(actor.node.0), "incarnation": actor.incarnation, "position": position });
    [
        ("healthy", state.is_healthy.into()),
        ("silent_ms", state.silent_for.map(|silence| silence.as_millis() as u64).into()),
        ("acknowledged", state.acked.into()),
        ("last", state.last.into()),
        ("lag_out_ms", state.lag_out_ms.into()),
        ("lag_in_ms", state.lag_in_ms.into()),
        ("positions", state.positions.iter().map(position).collect()),
        ("digest", hex(state.digest).into()),
        ("shards_same", state.n_same.into()),
    ]
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
