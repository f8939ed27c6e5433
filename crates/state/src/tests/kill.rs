//! kill -9 between any two writes. The child is this test binary again, running only `child_writes`.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use flow::{Session, Step};
use vocab::{Label, Level, Mark, ServerId};

use super::question;
use crate::{ApprovalState, SpendError, State};

const FILE: &str = "STATE_KILL_TEST_FILE";
const ROUND: &str = "STATE_KILL_TEST_ROUND";

/// Does nothing unless it is the child: then it changes the state until it is killed, and tells each change once it is acknowledged.
#[tokio::test]
async fn child_writes() {
    let Ok(file) = std::env::var(FILE) else {
        return;
    };
    let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
    let state = State::open(Path::new(&file)).await.unwrap();
    let mut out = std::io::stdout();
    for n in 0..100_000_u64 {
        let caller = format!("c{round}x{n}");
        let session = Arc::new(Session::new());
        for rank in 0..4 {
            let (mark, origin) = (
                Mark::trusted(Level::from_rank(rank).unwrap()),
                ServerId::parse("s").unwrap(),
            );
            let step = Step::new("call", &session);
            let shown = state
                .keep(
                    &caller,
                    session.absorb_step(&Label::of(mark, origin.clone()), &step),
                )
                .await
                .unwrap();
            writeln!(out, "\nack session {caller} {}", u64::from(rank)).unwrap();
            drop(shown);
        }
        if n % 3 == 0 {
            state.reset(&caller, &session, "ann", "", n).await.unwrap();
            writeln!(out, "\nack session {caller} 100").unwrap();
        }
        let mut new = question(0, (round << 32) + n + 1);
        new.digest[..8].copy_from_slice(&(round << 32 | n).to_be_bytes());
        let (digest, id) = (new.digest, state.ask(new).await.unwrap().approval.id);
        writeln!(out, "\nack approval {id} 0").unwrap();
        state.answer(&id, true, "ann", "", 20).await.unwrap();
        writeln!(out, "\nack approval {id} 1").unwrap();
        state.spend(&digest, 30).await.unwrap();
        writeln!(out, "\nack approval {id} 2").unwrap();
    }
}

type Acknowledged = BTreeMap<(String, String), u64>;

/// Runs the child until it has acknowledged `changes`, and kills it. The last line may be half of one: it is not counted.
fn killed_after(file: &Path, round: u64, changes: usize, acknowledged: &mut Acknowledged) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::kill::child_writes", "--nocapture"])
        .env(FILE, file)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut seen = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let ["ack", kind, name, rank] = words[..] else {
            continue;
        };
        let Ok(rank) = rank.parse() else { continue };
        acknowledged.insert((kind.to_owned(), name.to_owned()), rank);
        seen += 1;
        if seen == changes {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(
        seen >= changes,
        "the child ended by itself after {seen} changes"
    );
}

#[tokio::test]
async fn everything_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let mut acknowledged = Acknowledged::new();
    for round in 0..25 {
        killed_after(
            &file,
            round,
            1 + (round as usize * 7) % 40,
            &mut acknowledged,
        );
        let state = State::open(&file).await.unwrap();
        let sessions = state.sessions().await.unwrap();
        let sessions: BTreeMap<_, _> = sessions
            .into_iter()
            .map(|session| (session.caller.clone(), session))
            .collect();
        for ((kind, name), rank) in &acknowledged {
            if kind == "session" {
                let session = &sessions[name];
                // 100 stands for the reset.
                let found = if session.epoch == 1 {
                    100
                } else {
                    session.label.mark.secrecy as u64
                };
                assert!(found >= *rank, "{name}: {session:?} is below {rank}");
                assert_eq!(session.label.origins.len(), usize::from(session.epoch == 0));
                continue;
            }
            let approval = state.get(name).await.unwrap().unwrap();
            let found = match approval.state {
                ApprovalState::Pending => 0,
                ApprovalState::Approved => 1,
                ApprovalState::Used => 2,
                ApprovalState::Denied | ApprovalState::Expired => panic!("{approval:?}"),
            };
            assert!(found >= *rank, "{name}: {approval:?}");
            if found == 2 {
                assert!(matches!(
                    state.spend(&approval.digest, 31).await,
                    Err(SpendError::AlreadyUsed(_))
                ));
            }
        }
    }
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
}
