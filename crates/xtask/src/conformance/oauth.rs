//! The gate behind an identity provider.
//!
//! The official suite has no scenario that authorizes at a server: its `auth/` scenarios are for clients. So the gate is judged twice. The
//! whole server suite runs with a token of a certified provider on every request, which shows that authorization changes nothing else; and
//! the official client library finds its way from the gate's 401 to a call by itself, is asked for another scope, renews a token, and is
//! refused where it must be. Tokens bound to a key are the provider's own, too.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::gate::{self, Behind, Gate};
use super::report::{Summary, Verdict};
use super::{output, run_suite, start_fixture};
use crate::say;
use crate::tools::Suite;
use crate::tools::process::{self, Running};

const PROVIDER: &str = include_str!("oauth/provider.mjs");
const CLIENT: &str = include_str!("oauth/client.mjs");
const BEARER: &str = include_str!("oauth/bearer.mjs");

/// What the client plays; the number guards against one that silently does less.
const SCENARIOS: [&str; 6] = [
    "discovery-and-call",
    "authorization-code",
    "scope-step-up",
    "stale-token-is-renewed",
    "token-for-another-resource",
    "bound-token",
];
const CLIENT_LIMIT: Duration = Duration::from_secs(60);

/// Runs everything with a gate behind a provider.
pub(crate) fn with_oauth() -> Result<Vec<Summary>> {
    let programs = process::build(&[
        "--package",
        "testkit",
        "--package",
        "portcullis",
        "--package",
        "worker",
        "--bins",
    ])?;
    let suite = Suite::get()?;
    let directory = output("oauth")?;
    let mut provider = Running::start(
        &mut suite.script("provider.mjs", PROVIDER)?,
        &directory.join("provider.log"),
    )?;
    let issuer = provider.first(|line| line.strip_prefix("listening on ").map(str::to_owned))?;
    let (_fixture, upstream) = start_fixture(&programs)?;
    let gate = Gate::start_behind(
        &programs,
        &output("oauth-gate")?,
        &upstream,
        &Behind::provider(&issuer),
    )?;
    let (played, token) = play_client(&suite, &directory, &gate, &issuer)?;
    say(&played);
    let preload = suite.write("bearer.mjs", BEARER)?;
    let credential = gate::Credential {
        preload: &preload,
        url: &gate.url(),
        token: &token,
    };
    let judged = run_suite(&gate.url(), "with-oauth", Some(&credential))?;
    Ok(vec![played, judged])
}

/// The official client's scenarios, and a token it got on the way.
fn play_client(
    suite: &Suite,
    directory: &Path,
    gate: &Gate,
    issuer: &str,
) -> Result<(Summary, String)> {
    let log = directory.join("client.log");
    let mut client = suite.script("client.mjs", CLIENT)?;
    process::run_bounded(
        client.args([gate.url().as_str(), issuer]),
        &log,
        CLIENT_LIMIT,
    )?;
    let said =
        fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))?;
    let mut summary = Summary::new("oauth-client");
    for scenario in SCENARIOS {
        summary.add("oauth", true, Verdict::said(scenario, &said));
    }
    let token = said
        .lines()
        .find_map(|line| line.strip_prefix("token "))
        .map(str::to_owned);
    Ok((
        summary,
        token.with_context(|| format!("the client got no token:\n{said}"))?,
    ))
}
