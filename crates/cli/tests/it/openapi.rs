//! Requests made from `/openapi.json` itself, by seeds: whatever the document allows is answered as the document says. No request
//! is answered 5xx by a healthy node, every answer has a documented status and the fields that its schema requires, and
//! numbers, switches and choices within the bounds of the document are taken.

use crate::rest::{Answer, Rest, single};
use base::Rng;
use serde_json::{Map, Value, json};

const REQUESTS: usize = 2_500;
const KEYS: [&str; 4] = ["a", "b", "dir%2Fc", "caf%C3%A9"];
/// Collections have keys of their own: a condition on the key of one is not what this is about.
const COLLECTIONS: [&str; 6] = ["bigset", "map", "sorted_set", "list", "flag", "hyperloglog"];

struct Operation<'a> {
    path: &'a str,
    method: &'a str,
    described: &'a Value,
}

/// Operations on data, and reads of everything else. What never ends, or changes the cluster, is left out.
fn operations(document: &Value) -> Vec<Operation<'_>> {
    let paths = document["paths"].as_object().expect("a document has paths");
    let all = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("a path has methods");
        methods.iter().map(move |(method, described)| Operation { path, method, described })
    });
    all.filter(|operation| {
        let tag = operation.described["tags"][0].as_str().unwrap_or_default();
        let is_endless = matches!(operation.path, "/v1/events" | "/v1/coord/watch");
        match tag {
            _ if is_endless => false,
            "store" | "data" | "crdt" | "coordination" => true,
            "feed" | "locks" | "maintenance" => false,
            _ => operation.method == "get",
        }
    })
    .collect()
}

fn value(rng: &mut Rng) -> Value {
    let values = [json!(1), json!("text"), json!(null), json!({ "a": [1, 2] }), json!(-0.5), json!("12.50")];
    rng.pick(&values).clone()
}

/// Text that means something to some parameter, and text that does not.
fn text(rng: &mut Rng, name: &str) -> String {
    let words: &[&str] = match name {
        "type" => &["counter", "lww_register", "orset", "heap"],
        "since" | "until" => &["0", "2025-01-22T10:30:00Z", "1737541800045", "yesterday"],
        "element" | "contains" => &["blue", "red"],
        "min_score" | "max_score" => &["0", "-1.5", "many"],
        "start" | "end" | "prefix" | "filter" => &["a", "b", "z"],
        _ => &["", "x", "1", "next"],
    };
    (*rng.pick(words)).to_owned()
}

/// A value of a schema: at a bound, or between.
fn of_schema(rng: &mut Rng, name: &str, schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        return rng.pick(choices).as_str().expect("choices are words").to_owned();
    }
    match schema["type"].as_str() {
        Some("boolean") => (*rng.pick(&["true", "false"])).to_owned(),
        // A healthy node needs a moment, too.
        Some("integer") if name == "timeout_ms" => "60000".to_owned(),
        Some("integer") => {
            let (min, max) = (schema["minimum"].as_u64().unwrap(), schema["maximum"].as_u64().unwrap());
            let middle = rng.between(min, max.min(min + 100));
            rng.pick(&[min, middle, max]).to_string()
        }
        _ if name == "key" => (*rng.pick(&KEYS)).to_owned(),
        _ if schema["pattern"].is_string() => (*rng.pick(&["default", "default", "nowhere"])).to_owned(),
        _ => text(rng, name),
    }
}

fn body(rng: &mut Rng, document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    if let Some(choices) = schema["oneOf"].as_array() {
        let choice = rng.pick(choices).clone();
        return body(rng, document, &choice);
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut made = Map::new();
    for (name, example) in schema["example"].as_object().into_iter().flatten() {
        let is_required = required.iter().any(|one| one == name);
        if !is_required && rng.chance(500_000) {
            continue;
        }
        let part = match (name.as_str(), example) {
            ("value", _) => value(rng),
            ("key", _) => json!(rng.pick(&["a", "b", "dir/c"])),
            (_, Value::Number(_)) => json!(rng.pick(&[0, 1, 5, 1_000])),
            _ => example.clone(),
        };
        made.insert(name.clone(), part);
    }
    Value::Object(made)
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => &document["components"]["schemas"][path.rsplit('/').next().unwrap()],
        None => schema,
    }
}

fn has_required(document: &Value, schema: &Value, answered: &Value) -> bool {
    let schema = resolved(document, schema);
    let any = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    if let Some(choices) = any {
        return choices.iter().any(|choice| has_required(document, choice, answered));
    }
    let required = schema["required"].as_array().into_iter().flatten();
    required.into_iter().all(|name| answered.get(name.as_str().unwrap()).is_some())
}

struct Request {
    target: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// A request of an operation with the parameters that are chosen.
fn request(
    rng: &mut Rng,
    document: &Value,
    operation: &Operation<'_>,
    chosen: &dyn Fn(&mut Rng, &Value) -> Option<String>,
) -> Request {
    let (mut path, mut query) = (operation.path.to_owned(), Vec::new());
    let mut key = *rng.pick(&KEYS);
    let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    for param in operation.described["parameters"].as_array().unwrap() {
        let (name, schema) = (param["name"].as_str().unwrap(), &param["schema"]);
        let place = param["in"].as_str().unwrap();
        let given = match (place, name) {
            ("path", "key") => Some(key.to_owned()),
            ("path", _) => Some(of_schema(rng, name, schema)),
            _ => chosen(rng, param),
        };
        let Some(given) = given else { continue };
        if place == "path" && COLLECTIONS.contains(&given.as_str()) {
            key = "rows";
        }
        match place {
            "path" => {
                path = path.replace(&format!("{{{name}}}"), if given.is_empty() { "x" } else { &given })
            }
            "query" => query.push(format!("{name}={given}")),
            _ => headers.push((name.to_owned(), given)),
        }
    }
    let schema = &operation.described["requestBody"]["content"]["application/json"]["schema"];
    let body = if schema.is_null() { String::new() } else { body(rng, document, schema).to_string() };
    let target = if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) };
    Request { target, headers, body }
}

fn send(rest: Rest, operation: &Operation<'_>, request: &Request) -> Answer {
    let headers: Vec<(&str, &str)> =
        request.headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    rest.call(&operation.method.to_uppercase(), &request.target, &headers, request.body.as_bytes())
}

fn check(document: &Value, operation: &Operation<'_>, request: &Request, answer: &Answer) {
    let told = || {
        let Request { target, headers, body } = request;
        format!("{} {target} {headers:?} {body}: {} {}", operation.method, answer.status, answer.shown())
    };
    assert!(answer.status < 500, "a healthy node: {}", told());
    let documented = &operation.described["responses"][answer.status.to_string()];
    assert!(documented.is_object(), "undocumented: {}", told());
    let schema = &documented["content"]["application/json"]["schema"];
    let is_json = answer.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    if is_json && answer.header("content-disposition").is_none() {
        assert!(has_required(document, schema, &answer.json()), "fields are missing: {}", told());
    }
}

#[test]
fn what_the_document_allows_is_answered_as_it_says() {
    let (mut member, rest) = single();
    let document = rest.get("/openapi.json").json();
    let operations = operations(&document);
    let mut rng = Rng::new(20);
    for _ in 0..REQUESTS {
        let operation = &operations[rng.between(0, operations.len() as u64) as usize];
        let some = |rng: &mut Rng, param: &Value| {
            let name = param["name"].as_str().unwrap();
            rng.chance(250_000).then(|| of_schema(rng, name, &param["schema"]))
        };
        let request = request(&mut rng, &document, operation, &some);
        check(&document, operation, &request, &send(rest, operation, &request));
    }
    assert!(member.is_running());
}

/// What depends on the namespace, or on the type that the path names.
fn is_relative(operation: &Operation<'_>, name: &str) -> bool {
    matches!(name, "r" | "w") || name == "reverse" && operation.path.contains("/crdt/")
}

#[test]
fn whatever_lies_within_the_bounds_of_the_document_is_taken() {
    let (_member, rest) = single();
    let document = rest.get("/openapi.json").json();
    let mut rng = Rng::new(21);
    for operation in operations(&document).iter().filter(|operation| operation.method == "get") {
        let params = operation.described["parameters"].as_array().unwrap();
        let names_key = params.iter().any(|param| param["in"] == "query" && param["name"] == "key");
        let bare = request(&mut rng, &document, operation, &|_, _| None);
        if names_key || send(rest, operation, &bare).status == 400 {
            // It needs a parameter.
            continue;
        }
        for param in params {
            let name = param["name"].as_str().unwrap();
            let schema = &param["schema"];
            let is_bounded = schema["type"] != "string";
            if param["in"] != "query" || !is_bounded || is_relative(operation, name) {
                continue;
            }
            for _ in 0..6 {
                let alone = |rng: &mut Rng, other: &Value| {
                    (other["name"] == name).then(|| of_schema(rng, name, schema))
                };
                let request = request(&mut rng, &document, operation, &alone);
                let answer = send(rest, operation, &request);
                assert_ne!(answer.status, 400, "{} {}", request.target, answer.shown());
            }
        }
    }
}
