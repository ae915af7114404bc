//! The client port of a real member, called by an independent HTTP/2 client that sends exactly what a test says.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod auth;
mod bridge;
mod client;
#[path = "../../../server/tests/it/config.rs"]
mod config;
mod fast;
mod leases;
mod world;
