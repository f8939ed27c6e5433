//! The route to executors: a command waits until the executor of its execution asks for work, and its result is what that executor says.
//!
//! A result proves nothing but what the sandbox says: commands share it with their executor, and could post in its place. So it is
//! untrusted, unless an operator vouched that nothing from outside reaches the sandbox, and carries all that was ever sent there.
//!
//! **Invariant: what an execution was ever sent comes back with every result of it.** Its mark is raised to the caller's label, on the disk,
//! before the command can be delivered. Test `what_an_executor_prints_carries_what_was_sent_to_it`.

use std::{sync::Arc, time::Duration};

use calls::{
    finish::{Phase, reached},
    running::FromClient,
};
use tokio::time::Instant;
use upstreams::{
    commands::{NotRan, Ran},
    executions::{
        Answered, Execution, Waiting, Work,
        machine::{GivenUp, MAX_QUEUE, NotQueued},
    },
};
use vocab::{Fault, FaultKind, Integrity, Label, Rule, Stop, Violation};
use wire::dispatch::{Posted, SLACK};

use super::{CallerSide, Carried, Raw, command};
use crate::call::{Case, Order, left};

/// An executor keeps the time of a command itself; this much later the gate stops waiting for its word.
const GRACE: Duration = Duration::from_secs(15);
/// How often a call that waits looks whether its credential, its session and the execution are still in force.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn carry(
    execution: &Arc<Execution>,
    order: &Order,
    side: CallerSide<'_>,
) -> Result<Carried, Stop> {
    let case = side.case;
    let caller = &case.request.caller;
    let time = left(case, order.budget().time)?;
    let mut ask = command::read(order, case)?;
    ask.time = time;
    let most = ask.output_bytes;
    let work = Work::new(ask)
        .map_err(|why| Violation::new(Rule::InvalidArguments, why.clone()).with_hint(why))?;
    if !execution.is_in_force(case.gate.now_ms()) {
        return Err(over(execution));
    }
    let broken = |error: std::io::Error| {
        Stop::from(Fault::new(
            FaultKind::Gate,
            format!("the execution's mark cannot be raised: {error}"),
        ))
    };
    // What the sandbox was ever sent is kept like a workspace's mark, for all executions of the credential: a container outlives the
    // execution, and its files are there for the next one.
    let place = format!("executions of {}", execution.saved().caller);
    let sandbox = case.gate.commands.workspace(&place).map_err(broken)?;
    let mut label: Label = case.label();
    label.mark = sandbox.raise(label.mark).await.map_err(broken)?;
    let waiting = execution.queue(work).map_err(|why| match why {
        NotQueued::Ended => over(execution),
        NotQueued::Full => Fault::new(
            FaultKind::Upstream,
            format!("{MAX_QUEUE} commands wait for the executor already"),
        )
        .into(),
    })?;
    let outcome = attend(execution, waiting, time, side).await?;
    // Others may have been sent there meanwhile what this one then read.
    label.mark = match sandbox.raise(label.mark).await {
        Ok(mark) => mark,
        Err(error) => return Ok(command::ran_unmarked(label, &error)),
    };
    if !execution.saved().is_closed {
        label.mark.integrity = Integrity::Untrusted;
    }
    let raw = match outcome {
        Outcome::Posted(posted) => answered(*posted, most, time)
            .map(|ran| {
                Raw::Result(
                    caller
                        .counted(command::result(&ran, command::room(order, case)))
                        .into(),
                )
            })
            .unwrap_or_else(Raw::Stopped),
        Outcome::Unknown(fault) => Raw::Stopped(fault.into()),
    };
    Ok(Carried { raw, label })
}

/// What became of a command that an executor had.
enum Outcome {
    Posted(Box<Posted>),
    /// Nobody can say how far it came.
    Unknown(Fault),
}

/// Waits for the executor's word. `Err`: no executor has seen the command.
async fn attend(
    execution: &Execution,
    mut waiting: Waiting,
    time: Duration,
    side: CallerSide<'_>,
) -> Result<Outcome, Stop> {
    let CallerSide { case, wires, .. } = side;
    let mut deadline = Instant::now() + time;
    let mut is_late = false;
    let mut is_watched = true;
    let mut phases = case.gate.flights.phases();
    loop {
        let is_delivered = waiting.is_delivered();
        let last = if is_delivered {
            Phase::Over
        } else {
            Phase::Closing
        };
        let unheard = tokio::select! {
            biased;
            answered = waiting.answered() => return heard(execution, answered),
            said = wires.from_client.recv(), if is_watched => match said {
                Some(FromClient::Cancel) => Fault::new(FaultKind::Cancelled, "cancelled by the client").into(),
                Some(FromClient::Answer { .. }) => continue,
                // Hanging up is not cancelling.
                None => { is_watched = false; continue }
            },
            () = reached(&mut phases, last) => Fault::new(FaultKind::Cancelled, "the gate is stopping").into(),
            () = tokio::time::sleep_until(deadline) => {
                if waiting.is_delivered() && !is_late {
                    is_late = true;
                    deadline += GRACE;
                    continue;
                }
                Fault::new(
                    FaultKind::Timeout,
                    "DispatchTimeout: no executor asked for the command while it had time",
                ).into()
            },
            () = tokio::time::sleep(LOOK) => match still_wanted(execution, case) {
                Ok(()) => continue,
                Err(stop) => stop,
            },
        };
        return match waiting.give_up() {
            Ok(answered) => heard(execution, answered),
            Err(GivenUp::Delivered) => Ok(Outcome::Unknown(unknown(&unheard, is_late))),
            Err(GivenUp::Waiting | GivenUp::Gone) => Err(unheard),
        };
    }
}

fn still_wanted(execution: &Execution, case: Case<'_>) -> Result<(), Stop> {
    let now_ms = case.gate.now_ms();
    if !execution.is_in_force(now_ms) {
        return Err(over(execution));
    }
    let admitted = case.gate.now().admits(&case.request.caller, now_ms);
    admitted.map_err(Stop::from)
}

/// An executor has the command, and is not waited for any more.
fn unknown(why: &Stop, is_late: bool) -> Fault {
    if is_late {
        let detail = "DispatchTimeout: the executor did not say how the command ended";
        return Fault::new(FaultKind::DispatchTimeout, detail);
    }
    let detail = match why {
        Stop::Refused(violation) => &violation.detail,
        Stop::Failed(fault) => &fault.detail,
    };
    Fault::new(
        FaultKind::Worker,
        format!("{detail}; an executor had the command"),
    )
}

fn heard(execution: &Execution, answered: Answered) -> Result<Outcome, Stop> {
    Ok(match answered {
        Answered::Posted(posted) => Outcome::Posted(posted),
        Answered::Lost => Outcome::Unknown(Fault::new(
            FaultKind::Worker,
            "the executor that had the command was replaced by another",
        )),
        Answered::Ended {
            was_delivered: true,
        } => Outcome::Unknown(Fault::new(
            FaultKind::Worker,
            "the execution ended while an executor had the command",
        )),
        Answered::Ended { .. } => return Err(over(execution)),
    })
}

fn over(execution: &Execution) -> Stop {
    let id = &execution.saved().id;
    Fault::new(
        FaultKind::Upstream,
        format!("execution `{id}` is over; `portcullis executions begin` begins another"),
    )
    .into()
}

/// A result as its executor posted it, or why it is none.
fn answered(posted: Posted, most: usize, time: Duration) -> Result<Ran, Stop> {
    let shown = posted.shown_bytes();
    if shown > most.saturating_add(SLACK) {
        let printed = shown as u64;
        return Err(command::stop(&NotRan::Flooded { printed }, most));
    }
    if posted.timed_out {
        return Err(command::stop(&NotRan::TimedOut(time), most));
    }
    Ok(Ran {
        exit_code: posted.exit_code,
        signal: posted.signal.and_then(|signal| i32::try_from(signal).ok()),
        stdout_bytes: posted.stdout_bytes.unwrap_or(posted.stdout.len() as u64),
        stderr_bytes: posted.stderr_bytes.unwrap_or(posted.stderr.len() as u64),
        is_truncated: posted.truncated,
        is_lossy: posted.lossy,
        was_full: None,
        took: Duration::from_millis(posted.duration_ms),
        stdout: posted.stdout,
        stderr: posted.stderr,
    })
}
