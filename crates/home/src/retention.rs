//! What of the ledger need not be kept, by the configuration and by what sinks have delivered.

use std::time::Duration;

use config::Retention;

use crate::Home;

/// What the configuration wants kept, when it is `now_ms`.
pub fn keep_of(wanted: Retention, read_from: Option<u64>, now_ms: u64) -> audit::Keep {
    let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let since_ms = wanted.age.map(|span| now_ms.saturating_sub(ms(span)));
    audit::Keep {
        since_ms,
        max_bytes: wanted.max_bytes,
        read_from,
    }
}

/// The first record that one of these sinks has not delivered yet. Where that cannot be told, nothing has been.
pub fn read_from(home: &Home, sinks: &[sinks::Spec]) -> Option<u64> {
    sinks::lowest_cursor(&home.sinks(), sinks.iter().map(|spec| spec.name.as_str())).unwrap_or_else(
        |error| {
            tracing::error!(%error, "the ledger keeps everything until this is repaired");
            Some(0)
        },
    )
}

/// The same in words, for the record of a removal.
pub fn describe(wanted: Retention) -> String {
    let age = wanted
        .age
        .map(|span| format!("audit.retention is {}", config::units::show_duration(span)));
    let size = wanted
        .max_bytes
        .map(|bytes| format!("audit.max_bytes is {}", config::units::show_size(bytes)));
    age.into_iter().chain(size).collect::<Vec<_>>().join(", ")
}
