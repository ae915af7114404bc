//! The server's side of one HTTP/2 connection (RFC 9113), without a socket: bytes of the client go in, events
//! come out; answers go in, bytes for the client come out, all of them in one buffer that is written at once.
//! Time is an argument. Whatever the client sends, nothing panics, nothing waits for ever, and memory is bounded
//! by `Limits`: by the windows, the streams, the header bytes and the budget for what costs more than it is worth.

mod budget;
mod connection;
mod error;
mod frame;
mod head;
pub mod hpack;
mod mutant;
mod outgoing;
mod stream;

pub use connection::{Connection, Event, Limits};
pub use error::ErrorCode;
pub use frame::PREFACE;
pub use head::Head;
pub use hpack::Field;
pub use mutant::Mutant;

/// A stream of a connection: one request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u32);
