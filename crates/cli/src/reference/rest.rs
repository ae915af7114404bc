//! The page of the REST API, from the same document that `/openapi.json` serves.

use super::{code, table};
use serde_json::Value;

const HEAD: &str = "\
Served on `http-addr` (8080). A running node describes itself at `/openapi.json` and lets you try each request at `/api-docs`. Each \
path of `store`, `data` and `crdt` exists a second time below `/v1/namespaces/{ns}/`. The [guide](../guide/data.md) explains the words, \
[Errors](errors.md) lists what a refusal can say, [permissions](../permissions.md) what each path needs while auth is on.\n";

const METHODS: [&str; 4] = ["get", "put", "post", "delete"];

pub fn render() -> String {
    let document = api::reference::openapi();
    let mut text = HEAD.to_owned();
    for tag in list(&document["tags"]) {
        let name = word(&tag["name"]);
        text.push_str(&format!("\n## {name}\n\n{}.\n\n", word(&tag["description"])));
        let rows: Vec<[String; 4]> = operations(&document, &name).map(row).collect();
        text.push_str(&table(["request", "what it does", "parameters", "body"], rows));
    }
    text.push_str("\n## Parameters\n\n");
    text.push_str(&table(["name", "in", "meaning"], parameters(&document)));
    text.push_str("\n## Bodies\n\nAn example of each.\n\n");
    let schemas = document["components"]["schemas"].as_object();
    let examples = schemas.into_iter().flatten().filter(|(_, schema)| schema["example"].is_object());
    let rows = examples.map(|(name, schema)| [code(name), code(&schema["example"].to_string())]);
    text.push_str(&table(["body", "example"], rows));
    text
}

/// The operations of a tag, without their second path below the namespace.
fn operations<'a>(
    document: &'a Value,
    tag: &'a str,
) -> impl Iterator<Item = (&'a str, &'static str, &'a Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, methods)| {
        METHODS.iter().filter_map(move |method| Some((path.as_str(), *method, methods.get(method)?)))
    });
    all.filter(move |(path, _, operation)| {
        let is_second = tag != "namespaces" && path.starts_with("/v1/namespaces/{ns}/");
        list(&operation["tags"]).iter().any(|known| known == tag) && !is_second
    })
}

fn row((path, method, operation): (&str, &str, &Value)) -> [String; 4] {
    let names = list(&operation["parameters"]).iter().filter(|param| param["in"] != "path");
    let names: Vec<String> = names.map(|param| code(&word(&param["name"]))).collect();
    let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    let body = body.as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    [
        code(&format!("{} {path}", method.to_uppercase())),
        word(&operation["summary"]),
        names.join(" "),
        code(body),
    ]
}

fn parameters(document: &Value) -> Vec<[String; 3]> {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for methods in document["paths"].as_object().into_iter().flatten().map(|(_, methods)| methods) {
        for operation in methods.as_object().into_iter().flatten().map(|(_, operation)| operation) {
            for param in list(&operation["parameters"]) {
                let mut about = word(&param["description"]);
                let choices: Vec<String> =
                    list(&param["schema"]["enum"]).iter().map(|choice| code(&word(choice))).collect();
                if !choices.is_empty() {
                    about = format!("{about} ({})", choices.join(", "));
                }
                rows.push([code(&word(&param["name"])), word(&param["in"]), about]);
            }
        }
    }
    rows.sort();
    rows.dedup();
    rows
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
