//! Planted bugs of the threads, sockets and users of a node: `base::mutant` says what they are for. The simulator runs nothing of this crate: tests of the
//! crate find them, or tests with real processes (`crates/cli/tests/it/planted.rs`).

base::mutants! {
    /// A signed token serves for ever.
    ExpiredTokenTaken = "expired-token-taken",
    /// Logins by name and password on the data plane come without the address of their client.
    LoginAddressForgotten = "login-address-forgotten",
    /// A join token admits as many nodes as show it.
    JoinTokenServesTwice = "join-token-serves-twice",
    /// An open peer port takes frames from every address.
    PeerAddressUnchecked = "peer-address-unchecked",
    /// Questions of strangers on the peer port are not counted.
    QuestionsUncounted = "questions-uncounted",
    /// A refusal is not recorded in the audit log.
    RefusalNotRecorded = "refusal-not-recorded",
}
