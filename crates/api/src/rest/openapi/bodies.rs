//! Bodies of requests and answers: their schemas, each with an example that can be sent or is what is answered.

use serde_json::{Map, Value, json as object};

/// A body of a request.
pub fn request(name: &str) -> Value {
    let mut content = object!({ "application/json": { "schema": reference(name) } });
    if name == "Value" {
        content["application/octet-stream"] = object!({ "schema": { "type": "string", "format": "binary" } });
    }
    object!({ "required": !matches!(name, "Argument" | "Wanted"), "content": content })
}

/// The answer of a request that succeeds.
pub fn answer(status: u16, name: &str) -> Value {
    let about = match status {
        201 => "Created",
        206 => "Some partitions did not answer; something may be missing",
        207 => "Some keys succeeded; each result has a status of its own",
        _ => "Done",
    };
    let mut answer = object!({
        "description": about,
        "content": { "application/json": { "schema": reference(name) } },
    });
    if name == "Bytes" {
        answer["content"] = object!({ "application/octet-stream": { "schema": reference(name) } });
    }
    if matches!(name, "Record" | "Committed" | "Found" | "Done" | "Merged") {
        let mut headers = Map::new();
        let mut header = |name: &str, about: &str| {
            headers.insert(name.into(), object!({ "description": about, "schema": { "type": "string" } }))
        };
        header("X-Vector-Clock", "The exact version, to be handed back");
        if matches!(name, "Record" | "Committed") {
            header("X-Served-From", "The region that answered");
        }
        if name == "Record" {
            header("X-Replication-Lag-Ms", "How far this region is behind the others");
        }
        if name == "Committed" {
            header("X-Replicated-To", "Other regions that have it already, as a JSON array");
        }
        answer["headers"] = headers.into();
    }
    answer
}

pub fn refusal(status: u16) -> Value {
    let (about, schema) = match status {
        400 => ("Something is wrong with the request; the message says what would be right", "Refusal"),
        401 => ("Auth is on, and the request does not say whose it is, or proves it wrongly", "Refusal"),
        403 => ("The user has no permission for that", "Refusal"),
        404 => ("Never written, or no such thing", "Refusal"),
        409 => ("Something is there that the writer has not seen, or that does not fit", "ConflictDetected"),
        410 => ("Deleted or expired", "Refusal"),
        413 => ("Too large", "Refusal"),
        421 => {
            ("The request is for a host name that is not this node's; allowed-hosts lists others", "Refusal")
        }
        422 => (
            "The X-Request-Id was used for something else, or is older than requests are remembered",
            "Refusal",
        ),
        429 => ("Too much at once; Retry-After says when to try again", "Refusal"),
        507 => ("The disks have no space for it; deletes need less, and free space", "Refusal"),
        _ => (
            "Too few replicas answered; a write may stay or not. Retry-After says when to try again",
            "Indeterminate",
        ),
    };
    object!({ "description": about, "content": { "application/json": { "schema": reference(schema) } } })
}

/// A batch is refused as a whole, or each of its parts is.
pub fn refusal_of_batch(status: u16) -> Value {
    let mut refusal = refusal(status);
    let schema = &mut refusal["content"]["application/json"]["schema"];
    *schema = object!({ "anyOf": [schema.clone(), reference("Results")] });
    refusal
}

fn reference(name: &str) -> Value {
    object!({ "$ref": format!("#/components/schemas/{name}") })
}

fn operations() -> Value {
    object!({ "operations": [
        { "get": "user_a" }, { "put": { "key": "user_b", "value": "200" } },
        { "delete": "user_c", "options": { "request_id": "c-17" } },
        { "crdt": { "type": "counter", "key": "visits", "operation": "increment", "argument": { "amount": 5 } } },
    ] })
}

pub fn schemas() -> Map<String, Value> {
    let requests = object!({
        "Entry": schema(&["key", "value"], object!({ "key": "user_1", "value": "Alice" })),
        "Value": schema(&["value"], object!({
            "value": { "name": "Alice" }, "ttl": 86400, "metadata": { "source": "mobile-app" },
        })),
        "Entries": schema(&["entries"], object!({ "entries": [
            { "key": "user_a", "value": "100" }, { "key": "user_b", "value": "200" },
        ] })),
        "Keys": schema(&["keys"], object!({ "keys": ["user_a", "user_b"] })),
        "Operations": schema(&["operations"], operations()),
        "KeysOrEntries": object!({
            "oneOf": [reference("Operations"), reference("Keys"), reference("Entries")], "example": operations(),
        }),
        "Argument": schema(&[], object!({ "amount": 5, "bound": 0, "element": "blue", "fields": { "name": "Ann" } })),
        "Places": schema(&["peers"], object!({ "peers": ["10.1.0.1:2380", "10.1.0.2:2380"] })),
        "HomeWanted": schema(&["region"], object!({
            "region": "eu-west", "prefix": "eu/", "lease_ms": 10_000, "epoch": 2,
        })),
        "Script": schema(&["script"], object!({ "script": "larger(left, right)" })),
        "CoordPut": schema(&[], object!({ "value": "text", "mod_revision": 17, "lease": "694d81a" })),
        "LockUpdate": schema(&["metadata"], object!({ "metadata": "half done" })),
        "Login": schema(&["user", "password"], object!({ "user": "ann", "password": "…" })),
        "CompactWanted": schema(&["revision"], object!({ "revision": 100 })),
        "QuotaWanted": schema(&["bytes"], object!({ "bytes": 8_000_000_000_u64 })),
        "LeaderWanted": schema(&["node"], object!({ "node": "n2" })),
        "Wanted": schema(&[], object!({ "n": 3, "default_type": "lww_register", "conflict_policy": "LWW" })),
    });
    let answers = object!({
        "Done": schema(&["status"], object!({ "status": "ok", "key": "user_1", "timestamp": 1_737_541_800_045_u64 })),
        "Found": schema(&["key", "value"], object!({
            "key": "user_1", "value": "Alice", "timestamp": 1_737_541_800_045_u64,
        })),
        "Page": schema(&["next_page", "complete"], object!({
            "entries": [{ "key": "user_a", "value": "100", "timestamp": 1_737_541_800_045_u64 }],
            "next_page": null, "complete": true, "count": 1,
        })),
        "RangeDeleted": schema(&["deleted", "failed", "next_page", "complete"], object!({
            "deleted": 4711, "failed": 0, "next_page": null, "complete": true,
        })),
        "Results": schema(&["succeeded", "failed", "results"], object!({
            "succeeded": 1, "failed": 1,
            "results": [{ "key": "user_a", "status": 200 }, { "key": "", "status": 400, "error": "empty_key" }],
        })),
        "Record": schema(&["key", "value", "type", "vector_clock", "created_at", "last_modified"], object!({
            "key": "user:12345", "value": { "name": "Alice" }, "type": "lww_register",
            "vector_clock": { "us-east": 42 }, "created_at": "2025-01-20T08:00:00.000Z",
            "last_modified": "2025-01-22T10:30:00.000Z",
        })),
        "Committed": schema(&["status", "vector_clock"], object!({
            "status": "committed", "vector_clock": { "us-east": 43 },
        })),
        "Merged": schema(&[], object!({
            "value": 127, "state": { "us-east": 80 }, "bound": 0, "rights": { "us-east": 80 },
        })),
        "Namespace": schema(&["namespace", "n"], object!({
            "namespace": "shop", "n": 3, "default_type": "lww_register", "conflict_policy": "LWW",
        })),
        "Namespaces": schema(&["namespaces"], object!({ "namespaces": [] })),
        "Conflict": schema(&["conflict_id", "key"], object!({
            "conflict_id": "63…", "namespace": "default", "key": "user_1", "resolution_strategy": "last_write_wins",
            "winning_value": "Alice", "losing_value": "Bob", "losing_values": [], "winning_clock": {}, "losing_clock": {},
            "local_clock": {}, "remote_clock": {},
            "source_region": "us-east", "resolved_at": "2025-01-22T10:30:00.000Z",
        })),
        "Conflicts": schema(&["conflicts", "next_page", "nodes_missing"], object!({
            "conflicts": [], "next_page": null, "nodes_missing": [], "order": "oldest",
        })),
        "Home": schema(&["namespace", "prefix", "home_region", "epoch", "writable_here"], object!({
            "namespace": "shop", "prefix": "", "home_region": "eu-west", "epoch": 2, "lease_ms": 10_000,
            "settled": true, "writable_here": true,
        })),
        "Handler": schema(&["handler"], object!({ "handler": "widest", "script": "larger(left, right)" })),
        "Handlers": schema(&["handlers"], object!({ "handlers": [{ "handler": "max", "built_in": true }] })),
        "Region": schema(&["region", "peers"], object!({
            "region": "us-east", "peers": ["10.1.0.1:2380"], "healthy": true, "lag_out_ms": 12, "lag_in_ms": 9,
            "acknowledged": 4711, "last": 4712, "trouble": null,
        })),
        "Regions": schema(&["region", "regions"], object!({
            "region": "eu-west", "version": 2, "digest": "5f…", "log": { "first": 1, "last": 0, "bytes": 0 },
            "regions": [],
        })),
        "Ring": schema(&["epoch", "nodes"], object!({ "epoch": 7, "partitions": 256, "n": 3, "nodes": [] })),
        "Moving": schema(&["node", "status"], object!({ "node": "9f3a", "status": "leaving" })),
        "Clients": schema(&["clients", "total"], object!({
            "clients": [{
                "id": 7, "user": "ann", "address": "10.0.0.9:53122", "connected_at": "2025-01-22T10:30:00.000Z",
                "streams": 2, "watches": 1, "requests": 4711, "agent": "grpc-go/1.70.0", "leases": ["694d81"],
            }],
            "total": 1, "next_page": null,
        })),
        "Watches": schema(&["watches", "total"], object!({
            "watches": [{
                "id": 0, "stream": 3, "client": 7, "user": "ann", "key": "jobs/", "range_end": "jobs0",
                "encoding": null, "start_revision": 0, "next_revision": 42, "lag": 0, "state": "live",
                "filters": [], "prev_kv": false,
            }],
            "total": 1, "next_page": null,
        })),
        "Leases": schema(&["leases", "more"], object!({
            "leases": [{
                "id": "694d81", "granted_ttl": 60, "granted_at": "2025-01-22T10:30:00.000Z", "left_ms": 51_200,
                "expires_at": "2025-01-22T10:31:00.000Z", "keys": ["jobs/1"], "encoding": null, "key_count": 1,
                "client": 7, "user": "ann",
            }],
            "more": false,
        })),
        "Compaction": schema(&["revision", "compact_revision", "pins"], object!({
            "revision": 90_000, "compact_revision": 40_000, "retention_revision": 80_000,
            "needed_revision": 41_000, "lag_bound_revision": 0, "sweeping": false,
            "pins": [{
                "reason": "a watch that has not been sent everything", "revision": 41_000, "given_up": false,
                "stream": 3, "watch": 0, "client": 7,
            }],
            "last_round": {
                "goal_revision": 80_000, "agreed_revision": 40_999, "outcome": "held back",
                "needs": [{ "member": "9f3a", "revision": 41_000 }], "silent": [],
            },
        })),
        "Cluster": schema(&["summary", "nodes"], object!({
            "cluster": "9f3a", "region": "eu-west", "node": "1a2b", "leader": "1a2b", "term": 3, "revision": 4711,
            "healthy": true, "summary": "3 of 3 members healthy, leader n1, no alarms", "guarantees": [], "alarms": [],
            "nodes": {},
        })),
        "Events": schema(&["events"], object!({ "events": [
            { "at_ms": 1_737_541_800_045_u64, "node": "n1", "kind": "leader", "text": "n2 leads since term 3" },
        ] })),
        "Samples": schema(&["node", "series", "samples"], object!({ "node": "1a2b", "series": [], "samples": {} })),
        "CoordKeys": schema(&["revision", "folders", "keys"], object!({
            "revision": 4711, "count": 2, "folders": [{ "prefix": "app/", "count": 1 }], "keys": [], "next_page": null,
        })),
        "CoordKey": schema(&["mod_revision"], object!({
            "key": "app/config", "value": "text", "value_bytes": 4, "create_revision": 3, "mod_revision": 17,
            "version": 2, "lease": null, "revision": 4711,
        })),
        "CoordHistory": schema(&["changes", "more"], object!({ "changes": [], "more": false, "compact_revision": 0 })),
        "Changed": schema(&["status"], object!({ "status": "ok", "revision": 4712 })),
        "Lock": schema(&["name", "token", "queue"], object!({
            "name": "jobs/42", "key": "jobs/42/694d81a", "holder": "worker-1", "lease": "694d81a", "token": 17,
            "remaining_ttl_ms": 9_000, "queue": [],
        })),
        "Locks": schema(&["locks", "count"], object!({
            "locks": [], "count": 0, "waiters": 0, "hidden": 0, "complete": true, "next_page": null,
        })),
        "Session": schema(&["auth"], object!({ "auth": true, "user": "ann", "root": false })),
        "Token": schema(&["user", "token"], object!({ "user": "ann", "token": "…" })),
        "AccessTable": schema(&["users", "roles"], object!({ "auth": true, "users": [], "roles": [] })),
        "Document": object!({ "type": "object" }),
    });
    let operators = object!({
        "Bytes": object!({ "type": "string", "format": "binary" }),
        "Defragmented": schema(&["before_bytes", "after_bytes"], object!({
            "node": "n1", "before_bytes": 67_000_000, "after_bytes": 2_100_000,
        })),
        "Quota": schema(&["quota_bytes", "stored_bytes"], object!({
            "quota_bytes": 8_000_000_000_u64, "stored_bytes": 120_000,
        })),
        "SlowRequests": schema(&["node", "slow_requests"], object!({
            "node": "n1", "slow_requests": [{
                "at_ms": 1_737_541_800_045_u64, "kind": "put", "bytes": 120, "refusal": null, "took_ms": 812.4,
                "phases": {
                    "queue_ms": 0.1, "log_sync_ms": 790.2, "replication_ms": 20.1, "apply_ms": 1.9,
                    "reply_ms": 0.1,
                },
            }],
        })),
        "Settings": schema(&["settings"], object!({ "node": "n1", "settings": [] })),
        "Upgrade": schema(&["level", "newest_level", "finished", "summary", "nodes"], object!({
            "level": 0, "newest_level": 1, "finished": false, "summary": "waiting for n3 (release 0.1.0)",
            "nodes": [{
                "id": "1a2b", "name": "n1", "version": "0.2.0", "newest_level": 1, "ready": true,
                "has_old_logs": true, "trouble": null,
            }],
        })),
    });
    let refusals = object!({
        "Refusal": schema(&["error", "message"], object!({
            "error": "bad_quorum", "message": "r=4 must be from 1 to 3, the n of namespace `default`",
        })),
        "Indeterminate": schema(&["error", "message"], object!({
            "error": "indeterminate", "message": "1 of 2 replicas have acknowledged the write; …",
            "status": "indeterminate", "acks": 1, "needed": 2, "missing": ["n3"], "missing_regions": [],
        })),
        "ConflictDetected": schema(&["error", "message"], object!({
            "error": "conflict_detected", "message": "the key holds what the writer has not seen; …",
            "local_value": "Alice", "local_clock": { "us-east": 42 },
            "remote_value": "Bob", "remote_clock": { "us-east": 39 }, "resolution_hint": "concurrent_writes",
        })),
    });
    let all = [requests, answers, operators, refusals].into_iter();
    all.flat_map(|part| match part {
        Value::Object(schemas) => schemas,
        _ => Map::new(),
    })
    .collect()
}

/// The schema of an example.
fn schema(required: &[&str], example: Value) -> Value {
    let fields = example.as_object().expect("examples of bodies are objects");
    let properties: Map<String, Value> =
        fields.iter().map(|(name, value)| (name.clone(), type_of(name, value))).collect();
    let mut schema = object!({ "type": "object", "properties": properties, "example": example });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn type_of(name: &str, value: &Value) -> Value {
    match value {
        // Values are the client's.
        _ if name.ends_with("value") => object!({ "description": "Any JSON" }),
        Value::Null => object!({ "type": "string", "nullable": true }),
        Value::Bool(_) => object!({ "type": "boolean" }),
        Value::Number(_) => object!({ "type": "integer" }),
        Value::String(_) => object!({ "type": "string" }),
        Value::Array(_) => object!({ "type": "array", "items": {} }),
        Value::Object(_) => object!({ "type": "object", "additionalProperties": true }),
    }
}
