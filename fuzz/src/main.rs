//! The fuzzer's binary: libFuzzer drives it, `FUZZ_TARGET` names the function that gets the bytes.
//! Built and run by `cargo xtask fuzz`, which instruments it for coverage.

#![no_main]

use fuzz_targets::{Target, target};
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET names no target: {name:?}"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
