//! Configuration: one table of settings, four sources of values, one check.
//! Flags, environment and a file go in; a `server::Config` in which every value is usable comes out, or a list
//! of everything that is wrong with it.

pub mod check;
pub mod gather;
pub mod inherited;
pub mod print;
pub mod security;
pub mod setting;
pub mod tls;
pub mod tokens;
pub mod values;
