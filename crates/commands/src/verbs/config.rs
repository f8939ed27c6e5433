//! `portcullis config …`

use config::Report;
use home::{Home, answers};
use serde_json::json;
use terminal::{Exit, Screen, Trouble};

use crate::{
    args,
    files::{load, of_home},
    render,
};

pub fn run(verb: &args::Config, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    match verb {
        args::Config::Check(args) => check(args, home, screen),
        args::Config::Explain(args) => {
            let (raw, _) = match &args.file {
                Some(file) => load(file)?,
                None => of_home(home)?,
            };
            explain(&raw, &[], screen)
        }
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

/// Shows every value of a configuration, marking those that a running gate has not taken on.
pub fn explain(
    raw: &config::Raw,
    awaiting_restart: &[String],
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let outside: Vec<config::Override> = config::environment()
        .said
        .into_iter()
        .map(|(variable, key, value)| config::Override {
            key,
            value,
            origin: variable,
        })
        .collect();
    let mut rows = config::explain(raw, &outside);
    for row in &mut rows {
        row.awaiting_restart = awaiting_restart.contains(&row.key);
    }
    screen.show(&rows, &render::explained(&rows, screen.style))?;
    Ok(Exit::Done)
}

/// All findings are the answer, so they go to the screen; the exit code says whether the file can be used.
fn check(args: &args::ConfigFile, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let loaded = match &args.file {
        Some(file) => config::load(file),
        None => home::layers::load(home),
    };
    let (check, report) = answers::check_config(loaded)?;
    screen.show(&check, &summary(&report, check.servers, !check.ok))?;
    Ok(if check.ok { Exit::Done } else { Exit::Usage })
}

fn summary(report: &Report, servers: u64, bad: bool) -> String {
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
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    let verdict = if bad {
        format!(
            "{}: {errors} mistake{}, nothing is applied",
            report.file,
            plural(errors as u64)
        )
    } else {
        format!("{}: good, {servers} server{}", report.file, plural(servers))
    };
    format!("{findings}{verdict}\n")
}
