//! The columns of the index: the places of records, and the words people ask by.
//!
//! The words are the columns that `vocab::record_columns` says are asked for, and four that are made of others: the kind, the two links of
//! lineage, and the level of the session. A column of any other name is another schema, and makes the index anew.

use serde::Deserialize;

macro_rules! draw_line {
    ([] $({ $name:ident $kind:ident $asked:literal $what:literal })*) => {
        /// What the index wants to know of a record.
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        pub(super) struct Line {
            pub(super) seq: u64,
            pub(super) ms: u64,
            kind: String,
            intent: Option<u64>,
            after: String,
            label: String,
            label_after: String,
            pub(super) hash: String,
            $($name: String,)*
        }

        /// The columns that hold words.
        pub(super) const WORDS: &[&str] = &["kind", "after", "follows", "level", $(stringify!($name),)*];

        impl Line {
            /// The texts of [`WORDS`], in their order.
            pub(super) fn words(&self) -> [&str; WORDS.len()] {
                let mut links = self.after.split_whitespace();
                let after = links.next().unwrap_or_default();
                let follows = links.next().unwrap_or(after);
                let level = audit::level_of(&self.label, &self.label_after);
                [&self.kind, after, follows, level, $(&self.$name,)*]
            }
        }
    };
}
vocab::record_columns!(asked => draw_line []);

impl Line {
    /// The intent whose words this outcome must borrow, because it has none of its own.
    pub(super) fn nameless(&self) -> Option<u64> {
        self.intent.filter(|_| {
            self.verdict == "indeterminate" && self.caller.is_empty() && self.action.is_empty()
        })
    }
}

/// The words that an outcome has of its own, even where nobody saw it.
const OWN: [&str; 4] = ["kind", "call", "verdict", "violation"];

/// The statements that make an empty index.
pub(super) fn schema() -> String {
    let words: String = WORDS
        .iter()
        .map(|name| format!(", {name} INTEGER"))
        .collect();
    // Whoever asks for a kind or an effect gets most records: nothing is found faster by it.
    let found_by = WORDS
        .iter()
        .filter(|name| !["kind", "after", "follows", "effect"].contains(name));
    let indexes: String = found_by
        .map(|name| {
            format!(
                "CREATE INDEX record_{name} ON record ({name}, seq) WHERE {name} IS NOT NULL;\n"
            )
        })
        .collect();
    format!(
        "-- Every text once.
        CREATE TABLE word (id INTEGER NOT NULL PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
        -- One row for each record. Columns that name no number hold the id of a word, or nothing.
        CREATE TABLE record (seq INTEGER NOT NULL PRIMARY KEY, ms INTEGER NOT NULL, segment INTEGER NOT NULL, at INTEGER NOT NULL,
            length INTEGER NOT NULL{words}) STRICT;
        CREATE INDEX record_ms ON record (ms);
        {indexes}
        -- How far it has read: the last record, by its hash and its place, and how many records there must be. One row, or none.
        CREATE TABLE reached (one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash TEXT NOT NULL,
            segment INTEGER NOT NULL, at INTEGER NOT NULL, length INTEGER NOT NULL, rows INTEGER NOT NULL) STRICT;"
    )
}

/// A number that is another for every other schema.
pub(super) fn version() -> i64 {
    // FNV-1a. What is kept as a version has 31 bits, and is not 0.
    let hash = schema().bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    i64::from(hash >> 1).max(1)
}

/// Up to the values.
pub(super) fn insert() -> String {
    let words = WORDS.join(", ");
    format!("INSERT OR REPLACE INTO record (seq, ms, segment, at, length, {words}) ")
}

/// A row with its words, by the numbers of the first and the last.
pub(super) fn select() -> String {
    let words = WORDS.join(", ");
    format!("SELECT seq, segment, at, length, {words} FROM record WHERE seq BETWEEN ? AND ?")
}

/// The outcome of a call whose end nobody saw, in a ledger of before these outcomes said whose call it was: it is found by its intent's words.
pub(super) fn take_words_of_intent() -> String {
    let taken: Vec<&str> = WORDS
        .iter()
        .copied()
        .filter(|name| !OWN.contains(name))
        .collect();
    let taken = taken.join(", ");
    format!(
        "UPDATE record SET ({taken}) = (SELECT {taken} FROM record WHERE seq = ?) WHERE seq = ?"
    )
}

/// Words that no record uses any more.
pub(super) fn forget_words() -> String {
    let used: Vec<String> = WORDS
        .iter()
        .map(|name| format!("SELECT {name} FROM record WHERE {name} IS NOT NULL"))
        .collect();
    let used = used.join(" UNION ");
    format!("DELETE FROM word WHERE id NOT IN ({used})")
}
