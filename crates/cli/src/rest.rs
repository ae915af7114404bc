//! What the verbs of the data API share: endpoints, timeouts, output, and an HTTP client that
//! makes one request. The crate `api` serves the API; the two share only the wire format.

mod http;
mod options;

pub use http::RestStream;
pub use options::{Format, RestCall, RestOptions};
