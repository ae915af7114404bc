//! Tests of `overlap`.
