//! The index answers as reading the whole ledger would, notices another ledger, and can be lost.

use std::{borrow::Cow, fs, path::Path};

use audit::{
    Change, Facts, Filter, Ledger, Options, Outcome, RealDisk, Record, Verdict, system_clock,
};
use proptest::prelude::*;
use vocab::Stage;

use crate::index::{Differences, Index, IndexError, Query};

fn ledger(dir: &Path) -> Ledger {
    Ledger::with(
        dir,
        Box::new(RealDisk),
        system_clock(),
        Options {
            segment_bytes: 4_000,
        },
    )
    .unwrap()
}

fn facts(call: &str, caller: &str, tool: &str, after: &str) -> Facts {
    let text = |text: &str| Cow::from(text.to_owned());
    Facts {
        call: text(call),
        action: text("tools/call"),
        caller: text(caller),
        session: text(caller),
        server: text("github"),
        tool: text(tool),
        user: text("ann"),
        agent: text("claude-code"),
        label: text("PUBLIC"),
        after: text(after),
        ..Facts::default()
    }
}

/// A call that is answered, or refused before it could do anything.
fn call(ledger: &Ledger, facts: Facts, refused: bool) {
    let mut opened = ledger.open(facts);
    if refused {
        let mut outcome = Outcome::new(Verdict::Refused, Stage::Admit);
        outcome.violation = "ToolNotAllowed";
        let _ = ledger.conclude(opened, &outcome).unwrap();
        return;
    }
    let _ = ledger.intend(&mut opened).unwrap();
    let mut outcome = Outcome::new(Verdict::Permitted, Stage::Absorb);
    outcome.label_after = "CONFIDENTIAL+untrusted";
    let _ = ledger.conclude(opened, &outcome).unwrap();
}

async fn seqs(index: &mut Index, query: Query) -> Vec<u64> {
    let found = index
        .find(&Query {
            limit: 1_000,
            ..query
        })
        .await
        .unwrap();
    assert!(!found.more);
    found.records.iter().map(|record| record.seq).collect()
}

async fn opened(dir: &Path) -> Index {
    let mut index = Index::open(&dir.join("index.db"), &dir.join("ledger"))
        .await
        .unwrap();
    index.catch_up().await.unwrap();
    index
}

/// Changes the file behind the index's back.
async fn tamper(dir: &Path, sql: &'static str) {
    use sqlx::{ConnectOptions as _, Connection as _};
    let mut connection = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(dir.join("index.db"))
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn rows_that_somebody_removed_or_altered_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let written = ledger(&dir.join("ledger"));
    for number in 0..40 {
        call(
            &written,
            facts(&format!("c-{number}"), "ann", "search", ""),
            number % 4 == 0,
        );
    }
    let refused = || Query {
        filter: audit::Filter {
            verdict: "refused".into(),
            ..audit::Filter::default()
        },
        ..Query::default()
    };
    let whole = seqs(&mut opened(dir).await, refused()).await;
    assert_eq!(whole.len(), 10);
    tamper(
        dir,
        "DELETE FROM record WHERE verdict = (SELECT id FROM word WHERE text = 'refused')",
    )
    .await;
    let mut index = Index::open(&dir.join("index.db"), &dir.join("ledger"))
        .await
        .unwrap();
    assert_eq!(
        index.compare().await.unwrap(),
        Differences {
            missing: 10,
            ..Differences::default()
        }
    );
    let done = index.catch_up().await.unwrap();
    assert_eq!((done.lost, done.anew), (10, true));
    assert_eq!(
        seqs(&mut index, refused()).await,
        whole,
        "nothing is left out"
    );
    assert!(!index.compare().await.unwrap().any());
    drop(index);
    for (sql, expected) in [
        (
            "UPDATE record SET verdict = NULL WHERE seq IN (3, 4)",
            (0, 2, 0),
        ),
        (
            "UPDATE record SET caller = caller + 1 WHERE seq = 5",
            (0, 1, 0),
        ),
        (
            "UPDATE word SET text = 'refused-' WHERE text = 'refused'",
            (0, 10, 0),
        ),
        ("UPDATE record SET at = at + 1 WHERE seq = 6", (0, 1, 0)),
        (
            "UPDATE record SET seq = seq + 1000 WHERE seq = 7",
            (1, 0, 1),
        ),
    ] {
        let mut index = opened(dir).await;
        index.begin_again().await.unwrap();
        drop(index);
        tamper(dir, sql).await;
        let mut index = Index::open(&dir.join("index.db"), &dir.join("ledger"))
            .await
            .unwrap();
        let found = index.compare().await.unwrap();
        assert_eq!(
            (found.missing, found.altered, found.foreign),
            expected,
            "{sql}"
        );
    }
}

/// What reading everything finds.
fn scanned(dir: &Path, keeps: impl Fn(&Record) -> bool) -> Vec<u64> {
    let records = audit::read(&dir.join("ledger"), Filter::default()).unwrap();
    records
        .map(Result::unwrap)
        .filter(keeps)
        .map(|record| record.seq)
        .collect()
}

#[tokio::test]
async fn an_index_catches_up_and_answers_by_every_word() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = ledger(&dir.path().join("ledger"));
    for n in 0..30 {
        let (caller, tool) = (
            ["c-1", "c-2", "c-3"][n % 3],
            ["search", "create_issue"][n % 2],
        );
        call(
            &ledger,
            facts(&format!("call-{n}"), caller, tool, ""),
            n % 5 == 4,
        );
        if n == 14 {
            let mut index = opened(dir.path()).await;
            assert_eq!(
                index
                    .find(&Query {
                        limit: 5,
                        ..Query::default()
                    })
                    .await
                    .unwrap()
                    .records
                    .len(),
                5
            );
        }
    }
    let change = Change {
        action: "server.state",
        server: "github",
        tenant: "acme",
        execution: "e-1",
        ..Change::default()
    };
    ledger.change(&change).unwrap();
    let mut index = opened(dir.path()).await;
    assert_eq!(
        index.catch_up().await.unwrap(),
        crate::index::CaughtUp::default(),
        "there is nothing new"
    );
    assert!(
        fs::read_dir(dir.path().join("ledger")).unwrap().count() > 6,
        "several segments"
    );

    let all = |query: Query| Query { all: true, ..query };
    let by = Query {
        filter: audit::Filter {
            caller: "c-2".into(),
            tool: "search".into(),
            ..audit::Filter::default()
        },
        ..Query::default()
    };
    assert_eq!(
        seqs(&mut index, all(by)).await,
        scanned(dir.path(), |r| r.caller == "c-2" && r.tool == "search")
    );
    let by = Query {
        filter: audit::Filter {
            violation: "ToolNotAllowed".into(),
            ..audit::Filter::default()
        },
        ..Query::default()
    };
    assert_eq!(
        seqs(&mut index, by).await,
        scanned(dir.path(), |r| r.violation == "ToolNotAllowed")
    );
    let by = Query {
        filter: audit::Filter {
            level: "CONFIDENTIAL".into(),
            ..audit::Filter::default()
        },
        ..Query::default()
    };
    assert_eq!(
        seqs(&mut index, by).await,
        scanned(dir.path(), |r| r.label_after.starts_with("CONF"))
    );
    let by = Query {
        filter: audit::Filter {
            tenant: "acme".into(),
            execution: "e-1".into(),
            ..audit::Filter::default()
        },
        ..Query::default()
    };
    assert_eq!(
        seqs(&mut index, by).await,
        scanned(dir.path(), |r| r.action == "server.state")
    );
    let by = Query {
        filter: audit::Filter {
            verdict: "permitted".into(),
            user: "ann".into(),
            agent: "claude-code".into(),
            ..audit::Filter::default()
        },
        ..Query::default()
    };
    assert_eq!(
        seqs(&mut index, by).await,
        scanned(dir.path(), |r| r.kind == "outcome"),
        "an intent that ended is not told twice"
    );
    assert_eq!(
        seqs(
            &mut index,
            Query {
                filter: audit::Filter {
                    caller: "nobody".into(),
                    ..audit::Filter::default()
                },
                ..Query::default()
            }
        )
        .await,
        [0_u64; 0]
    );
    let few = index
        .find(&Query {
            limit: 3,
            ..Query::default()
        })
        .await
        .unwrap();
    assert!(
        few.more && few.records.len() == 3 && few.records.last().unwrap().action == "server.state"
    );
}

#[tokio::test]
async fn lineage_follows_what_was_shown_before() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = ledger(&dir.path().join("ledger"));
    for (id, after) in [
        ("a", ""),
        ("b", "a"),
        ("x", ""),
        ("c", "b"),
        ("d", "c a"),
        ("e", "c d"),
    ] {
        call(&ledger, facts(id, "c-1", "search", after), false);
    }
    let mut index = opened(dir.path()).await;
    let found = index
        .find(&Query {
            lineage: "e".into(),
            limit: 100,
            ..Query::default()
        })
        .await
        .unwrap();
    let calls: Vec<&str> = found
        .records
        .iter()
        .map(|record| record.call.as_str())
        .collect();
    assert_eq!(calls, ["a", "b", "c", "e"]);
    let found = index
        .find(&Query {
            lineage: "a".into(),
            limit: 100,
            ..Query::default()
        })
        .await
        .unwrap();
    assert_eq!(found.records.len(), 1);
}

#[tokio::test]
async fn another_ledger_is_noticed_and_the_index_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("ledger");
    for (life, caller) in ["c-1", "c-2"].iter().enumerate() {
        if life > 0 {
            fs::remove_dir_all(&place).unwrap();
        }
        let ledger = ledger(&place);
        (0..20).for_each(|n| {
            call(
                &ledger,
                facts(&format!("call-{n}"), caller, "search", ""),
                false,
            )
        });
        drop(ledger);
        let mut index = Index::open(&dir.path().join("index.db"), &place)
            .await
            .unwrap();
        let done = index.catch_up().await.unwrap();
        assert_eq!(
            (done.added, done.anew),
            (scanned(dir.path(), |_| true).len() as u64, life > 0)
        );
        let mine = Query {
            filter: audit::Filter {
                caller: (*caller).to_owned(),
                ..audit::Filter::default()
            },
            ..Query::default()
        };
        assert_eq!(seqs(&mut index, mine).await.len(), 20);
    }
    let mut index = opened(dir.path()).await;
    assert_eq!(
        seqs(
            &mut index,
            Query {
                filter: audit::Filter {
                    caller: "c-1".into(),
                    ..audit::Filter::default()
                },
                ..Query::default()
            }
        )
        .await
        .len(),
        0,
        "nothing of the first is left"
    );
}

#[tokio::test]
async fn an_index_can_be_lost_damaged_or_of_another_version() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = ledger(&dir.path().join("ledger"));
    (0..20).for_each(|n| {
        call(
            &ledger,
            facts(&format!("call-{n}"), "c-1", "search", ""),
            false,
        )
    });
    let file = dir.path().join("index.db");
    for damage in ["gone", "noise", "torn", "version"] {
        opened(dir.path()).await.close().await;
        match damage {
            "gone" => fs::remove_file(&file).unwrap(),
            "noise" => fs::write(
                &file,
                "this was never a database, and is long enough to show it".repeat(100),
            )
            .unwrap(),
            "torn" => fs::write(&file, &fs::read(&file).unwrap()[..5_000]).unwrap(),
            _ => {
                let mut bytes = fs::read(&file).unwrap();
                bytes[63] = 99; // user_version
                fs::write(&file, bytes).unwrap();
            }
        }
        let mut index = Index::open(&file, &dir.path().join("ledger"))
            .await
            .unwrap();
        index.catch_up().await.unwrap();
        let mine = Query {
            filter: audit::Filter {
                caller: "c-1".into(),
                ..audit::Filter::default()
            },
            ..Query::default()
        };
        assert_eq!(seqs(&mut index, mine).await.len(), 20, "{damage}");
    }
}

#[tokio::test]
async fn what_is_no_index_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let state = crate::State::open(&file).await.unwrap();
    state.ask(super::question(7, 7)).await.unwrap();
    drop(state);
    assert!(matches!(
        Index::open(&file, dir.path()).await,
        Err(IndexError::Foreign { .. })
    ));
    let state = crate::State::open(&file).await.unwrap();
    assert_eq!(state.approvals(true, 20).await.unwrap().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any ledger, indexed in any number of steps, answers any question as reading it all would.
    #[test]
    fn the_index_answers_as_a_scan_does(
        calls in prop::collection::vec((0..4_usize, 0..3_usize, any::<bool>(), any::<bool>()), 1..60),
        asks in prop::collection::vec((0..5_usize, 0..4_usize, 0..3_usize), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let ledger = ledger(&dir.path().join("ledger"));
            for (n, (caller, tool, refused, looks)) in calls.into_iter().enumerate() {
                call(&ledger, facts(&format!("call-{n}"), &format!("c-{caller}"), &format!("t-{tool}"), ""), refused);
                if looks {
                    drop(opened(dir.path()).await);
                }
            }
            let mut index = opened(dir.path()).await;
            for (caller, tool, verdict) in asks {
                // The last of each is no condition.
                let text = |prefix: &str, n: usize, last: usize| if n == last { String::new() } else { format!("{prefix}-{n}") };
                let (caller, tool) = (text("c", caller, 4), text("t", tool, 3));
                let verdict = ["permitted", "refused", ""][verdict];
                let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
                let query = Query {
filter: audit::Filter {
caller: caller.clone(),
tool: tool.clone(),
verdict: verdict.to_owned(),
..audit::Filter::default()
},
all: true,
..Query::default()
};
                let wanted = scanned(dir.path(), |r| fits(&caller, &r.caller) && fits(&tool, &r.tool) && fits(verdict, &r.verdict));
                assert_eq!(seqs(&mut index, query).await, wanted);
            }
        });
    }
}

/// Ledgers of before outcomes of recovery said whose call it was: such a call is found by the words of its intent.
#[tokio::test]
async fn a_call_without_a_known_end_is_found_by_its_intent() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("ledger");
    fs::create_dir(&place).unwrap();
    let lines = [
        r#"{"v":1,"seq":0,"ms":5,"kind":"intent","call":"c-1","action":"tools/call","caller":"cred-1","server":"github","tool":"search","verdict":"permitted","label":"CONFIDENTIAL","hash":"aa"}"#,
        r#"{"v":1,"seq":1,"ms":6,"kind":"outcome","call":"c-1","intent":0,"verdict":"indeterminate","hash":"bb"}"#,
        "",
    ];
    fs::write(place.join("00000000000000000000.log"), lines.join("\n")).unwrap();
    let mut index = opened(dir.path()).await;
    let text = str::to_owned;
    let unknown = Query {
        filter: audit::Filter {
            verdict: text("indeterminate"),
            ..audit::Filter::default()
        },
        ..Query::default()
    };
    for query in [
        Query {
            filter: audit::Filter {
                tool: text("search"),
                ..audit::Filter::default()
            },
            ..unknown.clone()
        },
        Query {
            filter: audit::Filter {
                caller: text("cred-1"),
                ..audit::Filter::default()
            },
            ..unknown.clone()
        },
        Query {
            filter: audit::Filter {
                server: text("github"),
                level: text("CONFIDENTIAL"),
                ..audit::Filter::default()
            },
            ..unknown.clone()
        },
        Query {
            filter: audit::Filter {
                tool: text("search"),
                ..audit::Filter::default()
            },
            ..Query::default()
        },
    ] {
        assert_eq!(seqs(&mut index, query.clone()).await, [1], "{query:?}");
    }
    assert!(
        seqs(
            &mut index,
            Query {
                filter: audit::Filter {
                    tool: text("other"),
                    ..audit::Filter::default()
                },
                ..unknown
            }
        )
        .await
        .is_empty()
    );
}

#[tokio::test]
async fn what_stops_an_index_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("index.db");
    let error = Index::open(&file, &dir.path().join("nothing"))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, IndexError::NoLedger { .. }) && error.to_string().contains("no ledger"),
        "{error}"
    );
    let _ledger = ledger(&dir.path().join("ledger"));
    let error = Index::open(
        &dir.path().join("no/such/dir/index.db"),
        &dir.path().join("ledger"),
    )
    .await
    .unwrap_err();
    assert!(
        matches!(&error, IndexError::Unwritable { .. })
            && !error.to_string().contains("can be deleted"),
        "{error}"
    );
}
