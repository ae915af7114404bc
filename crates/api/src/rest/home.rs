//! `/v1/namespaces/{ns}/home`: the region that owns a namespace, where one does. Writes elsewhere are refused and told
//! where to go; writes of the owner carry its epoch, so that those of an earlier owner lose wherever they arrive.
//! Each region keeps its own word on it: who hands a namespace over tells both.

use super::asked::{Whole, parse_json};
use super::refusal::Refusal;
use super::{Rest, json};
use axum::extract::{Path, State};
use axum::response::Response;
use base::Code;
use mesh::homes::{DOCUMENT, Homes};
use mesh::{Home, RegionId};
use serde::Deserialize;
use serde_json::{Value, json as object};

const RIGHT: &str = r#"{"region": "eu-west"}, and "epoch": N to say which"#;
/// How often a change is tried that others' changes get in the way of.
const ATTEMPTS: usize = 8;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    region: String,
    epoch: Option<u64>,
}

pub async fn get(State(rest): State<Rest>, Path(ns): Path<String>) -> Result<Response, Refusal> {
    let space = rest.spaces().find(rest.handle(), &ns).await?;
    let home = now(&rest).await?.1.get(&space.name);
    Ok(json(&render(&rest, &space.name, home)))
}

pub async fn put(
    State(rest): State<Rest>,
    Path(ns): Path<String>,
    Whole(body): Whole,
) -> Result<Response, Refusal> {
    let space = rest.spaces().find(rest.handle(), &ns).await?;
    let given: Given = parse_json(&body, RIGHT)?;
    let region = RegionId::of(&given.region);
    if rest.mesh().region_name(region).as_deref() != Some(given.region.as_str()) {
        let message =
            format!("region `{}` is not listed here; GET /v1/regions tells which are", given.region);
        return Err(Refusal::new(Code::UnknownRegion, message));
    }
    for _ in 0..ATTEMPTS {
        let (version, mut homes) = now(&rest).await?;
        let home = homes.pass(&space.name, region, given.epoch).map_err(|code| match code {
            Code::FencePassed => Refusal::new(code, "an epoch is later than the last; GET tells that"),
            code => code.into(),
        })?;
        match rest.handle().set_document(DOCUMENT, version, homes.encode()).await {
            Ok(_) => return Ok(json(&render(&rest, &space.name, Some(home)))),
            Err(Code::DocumentChanged) => {}
            Err(code) => return Err(code.into()),
        }
    }
    Err(Refusal::new(Code::TooManyRequests, "others change the homes all the time; try again"))
}

async fn now(rest: &Rest) -> Result<(u64, Homes), Refusal> {
    match rest.handle().document(DOCUMENT).await? {
        None => Ok((0, Homes::default())),
        Some((version, bytes)) => {
            let illegible = || Refusal::new(Code::NotSeenHere, "the homes cannot be read here");
            Ok((version, Homes::decode(bytes).ok_or_else(illegible)?))
        }
    }
}

fn render(rest: &Rest, namespace: &str, home: Option<Home>) -> Value {
    object!({
        "namespace": namespace,
        "home_region": home.map(|home| rest.region_name(home.region)),
        "epoch": home.map(|home| home.epoch),
    })
}
