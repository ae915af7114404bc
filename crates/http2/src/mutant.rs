//! Planted bugs of HTTP/2 connections: `base::mutant` says what they are for. The simulator runs nothing of this crate: tests of the
//! crate find them, or tests with real processes (`crates/cli/tests/it/planted.rs`).

base::mutants! {
    /// Frames that cost more than they are worth are not charged.
    FramesUncharged = "frames-uncharged",
}
