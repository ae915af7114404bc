//! Tests of `load`.
