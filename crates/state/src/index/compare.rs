//! Holding the index against the ledger, row by row. Catching up only counts rows; this finds those that say something else.

use std::collections::{BTreeSet, HashMap};

use audit::{Places, Spot};
use sqlx::{Row as _, sqlite::SqliteRow};

use super::{
    Index, IndexError,
    catch_up::{blocking, read_batch},
    columns::{self, Line},
    words::Words,
};
use crate::sqlite::rows::{from_file, to_file};

/// Where the words of a row begin.
const FIRST_WORD: usize = 4;

/// How an index differs from the records it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Differences {
    pub missing: u64,
    /// Rows that lead elsewhere, or are found by other words than their record has.
    pub altered: u64,
    /// Rows of records that the ledger does not have.
    pub foreign: u64,
}

impl Differences {
    #[must_use]
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

impl Index {
    /// Call [`Index::catch_up`] afterwards, not before: it would mend what is looked for here.
    pub async fn compare(&mut self) -> Result<Differences, IndexError> {
        let reached = sqlx::query("SELECT seq FROM reached")
            .fetch_optional(&mut self.connection)
            .await;
        let reached = reached.and_then(|row| row.map(|row| row.try_get::<i64, _>(0)).transpose());
        let Some(reached) = reached.map_err(|error| self.failed(&error))?.map(from_file) else {
            return Ok(Differences::default());
        };
        let dir = self.ledger.clone();
        let mut places = blocking(move || Places::new(&dir, None))
            .await
            .map_err(|error| self.unreadable(error))?;
        let (mut words, mut found, mut seen) = (Words::default(), Differences::default(), 0u64);
        loop {
            let (rest, mut lines) = blocking(move || read_batch(places))
                .await
                .map_err(|error| self.unreadable(error))?;
            places = rest;
            lines.retain(|(_, line)| line.seq <= reached);
            if lines.is_empty() {
                break;
            }
            let held = self
                .held(&mut words, &lines)
                .await
                .map_err(|error| self.failed(&error))?;
            for (place, line) in &lines {
                match held.get(&line.seq) {
                    None => found.missing += 1,
                    Some(row) if row.agrees(place, line, &words) => seen += 1,
                    Some(_) => (seen, found.altered) = (seen + 1, found.altered + 1),
                }
            }
        }
        let rows = super::number(&mut self.connection, "SELECT count(*) FROM record")
            .await
            .map_err(|error| self.failed(&error))?;
        found.foreign = from_file(rows).saturating_sub(seen);
        Ok(found)
    }

    /// The rows of these records, and the numbers of their words.
    async fn held(
        &mut self,
        words: &mut Words,
        lines: &[(Spot, Line)],
    ) -> Result<HashMap<u64, Held>, sqlx::Error> {
        let texts: BTreeSet<&str> = lines.iter().flat_map(|(_, line)| line.words()).collect();
        words.recall(&mut self.connection, &texts).await?;
        let (Some((_, first)), Some((_, last))) = (lines.first(), lines.last()) else {
            return Ok(HashMap::new());
        };
        let rows = sqlx::query(sqlx::AssertSqlSafe(columns::select()))
            .bind(to_file(first.seq))
            .bind(to_file(last.seq));
        rows.fetch_all(&mut self.connection)
            .await?
            .iter()
            .map(Held::read)
            .collect()
    }
}

/// One row.
struct Held {
    place: Spot,
    words: Vec<Option<i64>>,
}

impl Held {
    fn read(row: &SqliteRow) -> Result<(u64, Self), sqlx::Error> {
        let number = |at: usize| row.try_get::<i64, _>(at).map(from_file);
        let place = Spot {
            segment: number(1)?,
            at: number(2)?,
            length: u32::try_from(number(3)?).unwrap_or(u32::MAX),
        };
        let words = (FIRST_WORD..row.len())
            .map(|at| row.try_get(at))
            .collect::<Result<_, _>>()?;
        Ok((number(0)?, Self { place, words }))
    }

    fn agrees(&self, place: &Spot, line: &Line, words: &Words) -> bool {
        let says = |(text, held): (&str, &Option<i64>)| match (text, words.id(text)) {
            ("", _) => held.is_none(),
            (_, None) => false,
            (_, number) => *held == number,
        };
        let is_there = (self.place.segment, self.place.at, self.place.length)
            == (place.segment, place.at, place.length);
        is_there
            && (line.nameless().is_some() || line.words().into_iter().zip(&self.words).all(says))
    }
}
