//! The seeded world, and the judges of what happened in it.
//! Histories of what clients asked and were told go in; a verdict comes out. The judges share the request and
//! reply types with the store and nothing else, so that a bug of the store cannot hide in them.

pub mod durable;
mod facts;
pub mod history;
pub mod linear;
pub mod model;
pub mod serializable;
mod show;

#[cfg(test)]
mod lawful;
#[cfg(test)]
mod phrases;
