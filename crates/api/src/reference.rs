//! What the reference pages say of the wire: the REST API, the calls over gRPC, how codes are shown, and metrics.
//! Everything is read from the tables that the servers go by, so that a page cannot differ from them.

use base::Code;
use prost_reflect::{DescriptorPool, MessageDescriptor};

pub use crate::metrics::metric_table;
pub use crate::rest::openapi_document as openapi;

pub struct GrpcCall {
    pub service: String,
    pub method: String,
    /// The message, behind `stream` where there are several.
    pub request: String,
    pub response: String,
}

/// Every call of every service, in the order of the services' names.
pub fn grpc_calls() -> Vec<GrpcCall> {
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect("compiled descriptors are sound");
    let mut services: Vec<_> = pool.services().collect();
    services.sort_by(|left, right| left.full_name().cmp(right.full_name()));
    let calls = services.iter().flat_map(|service| service.methods());
    calls
        .map(|method| GrpcCall {
            service: method.parent_service().full_name().to_owned(),
            method: method.name().to_owned(),
            request: message(&method.input(), method.is_client_streaming()),
            response: message(&method.output(), method.is_server_streaming()),
        })
        .collect()
}

fn message(message: &MessageDescriptor, is_stream: bool) -> String {
    let name = message.full_name();
    if is_stream { format!("stream {name}") } else { name.to_owned() }
}

/// The word and the HTTP status by which the REST API tells a code.
pub fn rest_error(code: Code) -> (String, u16) {
    crate::rest::describe_code(code)
}
