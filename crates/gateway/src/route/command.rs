//! The route to commands: each runs in a jail, in the workspace of its caller or in a volume, and its result carries all that it could have
//! read.
//!
//! **Invariant: what a command writes carries what its caller had seen.** The workspace is raised to the caller's label, on the disk, before
//! the command starts, and the result carries what the workspace does when the command has ended. Tests
//! `a_command_carries_what_others_wrote_while_it_ran`, `a_workspace_carries_what_its_caller_had_seen`,
//! `what_a_workspace_carries_only_rises_and_outlives_the_process`.

mod ground;

use calls::{
    finish::{Phase, reached},
    running::{FromClient, Wires},
};
use upstreams::commands::{CommandAsk, NotRan, Ran};
use vocab::{Fault, FaultKind, Label, Mark, Rule, Stop, Violation};
use wire::{
    Json,
    builtin::argument::{ARGS, COMMAND, CWD, STDIN},
    write::Object,
};

use super::{CallerSide, Carried, Raw};
use crate::call::{Case, Order, left};
use ground::Ground;

pub(super) async fn carry(order: &Order, side: CallerSide<'_>) -> Result<Carried, Stop> {
    let CallerSide { case, wires, .. } = side;
    let gate = case.gate;
    let caller = &case.request.caller;
    let mut ask = read(order, case)?;
    ask.check().map_err(|why| stop(&why, ask.output_bytes))?;
    let ground = Ground::of(case)?;
    let mut label: Label = case.label();
    ground.raise(&mut label).await?;
    ask.time = left(case, ask.time)?;
    let output_bytes = ask.output_bytes;
    let ran = tokio::select! {
        biased;
        ran = gate.commands.run(&gate.hub, ground.directory(), ask) => ran.map_err(|why| (stop(&why, output_bytes), why)),
        why = given_up(case, wires, "the command was ended") => Err((why, NotRan::Ended)),
        () = ground.overflows() => {
            let detail = "the command was ended: the volume holds more than it may, or cannot be counted";
            Err((Violation::new(Rule::QuotaExceeded, detail).into(), NotRan::Ended))
        }
    };
    let raw = match ran {
        Ok(ran) => Raw::Result(caller.counted(result(&ran, room(order, case))).into()),
        Err((why, NotRan::Asked(_) | NotRan::NotStarted(_))) => return Err(why),
        Err((why, _)) => Raw::Stopped(why),
    };
    // Other commands, and callers with tools for files, may have written meanwhile what this one then read.
    Ok(match ground.raise_after(&mut label).await {
        Ok(()) => Carried { raw, label },
        Err(error) => ran_unmarked(label, &error),
    })
}

/// A command has run: that it cannot be said what its files carry does not undo it. So it counts as carrying the most there is.
pub(super) fn ran_unmarked(mut label: Label, error: &std::io::Error) -> Carried {
    let detail = format!("the command ran, and what its files carry cannot be saved: {error}");
    label.mark = Mark::unpack(0b111);
    let raw = Raw::Stopped(Fault::new(FaultKind::Worker, detail).into());
    Carried { raw, label }
}

/// How long a result may be.
pub(super) fn room(order: &Order, case: Case<'_>) -> usize {
    let own = order.target().spec.budget.result_bytes;
    own.min(case.now.terms.ceiling.result_bytes)
}

/// Returns when the caller cancels the call, or the gate ends.
pub(super) async fn given_up(case: Case<'_>, wires: &mut Wires, then: &str) -> Stop {
    let mut phases = case.gate.flights.phases();
    let cancelled = async {
        loop {
            match wires.from_client.recv().await {
                Some(FromClient::Cancel) => return,
                // Nothing was asked.
                Some(FromClient::Answer { .. }) => {}
                // Hanging up is not cancelling.
                None => std::future::pending().await,
            }
        }
    };
    let why = tokio::select! {
        () = cancelled => format!("its caller cancelled it; {then}"),
        () = reached(&mut phases, Phase::Over) => format!("the gate is stopping; {then}"),
    };
    Fault::new(FaultKind::Cancelled, why).into()
}

/// What is asked for. What Shape let through is text; what is not is refused here too.
pub(super) fn read(order: &Order, case: Case<'_>) -> Result<CommandAsk, Violation> {
    let bytes = order.bytes().all().concat();
    let sent = Json::checked_before(&bytes).get("arguments");
    let given = |key: &str| sent?.get(key).filter(|value| !value.is_null());
    let wrong = |key: &str, kind: &str| {
        let why = format!("`{key}` must be {kind}");
        Violation::new(Rule::InvalidArguments, why.clone()).with_hint(why)
    };
    let text_of = |key: &str, value: Json<'_>| match value.as_str() {
        Some(text) => Ok(text.into_owned()),
        None => Err(wrong(key, "text")),
    };
    let text = |key: &str| given(key).map(|value| text_of(key, value)).transpose();
    let args = match given(ARGS) {
        None => Vec::new(),
        Some(args) if args.is_array() => args
            .items()
            .map(|item| text_of(ARGS, item))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(wrong(ARGS, "a list of texts")),
    };
    let budget = order.budget();
    Ok(CommandAsk {
        caller: case.request.caller.id().to_owned(),
        command: text(COMMAND)?.unwrap_or_default(),
        args,
        directory: text(CWD)?,
        input: text(STDIN)?.unwrap_or_default().into_bytes(),
        time: budget.time,
        output_bytes: budget.result_bytes,
        workspace_bytes: case.now.rules.contexts.ceilings().workspace_bytes,
    })
}

pub(super) fn stop(stopped: &NotRan, most: usize) -> Stop {
    match stopped {
        NotRan::Asked(why) => Violation::new(Rule::InvalidArguments, why.clone())
            .with_hint(why)
            .into(),
        NotRan::NotStarted(why) => Fault::new(FaultKind::Gate, why).into(),
        NotRan::Flooded { printed } => {
            let detail = format!("the command printed {printed} bytes; {most} are kept");
            let payload = format!("{{\"actual_bytes\":{printed},\"max_bytes\":{most}}}");
            Violation::new(Rule::OutputSizeLimitExceeded, detail)
                .with_payload(payload)
                .into()
        }
        NotRan::Full { held, most } => {
            let hint = format!(
                "the command was ended: the workspace may hold {most} bytes; delete what is not needed"
            );
            let detail =
                format!("the workspace held {held} bytes; {most} are allowed (`workspace_bytes`)");
            Violation::new(Rule::OutputSizeLimitExceeded, detail)
                .with_hint(hint)
                .with_payload(format!("{{\"actual_bytes\":{held},\"max_bytes\":{most}}}"))
                .into()
        }
        NotRan::TimedOut(time) => Fault::new(
            FaultKind::Timeout,
            format!("the command was ended after {} seconds", time.as_secs()),
        )
        .into(),
        NotRan::Ended => Fault::new(FaultKind::Cancelled, "an operator ended the command").into(),
    }
}

/// The result, with as much of the end of what was printed as there is room for. How long a text gets on its way is known only when it is
/// written, because some bytes become six.
pub(super) fn result(ran: &Ran, room: usize) -> Vec<u8> {
    let mut keep = ran.stdout.len() + ran.stderr.len();
    loop {
        let written = write(ran, keep);
        if written.len() <= room || keep == 0 {
            return written;
        }
        // A little less than would fit if all bytes were alike, so that it comes to an end.
        let fits = (keep as u128) * (room as u128) / (written.len() as u128);
        keep = usize::try_from(fits * 15 / 16).unwrap_or_default();
    }
}

/// The ends of both streams, which together have at most `keep` bytes. Neither takes the other's half unless it is left.
fn ends(ran: &Ran, keep: usize) -> [String; 2] {
    let half = keep / 2;
    let share = |own: &str, other: &str| half.max(keep.saturating_sub(other.len())).min(own.len());
    let end = |text: &str, bytes: usize, printed: u64| {
        let mut from = text.len() - bytes;
        while !text.is_char_boundary(from) {
            from += 1;
        }
        let kept = text.get(from..).unwrap_or_default();
        let missing = printed.saturating_sub(kept.len() as u64);
        if missing == 0 || (from == 0 && !ran.is_truncated) {
            kept.to_owned()
        } else {
            format!("[{missing} bytes before this are left out]\n{kept}")
        }
    };
    [
        end(
            &ran.stdout,
            share(&ran.stdout, &ran.stderr),
            ran.stdout_bytes,
        ),
        end(
            &ran.stderr,
            share(&ran.stderr, &ran.stdout),
            ran.stderr_bytes,
        ),
    ]
}

/// A command that fails is a result too: whoever asked for it reads the code.
fn write(ran: &Ran, keep: usize) -> Vec<u8> {
    let [stdout, mut stderr] = ends(ran, keep);
    if let Some(held) = ran.was_full {
        stderr.push_str(&format!(
            "[portcullis] the workspace is full ({held} bytes): nothing could be written, files can be deleted\n"
        ));
    }
    let is_truncated = ran.is_truncated || keep < ran.stdout.len() + ran.stderr.len();
    let mut structured = Object::new();
    structured
        .str("stdout", &stdout)
        .str("stderr", &stderr)
        .i64("exit_code", ran.exit_code)
        .u64(
            "duration_ms",
            u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX),
        )
        .bool("truncated", is_truncated)
        .u64("stdout_bytes", ran.stdout_bytes)
        .u64("stderr_bytes", ran.stderr_bytes);
    if let Some(signal) = ran.signal {
        structured.i64("signal", signal.into());
    }
    if ran.is_lossy {
        structured.bool("lossy", true);
    }
    let mut text = without_controls(&stdout);
    if !stderr.is_empty() {
        text.push_str("\n[stderr]\n");
        text.push_str(&without_controls(&stderr));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ran(stdout: String, stderr: String) -> Ran {
        Ran {
            stdout_bytes: stdout.len() as u64,
            stderr_bytes: stderr.len() as u64,
            stdout,
            stderr,
            exit_code: 0,
            signal: None,
            is_truncated: false,
            is_lossy: false,
            was_full: None,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn what_was_printed_is_cut_until_the_result_fits() {
        // Bytes that stay one, become two, and become six.
        for letter in ["x", "\"", "\u{1}", "ä"] {
            for (out, err) in [(100_000, 0), (0, 100_000), (60_000, 60_000), (10, 90_000)] {
                let ran = ran(letter.repeat(out), format!("{}end", letter.repeat(err)));
                for room in [700, 5_000, 50_000] {
                    let result = result(&ran, room);
                    assert!(
                        result.len() <= room,
                        "{letter:?} {out} {err}: {}",
                        result.len()
                    );
                    assert!(
                        result.len() > room / 3,
                        "{letter:?} {out} {err}: {}",
                        result.len()
                    );
                    let json = Json::parse(&result, Default::default());
                    let told = json.ok().and_then(|json| json.get("structuredContent"));
                    let told = told.unwrap();
                    assert_eq!(told.get("truncated").and_then(Json::as_bool), Some(true));
                    let stderr = told.get("stderr").and_then(Json::as_str).unwrap();
                    assert!(stderr.ends_with("end"), "{stderr}");
                }
            }
        }
    }

    #[test]
    fn what_fits_is_whole_and_what_is_missing_is_said() {
        let mut whole = ran("out".into(), "err".into());
        assert_eq!(ends(&whole, 6), ["out", "err"]);
        let text = String::from_utf8(result(&whole, 10_000)).unwrap();
        assert!(text.contains("\"truncated\":false"), "{text}");
        whole.is_truncated = true;
        whole.stdout_bytes = 103;
        assert_eq!(
            ends(&whole, 6),
            ["[100 bytes before this are left out]\nout", "err"]
        );
        assert_eq!(
            ends(&whole, 2),
            [
                "[102 bytes before this are left out]\nt",
                "[2 bytes before this are left out]\nr"
            ]
        );
    }
}
