//! `cargo xtask conformance`: the official MCP conformance suite against the fixture directly and through the gate.
//!
//! A run passes only if every scenario a revision requires passes, and every one the suite runs without scoring it too:
//! there is no list of expected failures. A warning counts as a failure, because the fixture shows that none is needed.

mod gate;
mod logins;
mod oauth;
mod report;
mod requirements;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::say;
use crate::tools::Suite;
use crate::tools::process::{self, Running};
use report::Verdict;
use requirements::{Leg, Requirements};

pub(crate) use oauth::with_oauth;
pub(crate) use report::Summary;

/// Revision, and how many server scenarios it requires and runs unscored. The numbers guard against a suite that silently
/// runs less than it did.
const REVISIONS: [(&str, usize, usize); 2] = [("2025-11-25", 30, 3), ("2026-07-28", 37, 13)];

/// Client scenarios without `auth/`, required and unscored, per revision.
const CLIENT_SCENARIOS: [(&str, usize, usize); 2] = [("2025-11-25", 4, 1), ("2026-07-28", 7, 1)];

const SUITE_LIMIT: Duration = Duration::from_secs(300);
const SCENARIO_LIMIT: Duration = Duration::from_secs(60);

const USAGE: &str = "usage: cargo xtask conformance [--direct] [--through-gate] [--with-oauth] [--logins] [--url URL] [--client COMMAND]

  --direct          the fixture and the reference client, nothing in between (the default)
  --through-gate    the same with a gate in between
  --with-oauth      the server suite and the official client against a gate behind an identity provider
  --logins          the client suite's scenarios about authorization, with a gate as the client
  --url URL         only the server suite, against a server that is already running
  --client COMMAND  only the client suite, with this command as the client; the suite appends its URL";

/// Runs the verb.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let summaries = match arguments.as_slice() {
        [] | ["--direct"] => direct()?,
        ["--through-gate"] => through_gate()?,
        ["--direct", "--through-gate"] => [direct()?, through_gate()?].concat(),
        ["--with-oauth"] => with_oauth()?,
        ["--logins"] => logins()?,
        ["--url", url] => vec![run_server_suite(url, "url")?],
        ["--client", command] => vec![run_client_suite(command, "client")?],
        ["client-through-gate", options @ .., url] => return gate::play_through(options, url),
        ["client-logs-in", url] => return logins::play(url),
        ["browse", address] => return logins::browse(address),
        ["--help" | "-h"] => {
            say(USAGE);
            return Ok(());
        }
        other => bail!("cannot understand '{}'\n{USAGE}", other.join(" ")),
    };
    let failed: usize = summaries.iter().map(Summary::failed).sum();
    ensure!(
        failed == 0,
        "{failed} conformance scenarios did not pass; the logs are in {}",
        output("")?.display()
    );
    Ok(())
}

/// Fixture and reference client with nothing in between.
pub(crate) fn direct() -> Result<Vec<Summary>> {
    let programs = process::build(&["--package", "testkit", "--bins"])?;
    let (_fixture, url) = start_fixture(&programs)?;
    let server = run_server_suite(&url, "direct")?;
    let client = run_client_suite(
        &command_text(&programs.join("conformance-client"), &[])?,
        "direct-client",
    )?;
    Ok(vec![server, client])
}

/// The same, with a gate in between: as the server the suite sees, and as the client its servers see.
pub(crate) fn through_gate() -> Result<Vec<Summary>> {
    let programs = process::build(&[
        "--package",
        "testkit",
        "--package",
        "portcullis",
        "--package",
        "worker",
        "--bins",
    ])?;
    let (_fixture, url) = start_fixture(&programs)?;
    let gate = gate::Gate::start(&programs, &output("gate")?, &url)?;
    let server = run_server_suite(&gate.url(), "through-gate")?;
    drop(gate);
    let this = process::this_program()?;
    let client = command_text(&this, &["conformance", "client-through-gate"])?;
    Ok(vec![
        server,
        run_client_suite(&client, "through-gate-client")?,
    ])
}

/// The gate as a client that logs in.
pub(crate) fn logins() -> Result<Vec<Summary>> {
    process::build(&["--package", "portcullis", "--package", "worker", "--bins"])?;
    Ok(vec![logins::run("logins")?])
}

/// Runs both requirement sets of the server suite against an endpoint that asks for no credential.
pub(crate) fn run_server_suite(url: &str, label: &str) -> Result<Summary> {
    run_suite(url, label, None)
}

/// The same, with a credential on every request if there is one.
fn run_suite(url: &str, label: &str, credential: Option<&gate::Credential<'_>>) -> Result<Summary> {
    let suite = Suite::get()?;
    let mut summary = Summary::new(label);
    for (revision, required, unscored) in REVISIONS {
        let requirements = Requirements::read(&suite.requirements(revision)?, Leg::Server)?;
        requirements.expect(revision, required, unscored)?;
        let results = output(&format!("{label}/{revision}"))?;
        let log = results.join("suite.log");
        let results_text = results
            .to_str()
            .context("the target directory has a name that is not text")?;
        let arguments = [
            "server",
            "--url",
            url,
            "--requirements",
            revision,
            "-o",
            results_text,
        ];
        // The exit status only knows required failures; the saved checks know all of them.
        let mut command = match credential {
            None => suite.command(&arguments),
            Some(credential) => credential.command(&suite, &arguments),
        };
        process::run_bounded(&mut command, &log, SUITE_LIMIT)?;
        for (scenario, scored) in requirements.scenarios() {
            summary.add(
                revision,
                scored,
                Verdict::read(&results, &format!("server-{scenario}"), scenario)?,
            );
        }
    }
    say(&summary);
    Ok(summary)
}

/// Runs every client scenario that is not about authorization, with `command` as the client under test.
pub(crate) fn run_client_suite(command: &str, label: &str) -> Result<Summary> {
    let suite = Suite::get()?;
    let mut summary = Summary::new(label);
    for (revision, required, unscored) in CLIENT_SCENARIOS {
        let requirements =
            Requirements::read(&suite.requirements(revision)?, Leg::Client)?.without("auth/");
        requirements.expect(revision, required, unscored)?;
        for (scenario, scored) in requirements.scenarios() {
            let results = output(&format!("{label}/{revision}/{scenario}"))?;
            let playing = Playing {
                revision,
                scenario,
                may_fail: false,
                is_extension: false,
            };
            let mut verdict = client_scenario(&suite, command, &playing, &results)?;
            verdict.explain_from(&results.join("suite.log"));
            summary.add(revision, scored, verdict);
        }
    }
    say(&summary);
    Ok(summary)
}

/// A client scenario under way.
struct Playing<'a> {
    revision: &'a str,
    scenario: &'a str,
    /// A client that does right ends with an error.
    may_fail: bool,
    /// The suite plays it at any revision, if it is told to.
    is_extension: bool,
}

fn client_scenario(
    suite: &Suite,
    command: &str,
    playing: &Playing<'_>,
    results: &Path,
) -> Result<Verdict> {
    let Playing {
        revision, scenario, ..
    } = *playing;
    let results_text = results
        .to_str()
        .context("the target directory has a name that is not text")?;
    let mut arguments = vec![
        "client",
        "--command",
        command,
        "--scenario",
        scenario,
        "--spec-version",
        revision,
        "-o",
        results_text,
    ];
    if playing.is_extension {
        arguments.push("--force");
    }
    let log = results.join("suite.log");
    let status = process::run_bounded(&mut suite.command(&arguments), &log, SCENARIO_LIMIT)?;
    // The suite saves what it found under the scenario's name, whose slash makes a directory.
    let (folder, stem) = scenario.rsplit_once('/').unwrap_or(("", scenario));
    let mut verdict = Verdict::read(&results.join(folder), stem, scenario)?;
    // In some scenarios the suite forgives a client that fails; ours has no reason to.
    let client_failed =
        fs::read_to_string(&log).is_ok_and(|log| log.contains("Client exited with code"));
    let client_failed = client_failed && !playing.may_fail;
    if (client_failed || !status.success()) && verdict.passed() {
        verdict.fail("the client ended with an error");
    }
    Ok(verdict)
}

/// Starts the fixture and answers it together with its endpoint.
fn start_fixture(programs: &Path) -> Result<(Running, String)> {
    let log = output("fixture")?.join("fixture.log");
    let mut fixture = Running::start(
        Command::new(programs.join("everything")).args(["--http", "127.0.0.1:0"]),
        &log,
    )?;
    let url = fixture.first(|line| line.strip_prefix("listening on ").map(str::to_owned))?;
    Ok((fixture, url))
}

/// An empty directory for one run's results.
fn output(name: &str) -> Result<PathBuf> {
    let directory = process::target()?.join("conformance").join(name);
    if !name.is_empty() {
        let _absent = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
    }
    Ok(directory)
}

/// A command as the suite wants it: one text that it splits at spaces.
fn command_text(program: &Path, arguments: &[&str]) -> Result<String> {
    let program = program.to_str().context("the program's path is not text")?;
    ensure!(
        !program.contains(' '),
        "the suite cannot start a program whose path has spaces: {program}"
    );
    Ok([&[program], arguments].concat().join(" "))
}
