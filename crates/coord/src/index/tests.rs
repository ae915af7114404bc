//! Tests of `index`.
