//! What the verbs of the data API share: where it is, how long to wait, how to print, and a client of HTTP that is as
//! small as one request and one answer. The API itself is served by the room `api`; the two meet on the wire only.

mod http;
mod options;

pub use options::{Call, Format, RestOptions};
