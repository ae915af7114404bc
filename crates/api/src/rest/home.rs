//! `/v1/namespaces/{ns}/home`: the region that owns a namespace, or the keys below a prefix, where one does. Writes
//! elsewhere are refused with the owner's name; writes of the owner carry its epoch, so that those of an earlier owner
//! lose wherever they arrive. With a lease a home moves by itself when its region is gone.

use super::namespace_cache::ResolvedNamespace;
use super::refusal::Refusal;
use super::request_head::{RequestHead, WholeBody, parse_json};
use super::{Rest, json};
use axum::response::Response;
use base::Code;
use mesh::{
    Fence, HOME_LEASE_MS_MAX, HOME_LEASE_MS_MIN, HOME_PREFIX_BYTES_MAX, HomeScope, HomeTransfer, Homes, Key,
    Ownership, RegionId, documents,
};
use serde::Deserialize;
use serde_json::{Value, json as object};

const RIGHT: &str =
    r#"{"region": "eu-west"}, with "prefix", "lease_ms" (0 for none) and "epoch" where they matter"#;
pub const PARAMS: [&str; 1] = ["prefix"];
/// How often a compare-and-set is repeated after a conflict.
const ATTEMPTS: usize = 8;

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
    let homes = now(&rest).await?.1;
    let mut shown = render(&rest, &place, homes.get(&place));
    if place.prefix.is_empty() {
        let parts = homes.iter().filter(|(part, _)| part.namespace == place.namespace && **part != place);
        shown["parts"] = parts.map(|(part, title)| render(&rest, part, Some(title))).collect();
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
    for _ in 0..ATTEMPTS {
        let (version, mut homes) = now(&rest).await?;
        let title = homes.transfer(&place, transfer).map_err(refusal)?;
        match rest.handle().documents().set(documents::HOMES, version, homes.encode()).await {
            Ok(_) => return Ok(json(&render(&rest, &place, Some(title)))),
            Err(Code::DocumentChanged) => {}
            Err(code) => return Err(code.into()),
        }
    }
    Err(Refusal::new(Code::TooManyRequests, "others change the homes all the time; try again"))
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
fn admit(rest: &Rest, here: RegionId, place: &HomeScope, title: Ownership) -> Result<Fence, Refusal> {
    let owner = || rest.region_name(title.home.region);
    let told = |refusal: Refusal| refusal.with("home_region", owner()).with("home_epoch", title.home.epoch);
    let fence = title.home.fence_for(here).map_err(|code| {
        let message = format!("region `{}` is the home of this key; write it there", owner());
        told(Refusal::new(code, message))
    })?;
    if title.lease_ms > 0 && !(title.settled && rest.mesh().holds(place, title.home.epoch)) {
        return Err(told(Refusal::from(Code::HomeUnconfirmed)));
    }
    Ok(fence)
}

/// The fence that a write of the key must carry if the key has a home, and its region; refused if it is elsewhere.
pub fn fence(
    rest: &Rest,
    space: &ResolvedNamespace,
    key: &Key,
) -> Result<Option<(Fence, RegionId)>, Refusal> {
    let Some((place, title)) = space.homes.find(&space.name, &key.name()) else { return Ok(None) };
    Ok(Some((admit(rest, space.here, place, title)?, title.home.region)))
}

/// A key is decided in its home region; where there is only this one, it needs none.
pub fn check_decided_here(rest: &Rest, space: &ResolvedNamespace, key: &Key) -> Result<(), Refusal> {
    let (_, others) = rest.mesh().regions();
    match fence(rest, space, key)? {
        None if !others.is_empty() => Err(Code::HomeNeeded.into()),
        _ => Ok(()),
    }
}

async fn now(rest: &Rest) -> Result<(u64, Homes), Refusal> {
    match rest.handle().documents().get(documents::HOMES).await? {
        None => Ok((0, Homes::default())),
        Some((version, bytes)) => {
            let illegible = || Refusal::new(Code::NotSeenHere, "the homes cannot be read here");
            Ok((version, Homes::decode(bytes).ok_or_else(illegible)?))
        }
    }
}

fn render(rest: &Rest, place: &HomeScope, title: Option<Ownership>) -> Value {
    let here = RegionId::of(rest.region());
    let writable = title.is_some_and(|title| admit(rest, here, place, title).is_ok());
    object!({
        "namespace": place.namespace,
        "prefix": place.prefix,
        "home_region": title.map(|title| rest.region_name(title.home.region)),
        "epoch": title.map(|title| title.home.epoch),
        "lease_ms": title.map(|title| title.lease_ms),
        "settled": title.map(|title| title.settled),
        "writable_here": title.is_none() || writable,
    })
}
