//! Every text once: words and their numbers.

use std::collections::{BTreeSet, HashMap};

use sqlx::{QueryBuilder, Row as _, Sqlite, sqlite::SqliteConnection};

/// How many words are remembered between batches. Most records use few of them; calls are new each time.
const REMEMBERED: usize = 50_000;
/// Words in one statement.
const AT_ONCE: usize = 500;

#[derive(Debug, Default)]
pub(super) struct Words(HashMap<String, i64>);

impl Words {
    /// The number of a word that [`Words::learn`] was told; nothing for no text.
    pub(super) fn id(&self, text: &str) -> Option<i64> {
        self.0.get(text).copied()
    }

    /// Finds out, or gives out, the numbers of `texts`.
    pub(super) async fn learn(
        &mut self,
        connection: &mut SqliteConnection,
        texts: &BTreeSet<&str>,
    ) -> Result<(), sqlx::Error> {
        self.look_up(connection, texts, true).await
    }

    /// Finds out the numbers of those of `texts` that have one.
    pub(super) async fn recall(
        &mut self,
        connection: &mut SqliteConnection,
        texts: &BTreeSet<&str>,
    ) -> Result<(), sqlx::Error> {
        self.look_up(connection, texts, false).await
    }

    async fn look_up(
        &mut self,
        connection: &mut SqliteConnection,
        texts: &BTreeSet<&str>,
        give_out: bool,
    ) -> Result<(), sqlx::Error> {
        if self.0.len() > REMEMBERED {
            self.0.clear();
        }
        let unknown: Vec<&str> = texts
            .iter()
            .copied()
            .filter(|text| !text.is_empty() && !self.0.contains_key(*text))
            .collect();
        for some in unknown.chunks(AT_ONCE) {
            if give_out {
                let mut insert = QueryBuilder::<Sqlite>::new("INSERT OR IGNORE INTO word (text) ");
                insert.push_values(some, |mut row, text| {
                    row.push_bind(*text);
                });
                insert
                    .build()
                    .persistent(false)
                    .execute(&mut *connection)
                    .await?;
            }
            let mut select =
                QueryBuilder::<Sqlite>::new("SELECT id, text FROM word WHERE text IN (");
            let mut list = select.separated(", ");
            for text in some {
                list.push_bind(*text);
            }
            select.push(")");
            for row in select
                .build()
                .persistent(false)
                .fetch_all(&mut *connection)
                .await?
            {
                self.0.insert(row.try_get("text")?, row.try_get("id")?);
            }
        }
        Ok(())
    }
}
