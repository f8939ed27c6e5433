//! Opening the file: who may read it, how it is synced, whether it is ours, whole and of a schema we know.

use std::{
    fs,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sqlx::{
    ConnectOptions, Row,
    sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous},
};
use tokio::sync::Mutex;

use super::{Inner, Sqlite, writer::Writer};
use crate::StateError;

/// Each brings the schema from the version of its index to the next. Never change one that was released; add another.
const MIGRATIONS: [&str; 5] = [
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
];

/// `PRAGMA application_id`: "PrtC".
const APPLICATION: i64 = 0x5072_7443;

const OWNER_ONLY: u32 = 0o600;
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

impl Sqlite {
    /// Opens the file, and makes it if there is none.
    pub async fn open(file: &Path) -> Result<Self, StateError> {
        prepare(file).map_err(|error| StateError::Unreachable {
            file: file.to_owned(),
            detail: error.to_string(),
        })?;
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        Self::begin(file.to_owned(), options).await
    }

    /// A state that is gone with the process, for tests.
    pub async fn in_memory() -> Result<Self, StateError> {
        Self::begin(
            PathBuf::from(":memory:"),
            SqliteConnectOptions::new().in_memory(true),
        )
        .await
    }

    async fn begin(file: PathBuf, options: SqliteConnectOptions) -> Result<Self, StateError> {
        let failed = |error: sqlx::Error| StateError::from_sqlx(&file, &error);
        let mut connection = options
            .disable_statement_logging()
            .connect()
            .await
            .map_err(failed)?;
        check(&file, &mut connection).await?;
        let mut writer = Writer::new(connection);
        migrate(&file, &mut writer).await?;
        Ok(Self(Arc::new(Inner {
            file,
            writer: Mutex::new(writer),
        })))
    }
}

/// Makes the file before SQLite does, so that it is never readable by others, not even for a moment. SQLite gives its side files the
/// mode of the file itself.
pub(crate) fn prepare(file: &Path) -> std::io::Result<()> {
    fs::OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(OWNER_ONLY)
        .open(file)?;
    let mode = fs::metadata(file)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(file, fs::Permissions::from_mode(OWNER_ONLY))?;
    }
    Ok(())
}

/// Is it whole, and ours?
async fn check(file: &Path, connection: &mut SqliteConnection) -> Result<(), StateError> {
    let failed = |error: sqlx::Error| StateError::from_sqlx(file, &error);
    let row = sqlx::query("PRAGMA quick_check(1)")
        .fetch_one(&mut *connection)
        .await
        .map_err(failed)?;
    let verdict: String = row.try_get(0).map_err(failed)?;
    if verdict != "ok" {
        return Err(StateError::Damaged {
            file: file.to_owned(),
            detail: verdict,
        });
    }
    let application = number(connection, "PRAGMA application_id")
        .await
        .map_err(failed)?;
    let tables = number(connection, "SELECT count(*) FROM sqlite_schema")
        .await
        .map_err(failed)?;
    if application != APPLICATION && (application != 0 || tables != 0) {
        return Err(StateError::Foreign {
            file: file.to_owned(),
        });
    }
    Ok(())
}

/// Brings the schema up to date, all of it or none.
async fn migrate(file: &Path, writer: &mut Writer) -> Result<(), StateError> {
    let failed = |error: sqlx::Error| StateError::from_sqlx(file, &error);
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let connection = writer.begin().await.map_err(failed)?;
    let found = number(connection, "PRAGMA user_version")
        .await
        .map_err(failed)?;
    if found > known {
        return Err(StateError::Newer {
            file: file.to_owned(),
            found,
            known,
        });
    }
    if found < 0 {
        return Err(StateError::Damaged {
            file: file.to_owned(),
            detail: format!("it claims schema {found}"),
        });
    }
    let done = async {
        for (version, migration) in (1_i64..)
            .zip(MIGRATIONS)
            .filter(|(version, _)| *version > found)
        {
            sqlx::raw_sql(migration).execute(&mut *connection).await?;
            let marks =
                format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version};");
            sqlx::raw_sql(sqlx::AssertSqlSafe(marks))
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    };
    let done = done.await;
    writer.settle(done).await.map_err(failed)
}

async fn number(connection: &mut SqliteConnection, sql: &'static str) -> Result<i64, sqlx::Error> {
    sqlx::query(sql).fetch_one(connection).await?.try_get(0)
}
