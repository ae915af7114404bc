//! The client port of a real member, spoken to by an independent HTTP/2 client that says exactly what it is told.

mod bridge;
mod client;
mod fast;
mod world;
