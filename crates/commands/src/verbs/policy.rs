//! `portcullis policy check|test|diff|suggest`: what a bundle says, without a gate.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use config::{
    Resolved,
    bundle::{self, BundleError},
};
use home::{
    Home, answers,
    recorded::{self, Calls, Wanted},
};
use policy::cedar::{Bundle, Changed, Decision, Recorded, cases};
use serde_json::{Value, json};
use terminal::{
    Exit, Screen, Style, Trouble,
    style::{Cell, Paint, cell, painted, table, tame},
};

use crate::{args, files::of_home};

/// A file of cases is written by people; more than this is not.
const MAX_CASES: u64 = 16 << 20;

fn configured(home: &Home) -> Result<Resolved, Trouble> {
    of_home(home).map(|(_, resolved)| resolved)
}

/// The bundle a person named, or the one in the configuration.
fn bundle(path: Option<&Path>, home: &Home) -> Result<Bundle, Trouble> {
    let loaded = match path {
        Some(path) => bundle::named(path),
        None => bundle::load(&configured(home)?.bundle),
    };
    loaded.map_err(Trouble::usage)
}

/// All problems are the answer, so they go to the screen; the exit code says whether the bundle can be used.
pub fn check(path: Option<&Path>, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let loaded = match path {
        Some(path) => bundle::named(path),
        None => bundle::load(&configured(home)?.bundle),
    };
    let text = match &loaded {
        Ok(bundle) => {
            let count = bundle.policy_count();
            let plural = if count == 1 { "policy" } else { "policies" };
            format!("{}: good, {count} {plural}\n", tame(bundle.version()))
        }
        Err(BundleError::Wrong(problems)) => {
            let count = problems.len();
            let plural = if count == 1 { "mistake" } else { "mistakes" };
            let text: String = problems
                .iter()
                .map(|problem| format!("{problem}\n\n"))
                .collect();
            format!("{text}{count} {plural}; the bundle cannot be used\n")
        }
        Err(_) => String::new(),
    };
    let check = answers::check_policy(loaded)?;
    screen.show(&check, &text)?;
    Ok(if check.ok { Exit::Done } else { Exit::Usage })
}

/// Exit 1 when a case is not as expected.
pub fn test(
    args: &args::PolicyTest,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let bundle = bundle(args.bundle.as_deref(), home)?;
    let shown = args.file.display().to_string();
    let unreadable =
        |error: std::io::Error| Trouble::usage(format!("cannot read {shown}: {error}"));
    if fs::metadata(&args.file).map_err(unreadable)?.len() > MAX_CASES {
        return Err(Trouble::usage(format!(
            "{shown} is larger than {MAX_CASES} bytes"
        )));
    }
    let text = fs::read_to_string(&args.file).map_err(unreadable)?;
    let cases = cases::parse(&shown, &text).map_err(Trouble::usage)?;
    let outcomes = cases::run(&bundle, &cases);
    let failed = outcomes
        .iter()
        .filter(|outcome| outcome.failure.is_some())
        .count();
    let document = json!({
        "bundle": bundle.version(),
        "passed": outcomes.len() - failed,
        "failed": failed,
        "cases": outcomes.iter().map(outcome_json).collect::<Vec<_>>(),
    });
    screen.show(
        &document,
        &render_cases(&outcomes, bundle.version(), screen.style),
    )?;
    Ok(if failed == 0 {
        Exit::Done
    } else {
        Exit::Failed
    })
}

fn outcome_json(outcome: &cases::Outcome) -> Value {
    json!({ "name": outcome.name, "decision": outcome.decision.as_str(), "failure": outcome.failure })
}

fn render_cases(outcomes: &[cases::Outcome], version: &str, style: Style) -> String {
    let mut out = String::new();
    for outcome in outcomes {
        let (word, paint) = if outcome.failure.is_none() {
            ("ok  ", Paint::Green)
        } else {
            ("FAIL", Paint::Red)
        };
        out.push_str(&format!(
            "{} {}\n",
            style.paint(word, paint),
            tame(&outcome.name)
        ));
        if let Some(failure) = &outcome.failure {
            out.push_str(&format!("     {}\n", tame(failure)));
        }
    }
    let failed = outcomes
        .iter()
        .filter(|outcome| outcome.failure.is_some())
        .count();
    let verdict = match failed {
        0 => format!("{} cases as expected", outcomes.len()),
        _ => format!("{failed} of {} cases not as expected", outcomes.len()),
    };
    out.push_str(&format!("{verdict}, with {}\n", tame(version)));
    out
}

fn since(span: Option<Duration>) -> u64 {
    let Some(span) = span else { return 0 };
    let then = SystemTime::now()
        .checked_sub(span)
        .and_then(|then| then.duration_since(UNIX_EPOCH).ok());
    then.map_or(0, |then| {
        u64::try_from(then.as_millis()).unwrap_or(u64::MAX)
    })
}

pub fn diff(
    args: &args::PolicyDiff,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let resolved = configured(home)?;
    let candidate = bundle::named(&args.path).map_err(Trouble::usage)?;
    let wanted = Wanted {
        caller: args.caller.as_deref(),
        since_ms: since(args.since),
    };
    let calls = recorded::read(home, &resolved, &wanted)?;
    let (diff, changed) = answers::diff_policy(home, &candidate, &calls)?;
    let text = render_diff(&changed, &calls, &diff.before, &diff.after, screen.style);
    screen.show(&diff, &text)?;
    Ok(Exit::Done)
}

fn render_diff(
    changed: &[Changed],
    calls: &Calls,
    before: &str,
    after: &str,
    style: Style,
) -> String {
    let of = |change: &Changed| calls.calls.iter().find(|call| call.id == change.id);
    let rows: Vec<Vec<Cell>> = changed
        .iter()
        .map(|change| {
            let call = of(change);
            let target = call
                .map(|call: &Recorded| format!("{}/{}", call.server, call.target))
                .unwrap_or_default();
            let by: Vec<&str> = change
                .after
                .notes()
                .iter()
                .map(|note| note.policy.as_str())
                .collect();
            vec![
                painted(&change.id, Paint::Bold),
                cell(call.map_or("-", |call| &call.caller)),
                cell(target),
                decision(&change.before),
                decision(&change.after),
                cell(if by.is_empty() {
                    "-".to_owned()
                } else {
                    by.join(", ")
                }),
            ]
        })
        .collect();
    let mut out = if rows.is_empty() {
        String::new()
    } else {
        table(
            &["CALL", "CALLER", "TARGET", "BEFORE", "AFTER", "BY"],
            &rows,
            style,
        ) + "\n"
    };
    let all = calls.calls.len();
    out.push_str(&match changed.len() {
        0 => format!(
            "None of {all} recorded calls would be decided otherwise by {}.\n",
            tame(after)
        ),
        count => {
            format!(
                "{count} of {all} recorded calls would be decided otherwise by {} than by {}.\n",
                tame(after),
                tame(before)
            )
        }
    });
    out.push_str(&calls.left_out());
    out
}

fn decision(decision: &Decision) -> Cell {
    match decision {
        Decision::Allow => painted("allow", Paint::Green),
        Decision::Endorse(_) => painted("endorse", Paint::Green),
        Decision::Block(_) => painted("block", Paint::Red),
        other => painted(other.as_str(), Paint::Yellow),
    }
}

/// The bundle itself goes to standard output, so that it can be sent to a file; what was left out stands in it.
pub fn suggest(
    args: &args::PolicySuggest,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let resolved = configured(home)?;
    let wanted = Wanted {
        caller: args.caller.as_deref(),
        since_ms: since(args.since),
    };
    let calls = recorded::read(home, &resolved, &wanted)?;
    let suggested = answers::suggest_policy(&calls)?;
    screen.show(&suggested, &suggested.bundle)?;
    Ok(Exit::Done)
}
