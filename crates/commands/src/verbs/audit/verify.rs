//! `portcullis audit verify`: whether the ledger is what it was, and what of that could not be shown.

use std::{io, thread};

use audit::{BodyReport, Head, Report};
use home::Home;
use serde_json::json;
use terminal::{Exit, Screen, Trouble};

use crate::{
    args,
    verbs::audit::{POLL, keep, proofs, query, unreadable},
};

/// Exit 6 when something is wrong, 1 when something could be neither shown nor refuted.
pub(super) fn run(
    args: &args::AuditVerify,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    if let Some(file) = &args.export {
        return keep::verify_export(file, args, home, screen);
    }
    let look = verifier(args, home)?;
    let mut report = look().map_err(|error| unreadable(home, &error))?;
    if !report.is_clean() {
        // A running gate may have been in the middle of its last line.
        thread::sleep(POLL);
        report = look().map_err(|error| unreadable(home, &error))?;
    }
    // Bodies are held against records, so these must stand first.
    let bodies = match report.is_clean() {
        true => Some(audit::verify_bodies(&home.ledger).map_err(|error| unreadable(home, &error))?),
        false => None,
    };
    let finding = report
        .finding
        .as_ref()
        .map(ToString::to_string)
        .or(bodies.as_ref().and_then(altered));
    report.unproven.extend(bodies.as_ref().and_then(missing));
    // The index proves nothing; but what is asked of it must not be less than the ledger has.
    let index = if report.is_clean() {
        query::mend_index(home)
    } else {
        None
    };
    let document = json!({
        "clean": finding.is_none(), "segments": report.segments, "first": report.first, "records": report.records, "intents": report.intents,
        "outcomes": report.outcomes, "refusals": report.refusals, "changes": report.changes, "open_intents": report.open_intents,
        "head": report.head.to_string(), "root": report.root.to_string(), "checkpoint": report.checkpoint, "finding": finding,
        "unproven": report.unproven, "index": index,
        "bodies": bodies.as_ref().map(|bodies| json!({
            "checked": bodies.checked(), "kept": bodies.kept, "erased": bodies.erased, "missing": bodies.missing, "altered": bodies.altered,
        })),
    });
    let mut text = verdict(&report, finding.as_deref(), bodies.as_ref());
    text.extend(index.iter().map(|wrong| format!("WARNING: {wrong}.\n")));
    screen.show(&document, &text)?;
    Ok(match (finding, report.unproven.is_empty()) {
        (None, true) => Exit::Done,
        (None, false) => Exit::Failed,
        (Some(_), _) => Exit::Altered,
    })
}

/// How the ledger is to be verified.
fn verifier(
    args: &args::AuditVerify,
    home: &Home,
) -> Result<Box<dyn Fn() -> io::Result<Report>>, Trouble> {
    let dir = home.ledger.clone();
    if args.against.is_none() && args.key.is_none() {
        return Ok(Box::new(move || audit::verify(&dir)));
    }
    let key = proofs::key(args.key.as_deref(), home)?;
    let Some(file) = &args.against else {
        return Ok(Box::new(move || audit::verify_signed(&dir, &key)));
    };
    let note = proofs::text_of(file)?;
    if let Err(bad) = Head::verified(&note, &key) {
        return Err(match &args.key {
            Some(_) => Trouble::usage(format!("--against: {bad}")),
            // Whoever exchanged the ledger has another key.
            None => Trouble::new(
                Exit::Altered,
                format!(
                    "THE LEDGER DOES NOT VERIFY: its own key did not sign the checkpoint in {}: {bad}",
                    file.display()
                ),
            ),
        });
    }
    Ok(Box::new(move || audit::verify_against(&dir, &note, &key)))
}

/// Outcomes and intents need not be as many: a call that fails before it is sent ends without an intent.
fn without_intent(report: &Report) -> String {
    let ended = report.intents.saturating_sub(report.open_intents);
    let others = report.outcomes.saturating_sub(ended);
    let why = if report.first > 0 {
        "failed before they were sent, or their intents were removed"
    } else {
        "failed before they were sent"
    };
    if others == 0 {
        String::new()
    } else {
        format!(" ({others} of calls without an intent: they {why})")
    }
}

fn altered(bodies: &BodyReport) -> Option<String> {
    let first = bodies.altered.first()?;
    let count = bodies.altered.len();
    Some(format!(
        "the kept arguments of {count} records are not those that were recorded, or lost their key without a record of it; the first is record \
         {first}"
    ))
}

fn missing(bodies: &BodyReport) -> Option<String> {
    let missing = bodies.missing;
    (missing > 0).then(|| {
        format!("the kept arguments of {missing} records are not there, and no record says why: lost in a power cut, or removed")
    })
}

fn verdict(report: &Report, finding: Option<&str>, bodies: Option<&BodyReport>) -> String {
    let counts = format!(
        "{} records in {} files: {} intents, {} outcomes{}, {} refusals, {} changes",
        report.kept(),
        report.segments,
        report.intents,
        report.outcomes,
        without_intent(report),
        report.refusals,
        report.changes
    );
    let mut text = match (finding, report.unproven.is_empty()) {
        (None, true) => format!("The ledger verifies. {counts}\nHead {}\n", report.head),
        (None, false) => {
            format!(
                "What is here fits together, but NOT EVERYTHING COULD BE SHOWN. {counts}\nHead {}\n",
                report.head
            )
        }
        (Some(finding), _) => {
            format!("THE LEDGER DOES NOT VERIFY: {finding}\nUp to there: {counts}\n")
        }
    };
    if let Some(bodies) = bodies.filter(|bodies| bodies.checked() > 0) {
        let (checked, kept, erased, missing) =
            (bodies.checked(), bodies.kept, bodies.erased, bodies.missing);
        let altered = bodies.altered.len();
        text.push_str(&format!(
            "Kept arguments of {checked} records checked: {kept} there, {erased} erased, {missing} missing, {altered} altered\n"
        ));
    }
    if report.first > 0 {
        text.push_str(&format!(
            "It begins with record {}: retention has removed those before it.\n",
            report.first
        ));
    }
    for unproven in &report.unproven {
        text.push_str(&format!("NOT SHOWN: {unproven}.\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::without_intent;

    #[test]
    fn outcomes_without_an_intent_are_explained() {
        let dir = tempfile::tempdir().unwrap();
        drop(audit::Ledger::at(dir.path()).unwrap());
        let mut report = audit::verify(dir.path()).unwrap();
        (report.intents, report.outcomes, report.open_intents) = (310, 308, 2);
        assert_eq!(without_intent(&report), "");
        report.outcomes = 312;
        let said = without_intent(&report);
        assert!(said.starts_with(" (4 of calls without an intent"), "{said}");
        assert!(said.ends_with("failed before they were sent)"), "{said}");
        report.first = 1;
        let said = without_intent(&report);
        assert!(said.contains("their intents were removed"), "{said}");
    }
}
