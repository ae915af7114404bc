//! The calls of the lock service as JSON, below `/v1/lock/` of the port for clients of the coordination store. Paths, bodies
//! and answers come from the descriptors of the service, so what is described is what the gateway reads and writes.

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};
use serde_json::{Map, Value, json as object};

const SERVICE: &str = "althing.lock.v1.LockService";

/// A call, its path, what it is for, and what it asks of its caller.
const CALLS: [(&str, &str, &str, &str); 7] = [
    (
        "Lock",
        "/v1/lock/lock",
        "Takes a lock or waits for it; as long as `timeout_ms` says if it is given",
        BOTH,
    ),
    ("TryLock", "/v1/lock/try", "Takes a lock if it is free", BOTH),
    ("Unlock", "/v1/lock/unlock", "Gives a lock back", WRITE),
    ("Update", "/v1/lock/update", "Replaces the metadata of the holder that has this token", BOTH),
    ("Inspect", "/v1/lock/inspect", "Shows the holder of a lock and its queue", READ),
    ("List", "/v1/lock/list", "Lists locks whose names begin so", READ),
    (
        "Fence",
        "/v1/lock/fence",
        "Checks a token for a resource that is kept elsewhere, and remembers it; a lower one is refused from then on",
        READ,
    ),
];
const READ: &str = "read on the keys of the lock";
const WRITE: &str = "write on the keys of the lock";
const BOTH: &str = "read and write on the keys of the lock";

/// Another port than that of the other paths.
const SERVER: &str = "http://{host}:2379";

pub fn describe(pool: &DescriptorPool, paths: &mut Map<String, Value>, schemas: &mut Map<String, Value>) {
    for (call, path, summary, permission) in CALLS {
        let Some(method) = method_of(pool, call) else { continue };
        let answer = |about: &str, schema: Value| object!({ "description": about, "content": { "application/json": { "schema": schema } } });
        let server = object!({ "url": SERVER, "variables": { "host": { "default": "127.0.0.1" } } });
        let operation = object!({
            "servers": [server],
            "tags": ["locks"],
            "summary": summary,
            "operationId": super::id_of("post", path),
            "parameters": [],
            "requestBody": {
                "required": true,
                "content": { "application/json": { "schema": schema_of(&method.input(), schemas) } },
            },
            "responses": {
                "200": answer("Done", schema_of(&method.output(), schemas)),
                "default": answer("Refused, as by etcd's JSON gateway", object!({
                    "type": "object",
                    "properties": {
                        "error": { "type": "string" }, "code": { "type": "integer" },
                        "message": { "type": "string" },
                    },
                })),
            },
            "x-permission": permission,
        });
        paths.insert(path.to_owned(), object!({ "post": operation }));
    }
}

#[cfg(test)]
pub fn is_described(path: &str) -> bool {
    CALLS.iter().any(|(_, described, _, _)| *described == path)
}

fn method_of(pool: &DescriptorPool, call: &str) -> Option<MethodDescriptor> {
    pool.get_service_by_name(SERVICE)?.methods().find(|method| method.name() == call)
}

/// A reference; what it leads to is described once.
fn schema_of(message: &MessageDescriptor, schemas: &mut Map<String, Value>) -> Value {
    let name = message.full_name().rsplit('.').next().unwrap_or_default();
    let name = if name == "Lock" { "LockQueue".to_owned() } else { name.to_owned() };
    if !schemas.contains_key(&name) {
        schemas.insert(name.clone(), Value::Null);
        let fields = message.fields().map(|field| (field.name().to_owned(), type_of(&field, schemas)));
        let fields: Map<String, Value> = fields.collect();
        schemas.insert(name.clone(), object!({ "type": "object", "properties": fields }));
    }
    object!({ "$ref": format!("#/components/schemas/{name}") })
}

fn type_of(field: &FieldDescriptor, schemas: &mut Map<String, Value>) -> Value {
    let one = match field.kind() {
        Kind::Message(message) => schema_of(&message, schemas),
        Kind::Bytes => object!({ "type": "string", "format": "byte" }),
        Kind::String | Kind::Enum(_) => object!({ "type": "string" }),
        Kind::Bool => object!({ "type": "boolean" }),
        Kind::Double | Kind::Float => object!({ "type": "number" }),
        Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Fixed32 | Kind::Sfixed32 => {
            object!({ "type": "integer" })
        }
        // JSON's numbers do not hold them; a number is read, too.
        Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => {
            object!({ "type": "string", "format": "int64" })
        }
    };
    if field.is_list() { object!({ "type": "array", "items": one }) } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_no_stream_and_has_no_twin_in_etcd_is_described() {
        let pool = crate::serve::described();
        let calls = pool.get_service_by_name(SERVICE).unwrap();
        for method in calls.methods().filter(|method| !method.is_client_streaming()) {
            let is_etcds = method.name().starts_with("Lease");
            let is_described = CALLS.iter().any(|(call, ..)| *call == method.name());
            assert_eq!(is_described, !is_etcds, "{}", method.name());
        }
        let (mut paths, mut schemas) = (Map::new(), Map::new());
        describe(&pool, &mut paths, &mut schemas);
        assert_eq!(paths.len(), CALLS.len());
        assert_eq!(schemas["LockRequest"]["properties"]["lease_id"]["format"], "int64");
        assert_eq!(
            schemas["LockQueue"]["properties"]["queue"]["items"]["$ref"],
            "#/components/schemas/Waiter"
        );
    }
}
