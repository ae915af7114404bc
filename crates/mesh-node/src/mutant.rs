//! Planted bugs of the driver of a node of the data plane: `base::mutant` says what they are for.

base::mutants! {
    /// A node counts the lease of its region from when it hears of it, not from when it asked.
    HomeHeldFromArrival = "home-held-from-arrival",
}

impl Mutant {
    /// Bugs that the tests of this crate find; worlds of the simulator need not.
    pub const FOUND_BY_TESTS: &'static [Mutant] = &[];
}
