//! Whole members with real threads, files and sockets, in one process: alone, three together, stopped and
//! started again. Nothing here sleeps for a fixed time: conditions are looked at until they hold.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod cluster;
mod config;
mod mesh;
mod pieces;
mod single;
mod world;
