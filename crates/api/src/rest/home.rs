//! `/v1/namespaces/{ns}/home`: the region that owns a namespace, or the keys below a prefix, where one does. Writes
//! elsewhere are refused with the owner's name; writes of the owner carry its epoch, so that those of an earlier owner
//! lose wherever they arrive. With a lease a home moves by itself when its region is gone.

use super::documents::{now, update};
use super::namespace_cache::ResolvedNamespace;
use super::refusal::Refusal;
use super::request_head::{RequestHead, WholeBody, parse_json};
use super::{Rest, json};
use axum::response::Response;
use base::Code;
use mesh::{
    Fence, HOME_LEASE_MS_MAX, HOME_LEASE_MS_MIN, HOME_PREFIX_BYTES_MAX, HomeScope, HomeTransfer, Homes, Key,
    Ownership, RegionId,
};
use serde::Deserialize;
use serde_json::{Value, json as object};

const RIGHT: &str =
    r#"{"region": "eu-west"}, with "prefix", "lease_ms" (0 for none) and "epoch" where they matter"#;
pub const PARAMS: [&str; 1] = ["prefix"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HomeBody {
    region: String,
    #[serde(default)]
    prefix: String,
    epoch: Option<u64>,
    lease_ms: Option<u64>,
}

pub async fn get(rest: Rest, head: RequestHead) -> Result<Response, Refusal> {
    head.query.only(&PARAMS)?;
    let place = HomeScope::new(&head.space.name, head.query.get("prefix").unwrap_or(""));
    let homes: Homes = now(&rest).await?;
    let mut shown = render(&rest, &place, homes.get(&place));
    if place.prefix.is_empty() {
        let parts = homes.iter().filter(|(part, _)| part.namespace == place.namespace && **part != place);
        shown["parts"] = parts.map(|(part, ownership)| render(&rest, part, Some(ownership))).collect();
    }
    Ok(json(&shown))
}

pub async fn put(rest: Rest, head: RequestHead, WholeBody(body): WholeBody) -> Result<Response, Refusal> {
    let given: HomeBody = parse_json(&body, RIGHT)?;
    let to = RegionId::of(&given.region);
    if rest.mesh().region_name(to).as_deref() != Some(given.region.as_str()) {
        let message =
            format!("region `{}` is not listed here; GET /v1/regions tells which are", given.region);
        return Err(Refusal::new(Code::UnknownRegion, message));
    }
    let place = HomeScope::new(&head.space.name, &given.prefix);
    let transfer = HomeTransfer { to, epoch: given.epoch, lease_ms: given.lease_ms };
    let change = |homes: &mut Homes| homes.transfer(&place, transfer).map_err(refusal);
    let ownership = update(&rest, change).await?;
    Ok(json(&render(&rest, &place, Some(ownership))))
}

fn refusal(code: Code) -> Refusal {
    match code {
        Code::FencePassed => Refusal::new(code, "an epoch is later than the last; GET tells that"),
        Code::BadRequest => Refusal::bad(format!(
            "lease_ms is 0 or from {HOME_LEASE_MS_MIN} to {HOME_LEASE_MS_MAX}, a prefix has at most {HOME_PREFIX_BYTES_MAX} bytes"
        )),
        Code::TooManyOps => Refusal::new(code, "there are too many homes"),
        code => code.into(),
    }
}

/// The fence that a write must carry; refused unless this region owns the keys, and its lease runs.
fn admit(rest: &Rest, here: RegionId, place: &HomeScope, ownership: Ownership) -> Result<Fence, Refusal> {
    let owner = || rest.region_name(ownership.home.region);
    let with_owner =
        |refusal: Refusal| refusal.with("home_region", owner()).with("home_epoch", ownership.home.epoch);
    let fence = ownership.home.fence_for(here).map_err(|code| {
        let message = format!("region `{}` is the home of this key; write it there", owner());
        with_owner(Refusal::new(code, message))
    })?;
    if ownership.lease_ms > 0 && !(ownership.settled && rest.mesh().holds(place, ownership.home.epoch)) {
        return Err(with_owner(Refusal::from(Code::HomeUnconfirmed)));
    }
    Ok(fence)
}

/// The fence that a write of the key must carry if the key has a home, and its region; refused if it is elsewhere.
pub fn fence(
    rest: &Rest,
    space: &ResolvedNamespace,
    key: &Key,
) -> Result<Option<(Fence, RegionId)>, Refusal> {
    let Some((place, ownership)) = space.homes.find(&space.name, &key.name()) else { return Ok(None) };
    Ok(Some((admit(rest, space.here, place, ownership)?, ownership.home.region)))
}

/// A key is decided in its home region; where there is only this one, it needs none.
pub fn check_decided_here(rest: &Rest, space: &ResolvedNamespace, key: &Key) -> Result<(), Refusal> {
    let (_, others) = rest.mesh().regions();
    match fence(rest, space, key)? {
        None if !others.is_empty() => Err(Code::HomeNeeded.into()),
        _ => Ok(()),
    }
}

fn render(rest: &Rest, place: &HomeScope, ownership: Option<Ownership>) -> Value {
    let here = RegionId::of(rest.region());
    let writable = ownership.is_some_and(|ownership| admit(rest, here, place, ownership).is_ok());
    object!({
        "namespace": place.namespace,
        "prefix": place.prefix,
        "home_region": ownership.map(|ownership| rest.region_name(ownership.home.region)),
        "epoch": ownership.map(|ownership| ownership.home.epoch),
        "lease_ms": ownership.map(|ownership| ownership.lease_ms),
        "settled": ownership.map(|ownership| ownership.settled),
        "writable_here": ownership.is_none() || writable,
    })
}
