//! `/openapi.json`: the REST API described for programs, by OpenAPI 3.
//! The tables of operations, parameters and bodies go in, one document comes out. Operations of a namespace are
//! described twice: with `?ns=`, and below the path of the namespace.

mod bodies;
pub mod lock_calls;
mod operations;
mod operator_operations;
mod params;
mod streams;

use super::guard::RouteAccess;
use super::{json, routes};
use crate::serve;
use axum::response::Response;
use operations::{ApiOperation, OPERATIONS};
use operator_operations::OPERATOR_OPERATIONS;
#[cfg(test)]
pub use params::parameter_names;
use serde_json::{Map, Value, json as object};
use std::sync::LazyLock;
use streams::STREAMS;

/// The OpenAPI document, which does not change while the process runs.
static DOCUMENT: LazyLock<Value> = LazyLock::new(document);

pub async fn get() -> Response {
    json(&*DOCUMENT)
}

pub fn document() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS.iter().chain(OPERATOR_OPERATIONS).chain(STREAMS) {
        describe(&mut paths, operation.path.to_owned(), operation, false);
        if let Some(path) = operation.path_of_namespace() {
            describe(&mut paths, path, operation, true);
        }
    }
    for (path, method, need) in routes::described() {
        let operation = &mut paths[&path][method];
        operation["x-permission"] = need.describe().into();
        operation["responses"]["421"] = bodies::refusal(421);
        if need == RouteAccess::Open {
            operation["security"] = object!([]);
        } else {
            operation["responses"]["401"] = bodies::refusal(401);
            operation["responses"]["403"] = bodies::refusal(403);
        }
    }
    let mut schemas = bodies::schemas();
    lock_calls::describe(&serve::described(), &mut paths, &mut schemas);
    object!({
        "openapi": "3.0.3",
        "info": {
            "title": "Althing",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
        },
        "servers": [{ "url": "/" }],
        "tags": operations::TAGS.map(|(name, about)| object!({ "name": name, "description": about })),
        "paths": paths,
        // Only while auth is on.
        "security": [{}, { "token": [] }, { "password": [] }],
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "password": { "type": "http", "scheme": "basic" },
            },
        },
    })
}

const ABOUT: &str = "A leaderless store on a ring of nodes; any node can be asked. Writes are durable on a majority of \
    their replicas before they are answered, unless w says otherwise. A key is UTF-8 text of up to 4096 bytes; in a \
    path it is percent-encoded, and slashes may stand as they are. A value is JSON, or bytes sent with another \
    Content-Type. Every refusal is JSON with `error`, a word for programs, and `message`, which says what would be \
    right.";

fn describe(paths: &mut Map<String, Value>, path: String, operation: &ApiOperation, named: bool) {
    let mut names: Vec<&'static str> = operation.params.to_vec();
    if operation.tag == "store" || operation.tag == "data" || operation.tag == "crdt" {
        names.push(if named { "{ns}" } else { "ns" });
    }
    let mut described = object!({
        "tags": [operation.tag],
        "summary": operation.summary,
        "operationId": id_of(operation.method, &path),
        "parameters": names.iter().map(|name| params::describe(name)).collect::<Vec<_>>(),
        "responses": answers(operation),
    });
    if let Some(body) = operation.body {
        described["requestBody"] = bodies::request(body);
    }
    let methods = paths.entry(path).or_insert_with(|| Value::Object(Map::new()));
    methods[operation.method] = described;
}

fn answers(operation: &ApiOperation) -> Map<String, Value> {
    let good = operation.answers.iter().map(|(status, schema)| (*status, bodies::answer(*status, schema)));
    // A batch of which every part is refused alike has the status of its parts.
    let is_batch = operation.answers.contains(&(207, "Results"));
    let refusal = if is_batch { bodies::refusal_of_batch } else { bodies::refusal };
    let bad = operation.refusals.iter().map(|status| (*status, refusal(*status)));
    good.chain(bad).map(|(status, body)| (status.to_string(), body)).collect()
}

/// `get /v1/data/{key}` is `get_v1_data_key`.
fn id_of(method: &str, path: &str) -> String {
    let words = path.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reference_leads_somewhere_and_ids_are_unique() {
        let document = document();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for (at, _) in text.match_indices("#/components/schemas/") {
            let name: String =
                text[at + 21..].chars().take_while(|letter| letter.is_ascii_alphanumeric()).collect();
            assert!(schemas.contains_key(&name), "{name}");
        }
        let mut ids = BTreeSet::new();
        for methods in document["paths"].as_object().unwrap().values() {
            for operation in methods.as_object().unwrap().values() {
                assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()));
                assert!(operation["responses"].as_object().unwrap().len() > 1);
            }
        }
    }

    #[test]
    fn every_operation_of_rest_says_what_a_wrong_host_gets() {
        let document = document();
        for (path, method, _) in routes::described() {
            let answers = &document["paths"][&path][method]["responses"];
            assert!(answers["421"]["description"].is_string(), "{method} {path}");
        }
    }

    #[test]
    fn parameters_of_a_path_are_described_as_such() {
        let document = document();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for operation in methods.as_object().unwrap().values() {
                let params = operation["parameters"].as_array().unwrap();
                let in_path: BTreeSet<&str> = params
                    .iter()
                    .filter(|param| param["in"] == "path")
                    .map(|param| param["name"].as_str().unwrap())
                    .collect();
                let named: BTreeSet<&str> =
                    path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
                assert_eq!(in_path, named, "{path}");
            }
        }
    }
}
