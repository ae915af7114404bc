//! The state machine from outside: rules by name, and random histories against a naive model.

mod auth;
mod command;
mod compaction;
mod duplicates;
mod fences;
mod format_level;
mod generate;
mod history;
mod leases;
mod locks;
mod model;
mod mutants;
mod once;
mod put_and_delete;
mod ranges;
mod reload;
mod transactions;
mod validation;
mod world;
