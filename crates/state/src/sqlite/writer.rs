//! The one connection, and the transactions on it.
//!
//! The database library's own transactions are not used: they lose count when SQLite rolls back by itself, as it does when the disk is
//! full, and every later transaction would be refused.

use sqlx::sqlite::SqliteConnection;
use tokio::sync::MutexGuard;

use super::Sqlite;
use crate::StateError;

#[derive(Debug)]
pub(crate) struct Writer {
    connection: SqliteConnection,
    /// A transaction was begun and nobody saw its end: whoever began it failed, or went away.
    is_open: bool,
}

impl Writer {
    pub(crate) const fn new(connection: SqliteConnection) -> Self {
        Self {
            connection,
            is_open: false,
        }
    }

    /// For reading, or between [`begin`](Writer::begin) and [`settle`](Writer::settle).
    pub(crate) const fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    pub(crate) async fn begin(&mut self) -> Result<&mut SqliteConnection, sqlx::Error> {
        self.is_open = true;
        sqlx::raw_sql("BEGIN IMMEDIATE")
            .execute(&mut self.connection)
            .await?;
        Ok(&mut self.connection)
    }

    /// Ends a transaction by how it went. Durable when this gives back a value.
    pub(crate) async fn settle<T>(
        &mut self,
        done: Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        match done {
            Ok(value) => {
                sqlx::raw_sql("COMMIT")
                    .execute(&mut self.connection)
                    .await?;
                self.is_open = false;
                Ok(value)
            }
            Err(error) => {
                // If that fails, the next turn tries again.
                let _undone = self.undo().await;
                Err(error)
            }
        }
    }

    async fn undo(&mut self) -> Result<(), sqlx::Error> {
        match sqlx::raw_sql("ROLLBACK")
            .execute(&mut self.connection)
            .await
        {
            Ok(_) => {}
            // SQLite has rolled back by itself, or never began.
            Err(sqlx::Error::Database(error))
                if error.message().contains("no transaction is active") => {}
            Err(error) => return Err(error),
        }
        self.is_open = false;
        Ok(())
    }
}

impl Sqlite {
    /// Waits for the connection. Nothing that somebody left unfinished is visible on it.
    pub(crate) async fn turn(&self) -> Result<MutexGuard<'_, Writer>, StateError> {
        let mut writer = self.0.writer.lock().await;
        if writer.is_open {
            writer.undo().await.map_err(|error| self.error(&error))?;
        }
        Ok(writer)
    }
}
