//! Tests of `origins`.
