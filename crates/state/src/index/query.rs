//! Asking: which records, by whom, about what, when, and what led to them.

use audit::{Filter, LineReader, Record, Spot};
use sqlx::{QueryBuilder, Row as _, Sqlite, sqlite::SqliteRow};

use super::{Index, IndexError, catch_up::blocking};
use crate::sqlite::rows::{from_file, to_file};

/// The longest lineage that is followed.
const LONGEST_LINEAGE: i64 = 10_000;

/// What an outcome or an answer tells, its intent need not tell too.
const NOT_ENDED: &str = "
    NOT (r.kind = (SELECT id FROM word WHERE text = 'intent') AND EXISTS (
        SELECT 1 FROM record o WHERE o.call = r.call AND o.kind = (SELECT id FROM word WHERE text = 'outcome')))";

/// From the call to what it was weighed after, and from there to what each result followed: see `flow::lineage`.
const LINEAGE: &str = "WITH RECURSIVE chain (call) AS (
    SELECT call FROM (SELECT after AS call FROM record WHERE call = (SELECT id FROM word WHERE text = ";
const LINEAGE_STEP: &str = ") AND after IS NOT NULL ORDER BY seq LIMIT 1)
    UNION SELECT (SELECT follows FROM record l WHERE l.call = chain.call AND l.follows IS NOT NULL ORDER BY l.seq DESC LIMIT 1)
    FROM chain WHERE chain.call IS NOT NULL LIMIT ";

/// A question.
#[derive(Debug, Clone, Default)]
pub struct Query {
    pub filter: Filter,
    /// A call: it, and every call whose result may have influenced it; empty is no condition.
    pub lineage: String,
    /// Only calls, and no changes.
    pub calls_only: bool,
    /// Intents too whose outcome is known.
    pub all: bool,
    /// The newest so many.
    pub limit: u32,
}

impl Query {
    fn sql(&self) -> QueryBuilder<Sqlite> {
        let mut sql = QueryBuilder::<Sqlite>::new("");
        if !self.lineage.is_empty() {
            sql.push(LINEAGE)
                .push_bind(self.lineage.clone())
                .push(LINEAGE_STEP)
                .push_bind(LONGEST_LINEAGE)
                .push(") ");
        }
        sql.push("SELECT r.seq, r.segment, r.at, r.length FROM record r WHERE 1");
        for (column, text) in self.filter.columns() {
            sql.push(" AND r.")
                .push(column)
                .push(" = (SELECT id FROM word WHERE text = ")
                .push_bind(text.to_owned())
                .push(")");
        }
        if !self.lineage.is_empty() {
            sql.push(
                " AND r.call IN (SELECT call FROM chain UNION SELECT id FROM word WHERE text = ",
            );
            sql.push_bind(self.lineage.clone()).push(")");
        }
        let Filter {
            from,
            since_ms,
            until_ms,
            ..
        } = self.filter;
        if from > 0 {
            sql.push(" AND r.seq >= ").push_bind(to_file(from));
        }
        if since_ms > 0 {
            sql.push(" AND r.ms >= ").push_bind(to_file(since_ms));
        }
        if until_ms > 0 {
            sql.push(" AND r.ms < ").push_bind(to_file(until_ms));
        }
        if self.calls_only {
            sql.push(" AND r.kind IS NOT (SELECT id FROM word WHERE text = 'change')");
        }
        if !self.all {
            sql.push(" AND").push(NOT_ENDED);
        }
        // One more than wanted tells whether there are more.
        sql.push(" ORDER BY r.seq DESC LIMIT ")
            .push_bind(i64::from(self.limit) + 1);
        sql
    }
}

/// The answer.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// Oldest first.
    pub records: Vec<Record>,
    /// There are older ones that fit too.
    pub more: bool,
}

impl Index {
    /// The newest records that fit, of all that were indexed. Call [`Index::catch_up`] first.
    pub async fn find(&mut self, query: &Query) -> Result<Found, IndexError> {
        let rows = query
            .sql()
            .build()
            .persistent(false)
            .fetch_all(&mut self.connection)
            .await;
        let places: Result<Vec<(u64, Spot)>, sqlx::Error> =
            rows.and_then(|rows| rows.iter().map(place).collect());
        let mut places = places.map_err(|error| self.failed(&error))?;
        let more = places.len() > query.limit as usize;
        places.truncate(query.limit as usize);
        places.reverse();
        let dir = self.ledger.clone();
        let records = blocking(move || {
            let mut reader = LineReader::new(&dir);
            let mut records = Vec::with_capacity(places.len());
            for (seq, place) in places {
                // A record that retention has taken since is no answer.
                let Some(line) = reader.line(place)? else {
                    continue;
                };
                let record: Record = serde_json::from_slice(&line)?;
                if record.seq == seq {
                    records.push(record);
                }
            }
            Ok(records)
        });
        let records = records.await.map_err(|error| self.unreadable(error))?;
        Ok(Found { records, more })
    }
}

fn place(row: &SqliteRow) -> Result<(u64, Spot), sqlx::Error> {
    let place = Spot {
        segment: from_file(row.try_get("segment")?),
        at: from_file(row.try_get("at")?),
        length: u32::try_from(row.try_get::<i64, _>("length")?).unwrap_or(0),
    };
    Ok((from_file(row.try_get("seq")?), place))
}
