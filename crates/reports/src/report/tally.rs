//! Counting by name, with a bound on how many names there are.

use std::collections::BTreeMap;

use api::Row;

/// So many names are told apart.
const NAMES: usize = 5_000;
/// And so many are reported.
const REPORTED: usize = 200;
const OTHERS: &str = "(others)";

#[derive(Debug, Default)]
pub(super) struct Tally<T>(BTreeMap<String, T>);

impl<T: Default> Tally<T> {
    /// What is counted under a name, or under "others" where there are too many already.
    pub(super) fn of(&mut self, name: &str) -> &mut T {
        let name = if self.0.len() >= NAMES && !self.0.contains_key(name) {
            OTHERS
        } else {
            name
        };
        self.0.entry(name.to_owned()).or_default()
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = (String, T)> {
        self.0.into_iter()
    }
}

impl Tally<u64> {
    pub(super) fn add(&mut self, name: &str, count: u64) {
        *self.of(name) += count;
    }

    /// The most frequent first; what is beyond the reported is one row.
    pub(super) fn into_rows(self) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .0
            .into_iter()
            .map(|(name, count)| Row { name, count })
            .collect();
        rows.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        let rest: u64 = rows.iter().skip(REPORTED).map(|row| row.count).sum();
        rows.truncate(REPORTED);
        if rest > 0 {
            rows.push(Row {
                name: OTHERS.to_owned(),
                count: rest,
            });
        }
        rows
    }
}
