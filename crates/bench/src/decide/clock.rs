//! CPU time of this thread.

use std::time::Duration;

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// Runs between two looks at the clock, which costs as much as a small piece of work.
const FIRST_BATCH: u32 = 8;

fn thread_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// The CPU time of one run, over as many runs as fill `total`. The first few warm up and do not count.
pub(super) fn cpu_each(total: Duration, mut run: impl FnMut() -> Result<()>) -> Result<Duration> {
    for _ in 0..FIRST_BATCH {
        run()?;
    }
    let (mut runs, mut batch) = (0_u32, FIRST_BATCH);
    let start = thread_cpu();
    loop {
        for _ in 0..batch {
            run()?;
        }
        runs = runs.saturating_add(batch);
        let spent = thread_cpu().saturating_sub(start);
        if spent >= total {
            return Ok(spent / runs);
        }
        batch = batch.saturating_mul(2).min(1 << 12);
    }
}
