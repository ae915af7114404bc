//! Tests of `command`.
