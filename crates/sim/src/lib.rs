//! The seeded world, and the judges of what happened in it.
//! Histories of what clients asked and were told go in; a verdict comes out. The judges share the request and
//! reply types with the store and nothing else, so that a bug of the store cannot hide in them.

mod agenda;
pub mod campaign;
mod clerks;
mod clients;
mod contenders;
pub mod crash_points;
mod damaged_logs;
pub mod durable;
mod event;
mod facts;
mod guests;
pub mod history;
mod host;
mod install;
pub mod linear;
mod locked;
mod lost_disks;
mod marks;
pub mod model;
mod nemesis;
mod network;
mod operators;
pub mod oracle;
mod permits;
mod readers;
pub mod regions;
mod registers;
mod remembered;
pub mod ring;
mod rounds;
pub mod run;
pub mod scenario;
pub mod serializable;
mod sessions;
mod settings;
mod show;
pub mod stage;
pub mod tally;
pub mod tenants;
mod truth;
mod watched;
mod watchers;
mod workload;
mod world;

#[cfg(test)]
mod lawful;
#[cfg(test)]
mod phrases;
