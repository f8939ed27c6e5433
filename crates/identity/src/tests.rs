//! Tests, by subject.
