//! The page of gRPC services, from the descriptors that are compiled into the program.

use super::{code, table};

const HEAD: &str = "\
Served on `client-addr` (2379). Services of the packages `etcdserverpb`, `v3lockpb` and `v3electionpb` are etcd's; \
[COMPAT.md](../../COMPAT.md) has a row for each call and lists every deviation. The files are in \
[crates/proto/proto](../../crates/proto/proto). etcd's services, and `LockService`, are served as JSON below `/v3/` and `/v1/lock/` too.\n";

pub fn render() -> String {
    let calls = api::reference::grpc_calls();
    let mut text = HEAD.to_owned();
    for service in calls.chunk_by(|left, right| left.service == right.service) {
        text.push_str(&format!("\n## {}\n\n", service[0].service));
        let rows = service.iter().map(|call| [code(&call.method), code(&call.request), code(&call.response)]);
        text.push_str(&table(["call", "request", "response"], rows));
    }
    text
}
