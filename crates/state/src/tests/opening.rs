use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};

use super::{question, with_driver};
use crate::{SavedSession, Sqlite, State, StateError};

async fn in_file(file: &Path, sql: &'static str) {
    let mut connection = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    sqlx::Connection::close(connection).await.unwrap();
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn only_the_owner_can_read_it_its_side_files_included() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let state = State::open(&file).await.unwrap();
    state.ask(question(1, 1)).await.unwrap();
    let modes: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| mode(&entry.unwrap().path()))
        .collect();
    assert_eq!(modes, [0o600; 3], "the file, its log and its index");
    drop(state);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    State::open(&file).await.unwrap();
    assert_eq!(mode(&file), 0o600, "what was opened wide is closed again");
}

#[tokio::test]
async fn it_syncs_every_commit_in_full() {
    let dir = tempfile::tempdir().unwrap();
    let sqlite = Sqlite::open(&dir.path().join("state.db")).await.unwrap();
    let mut turn = sqlite.turn().await.unwrap();
    let connection = turn.connection();
    let mut ask = async |sql: &'static str| {
        let row = sqlx::query(sql).fetch_one(&mut *connection).await.unwrap();
        sqlx::Row::try_get::<i64, _>(&row, 0).map_or_else(
            |_| sqlx::Row::get::<String, _>(&row, 0),
            |number| number.to_string(),
        )
    };
    assert_eq!(ask("PRAGMA journal_mode").await, "wal");
    assert_eq!(ask("PRAGMA synchronous").await, "2", "FULL");
    assert_eq!(ask("PRAGMA busy_timeout").await, "5000");
}

#[tokio::test]
async fn a_place_that_cannot_be_written_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let error = State::open(&dir.path().join("missing/state.db"))
        .await
        .unwrap_err();
    assert!(matches!(error, StateError::Unreachable { .. }));
    assert!(
        error.to_string().contains("missing/state.db")
            && error.to_string().contains("Create its directory"),
        "{error}"
    );
    let error = State::open(dir.path()).await.unwrap_err();
    assert!(matches!(error, StateError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_newer_schema_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    drop(State::open(&file).await.unwrap());
    in_file(&file, "PRAGMA user_version = 99").await;
    let error = State::open(&file).await.unwrap_err();
    assert!(matches!(error, StateError::Newer { found: 99, .. }));
    assert!(error.to_string().contains("newer Portcullis"), "{error}");
}

#[tokio::test]
async fn somebody_elses_database_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    in_file(&file, "CREATE TABLE theirs (x)").await;
    let error = State::open(&file).await.unwrap_err();
    assert!(matches!(error, StateError::Foreign { .. }), "{error}");
}

#[tokio::test]
async fn a_damaged_file_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    fs::write(
        &file,
        "these are not the bytes of a database, but there are enough of them to see that"
            .repeat(20),
    )
    .unwrap();
    let error = State::open(&file).await.unwrap_err();
    assert!(matches!(error, StateError::Damaged { .. }), "{error}");
    assert!(
        error.to_string().contains("Restore it from a backup"),
        "{error}"
    );
}

/// Every page of the file overwritten, one at a time: opening either refuses or what it holds is all there.
#[tokio::test]
async fn no_damaged_page_goes_unnoticed_and_loses_a_label() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let labels: Vec<SavedSession> = {
        let state = State::open(&file).await.unwrap();
        for n in 0..100 {
            let mark = vocab::Mark::trusted(vocab::Level::Restricted);
            let label = vocab::Label::of(mark, vocab::ServerId::parse("s").unwrap());
            let session = SavedSession {
                caller: format!("caller-{n:03}"),
                epoch: 0,
                label,
                head: "h".repeat(100),
            };
            state.save_session(&session).await.unwrap();
        }
        state.sessions().await.unwrap()
    };
    in_file(&file, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    let whole = fs::read(&file).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 10);
    let mut refused = 0;
    for page in 0..pages {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        let copy = dir.path().join(format!("copy-{page}.db"));
        fs::write(&copy, bytes).unwrap();
        match State::open(&copy).await {
            Err(StateError::Damaged { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
            Ok(state) => assert_eq!(state.sessions().await.unwrap(), labels),
        }
    }
    assert!(refused > pages / 2, "{refused} of {pages}");
}

#[tokio::test]
async fn a_full_disk_says_so_and_what_was_acknowledged_stays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let (state, sqlite) = with_driver(Sqlite::open(&file).await.unwrap());
    let kept = state.ask(question(1, 1)).await.unwrap().approval;
    // SQLite gives the same error when the disk has no room for another page.
    sqlx::query("PRAGMA max_page_count = 20")
        .execute(sqlite.turn().await.unwrap().connection())
        .await
        .unwrap();
    let mut large = question(2, 2);
    large.arguments = "x".repeat(500_000);
    let error = state.ask(large.clone()).await.unwrap_err();
    assert!(matches!(error, StateError::Full { .. }), "{error}");
    assert!(error.to_string().contains("Free some space"), "{error}");
    assert_eq!(
        state.approvals(true, 20).await.unwrap(),
        std::slice::from_ref(&kept),
        "nothing half-written"
    );
    sqlx::query("PRAGMA max_page_count = 1000000")
        .execute(sqlite.turn().await.unwrap().connection())
        .await
        .unwrap();
    assert!(
        state.ask(large).await.unwrap().is_new,
        "it goes on when there is room"
    );
    drop(state);
    assert_eq!(
        State::open(&file)
            .await
            .unwrap()
            .get(&kept.id)
            .await
            .unwrap(),
        Some(kept)
    );
}
