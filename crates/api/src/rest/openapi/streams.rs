//! The operations whose answers are streams of changes. As the others they are text, held against the routes by a test.

use super::operations::{ApiOperation, operation};

pub const STREAMS: &[ApiOperation] = &[
    ApiOperation {
        params: &["prefix", "type", "since", "format", "Last-Event-ID"],
        answers: &[(200, "Document")],
        refusals: &[400, 404, 429, 503],
        ..operation(
            "get",
            "/v1/feed",
            "feed",
            "A stream of the changes of the data plane: the state first, or what changed since a cursor, then every change. \
             Server-sent events, lines of JSON, or a WebSocket",
        )
    },
    ApiOperation {
        params: &["key", "prefix", "since", "format", "Last-Event-ID"],
        answers: &[(200, "Document")],
        refusals: &[400, 503],
        ..operation(
            "get",
            "/v1/coord/watch",
            "coordination",
            "A stream of the changes of keys of the coordination store, from now on, since a revision, or with the state first",
        )
    },
];
