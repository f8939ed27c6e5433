//! The route to commands: each runs in a jail, in the workspace of its caller or in a volume, and its result carries all that it could have
//! read.
//!
//! **Invariant: what a command writes carries what its caller had seen.** The workspace is raised to the caller's label, on the disk, before
//! the command starts, and the result carries what the workspace does when the command has ended. Tests
//! `a_command_carries_what_others_wrote_while_it_ran`, `a_workspace_carries_what_its_caller_had_seen`,
//! `what_a_workspace_carries_only_rises_and_outlives_the_process`.

mod ground;

use callers::ForGate;
use upstreams::commands::{CommandAsk, NotRan, Ran};
use vocab::{Fault, FaultKind, Label, Rule, Stop, Violation};
use wire::{
    Json,
    builtin::argument::{ARGS, COMMAND, CWD, STDIN},
    write::Object,
};

use super::{Carried, Raw};
use crate::call::{Case, Order};
use ground::Ground;

pub(super) async fn carry(order: &Order, case: Case<'_>) -> Result<Carried, Stop> {
    let gate = case.gate;
    let caller = &case.request.caller;
    let ask = read(order, caller.id());
    let ground = Ground::of(case)?;
    let mut label: Label = caller.session().label();
    ground.raise(&mut label).await?;
    let most = order.budget().result_bytes;
    let ran = tokio::select! {
        ran = gate.commands.run(&gate.hub, ground.files(), ask) => ran.map_err(Ended::Not),
        () = ground.overflows() => Err(Ended::Overfull),
    };
    // Other commands, and callers with tools for files, may have written meanwhile what this one then read.
    ground.raise_after(&mut label).await?;
    let raw = match ran {
        Ok(ran) => Raw::Result(caller.counted(result(&ran)).into()),
        Err(Ended::Not(NotRan::Asked(why))) => {
            return Err(Violation::new(Rule::InvalidArguments, why.clone())
                .with_hint(why)
                .into());
        }
        Err(Ended::Not(NotRan::NotStarted(why))) => {
            return Err(Fault::new(FaultKind::Gate, why).into());
        }
        Err(Ended::Not(stopped)) => Raw::Stopped(stop(&stopped, most)),
        Err(Ended::Overfull) => {
            let detail = "the command wrote more than the volume may hold, and was ended";
            Raw::Stopped(Violation::new(Rule::QuotaExceeded, detail).into())
        }
    };
    Ok(Carried { raw, label })
}

/// Why there is no result.
enum Ended {
    Not(NotRan),
    Overfull,
}

pub(super) fn read(order: &Order, caller: &str) -> CommandAsk {
    let bytes = order.bytes().all().concat();
    let sent = Json::checked_before(&bytes).get("arguments");
    let text = |key: &str| Some(sent?.get(key)?.as_str()?.into_owned());
    let args = sent.and_then(|sent| sent.get(ARGS));
    let budget = order.budget();
    CommandAsk {
        caller: caller.to_owned(),
        command: text(COMMAND).unwrap_or_default(),
        args: args
            .filter(|args| args.is_array())
            .map(|args| {
                args.items()
                    .filter_map(|item| Some(item.as_str()?.into_owned()))
                    .collect()
            })
            .unwrap_or_default(),
        directory: text(CWD),
        input: text(STDIN).unwrap_or_default().into_bytes(),
        time: budget.time,
        output_bytes: budget.result_bytes,
    }
}

pub(super) fn stop(stopped: &NotRan, most: usize) -> Stop {
    match stopped {
        NotRan::Flooded { printed } => {
            let detail = format!("the command printed {printed} bytes; {most} are kept");
            let payload = format!("{{\"actual_bytes\":{printed},\"max_bytes\":{most}}}");
            Violation::new(Rule::OutputSizeLimitExceeded, detail)
                .with_payload(payload)
                .into()
        }
        NotRan::TimedOut(time) => Fault::new(
            FaultKind::Timeout,
            format!("the command was ended after {} seconds", time.as_secs()),
        )
        .into(),
        NotRan::Ended => Fault::new(FaultKind::Cancelled, "an operator ended the command").into(),
        NotRan::Asked(why) | NotRan::NotStarted(why) => Fault::new(FaultKind::Gate, why).into(),
    }
}

/// A command that fails is a result too: whoever asked for it reads the code.
pub(super) fn result(ran: &Ran) -> Vec<u8> {
    let mut structured = Object::new();
    structured
        .str("stdout", &ran.stdout)
        .str("stderr", &ran.stderr)
        .i64("exit_code", ran.exit_code)
        .u64(
            "duration_ms",
            u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX),
        )
        .bool("truncated", ran.is_truncated)
        .u64("stdout_bytes", ran.stdout_bytes)
        .u64("stderr_bytes", ran.stderr_bytes);
    if let Some(signal) = ran.signal {
        structured.i64("signal", signal.into());
    }
    if ran.is_lossy {
        structured.bool("lossy", true);
    }
    let mut text = without_controls(&ran.stdout);
    if !ran.stderr.is_empty() {
        text.push_str("\n[stderr]\n");
        text.push_str(&without_controls(&ran.stderr));
    }
    if ran.exit_code != 0 {
        text.push_str(&format!("\n[exit code {}]\n", ran.exit_code));
    }
    let mut content = Object::new();
    content.str("type", "text").str("text", &text);
    let mut out = Object::new();
    out.raw(
        "content",
        &[b"[", content.finish().as_slice(), b"]"].concat(),
    )
    .raw("structuredContent", &structured.finish());
    out.finish()
}

/// What is shown as text moves no cursor and paints nothing; the structured result has it as it was.
fn without_controls(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'))
        .collect()
}
