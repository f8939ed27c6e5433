//! `limits`: what one request, one caller and the whole gate may take.

use super::{HOUR_MS, KIB, Key, Kind, MIB, key};

pub static LIMITS: &[Key] = &[
    key(
        "max_body_bytes",
        Kind::Size(KIB..=256 * MIB),
        "4 MiB",
        "The largest request body. A batch is at most 100 messages.",
    ),
    key(
        "max_depth",
        Kind::Count(4..=256),
        "64",
        "The deepest nesting of objects and arrays in a request.",
    ),
    key(
        "max_header_bytes",
        Kind::Size(KIB..=MIB),
        "16 KiB",
        "The largest request head, of at most 128 header lines.",
    ),
    key(
        "max_result_bytes",
        Kind::Size(KIB..=1024 * MIB),
        "32 MiB",
        "The largest result of one call. A server's own `max_result_bytes` can only be smaller. Answers that wait for their readers take at \
         most four times this for one caller and sixteen times for all together, and 1 MiB for each caller.",
    ),
    key(
        "max_concurrent_calls",
        Kind::Count(1..=65_536),
        "256",
        "Calls in flight at once, over all callers.",
    ),
    key(
        "max_concurrent_calls_per_caller",
        Kind::Count(1..=65_536),
        "64",
        "Calls of one credential in flight at once. Calls that wait for a person's approval or for the client's answer to a question are \
         not counted; of those there are at most 64.",
    ),
    key(
        "max_sessions",
        Kind::Count(1..=1_000_000),
        "10000",
        "MCP sessions open at once.",
    ),
    key(
        "question_timeout",
        Kind::Duration(1_000..=HOUR_MS),
        "10m",
        "How long a question that a server asks the client in the middle of a call waits for its answer. The call's own time stands still \
         meanwhile; all questions of one call together may wait three times as long. After that the call is cancelled.",
    ),
    key(
        "write_timeout",
        Kind::Duration(1_000..=HOUR_MS),
        "30s",
        "A client that reads nothing of an answer for this long loses its connection. One that reads at least 32 KiB a second does not.",
    ),
];
