//! The story of one call, stage by stage: which said what, when, and which were not reached.
//!
//! A record names the stage that decided, so the stages before it had nothing against the call. Nothing here is a guess: what no record
//! says is not told.

use super::{Paint, duration};
use crate::encode::printable;
use crate::record::Record;
use std::fmt::Write;
use vocab::Stage;

const WIDTH: usize = 10;

/// How far a stage came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Passed,
    /// It decided against the call, or something broke in it.
    Stopped,
    /// It was reached, and no record tells its end.
    Unknown,
    NotReached,
}

/// What the records of a call say together.
struct Call<'a> {
    intent: Option<&'a Record>,
    /// The outcome or the refusal.
    end: Option<&'a Record>,
    /// Its approvals, in order.
    approvals: Vec<&'a Record>,
    /// What was done later and names this call: its session was reset, its arguments were erased.
    later: Vec<&'a Record>,
}

impl<'a> Call<'a> {
    fn of(records: &'a [Record]) -> Call<'a> {
        let changes = records.iter().filter(|record| record.kind == "change");
        let (approvals, later) = changes.partition(|change| !change.approval.is_empty());
        Call {
            intent: records.iter().find(|record| record.kind == "intent"),
            end: records
                .iter()
                .rev()
                .find(|record| matches!(record.kind.as_str(), "outcome" | "refusal")),
            approvals,
            later,
        }
    }

    /// A field from the record that has it: the intent knows what was weighed, the end what became of it.
    fn field(&self, of: impl Fn(&'a Record) -> &'a str) -> &'a str {
        [self.intent, self.end]
            .into_iter()
            .flatten()
            .map(of)
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    }

    fn step(&self, stage: Stage) -> Step {
        let decided = self.end.and_then(|end| {
            Stage::ALL
                .into_iter()
                .find(|known| known.to_string() == end.stage)
        });
        match (self.end, decided) {
            (Some(end), _) if end.verdict == "permitted" => Step::Passed,
            (Some(_), _) if stage == Stage::Conclude => Step::Passed,
            (Some(end), Some(decided)) => match stage.cmp(&decided) {
                std::cmp::Ordering::Less => Step::Passed,
                std::cmp::Ordering::Equal if end.verdict == "indeterminate" => Step::Unknown,
                std::cmp::Ordering::Equal => Step::Stopped,
                std::cmp::Ordering::Greater => Step::NotReached,
            },
            (Some(_), None) => Step::Unknown,
            (None, _) if self.intent.is_some() && stage <= Stage::Intend => Step::Passed,
            (None, _) if self.intent.is_some() && stage == Stage::Dispatch => Step::Unknown,
            (None, _) => Step::NotReached,
        }
    }

    /// What is known about a stage that passed, or that stopped the call.
    fn told(&self, stage: Stage) -> String {
        let field = |of: fn(&Record) -> &str| printable(self.field(of));
        let bytes = |count: Option<u64>| {
            count
                .map(|count| format!("{count} bytes"))
                .unwrap_or_default()
        };
        match stage {
            Stage::Receive => {
                let size = self
                    .intent
                    .or(self.end)
                    .and_then(|record| record.args_bytes);
                join(&[
                    &field(|r| &r.action),
                    &with("over", &field(|r| &r.door)),
                    &bytes(size),
                ])
            }
            Stage::Verify => join(&[
                &field(|r| &r.caller),
                &with("for", &field(|r| &r.user)),
                &with("agent", &field(|r| &r.agent)),
                &with("tenant", &field(|r| &r.tenant)),
                &with("execution", &field(|r| &r.execution)),
                &with("signed", &short(&field(|r| &r.signature))),
            ]),
            Stage::Resolve => join(&[
                &what(self.end.or(self.intent)),
                &with("definition", &short(&field(|r| &r.definition))),
            ]),
            Stage::Admit => with("effect", &field(|r| &r.effect)),
            Stage::Weigh => join(&[
                &with("session at", &field(|r| &r.label)),
                &with("after call", &field(|r| &r.after)),
            ]),
            Stage::Shape => with("arguments", &short(&field(|r| &r.args))),
            Stage::Judge => join(&[
                &with("bundle", &field(|r| &r.bundle)),
                &with("by", &field(|r| &r.policy)),
            ]),
            Stage::Consent => with("approval", &field(|r| &r.approval)),
            Stage::Intend => self.intent.map(written).unwrap_or_default(),
            Stage::Inspect => {
                let result = self
                    .end
                    .map(|end| join(&[&short(&printable(&end.result)), &bytes(end.result_bytes)]));
                with("result", &result.unwrap_or_default())
            }
            Stage::Absorb => self.end.map(rise).unwrap_or_default(),
            Stage::Conclude => self.end.map(concluded).unwrap_or_default(),
            Stage::Dispatch => {
                let took = self.end.and_then(|end| end.server_us);
                took.map(|us| format!("the target took {}", duration(us)))
                    .unwrap_or_default()
            }
            Stage::Bound => String::new(),
        }
    }
}

/// The story of a call. `records` are all that belong to it, in order, and the changes of its approvals.
pub(super) fn tell(records: &[Record], paint: &Paint) -> String {
    let call = Call::of(records);
    let mut story = String::new();
    title(&mut story, &call, paint);
    for stage in Stage::ALL {
        let step = call.step(stage);
        let (mark, code) = match step {
            Step::Passed => ("✓", "32"),
            Step::Stopped => ("✗", "31"),
            Step::Unknown => ("?", "35"),
            Step::NotReached => ("·", "2"),
        };
        let name = format!("{:<WIDTH$}", stage.to_string());
        let text = match step {
            Step::NotReached => String::new(),
            Step::Passed => call.told(stage),
            Step::Unknown if call.end.is_none() => {
                "under way, or its end was not recorded yet".to_owned()
            }
            Step::Stopped | Step::Unknown => {
                let end = call
                    .end
                    .map(|end| join(&[&printable(&end.violation), &printable(&end.detail)]))
                    .unwrap_or_default();
                join(&[&end, &call.told(stage)])
            }
        };
        let name = if step == Step::NotReached {
            paint.dim(&name)
        } else {
            name
        };
        let line = format!("  {} {name}  {text}", paint.with(code, mark));
        let _ = writeln!(story, "{}", line.trim_end());
        if stage == Stage::Consent {
            call.approvals
                .iter()
                .for_each(|change| answered(&mut story, change, paint));
        }
        if let (Step::Stopped, Some(end)) = (step, call.end.filter(|end| !end.payload.is_empty())) {
            let _ = writeln!(
                story,
                "    {:<WIDTH$}  {}",
                "",
                paint.dim(&format!("it looked at {}", printable(&end.payload)))
            );
        }
    }
    if !call.later.is_empty() {
        story.push_str("\nLater\n");
        call.later
            .iter()
            .for_each(|change| answered(&mut story, change, paint));
    }
    story
}

fn title(story: &mut String, call: &Call<'_>, paint: &Paint) {
    let first = call.intent.or(call.end);
    let verdict = call
        .end
        .map_or("under way", |end| super::known(&end.verdict));
    let took = call
        .end
        .and_then(|end| end.us)
        .map(|us| format!("after {}", duration(us)))
        .unwrap_or_default();
    let id = printable(call.field(|record| &record.call));
    let _ = writeln!(
        story,
        "Call {}  {}  {} {took}",
        paint.bold(&id),
        what(first),
        paint.verdict(verdict, verdict)
    );
    let _ = writeln!(
        story,
        "{}\n",
        paint.dim(&first.map(time).unwrap_or_default())
    );
}

/// One step of an approval: asked, approved, denied, expired.
fn answered(story: &mut String, change: &Record, paint: &Paint) {
    let who = [&change.user, &change.caller]
        .into_iter()
        .find(|who| !who.is_empty())
        .map(|who| printable(who));
    let action = printable(
        change
            .action
            .strip_prefix("approval.")
            .unwrap_or(&change.action),
    );
    let reason = if change.reason.is_empty() {
        String::new()
    } else {
        format!("“{}”", printable(&change.reason))
    };
    let text = join(&[
        &action,
        &with("by", &who.unwrap_or_default()),
        &time(change),
        &reason,
        &with("record", &change.seq.to_string()),
    ]);
    let _ = writeln!(story, "    {:<WIDTH$}  {}", "", paint.dim(&text));
}

fn what(record: Option<&Record>) -> String {
    let Some(record) = record else {
        return String::new();
    };
    match (record.server.as_str(), record.tool.as_str()) {
        ("", "") => printable(&record.action),
        ("", tool) => printable(tool),
        (server, "") => printable(server),
        (server, tool) => format!("{}/{}", printable(server), printable(tool)),
    }
}

fn rise(end: &Record) -> String {
    let (before, after) = (printable(&end.label), printable(&end.label_after));
    let label = match after.as_str() {
        "" => with("session stays at", &before),
        _ if after == before => with("session stays at", &before),
        after => format!("session {before} → {after}"),
    };
    join(&[&label, &with("from", &printable(&end.origins))])
}

/// A failure that was delivered like a result stopped no stage, so what it was is told here.
fn concluded(end: &Record) -> String {
    let is_told_here = end.verdict != "permitted" && end.stage == Stage::Conclude.to_string();
    let failure = if is_told_here {
        join(&[&printable(&end.violation), &printable(&end.detail)])
    } else {
        String::new()
    };
    join(&[&failure, &written(end)])
}

fn written(record: &Record) -> String {
    join(&[&time(record), &with("record", &record.seq.to_string())])
}

fn time(record: &Record) -> String {
    let clock = record
        .time
        .get(..23)
        .unwrap_or(&record.time)
        .replace('T', " ");
    if clock.is_empty() {
        clock
    } else {
        format!("{} UTC", printable(&clock))
    }
}

fn with(word: &str, text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("{word} {text}")
    }
}

/// Digests are recognised by their beginning.
fn short(digest: &str) -> String {
    if digest.chars().count() > 16 {
        digest.chars().take(12).chain("…".chars()).collect()
    } else {
        digest.to_owned()
    }
}

fn join(parts: &[&str]) -> String {
    parts
        .iter()
        .filter(|part| !part.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(", ")
}
