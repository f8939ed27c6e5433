//! The hostile upstream on stdin and stdout.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};

use super::perform::Player;
use super::script::Script;
use super::wire::Wire;
use super::{Ledger, lock};

/// Plays the script on stdin and stdout until stdin ends. Marks are also appended to the file, one per line.
///
/// # Errors
/// When the marks cannot be written, or a pipe breaks.
pub async fn serve_stdio(script: Script, seed: u64, marks: Option<&Path>) -> Result<()> {
    let ledger = Arc::new(Ledger::default());
    let player = Player {
        script,
        seed,
        ledger: ledger.clone(),
        canary: String::new(),
    };
    let deaf = (script == Script::Deaf).then(ignore_signals).transpose()?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut wire = Wire::Stdio(tokio::io::stdout());
    let mut written = 0;
    while let Some(line) = lines.next_line().await? {
        player.play(&line, &mut wire).await?;
        let marked = lock(&ledger.marks).clone();
        if let Some(path) = marks {
            let mut file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)?;
            for mark in marked.iter().skip(written) {
                writeln!(file, "{mark}")?;
            }
        }
        written = marked.len();
    }
    if deaf.is_some() {
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    Ok(())
}

/// Having asked to hear of a signal, and never listening, is how one ignores it.
fn ignore_signals() -> std::io::Result<Vec<tokio::signal::unix::Signal>> {
    [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ]
    .into_iter()
    .map(signal)
    .collect()
}
