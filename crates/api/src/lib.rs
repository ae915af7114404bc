//! The only room that knows gRPC, HTTP and JSON.
