//! Tests of `rows`.
