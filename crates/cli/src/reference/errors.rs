//! The page of errors, from the one table of codes.

use super::{code, table};
use base::Code;

const HEAD: &str = "\
Every refusal is one of these. gRPC clients match on code and message, which are etcd's where etcd has the error. The REST API answers \
with its own status where that is more precise, and names the code in the field `error`; the field `message` says what would be right. \
`althing` commands end with the exit code. [Troubleshooting](../operations/troubleshooting.md) says what to do.\n\n";

pub fn render() -> String {
    let rows = Code::ALL.iter().map(|known| {
        let grpc = known.grpc();
        let (word, status) = api::reference::rest_error(*known);
        [
            code(known.message()),
            format!("{grpc:?}"),
            grpc.http_status().to_string(),
            code(&word),
            status.to_string(),
            grpc.exit_code().to_string(),
        ]
    });
    HEAD.to_owned() + &table(["message", "gRPC", "gateway", "`error` of REST", "REST", "exit code"], rows)
}
