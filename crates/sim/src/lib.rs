//! The seeded world, and the judges of what happened in it.
//! Histories of what clients asked and were told go in; a verdict comes out. The judges share the request and
//! reply types with the store and nothing else, so that a bug of the store cannot hide in them.

mod auth_users;
pub mod campaign;
mod clients;
pub mod counts;
pub mod crash_points;
mod damaged_logs;
mod document_writers;
pub mod durable;
mod event;
mod event_queue;
mod facts;
pub mod history;
mod history_checker;
mod host;
mod install;
pub mod lease_holders;
pub mod linear;
mod lock_clients;
mod lock_model;
mod lost_disks;
pub mod mesh_cluster;
pub mod model;
pub mod mutants;
mod nemesis;
mod network;
mod operators;
pub mod oracle;
mod permission_model;
mod readers;
mod real_time;
pub mod regions;
pub mod ring;
mod rounds;
pub mod run;
pub mod scenario;
mod seen_proposals;
pub mod serializable;
mod sessions;
mod settings;
mod show;
pub mod soak;
mod truth;
mod watch_checker;
mod watchers;
mod workload;
mod world;

#[cfg(test)]
mod builders;
#[cfg(test)]
mod lawful;
