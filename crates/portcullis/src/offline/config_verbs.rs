//! `portcullis config …`

use std::path::Path;

use serde_json::json;

use super::{Screen, Trouble, load, mistakes_in_named_files};
use crate::{
    cli::{Exit, args, render},
    config::{self, LoadError, Report},
    contexts,
    home::Home,
};

pub(super) fn run(
    verb: &args::Config,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    match verb {
        args::Config::Check(args) => check(args, home, screen),
        args::Config::Explain(args) => explain(
            &args.file.clone().unwrap_or_else(|| home.config_file()),
            &[],
            screen,
        ),
        args::Config::Schema => {
            screen.out.write_all(config::schema().as_bytes())?;
            Ok(Exit::Done)
        }
        args::Config::Path => {
            let path = home.config_file();
            screen.show(&json!({ "path": path }), &format!("{}\n", path.display()))?;
            Ok(Exit::Done)
        }
    }
}

/// Shows every value of a file, marking those that a running gate has not taken on.
pub(crate) fn explain(
    file: &Path,
    awaiting_restart: &[String],
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let (raw, _) = load(file)?;
    let mut rows = config::explain(&raw, &[]);
    for row in &mut rows {
        row.awaiting_restart = awaiting_restart.contains(&row.key);
    }
    screen.show(&rows, &render::explained(&rows, screen.style))?;
    Ok(Exit::Done)
}

/// All findings are the answer, so they go to the screen; the exit code says whether the file can be used.
fn check(args: &args::ConfigFile, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let file = args.file.clone().unwrap_or_else(|| home.config_file());
    let (report, servers) = match config::load(&file) {
        Ok((raw, resolved)) => {
            let mut named = mistakes_in_named_files(&resolved);
            named.extend(contexts::idle(&resolved));
            let servers = resolved.servers.len();
            (
                raw.report(resolved.warnings.into_iter().chain(named).collect()),
                servers,
            )
        }
        Err(LoadError::Invalid(report)) => (report, 0),
        Err(error @ LoadError::Read { .. }) => return Err(Trouble::usage(error)),
    };
    let bad = report.has_errors();
    let text = summary(&report, servers, bad);
    screen.show(&json!({ "ok": !bad, "file": report.file, "servers": servers, "findings": report.findings }), &text)?;
    Ok(if bad { Exit::Usage } else { Exit::Done })
}

fn summary(report: &Report, servers: usize, bad: bool) -> String {
    let findings = if report.findings.is_empty() {
        String::new()
    } else {
        format!("{report}\n")
    };
    let errors = report
        .findings
        .iter()
        .filter(|finding| finding.severity == config::Severity::Error)
        .count();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let verdict = if bad {
        format!(
            "{}: {errors} mistake{}, nothing is applied",
            report.file,
            plural(errors)
        )
    } else {
        format!("{}: good, {servers} server{}", report.file, plural(servers))
    };
    format!("{findings}{verdict}\n")
}
