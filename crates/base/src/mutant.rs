//! Planted bugs, so that the simulator's checkers can be checked: each names one rule that the code keeps,
//! and breaks it where the rule is kept. Every pure crate lists its own in an enum `Mutant`. Without the `mutants` feature
//! `planted` is a constant `false` and the branches vanish; only the simulator and tests turn the feature on and choose one.

/// A planted bug of any crate. Names are unique over all crates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlantedBug {
    name: &'static str,
}

impl PlantedBug {
    pub const fn new(name: &'static str) -> PlantedBug {
        PlantedBug { name }
    }

    /// The name used on the simulator's command line.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// Declares the enum `Mutant` of a crate: a comment, a name in code and a name on the command line for each planted bug.
#[macro_export]
macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant { $($(#[$doc])* $name,)* }

        impl Mutant {
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name),*];

            pub const fn bug(self) -> $crate::mutant::PlantedBug {
                match self { $(Mutant::$name => $crate::mutant::PlantedBug::new($text),)* }
            }
        }

        impl From<Mutant> for $crate::mutant::PlantedBug {
            fn from(mutant: Mutant) -> $crate::mutant::PlantedBug {
                mutant.bug()
            }
        }
    };
}

#[cfg(feature = "mutants")]
mod chosen {
    use super::PlantedBug;
    use std::cell::Cell;
    use std::panic::{UnwindSafe, catch_unwind};
    use std::sync::OnceLock;

    thread_local! {
        static CHOSEN: Cell<Option<PlantedBug>> = const { Cell::new(None) };
    }

    static EVERYWHERE: OnceLock<PlantedBug> = OnceLock::new();

    /// Plants one bug in everything that this thread runs from now on.
    pub fn plant(bug: Option<PlantedBug>) {
        CHOSEN.set(bug);
    }

    /// Plants one bug in every thread of this process, for as long as it lives.
    pub fn plant_everywhere(name: &'static str) {
        let _ = EVERYWHERE.set(PlantedBug::new(name));
    }

    /// Whether a test, which this thread runs alone, fails while the bug is planted.
    pub fn is_caught(bug: impl Into<PlantedBug>, test: impl FnOnce() + UnwindSafe) -> bool {
        plant(Some(bug.into()));
        let outcome = catch_unwind(test);
        plant(None);
        outcome.is_err()
    }

    #[inline]
    pub fn planted(bug: impl Into<PlantedBug>) -> bool {
        match (CHOSEN.get(), EVERYWHERE.get()) {
            (None, None) => false,
            (chosen, everywhere) => {
                let bug = bug.into();
                chosen == Some(bug) || everywhere == Some(&bug)
            }
        }
    }
}

#[cfg(feature = "mutants")]
pub use chosen::{is_caught, plant, plant_everywhere, planted};

/// Planted bugs are compiled into this build: it is one for tests.
pub const COMPILED_IN: bool = cfg!(feature = "mutants");

#[cfg(not(feature = "mutants"))]
pub const fn plant_everywhere(_: &'static str) {}

#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub fn planted(_: impl Into<PlantedBug>) -> bool {
    false
}
