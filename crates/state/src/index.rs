//! The index of the ledger: which records are about whom and what, so that a question need not read them all.
//!
//! **Invariant: a pure projection.** Everything in it can be read from the ledger again; it may be deleted at any time, and an index of
//! another ledger, of another version, with damage or without some of its rows is made anew by itself. It holds places and the words people ask by, never a whole record:
//! answers are read from the ledger's own lines. Tests `the_index_answers_as_a_scan_does`,
//! `an_index_can_be_lost_damaged_or_of_another_version`, `rows_that_somebody_removed_or_altered_are_noticed`.
//!
//! It must never be on the way of a call: nothing waits for it, and whoever asks makes it catch up first. Files are read on threads
//! that may block.

mod catch_up;
mod columns;
mod compare;
mod query;
mod words;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    ConnectOptions as _, Connection as _, Row as _,
    sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous},
};

pub use catch_up::CaughtUp;
pub use compare::Differences;
pub use query::{Found, Query};

/// `PRAGMA application_id`: "PrtI".
const APPLICATION: i64 = 0x5072_7449;
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("cannot read the ledger in {}: {source}", .dir.display())]
    Ledger { dir: PathBuf, source: io::Error },
    #[error("{} is a database, but not an index of a ledger. Move it away, or choose another directory", .file.display())]
    Foreign { file: PathBuf },
    #[error("there is no ledger in {}; `portcullis up` begins one", .dir.display())]
    NoLedger { dir: PathBuf },
    #[error("the index {} cannot be written: {detail}. Questions need it; `portcullis audit tail` and `show` read the ledger without", .file.display())]
    Unwritable { file: PathBuf, detail: String },
    #[error("the index {} failed: {detail}. It can be deleted: the next question makes it anew", .file.display())]
    Failed { file: PathBuf, detail: String },
}

/// The index of one ledger, open for one asker.
#[derive(Debug)]
pub struct Index {
    file: PathBuf,
    ledger: PathBuf,
    connection: SqliteConnection,
}

impl Index {
    /// Opens the index of the ledger in `ledger`; makes it, or makes it anew, where there is none that is of use.
    pub async fn open(file: &Path, ledger: &Path) -> Result<Self, IndexError> {
        if !ledger.is_dir() {
            return Err(IndexError::NoLedger {
                dir: ledger.to_owned(),
            });
        }
        let failed = |error: &sqlx::Error| failure(file, error);
        let found = connect(file).await;
        let usable = match found {
            Ok(mut connection) => match standing(&mut connection).await {
                Ok(Standing::Ours) => Some(connection),
                Ok(Standing::Foreign) => {
                    return Err(IndexError::Foreign {
                        file: file.to_owned(),
                    });
                }
                Ok(Standing::Outdated) => {
                    connection.close().await.map_err(|error| failed(&error))?;
                    None
                }
                Ok(Standing::Empty) => {
                    create(&mut connection)
                        .await
                        .map_err(|error| failed(&error))?;
                    Some(connection)
                }
                Err(error) if is_damage(&error) => None,
                Err(error) => return Err(failed(&error)),
            },
            Err(error) if is_damage(&error) => None,
            Err(error) => return Err(failed(&error)),
        };
        let connection = match usable {
            Some(connection) => connection,
            None => anew(file).await.map_err(|error| failed(&error))?,
        };
        Ok(Self {
            file: file.to_owned(),
            ledger: ledger.to_owned(),
            connection,
        })
    }

    fn failed(&self, error: &sqlx::Error) -> IndexError {
        failure(&self.file, error)
    }

    /// Closes the file now; dropping an index closes it a little later.
    #[cfg(test)]
    pub(crate) async fn close(self) {
        self.connection.close().await.unwrap();
    }

    fn unreadable(&self, source: io::Error) -> IndexError {
        IndexError::Ledger {
            dir: self.ledger.clone(),
            source,
        }
    }
}

/// A disk that is full or may not be written is nothing the index could mend.
fn failure(file: &Path, error: &sqlx::Error) -> IndexError {
    let (file, detail) = (file.to_owned(), error.to_string());
    match error {
        sqlx::Error::Io(_) => IndexError::Unwritable { file, detail },
        _ if is_one_of(error, UNWRITABLE) => IndexError::Unwritable { file, detail },
        _ => IndexError::Failed { file, detail },
    }
}

enum Standing {
    Ours,
    Empty,
    /// Ours, of another version.
    Outdated,
    Foreign,
}

async fn connect(file: &Path) -> Result<SqliteConnection, sqlx::Error> {
    crate::sqlite::prepare(file)?;
    SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        // A power cut may take the latest rows, never the sense of those that stay.
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("secure_delete", "ON")
        .pragma("cache_size", "-32768")
        .disable_statement_logging()
        .connect()
        .await
}

async fn standing(connection: &mut SqliteConnection) -> Result<Standing, sqlx::Error> {
    let application = number(connection, "PRAGMA application_id").await?;
    let version = number(connection, "PRAGMA user_version").await?;
    let tables = number(connection, "SELECT count(*) FROM sqlite_schema").await?;
    Ok(match (application, version, tables) {
        (APPLICATION, version, _) if version == columns::version() => Standing::Ours,
        (APPLICATION, _, _) => Standing::Outdated,
        (0, 0, 0) => Standing::Empty,
        _ => Standing::Foreign,
    })
}

async fn create(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let (schema, version) = (columns::schema(), columns::version());
    let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version};");
    let all = format!("BEGIN IMMEDIATE; {schema} {marks} COMMIT;");
    sqlx::raw_sql(sqlx::AssertSqlSafe(all))
        .execute(connection)
        .await
        .map(drop)
}

/// Deletes what is there and begins with nothing.
async fn anew(file: &Path) -> Result<SqliteConnection, sqlx::Error> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let mut connection = connect(file).await?;
    create(&mut connection).await?;
    Ok(connection)
}

/// SQLite's primary codes for a file that makes no sense: CORRUPT and NOTADB.
const DAMAGE: &[i32] = &[11, 26];
/// And for one that cannot be written: PERM, READONLY, IOERR, FULL and CANTOPEN.
const UNWRITABLE: &[i32] = &[3, 8, 10, 13, 14];

fn is_damage(error: &sqlx::Error) -> bool {
    is_one_of(error, DAMAGE)
}

fn is_one_of(error: &sqlx::Error, codes: &[i32]) -> bool {
    let code = error
        .as_database_error()
        .and_then(|error| error.code())
        .and_then(|code| code.parse::<i32>().ok());
    code.is_some_and(|code| codes.contains(&(code & 0xff)))
}

async fn number(connection: &mut SqliteConnection, sql: &'static str) -> Result<i64, sqlx::Error> {
    sqlx::query(sql).fetch_one(connection).await?.try_get(0)
}
