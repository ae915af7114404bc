//! The client port of a real member, spoken to by an independent HTTP/2 client that says exactly what it is told.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod auth;
mod bridge;
mod client;
mod fast;
mod world;
