//! The locks that [`crate::Session`] is built on, named in one place: `tests/schedules` compiles the same source against others,
//! which run every order of events they can find.

pub(crate) use std::sync::{Arc, Mutex, PoisonError};
