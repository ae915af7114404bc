//! What operators do by hand, described as `operations.rs` describes the rest.

use super::operations::{ApiOperation, operation};

pub const OPERATOR_OPERATIONS: &[ApiOperation] = &[
    ApiOperation {
        answers: &[(200, "Settings")],
        refusals: &[503],
        ..operation(
            "get",
            "/v1/settings",
            "maintenance",
            "The settings of this node, and where each came from",
        )
    },
    ApiOperation {
        body: Some("CompactWanted"),
        answers: &[(200, "Changed")],
        refusals: &[400, 503],
        ..operation("post", "/v1/compaction", "maintenance", "Forgets the past of all keys before a revision")
    },
    ApiOperation {
        answers: &[(200, "Defragmented")],
        refusals: &[503],
        ..operation(
            "post",
            "/v1/defragment",
            "maintenance",
            "Gives the free space of this node's stores back, while it serves",
        )
    },
    ApiOperation {
        answers: &[(200, "Quota")],
        refusals: &[503],
        ..operation(
            "get",
            "/v1/quota",
            "maintenance",
            "How much keys and values may take, and how much they do",
        )
    },
    ApiOperation {
        body: Some("QuotaWanted"),
        answers: &[(200, "Quota")],
        refusals: &[400, 503],
        ..operation("put", "/v1/quota", "maintenance", "Sets the quota of all members")
    },
    ApiOperation {
        answers: &[(200, "Bytes")],
        refusals: &[503],
        ..operation(
            "get",
            "/v1/snapshot",
            "maintenance",
            "The coordination store of this member as a file, as `althing snapshot save` writes it",
        )
    },
    ApiOperation {
        answers: &[(200, "Changed")],
        refusals: &[503],
        ..operation("delete", "/v1/alarms", "maintenance", "Clears all alarms")
    },
    ApiOperation {
        body: Some("LeaderWanted"),
        answers: &[(200, "Changed")],
        refusals: &[400, 404, 503],
        ..operation(
            "put",
            "/v1/leader",
            "maintenance",
            "Hands leadership to a member; only the leader does that",
        )
    },
    ApiOperation {
        answers: &[(200, "SlowRequests")],
        ..operation(
            "get",
            "/v1/slow-requests",
            "maintenance",
            "The last requests of this node that took long, and where their time went",
        )
    },
    ApiOperation {
        answers: &[(200, "Upgrade")],
        ..operation(
            "get",
            "/v1/upgrade",
            "maintenance",
            "Which release every node runs, and what is left to do",
        )
    },
    ApiOperation {
        answers: &[(200, "Upgrade")],
        refusals: &[503],
        ..operation(
            "post",
            "/v1/upgrade/finalize",
            "maintenance",
            "Closes the way back to the release before",
        )
    },
];
