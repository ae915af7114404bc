//! The operations of the REST API: path, method, what it is for, what it takes, and how it is answered.
//! This is text for people and programs; nothing is decided by it, and a test holds it against the routes.

pub struct ApiOperation {
    pub path: &'static str,
    pub method: &'static str,
    pub tag: &'static str,
    pub summary: &'static str,
    /// Names of `params.rs`.
    pub params: &'static [&'static str],
    /// A body of `bodies.rs`.
    pub body: Option<&'static str>,
    /// A status, and the schema of its body.
    pub answers: &'static [(u16, &'static str)],
    pub refusals: &'static [u16],
}

impl ApiOperation {
    /// Where it lies when the path names the namespace.
    pub fn path_of_namespace(&self) -> Option<String> {
        let rest = match self.tag {
            "store" => self.path.strip_prefix("/api/v1/store").map(|rest| format!("store{rest}")),
            "data" | "crdt" => self.path.strip_prefix("/v1/").map(str::to_owned),
            _ => None,
        };
        rest.map(|rest| format!("/v1/namespaces/{{ns}}/{rest}"))
    }
}

pub const TAGS: [(&str, &str); 14] = [
    ("store", "Keys and values"),
    ("data", "Keys and values with consistency levels, versions and conditions"),
    ("crdt", "Counters, sets, registers and exact numbers that merge"),
    ("namespaces", "How many copies, which type, what happens to conflicts"),
    ("handlers", "How custom values merge: built-in handlers and scripts"),
    ("conflicts", "Writes that lost, and how to bring them back"),
    ("feed", "Changes as they happen"),
    ("regions", "Other clusters that hold the same data: how far each is, and which there are"),
    ("inspect", "Clients, watches, leases, and what delays compaction"),
    ("cluster", "The ring of nodes, how each node is, and what happened"),
    ("coordination", "Keys and locks of the coordination store"),
    (
        "locks",
        "Locks with fencing tokens, on the port of the coordination store (2379) and in the form of etcd's JSON gateway: numbers of 64 bits are text, bytes are base64",
    ),
    ("access", "Who asks, and who may do what"),
    ("maintenance", "What operators do by hand"),
];

const READ: &[u16] = &[400, 404, 410, 413, 429, 503];
/// The key may hold a value of another type.
const READ_TYPED: &[u16] = &[400, 404, 409, 410, 413, 429, 503];
/// Parts of a batch may read, too.
const BATCH: &[u16] = &[400, 404, 409, 410, 413, 422, 429, 503, 507];
const WRITE: &[u16] = &[400, 404, 409, 413, 422, 429, 503, 507];
const STORE_GET: &[&str] = &["{key}", "r", "raw", "explain", "timeout_ms", "X-Session-Token", "Accept"];
const STORE_PUT: &[&str] =
    &["{key}", "w", "ttl", "sloppy", "explain", "timeout_ms", "X-Request-Id", "X-Fence"];
const STORE_DELETE: &[&str] = &["{key}", "w", "sloppy", "explain", "timeout_ms", "X-Request-Id", "X-Fence"];
const STORE_POST: &[&str] = &["w", "sloppy", "explain", "timeout_ms", "X-Request-Id", "X-Fence"];

pub const fn operation(
    method: &'static str,
    path: &'static str,
    tag: &'static str,
    summary: &'static str,
) -> ApiOperation {
    ApiOperation { path, method, tag, summary, params: &[], body: None, answers: &[], refusals: &[400] }
}

pub const OPERATIONS: &[ApiOperation] = &[
    ApiOperation {
        params: STORE_POST,
        body: Some("Entry"),
        answers: &[(200, "Done")],
        refusals: WRITE,
        ..operation("post", "/api/v1/store/keys", "store", "Puts a key: put(key, value)")
    },
    ApiOperation {
        params: STORE_GET,
        answers: &[(200, "Found")],
        refusals: READ,
        ..operation("get", "/api/v1/store/keys/{key}", "store", "Reads a key: read(key)")
    },
    ApiOperation {
        params: STORE_PUT,
        body: Some("Value"),
        answers: &[(200, "Done")],
        refusals: WRITE,
        ..operation("put", "/api/v1/store/keys/{key}", "store", "Puts a key whose value is the body")
    },
    ApiOperation {
        params: STORE_DELETE,
        answers: &[(200, "Done")],
        refusals: WRITE,
        ..operation("delete", "/api/v1/store/keys/{key}", "store", "Deletes a key: delete(key)")
    },
    ApiOperation {
        params: STORE_POST,
        body: Some("Entry"),
        answers: &[(200, "Done")],
        refusals: WRITE,
        ..operation("put", "/api/v1/store/key", "store", "The short spelling of put")
    },
    ApiOperation {
        params: &["key", "r", "raw", "explain", "timeout_ms", "X-Session-Token", "Accept"],
        answers: &[(200, "Found")],
        refusals: READ,
        ..operation("get", "/api/v1/store/key", "store", "The short spelling of read")
    },
    ApiOperation {
        params: &["key", "w", "sloppy", "explain", "timeout_ms", "X-Request-Id", "X-Fence"],
        answers: &[(200, "Done")],
        refusals: WRITE,
        ..operation("delete", "/api/v1/store/key", "store", "The short spelling of delete")
    },
    ApiOperation {
        params: STORE_GET,
        answers: &[(200, "Found")],
        refusals: READ,
        ..operation("get", "/api/v1/store/key/{key}", "store", "The short spelling of read")
    },
    ApiOperation {
        params: STORE_PUT,
        body: Some("Value"),
        answers: &[(200, "Done")],
        refusals: WRITE,
        ..operation("put", "/api/v1/store/key/{key}", "store", "The short spelling of put")
    },
    ApiOperation {
        params: STORE_DELETE,
        answers: &[(200, "Done")],
        refusals: WRITE,
        ..operation("delete", "/api/v1/store/key/{key}", "store", "The short spelling of delete")
    },
    ApiOperation {
        params: &["w", "sloppy", "timeout_ms", "X-Request-Id", "X-Fence"],
        body: Some("Entries"),
        answers: &[(200, "Results"), (207, "Results")],
        refusals: WRITE,
        ..operation(
            "post",
            "/api/v1/store/batch",
            "store",
            "Puts several keys, each on its own quorum: batchPut",
        )
    },
    ApiOperation {
        params: &[
            "start",
            "end",
            "prefix",
            "limit",
            "page",
            "r",
            "timeout_ms",
            "keys_only",
            "reverse",
            "count",
        ],
        answers: &[(200, "Page"), (206, "Page")],
        refusals: &[400, 404, 429, 503],
        ..operation(
            "get",
            "/api/v1/store/range",
            "store",
            "Reads a range of keys in order: readKeyRange(start, end); or counts them",
        )
    },
    ApiOperation {
        params: &["start", "end", "prefix", "page", "r", "w", "timeout_ms"],
        answers: &[(200, "RangeDeleted"), (206, "RangeDeleted")],
        refusals: &[400, 404, 429, 503, 507],
        ..operation(
            "delete",
            "/api/v1/store/range",
            "store",
            "Deletes the keys of a range that are there when their page is read",
        )
    },
    ApiOperation {
        params: &["type", "home_region", "since", "until", "limit", "page", "timeout_ms"],
        answers: &[(200, "Page"), (206, "Page")],
        refusals: &[400, 404, 429, 503],
        ..operation("get", "/v1/data", "data", "Finds records by type, home region and time")
    },
    ApiOperation {
        params: &[
            "{key}",
            "r",
            "raw",
            "explain",
            "timeout_ms",
            "X-Consistency-Level",
            "X-Session-Token",
            "X-Min-Vector-Clock",
            "Accept",
        ],
        answers: &[(200, "Record")],
        refusals: READ,
        ..operation("get", "/v1/data/{key}", "data", "Reads a key")
    },
    ApiOperation {
        params: &[
            "{key}",
            "w",
            "ttl",
            "sloppy",
            "explain",
            "timeout_ms",
            "X-Consistency-Level",
            "X-If-Vector-Clock",
            "X-Vector-Clock",
            "X-Conflict-Resolution",
            "X-Session-Token",
            "X-Request-Id",
            "X-Fence",
        ],
        body: Some("Value"),
        answers: &[(200, "Committed")],
        refusals: WRITE,
        ..operation("put", "/v1/data/{key}", "data", "Writes a key")
    },
    ApiOperation {
        params: &[
            "{key}",
            "w",
            "sloppy",
            "explain",
            "timeout_ms",
            "X-Consistency-Level",
            "X-If-Vector-Clock",
            "X-Vector-Clock",
            "X-Conflict-Resolution",
            "X-Session-Token",
            "X-Request-Id",
            "X-Fence",
        ],
        answers: &[(200, "Committed")],
        refusals: WRITE,
        ..operation("delete", "/v1/data/{key}", "data", "Deletes a key")
    },
    ApiOperation {
        params: &[
            "r",
            "w",
            "sloppy",
            "timeout_ms",
            "X-Consistency-Level",
            "X-Session-Token",
            "X-Request-Id",
            "X-Fence",
        ],
        body: Some("KeysOrEntries"),
        answers: &[(200, "Results"), (207, "Results")],
        refusals: BATCH,
        ..operation(
            "post",
            "/v1/data/batch",
            "data",
            "Reads the keys or writes the entries that the body names, or does operations of both sorts",
        )
    },
    ApiOperation {
        params: &["r", "timeout_ms", "X-Consistency-Level", "X-Session-Token"],
        body: Some("Keys"),
        answers: &[(200, "Results"), (207, "Results")],
        refusals: READ,
        ..operation("post", "/v1/data/batch/read", "data", "Reads several keys")
    },
    ApiOperation {
        params: &[
            "w",
            "sloppy",
            "timeout_ms",
            "X-Consistency-Level",
            "X-Session-Token",
            "X-Request-Id",
            "X-Fence",
        ],
        body: Some("Entries"),
        answers: &[(200, "Results"), (207, "Results")],
        refusals: WRITE,
        ..operation("post", "/v1/data/batch/write", "data", "Writes several keys, each on its own quorum")
    },
    ApiOperation {
        params: &[
            "{type}",
            "{key}",
            "{operation}",
            "type",
            "w",
            "sloppy",
            "timeout_ms",
            "X-Consistency-Level",
            "X-Vector-Clock",
            "X-Session-Token",
            "X-Request-Id",
            "X-Fence",
        ],
        body: Some("Argument"),
        answers: &[(200, "Merged")],
        refusals: WRITE,
        ..operation(
            "post",
            "/v1/crdt/{type}:{key}/{operation}",
            "crdt",
            "Does an operation, and answers the value afterwards",
        )
    },
    ApiOperation {
        params: &[
            "{type}",
            "{key}",
            "type",
            "r",
            "contains",
            "element",
            "limit@elements",
            "page",
            "rank",
            "min_score",
            "max_score",
            "reverse",
            "timeout_ms",
            "X-Consistency-Level",
            "X-Session-Token",
            "X-Min-Vector-Clock",
        ],
        answers: &[(200, "Merged")],
        refusals: READ_TYPED,
        ..operation("get", "/v1/crdt/{type}:{key}", "crdt", "Reads a value that merges")
    },
    ApiOperation {
        params: &[
            "{type}",
            "{key}",
            "type",
            "w",
            "sloppy",
            "timeout_ms",
            "X-Consistency-Level",
            "X-Session-Token",
            "X-Request-Id",
            "X-Fence",
        ],
        answers: &[(200, "Merged")],
        refusals: WRITE,
        ..operation(
            "delete",
            "/v1/crdt/{type}:{key}",
            "crdt",
            "Deletes it; what the delete has not seen stays",
        )
    },
    ApiOperation {
        answers: &[(200, "Namespaces")],
        refusals: &[503],
        ..operation("get", "/v1/namespaces", "namespaces", "Lists all namespaces")
    },
    ApiOperation {
        params: &["{ns}"],
        answers: &[(200, "Namespace")],
        refusals: &[400, 404, 503],
        ..operation("get", "/v1/namespaces/{ns}", "namespaces", "Tells what a namespace wants")
    },
    ApiOperation {
        params: &["{ns}"],
        body: Some("Wanted"),
        answers: &[(200, "Namespace"), (201, "Namespace")],
        refusals: &[400, 409, 429, 503],
        ..operation(
            "put",
            "/v1/namespaces/{ns}",
            "namespaces",
            "Creates a namespace, or changes its defaults; n is never changed",
        )
    },
    ApiOperation {
        params: &["{ns}"],
        answers: &[(200, "Done")],
        refusals: &[400, 404, 409, 503],
        ..operation("delete", "/v1/namespaces/{ns}", "namespaces", "Deletes an empty namespace")
    },
    ApiOperation {
        params: &["{ns}", "prefix"],
        answers: &[(200, "Home")],
        refusals: &[400, 404, 503],
        ..operation(
            "get",
            "/v1/namespaces/{ns}/home",
            "namespaces",
            "The region that owns a namespace, or the keys of it below a prefix",
        )
    },
    ApiOperation {
        params: &["{ns}"],
        body: Some("HomeWanted"),
        answers: &[(200, "Home")],
        refusals: &[400, 404, 409, 429, 503],
        ..operation(
            "put",
            "/v1/namespaces/{ns}/home",
            "namespaces",
            "Hands a namespace, or what lies below a prefix, to a region: only that region writes it, and earlier owners lose",
        )
    },
    ApiOperation {
        answers: &[(200, "Handlers")],
        refusals: &[503],
        ..operation("get", "/v1/handlers", "handlers", "Lists the handlers")
    },
    ApiOperation {
        params: &["{handler}"],
        answers: &[(200, "Handler")],
        refusals: &[404, 503],
        ..operation("get", "/v1/handlers/{handler}", "handlers", "Shows one")
    },
    ApiOperation {
        params: &["{handler}"],
        body: Some("Script"),
        answers: &[(200, "Handler"), (201, "Handler")],
        refusals: &[400, 429, 503],
        ..operation(
            "put",
            "/v1/handlers/{handler}",
            "handlers",
            "Registers a script, if it keeps the laws of merging on generated values",
        )
    },
    ApiOperation {
        params: &["{handler}"],
        answers: &[(200, "Done")],
        refusals: &[404, 429, 503],
        ..operation("delete", "/v1/handlers/{handler}", "handlers", "Forgets one")
    },
    ApiOperation {
        params: &["limit", "page", "order", "key", "filter"],
        answers: &[(200, "Conflicts")],
        refusals: &[400, 503],
        ..operation(
            "get",
            "/v1/conflicts",
            "conflicts",
            "Lists writes that lost, as the nodes of this region have them",
        )
    },
    ApiOperation {
        params: &["{id}"],
        answers: &[(200, "Conflict")],
        refusals: &[400, 404, 503],
        ..operation("get", "/v1/conflicts/{id}", "conflicts", "Shows both sides of one")
    },
    ApiOperation {
        params: &["{id}"],
        answers: &[(200, "Committed")],
        refusals: WRITE,
        ..operation(
            "post",
            "/v1/conflicts/{id}/restore",
            "conflicts",
            "Writes the loser again, over the winner",
        )
    },
    ApiOperation {
        answers: &[(200, "Regions")],
        refusals: &[503],
        ..operation(
            "get",
            "/v1/regions",
            "regions",
            "Lists the other regions, and how far each is, as this node sees it",
        )
    },
    ApiOperation {
        params: &["{region}"],
        answers: &[(200, "Region")],
        refusals: &[404, 503],
        ..operation("get", "/v1/regions/{region}", "regions", "How far one region is")
    },
    ApiOperation {
        params: &["{region}"],
        body: Some("Places"),
        answers: &[(200, "Region"), (201, "Region")],
        refusals: &[400, 429, 503],
        ..operation(
            "put",
            "/v1/regions/{region}",
            "regions",
            "Adds a region to the table, or replaces the addresses of its nodes; the other side does the same",
        )
    },
    ApiOperation {
        params: &["{region}"],
        answers: &[(200, "Done")],
        refusals: &[404, 429, 503],
        ..operation(
            "delete",
            "/v1/regions/{region}",
            "regions",
            "Evicts a region: it is not listened to, and nothing is kept or waited for on its account",
        )
    },
    ApiOperation {
        answers: &[(200, "Ring")],
        ..operation("get", "/v1/ring", "cluster", "Who is in the ring, what each keeps, and what moves")
    },
    ApiOperation {
        params: &["{node}"],
        answers: &[(202, "Moving")],
        refusals: &[400, 404, 409, 503],
        ..operation(
            "delete",
            "/v1/ring/nodes/{node}",
            "cluster",
            "Tells a node to hand over what it keeps and go; /v1/ring tells how far it is",
        )
    },
    ApiOperation {
        params: &["{node}"],
        answers: &[(202, "Moving")],
        refusals: &[400, 404, 409, 503],
        ..operation(
            "put",
            "/v1/ring/nodes/{node}",
            "cluster",
            "Tells a node that was let go to stay after all",
        )
    },
    ApiOperation {
        params: &["limit", "page", "filter", "node"],
        answers: &[(200, "Clients")],
        refusals: &[400, 404, 503],
        ..operation("get", "/v1/clients", "inspect", "The client connections of a node")
    },
    ApiOperation {
        params: &["limit", "client", "page", "filter", "node"],
        answers: &[(200, "Watches")],
        refusals: &[400, 404, 503],
        ..operation("get", "/v1/watches", "inspect", "The watches of a member, and how far each is")
    },
    ApiOperation {
        params: &["limit", "after"],
        answers: &[(200, "Leases")],
        refusals: &[400, 503],
        ..operation("get", "/v1/leases", "inspect", "All leases with their keys and times")
    },
    ApiOperation {
        params: &["node"],
        answers: &[(200, "Compaction")],
        refusals: &[400, 404, 503],
        ..operation("get", "/v1/compaction", "inspect", "How far the past is compacted, and what delays more")
    },
    ApiOperation {
        answers: &[(200, "Cluster")],
        refusals: &[503],
        ..operation(
            "get",
            "/v1/cluster",
            "cluster",
            "Every node at a glance, alarms, and what callers can rely on",
        )
    },
    ApiOperation {
        answers: &[(200, "Events")],
        refusals: &[503],
        ..operation(
            "get",
            "/v1/cluster/events",
            "cluster",
            "What happened lately on any node: elections, connections, the ring, regions, alarms, refused logins",
        )
    },
    ApiOperation {
        params: &["node"],
        answers: &[(200, "Samples")],
        refusals: &[400, 404, 503],
        ..operation(
            "get",
            "/v1/cluster/metrics",
            "cluster",
            "The last hour of one node, a sample every 5 seconds",
        )
    },
    ApiOperation {
        params: &["topics", "filter", "page", "limit@rows"],
        answers: &[(200, "Document")],
        refusals: &[400, 429],
        ..operation(
            "get",
            "/v1/events",
            "cluster",
            "A stream of server-sent events: documents of this API, whole first and then as JSON Merge Patch",
        )
    },
    ApiOperation {
        params: &["prefix", "delimiter", "limit", "page", "sample"],
        answers: &[(200, "CoordKeys")],
        refusals: &[400, 503],
        ..operation(
            "get",
            "/v1/coord/keys",
            "coordination",
            "Lists keys of the coordination store below a prefix, with a delimiter as folders",
        )
    },
    ApiOperation {
        params: &["key", "key_base64", "revision"],
        answers: &[(200, "CoordKey")],
        refusals: &[400, 404, 503],
        ..operation("get", "/v1/coord/key", "coordination", "Reads a key of the coordination store")
    },
    ApiOperation {
        params: &["key", "key_base64"],
        body: Some("CoordPut"),
        answers: &[(200, "Changed")],
        refusals: &[400, 404, 409, 413, 503, 507],
        ..operation(
            "put",
            "/v1/coord/key",
            "coordination",
            "Puts a key of the coordination store, with mod_revision only if it is as the writer has seen it",
        )
    },
    ApiOperation {
        params: &["key", "key_base64", "mod_revision"],
        answers: &[(200, "Changed")],
        refusals: &[400, 409, 503],
        ..operation("delete", "/v1/coord/key", "coordination", "Deletes a key of the coordination store")
    },
    ApiOperation {
        params: &["key", "key_base64", "limit"],
        answers: &[(200, "CoordHistory")],
        refusals: &[400, 503],
        ..operation("get", "/v1/coord/history", "coordination", "What is still known of a key's past")
    },
    ApiOperation {
        params: &["prefix", "filter", "limit@rows", "page"],
        answers: &[(200, "Locks")],
        refusals: &[400, 503],
        ..operation("get", "/v1/locks", "coordination", "Lists locks with holder, token and queue")
    },
    ApiOperation {
        params: &["name"],
        answers: &[(200, "Lock")],
        refusals: &[400, 503],
        ..operation("get", "/v1/lock", "coordination", "Shows one lock; without a holder if it is free")
    },
    ApiOperation {
        params: &["name", "token"],
        body: Some("LockUpdate"),
        answers: &[(200, "Changed")],
        refusals: &[400, 503],
        ..operation(
            "put",
            "/v1/lock",
            "coordination",
            "Replaces the metadata of the holder that has this token",
        )
    },
    ApiOperation {
        params: &["name", "key", "token"],
        answers: &[(200, "Changed")],
        refusals: &[400, 409, 503],
        ..operation(
            "delete",
            "/v1/lock",
            "coordination",
            "Takes the place of one client away: of the holder, so that the next client gets the lock, or of a waiter",
        )
    },
    ApiOperation {
        answers: &[(200, "Session")],
        ..operation(
            "get",
            "/v1/session",
            "access",
            "Whether callers must say who they are, and who this one is",
        )
    },
    ApiOperation {
        body: Some("Login"),
        answers: &[(200, "Token")],
        refusals: &[400, 401, 429, 503],
        ..operation("post", "/v1/session", "access", "A token for the name and the password of a user")
    },
    ApiOperation {
        answers: &[(200, "AccessTable")],
        refusals: &[503],
        ..operation("get", "/v1/access", "access", "Users, roles, and their permissions of both planes")
    },
    ApiOperation {
        answers: &[(200, "Document")],
        ..operation("get", "/openapi.json", "cluster", "This description")
    },
];
