//! Planted bugs of the threads, sockets and users of a node: `base::mutant` says what they are for. The simulator runs nothing of this crate: tests of the
//! crate find them, or tests with real processes (`crates/cli/tests/it/planted.rs`).

base::mutants! {
    /// A signed token serves for ever.
    ExpiredTokenTaken = "expired-token-taken",
    /// A join token admits as many nodes as show it.
    JoinTokenServesTwice = "join-token-serves-twice",
    /// An open peer port takes frames from every address.
    PeerAddressUnchecked = "peer-address-unchecked",
    /// A refusal is not recorded in the audit log.
    RefusalNotRecorded = "refusal-not-recorded",
}
