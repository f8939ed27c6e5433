//! The labels of files on volumes, as rows.

use sqlx::{Row, sqlite::SqliteConnection, sqlite::SqliteRow};
use vocab::{Label, ServerId};

use super::{Sqlite, rows};
use crate::{Answer, FileKey, FileLabels, VolumeLabels};

const KEEP: &str = "
    INSERT INTO file_label (volume, inode, birth, names, secrecy, untrusted, origins)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (volume, inode, birth, names) DO UPDATE
    SET secrecy = excluded.secrecy, untrusted = excluded.untrusted, origins = excluded.origins";

const SETTLE: &str = "
    INSERT INTO volume_root (volume, inode, birth) VALUES (?, ?, ?)
    ON CONFLICT (volume) DO UPDATE SET inode = excluded.inode, birth = excluded.birth";

const OF_VOLUME: &str = "SELECT * FROM file_label WHERE volume = ?";

const OF_FILE: &str =
    "SELECT * FROM file_label WHERE volume = ? AND inode = ? AND birth = ? AND names = ?";

const FORGET: &str = "DELETE FROM file_label WHERE volume = ? AND inode = ? AND birth = ?";

impl FileLabels for Sqlite {
    fn volume_labels<'a>(&'a self, volume: &'a str) -> Answer<'a, VolumeLabels> {
        Box::pin(self.look(async move |connection| read(connection, volume).await))
    }

    fn settle_volume<'a>(&'a self, volume: &'a str, (inode, birth): (u64, u64)) -> Answer<'a, ()> {
        Box::pin(self.change(async move |connection| {
            let query = sqlx::query(SETTLE)
                .bind(volume)
                .bind(to_bits(inode))
                .bind(to_bits(birth));
            query.execute(connection).await.map(drop)
        }))
    }

    fn raise_file_label<'a>(
        &'a self,
        volume: &'a str,
        key: FileKey,
        label: &'a Label,
    ) -> Answer<'a, ()> {
        Box::pin(self.change(async move |connection| {
            let found = sqlx::query(OF_FILE)
                .bind(volume)
                .bind(to_bits(key.inode))
                .bind(to_bits(key.birth))
                .bind(i64::from(key.is_names))
                .fetch_optional(&mut *connection)
                .await?;
            let mut joined = label.clone();
            if let Some(found) = found {
                joined.join_in(&row(&found)?.1);
            }
            write(connection, volume, key, &joined).await
        }))
    }

    fn replace_file_label<'a>(
        &'a self,
        volume: &'a str,
        key: FileKey,
        label: &'a Label,
    ) -> Answer<'a, ()> {
        Box::pin(self.change(async move |connection| write(connection, volume, key, label).await))
    }

    fn forget_files<'a>(&'a self, volume: &'a str, files: &'a [(u64, u64)]) -> Answer<'a, ()> {
        Box::pin(self.change(async move |connection| {
            for (inode, birth) in files {
                sqlx::query(FORGET)
                    .bind(volume)
                    .bind(to_bits(*inode))
                    .bind(to_bits(*birth))
                    .execute(&mut *connection)
                    .await?;
            }
            Ok(())
        }))
    }
}

async fn read(
    connection: &mut SqliteConnection,
    volume: &str,
) -> Result<VolumeLabels, sqlx::Error> {
    let root = sqlx::query("SELECT inode, birth FROM volume_root WHERE volume = ?")
        .bind(volume)
        .fetch_optional(&mut *connection)
        .await?;
    let root = root
        .map(|row| -> Result<_, sqlx::Error> {
            Ok((bits(row.try_get("inode")?), bits(row.try_get("birth")?)))
        })
        .transpose()?;
    let found = sqlx::query(OF_VOLUME)
        .bind(volume)
        .fetch_all(connection)
        .await?;
    let mut labels = found.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    labels.sort_by_key(|(key, _)| *key);
    Ok(VolumeLabels { root, labels })
}

async fn write(
    connection: &mut SqliteConnection,
    volume: &str,
    key: FileKey,
    label: &Label,
) -> Result<(), sqlx::Error> {
    let (secrecy, untrusted) = rows::mark_columns(label.mark);
    let origins: Vec<String> = label.origins.iter().map(ServerId::to_string).collect();
    sqlx::query(KEEP)
        .bind(volume)
        .bind(to_bits(key.inode))
        .bind(to_bits(key.birth))
        .bind(i64::from(key.is_names))
        .bind(secrecy)
        .bind(untrusted)
        .bind(rows::list(&origins))
        .execute(connection)
        .await
        .map(drop)
}

/// Numbers of files use all their bits.
const fn to_bits(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

const fn bits(number: i64) -> u64 {
    u64::from_ne_bytes(number.to_ne_bytes())
}

fn row(row: &SqliteRow) -> Result<(FileKey, Label), sqlx::Error> {
    let origins = rows::texts(row, "origins")?;
    let origins = origins.iter().map(|origin| rows::origin(origin));
    Ok((
        FileKey {
            inode: bits(row.try_get("inode")?),
            birth: bits(row.try_get("birth")?),
            is_names: row.try_get::<i64, _>("names")? != 0,
        },
        Label {
            mark: rows::mark(row)?,
            origins: origins.collect::<Result<_, _>>()?,
        },
    ))
}
