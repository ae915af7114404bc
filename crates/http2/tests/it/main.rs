//! The machine against an independent client: conversations of many streams with the `h2` crate, over a pipe that
//! cuts the bytes at odd places, with windows and bodies of every size.

#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod conversation;
mod echo;
