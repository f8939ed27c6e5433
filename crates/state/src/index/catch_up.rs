//! Reading what the ledger has and the index has not.

use std::{collections::BTreeSet, io, path::PathBuf};

use audit::{LineReader, Places, Spot};
use sqlx::{QueryBuilder, Row as _, Sqlite, sqlite::SqliteConnection};

use super::{
    Index, IndexError,
    columns::{self, Line},
    words::Words,
};
use crate::sqlite::rows::{from_file, to_file};

/// Records that are read, and then written in one transaction.
const BATCH: usize = 10_000;
/// Rows in one statement.
const AT_ONCE: usize = 500;

/// What catching up did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CaughtUp {
    /// Records that were read.
    pub added: u64,
    /// What was there was of another ledger or not whole, and was made anew.
    pub anew: bool,
    /// Rows that were not there any more, although nobody but the index removes any.
    pub lost: u64,
}

/// The last record that was read.
#[derive(Debug, Clone)]
struct Reached {
    hash: String,
    place: Spot,
}

impl Index {
    /// Reads everything the ledger holds by now. Where the ledger is not the one that was indexed, or rows are missing, begins again.
    pub async fn catch_up(&mut self) -> Result<CaughtUp, IndexError> {
        let done = self.read_on().await?;
        match self.lost().await.map_err(|error| self.failed(&error))? {
            0 => Ok(done),
            lost => Ok(CaughtUp {
                lost,
                ..self.begin_again().await?
            }),
        }
    }

    /// Forgets everything and reads the whole ledger.
    pub async fn begin_again(&mut self) -> Result<CaughtUp, IndexError> {
        self.forget_all()
            .await
            .map_err(|error| self.failed(&error))?;
        Ok(CaughtUp {
            anew: true,
            ..self.read_on().await?
        })
    }

    /// How many rows are too few or too many.
    pub(super) async fn lost(&mut self) -> Result<u64, sqlx::Error> {
        let sql = "SELECT coalesce((SELECT rows FROM reached), 0) - (SELECT count(*) FROM record)";
        let off: i64 = sqlx::query(sql)
            .fetch_one(&mut self.connection)
            .await?
            .try_get(0)?;
        Ok(off.unsigned_abs())
    }

    async fn read_on(&mut self) -> Result<CaughtUp, IndexError> {
        let mut done = CaughtUp::default();
        let mut after = self.reached().await.map_err(|error| self.failed(&error))?;
        if let Some(reached) = &after
            && !self.still_holds(reached.clone()).await?
        {
            self.forget_all()
                .await
                .map_err(|error| self.failed(&error))?;
            done.anew = true;
            after = None;
        }
        self.forget_removed().await?;
        let dir = self.ledger.clone();
        let places = blocking(move || Places::new(&dir, after.map(|reached| reached.place))).await;
        let mut places = places.map_err(|error| self.unreadable(error))?;
        let mut words = Words::default();
        loop {
            let (rest, lines) = blocking(move || read_batch(places))
                .await
                .map_err(|error| self.unreadable(error))?;
            places = rest;
            if lines.is_empty() {
                return Ok(done);
            }
            done.added += lines.len() as u64;
            let written = write(&mut self.connection, &mut words, &lines).await;
            written.map_err(|error| self.failed(&error))?;
        }
    }

    async fn reached(&mut self) -> Result<Option<Reached>, sqlx::Error> {
        let row = sqlx::query("SELECT hash, segment, at, length FROM reached")
            .fetch_optional(&mut self.connection)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let place = Spot {
            segment: from_file(row.try_get("segment")?),
            at: from_file(row.try_get("at")?),
            length: u32::try_from(row.try_get::<i64, _>("length")?).unwrap_or(0),
        };
        Ok(Some(Reached {
            hash: row.try_get("hash")?,
            place,
        }))
    }

    /// Whether the last record that was read is still where it was. Its hash covers all records before it.
    async fn still_holds(&self, reached: Reached) -> Result<bool, IndexError> {
        let dir = self.ledger.clone();
        let line = blocking(move || LineReader::new(&dir).line(reached.place))
            .await
            .map_err(|error| self.unreadable(error))?;
        let line: Option<Line> = line.and_then(|line| serde_json::from_slice(&line).ok());
        Ok(line.is_some_and(|line| line.hash == reached.hash))
    }

    async fn forget_all(&mut self) -> Result<(), sqlx::Error> {
        let all =
            "BEGIN IMMEDIATE; DELETE FROM reached; DELETE FROM record; DELETE FROM word; COMMIT;";
        sqlx::raw_sql(all)
            .execute(&mut self.connection)
            .await
            .map(drop)
    }

    /// What retention took out of the ledger goes from here too.
    async fn forget_removed(&mut self) -> Result<(), IndexError> {
        let dir: PathBuf = self.ledger.clone();
        let oldest = blocking(move || audit::oldest(&dir))
            .await
            .map_err(|error| self.unreadable(error))?;
        let oldest = to_file(oldest.unwrap_or(0));
        let forgotten = async {
            sqlx::raw_sql("BEGIN IMMEDIATE")
                .execute(&mut self.connection)
                .await?;
            let gone = sqlx::query("DELETE FROM record WHERE seq < ?")
                .bind(oldest)
                .execute(&mut self.connection)
                .await?;
            if gone.rows_affected() > 0 {
                let fewer = to_file(gone.rows_affected());
                sqlx::query("UPDATE reached SET rows = rows - ?")
                    .bind(fewer)
                    .execute(&mut self.connection)
                    .await?;
                sqlx::query(sqlx::AssertSqlSafe(columns::forget_words()))
                    .execute(&mut self.connection)
                    .await?;
            }
            sqlx::raw_sql("COMMIT")
                .execute(&mut self.connection)
                .await
                .map(drop)
        };
        let forgotten = forgotten.await;
        if forgotten.is_err() {
            // What was begun ends with the connection at the latest.
            let _undone = sqlx::raw_sql("ROLLBACK")
                .execute(&mut self.connection)
                .await;
        }
        forgotten.map_err(|error| self.failed(&error))
    }
}

/// Runs what waits for the disk where waiting hurts nobody.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error.to_string())))
}

pub(super) fn read_batch(mut places: Places) -> io::Result<(Places, Vec<(Spot, Line)>)> {
    let mut lines = Vec::with_capacity(BATCH);
    while lines.len() < BATCH
        && let Some((place, text)) = places.next_line()?
    {
        // Whether a line is a record is for `verify` to say; here it is one that nobody can ask for.
        if let Ok(line) = serde_json::from_slice::<Line>(text) {
            lines.push((place, line));
        }
    }
    Ok((places, lines))
}

/// Writes a batch and how far it reaches, all of it or none.
async fn write(
    connection: &mut SqliteConnection,
    words: &mut Words,
    lines: &[(Spot, Line)],
) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("BEGIN IMMEDIATE")
        .execute(&mut *connection)
        .await?;
    match rows(connection, words, lines).await {
        Ok(()) => sqlx::raw_sql("COMMIT").execute(connection).await.map(drop),
        Err(error) => {
            // What was begun ends with the connection at the latest.
            let _undone = sqlx::raw_sql("ROLLBACK").execute(connection).await;
            Err(error)
        }
    }
}

async fn rows(
    connection: &mut SqliteConnection,
    words: &mut Words,
    lines: &[(Spot, Line)],
) -> Result<(), sqlx::Error> {
    let texts: BTreeSet<&str> = lines.iter().flat_map(|(_, line)| line.words()).collect();
    words.learn(connection, &texts).await?;
    for some in lines.chunks(AT_ONCE) {
        let mut insert = QueryBuilder::<Sqlite>::new(columns::insert());
        insert.push_values(some, |mut row, (place, line)| {
            let numbers = [
                line.seq,
                line.ms,
                place.segment,
                place.at,
                u64::from(place.length),
            ];
            for number in numbers {
                row.push_bind(to_file(number));
            }
            for word in line.words() {
                row.push_bind(words.id(word));
            }
        });
        insert
            .build()
            .persistent(some.len() == AT_ONCE)
            .execute(&mut *connection)
            .await?;
    }
    for (_, line) in lines {
        let Some(intent) = line.nameless() else {
            continue;
        };
        sqlx::query(sqlx::AssertSqlSafe(columns::take_words_of_intent()))
            .bind(to_file(intent))
            .bind(to_file(line.seq))
            .execute(&mut *connection)
            .await?;
    }
    let Some((place, line)) = lines.last() else {
        return Ok(());
    };
    // Another asker may have read some of these meanwhile.
    let before = sqlx::query("SELECT seq, rows FROM reached")
        .fetch_optional(&mut *connection)
        .await?;
    let (seq, rows) = before.map_or(Ok((-1, 0)), |row| {
        Ok::<_, sqlx::Error>((row.try_get(0)?, row.try_get::<i64, _>(1)?))
    })?;
    let new = lines
        .iter()
        .filter(|(_, line)| to_file(line.seq) > seq)
        .count();
    sqlx::query("INSERT OR REPLACE INTO reached (one, rows, seq, hash, segment, at, length) VALUES (1, ?, ?, ?, ?, ?, ?)")
        .bind(rows + i64::try_from(new).unwrap_or(i64::MAX))
        .bind(to_file(line.seq))
        .bind(&line.hash)
        .bind(to_file(place.segment))
        .bind(to_file(place.at))
        .bind(i64::from(place.length))
        .execute(connection)
        .await
        .map(drop)
}
