//! Planted bugs of the ports for clients: `base::mutant` says what they are for. The simulator runs nothing of this crate: tests of the
//! crate find them, or tests with real processes (`crates/cli/tests/it/planted.rs`).

base::mutants! {
    /// A request may be for any name.
    HostUnchecked = "host-unchecked",
    /// A page of any origin may ask.
    OriginUnchecked = "origin-unchecked",
    /// Data are shown to and changed by every user that is known.
    DataPermissionUnchecked = "data-permission-unchecked",
    /// The certificate of a proxy counts for those whose requests it passes on.
    ProxyTakenForCaller = "proxy-taken-for-caller",
    /// What a request held of the budget for incomplete ones stays held when it ends.
    BudgetNotGivenBack = "budget-not-given-back",
    /// A caller is told that its deadline has passed before it has.
    DeadlineToldEarly = "deadline-told-early",
    /// Values are stored that no reader can take.
    ValueUnchecked = "value-unchecked",
}
