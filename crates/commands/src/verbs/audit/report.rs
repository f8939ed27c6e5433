//! `portcullis audit report`: reads the ledger, verifies it, and writes what happened in a period. No gate needs to run.

use home::{Home, answers};
use reports::page::{csv, html};
use terminal::{Exit, Screen, Trouble};

use crate::{args, out_file, report};

/// Exit 6 when the ledger does not verify: the report says so too.
pub(super) fn run(
    args: &args::AuditReport,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let period = api::Period {
        since: args.since.clone(),
        until: args.until.clone(),
    };
    let summary = answers::report(home, &period)?;
    let format = if screen.json && args.format == args::ReportFormat::Text {
        args::ReportFormat::Json
    } else {
        args.format
    };
    let text = match format {
        args::ReportFormat::Text => report::render(&summary, screen.style),
        args::ReportFormat::Json => {
            serde_json::to_string_pretty(&summary).map_err(Trouble::failed)? + "\n"
        }
        args::ReportFormat::Csv => csv::render(&summary),
        args::ReportFormat::Html => html::render(&summary),
    };
    match &args.out {
        Some(file) => {
            out_file::write(file, |out| Ok(out.write_all(text.as_bytes())?))?;
            let said = serde_json::json!({ "file": file, "verifies": summary.ledger.verifies });
            if !out_file::is_stdout(file) {
                screen.show(&said, &format!("The report is in {}\n", file.display()))?;
            }
        }
        None => screen.machine(text.as_bytes())?,
    }
    Ok(if summary.ledger.verifies {
        Exit::Done
    } else {
        Exit::Altered
    })
}
