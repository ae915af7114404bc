//! The allocator of the binaries. What is freed goes back to the system within tens of milliseconds instead of a
//! second: after a burst of writes a server would otherwise show, and keep from others, a quarter more than it uses.
//! The only crate with unsafe code of our own: one call into the allocator that stores a number.

use std::ffi::{c_int, c_long};

pub use mimalloc::MiMalloc as Allocator;

/// `mi_option_purge_delay`, in milliseconds.
const PURGE_DELAY: c_int = 15;

#[allow(unsafe_code)]
unsafe extern "C" {
    // Part of the allocator's library, which is linked for `Allocator`.
    safe fn mi_option_set(option: c_int, value: c_long);
    #[cfg(test)]
    safe fn mi_option_get(option: c_int) -> c_long;
}

/// Long enough that a buffer which is freed and wanted again in the same turn is not given back in between.
const PURGE_AFTER_MS: c_long = 10;

/// To be called first in `main`. Overrides `MIMALLOC_PURGE_DELAY`.
pub fn set_purge_delay() {
    mi_option_set(PURGE_DELAY, PURGE_AFTER_MS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Allocator = Allocator;

    /// A newer allocator might renumber its options; the default value shows that the number is still right.
    #[test]
    fn the_option_is_the_delay_of_purging() {
        assert_eq!(mi_option_get(PURGE_DELAY), 1000, "a second is what the allocator waits by itself");
        set_purge_delay();
        assert_eq!(mi_option_get(PURGE_DELAY), PURGE_AFTER_MS);
    }
}
