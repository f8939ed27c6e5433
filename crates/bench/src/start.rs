//! How long from starting a program until it answers its first call.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tokio::{process::Command, time::sleep};

use super::{load::Line, template::Address};

const RETRY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts the program, calls until a call succeeds, and ends the program again.
pub async fn first_call(command: &[String], address: &Address) -> Result<Duration> {
    let (program, arguments) = command
        .split_first()
        .context("a command is needed after --")?;
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    loop {
        let attempt = async { Line::open(address).await?.call(address, 100).await };
        match attempt.await {
            Ok(()) => break,
            Err(error) if started.elapsed() > PATIENCE => {
                return Err(error.context("no call succeeded in time"));
            }
            Err(_) => sleep(RETRY).await,
        }
        if let Some(status) = child.try_wait()? {
            bail!("{program} ended before its first call: {status}");
        }
    }
    let took = started.elapsed();
    stop(child).await?;
    Ok(took)
}

/// Asks politely, so that the program's own children end as well.
async fn stop(mut child: tokio::process::Child) -> Result<()> {
    if let Some(pid) = child
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(rustix::process::Pid::from_raw)
    {
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
    }
    if tokio::time::timeout(Duration::from_secs(5), child.wait())
        .await
        .is_err()
    {
        child.kill().await?;
    }
    Ok(())
}
