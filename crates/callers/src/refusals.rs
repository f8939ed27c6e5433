//! What of a known caller's refusals is kept: each one while they are few, a count where they are many.
//!
//! **Invariant: what one caller is refused costs the disk a bounded amount.** A minute, a caller has [`RECORDS`] records of refusals, some
//! 700 bytes each, and [`KEPT`] of arguments kept with them: less than two megabytes in all, after a first burst of as much again.
//! Test `refusals_in_numbers_are_counted_and_fill_no_disk`.

use std::time::Duration;

use crate::{meters::Bucket, settings::Rate};

const MINUTE: Duration = Duration::from_secs(60);
/// Refusals of one caller that are on record one by one.
const RECORDS: Rate = Rate {
    calls: 600,
    per: MINUTE,
};
/// What is kept of their arguments, in units of [`UNIT`].
const KEPT: Rate = Rate {
    calls: 256,
    per: MINUTE,
};
const UNIT: u64 = 4 << 10;

/// The meters of one caller.
#[derive(Debug)]
pub struct Refusals {
    records: Bucket,
    kept: Bucket,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            records: Bucket::new("refusals".to_owned(), RECORDS),
            kept: Bucket::new("arguments".to_owned(), KEPT),
        }
    }
}

impl Refusals {
    /// Whether one more is recorded by itself.
    pub fn may_record(&self) -> bool {
        self.records.take().is_ok()
    }

    /// Whether arguments of this length are kept with it.
    pub fn may_keep(&self, bytes: usize) -> bool {
        self.kept.take_many((bytes as u64).div_ceil(UNIT)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_so_many_records_and_so_much_of_its_arguments() {
        let refusals = Refusals::default();
        let records = (0..10_000).filter(|_| refusals.may_record()).count();
        assert!((600..700).contains(&records), "{records}");
        let kept = (0..1_000).filter(|_| refusals.may_keep(64 << 10)).count();
        assert!((16..20).contains(&kept), "{kept}");
        assert!(!refusals.may_keep(64 << 10));
    }
}
