//! The coordination state machine.
//! Commands in log order go in; replies, changes and a rolling hash come out. It must be a pure function of
//! the state and the command: no clock, no randomness, no member's identity.

pub mod reply;
pub mod request;
