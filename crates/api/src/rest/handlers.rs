//! `/v1/handlers`: how `custom` values merge: handlers by name, those that are built in and scripts that users write.
//! A script is tried on generated values before it is taken, and refused with an example if it breaks a law of
//! merging. The registry is a document of the cluster that regions exchange, so that a handler that was
//! registered in one region is known in all.

use super::documents::{now, update};
use super::refusal::Refusal;
use super::request_head::{WholeBody, parse_json};
use super::write::WriteReply;
use super::{Rest, json};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base::Code;
use bytes::Bytes;
use mesh::{Handler, Handlers, LawViolation, Write};
use serde::Deserialize;
use serde_json::{Value, json as object};
use server::BoundedScripts;
use server::mesh::merging::ScriptTrouble;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RIGHT: &str =
    r#"{"script": "if left.len == right.len { larger(left, right) } else { longer(left, right) }"}"#;
const BUILT_IN: [&str; 4] = ["max", "min", "longest", "json_merge"];
/// How long replicas may take to receive a handler, and how often they are polled.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);
const KNOWN_POLL: Duration = Duration::from_millis(10);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandlerBody {
    script: String,
}

pub async fn list(rest: Rest) -> Result<Response, Refusal> {
    let registered: Handlers = now(&rest).await?;
    let built_in = BUILT_IN.iter().map(|name| object!({ "handler": name, "built_in": true }));
    let troubles = rest.mesh().script_troubles();
    let scripts = registered.iter().map(|(name, handler)| render(name, handler, troubles.get(name)));
    Ok(json(&object!({ "handlers": built_in.chain(scripts).collect::<Vec<Value>>() })))
}

pub async fn get(rest: Rest, Path(name): Path<String>) -> Result<Response, Refusal> {
    if BUILT_IN.contains(&name.as_str()) {
        return Ok(json(&object!({ "handler": name, "built_in": true })));
    }
    let registered: Handlers = now(&rest).await?;
    let trouble = rest.mesh().script_troubles().remove(&name);
    let found = registered.get(&name).map(|handler| json(&render(&name, handler, trouble.as_ref())));
    found.ok_or_else(|| unknown(&name))
}

pub async fn put(
    rest: Rest,
    Path(name): Path<String>,
    WholeBody(body): WholeBody,
) -> Result<Response, Refusal> {
    let HandlerBody { script } = parse_json(&body, RIGHT)?;
    let tried = script.clone();
    // Trying it takes a while.
    rest.mesh().try_script(move |scripts| try_out(&tried, &scripts)).await??;
    let created = update(&rest, |registered: &mut Handlers| {
        let created = registered.get(&name).is_none();
        let next = registered.with_tried(&name, &script, rest.region_id()).map_err(|code| match code {
            Code::BadHandler => Refusal::new(
                code,
                "a name has 1 to 128 bytes and is not that of a built-in handler; a script has up to 16 KiB",
            ),
            code => code.into(),
        })?;
        *registered = next;
        Ok(created)
    });
    let status = if created.await? { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(object!({ "handler": name, "script": script }))).into_response())
}

pub async fn delete(rest: Rest, Path(name): Path<String>) -> Result<Response, Refusal> {
    let remove = |registered: &mut Handlers| {
        *registered = registered.without(&name, rest.region_id()).map_err(|_| unknown(&name))?;
        Ok(())
    };
    update(&rest, remove).await?;
    Ok(json(&object!({ "status": "deleted", "handler": name })))
}

fn try_out(source: &str, scripts: &BoundedScripts) -> Result<(), Refusal> {
    if let Some(flaw) = scripts.flaw(source) {
        return Err(Refusal::new(
            Code::BadHandler,
            format!("the script cannot be read: {flaw}; right is {RIGHT}"),
        ));
    }
    let seed = base::checksum::hash64(source.as_bytes(), 0);
    Handler::Script(source.to_owned()).check(scripts, seed).map_err(|breach| match scripts.failure() {
        Some(failure) => {
            Refusal::new(Code::LawlessHandler, format!("the script failed on generated values: {failure}"))
                .with("law", "total")
        }
        None => lawless(&breach),
    })
}

fn lawless(breach: &LawViolation) -> Refusal {
    let law = format!("{:?}", breach.law).to_lowercase();
    let shown = |value: &Bytes| value.escape_ascii().to_string();
    let values: Vec<String> = breach.values.iter().map(shown).collect();
    let message = format!(
        "the script is not {law} for {}: merges happen in any order and any number of times, and must come to the same",
        values.join(" | ")
    );
    Refusal::new(Code::LawlessHandler, message).with("law", law).with("values", values)
}

/// A handler may have been registered a moment ago, and replicas receive it a moment later: a write that was refused
/// for lack of it is repeated for a while if the cluster has the handler.
pub async fn perform_when_known(
    rest: &Rest,
    write: &Arc<Write>,
    timeout: Option<Duration>,
) -> Result<WriteReply, Refusal> {
    let name = String::from_utf8_lossy(write.attributes.handler.as_deref().unwrap_or_default()).into_owned();
    now::<Handlers>(rest).await?.get(&name).ok_or_else(|| unknown(&name))?;
    let until = Instant::now() + KNOWN_WITHIN;
    loop {
        tokio::time::sleep(KNOWN_POLL).await;
        match rest.ask(write.clone(), timeout).await {
            Err(refusal) if refusal.code == Code::UnknownHandler && Instant::now() < until => {}
            reply => return reply,
        }
    }
}

fn unknown(name: &str) -> Refusal {
    Refusal::new(
        Code::UnknownHandler,
        format!("no handler `{name}`; PUT /v1/handlers/{name} {RIGHT} registers one"),
    )
}

fn render(name: &str, handler: Handler, trouble: Option<&ScriptTrouble>) -> Value {
    match (handler, trouble) {
        (Handler::Script(source), None) => object!({ "handler": name, "script": source }),
        (Handler::Script(source), Some(ScriptTrouble { fell_back, reason })) => {
            object!({ "handler": name, "script": source, "fell_back": fell_back, "last_failure": reason })
        }
        _ => object!({ "handler": name, "built_in": true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::Scripts;

    fn tried(source: &str) -> Result<(), Refusal> {
        try_out(source, &Scripts::default().until(Instant::now() + Duration::from_secs(60)))
    }

    #[test]
    fn a_lawless_script_is_refused_with_an_example() {
        let refusal = tried("left").unwrap_err();
        assert_eq!((refusal.code, refusal.status().as_u16()), (Code::LawlessHandler, 400));
        assert_eq!(refusal.body()["law"], "commutative");
        assert_eq!(tried("if (").unwrap_err().code, Code::BadHandler);
        assert!(tried("larger(left, right)").is_ok());
    }

    #[test]
    fn the_script_that_refusals_show_is_taken() {
        let HandlerBody { script } = serde_json::from_str(RIGHT).unwrap();
        assert!(tried(&script).is_ok());
    }
}
