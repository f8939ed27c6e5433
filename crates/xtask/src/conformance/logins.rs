//! The suite's scenarios about authorization, with the gate as the client: the gate logs in at the suite's servers and calls a tool.
//!
//! The suite starts [`play`] as the client. A gate in a home of its own stands before the suite's server, and `portcullis servers login`
//! leads a person through the login who lets it in at once: [`browse`] is that person's browser.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::gate::{self, Gate, Home, UPSTREAM};
use super::report::{Summary, Verdict};
use super::requirements::{Leg, Requirements};
use super::{Playing, client_scenario, command_text, output};
use crate::say;
use crate::tools::Suite;
use crate::tools::process::{self, Running};

const PROVIDER: &str = include_str!("logins/provider.mjs");
const AT_PROVIDER: &str = "certified-provider";
/// How long a token of the provider lives.
const LIFE: Duration = Duration::from_secs(4);
const PREFIX: &str = "auth/";
/// How many scenarios each revision requires. The numbers guard against a suite that silently runs less than it did.
const REQUIRED: [(&str, usize); 2] = [("2025-11-25", 14), ("2026-07-28", 25)];
/// Scenarios of extensions, which the suite does not score: all that it has.
const EXTENSIONS: [&str; 6] = [
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/wif-jwt-bearer",
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
];
/// Those of a revision that has no list of requirements.
const OLDER_REVISION: &str = "2025-03-26";
const OLDER: [&str; 2] = [
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
];
/// In these the server or its authorization server misbehaves, so a client that does right gets no tool called.
const REFUSED: [&str; 7] = [
    "auth/scope-retry-limit",
    "auth/resource-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
];
/// A person who is asked for more logins than this for one call gives up.
const MOST_LOGINS: usize = 3;
const TOOL: &str = "test-tool";
/// Redirects that the browser follows.
const MOST_REDIRECTS: usize = 12;
const PATIENCE: Duration = Duration::from_secs(10);

/// Plays every scenario about authorization.
pub(super) fn run(label: &str) -> Result<Summary> {
    let suite = Suite::get()?;
    let this = process::this_program()?;
    let command = command_text(&this, &["conformance", "client-logs-in"])?;
    let mut summary = Summary::new(label);
    let mut add = |revision: &str, scenario: &str, is_extension: bool| -> Result<()> {
        let results = output(&format!("{label}/{revision}/{scenario}"))?;
        let playing = Playing {
            revision,
            scenario,
            may_fail: REFUSED.contains(&scenario),
            is_extension,
        };
        let mut verdict = client_scenario(&suite, &command, &playing, &results)?;
        verdict.explain_from(&results.join("suite.log"));
        summary.add(revision, !is_extension, verdict);
        Ok(())
    };
    for (revision, required) in REQUIRED {
        let all = Requirements::read(&suite.requirements(revision)?, Leg::Client)?;
        let requirements = all.only(PREFIX);
        requirements.expect(revision, required, 6)?;
        for scenario in &requirements.required {
            add(revision, scenario, false)?;
        }
        for scenario in EXTENSIONS {
            ensure!(
                requirements.unscored.iter().any(|known| known == scenario),
                "the suite has no scenario {scenario}"
            );
            add(revision, scenario, true)?;
        }
    }
    for scenario in OLDER {
        add(OLDER_REVISION, scenario, false)?;
    }
    summary.add("login", true, at_provider(&suite)?);
    say(&summary);
    Ok(summary)
}

/// The client, as the suite starts it.
pub(super) fn play(url: &str) -> Result<()> {
    let programs = gate::own_directory()?;
    let home = Home::new()?;
    let gate = Gate::launch(&programs, home.path(), url)?;
    let program = programs.join("portcullis");
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let mut said = String::new();
    for _ in 0..MOST_LOGINS {
        if is_called(&program, home.path(), &mut said)? {
            return Ok(());
        }
        let login = log_in(&program, home.path(), &scenario)?;
        said.push_str(&String::from_utf8_lossy(&login.stderr));
        if !login.status.success() {
            break;
        }
    }
    let done = is_called(&program, home.path(), &mut said)?;
    drop(gate);
    let log = fs::read_to_string(home.path().join("gate.log")).unwrap_or_default();
    ensure!(done, "the tool was not called:\n{said}\n{log}");
    Ok(())
}

fn is_called(program: &Path, home: &Path, said: &mut String) -> Result<bool> {
    gate::await_state(program, home, &["\"connected\"", "\"failed\""])?;
    let tool = format!("{UPSTREAM}__{TOOL}");
    let call = Command::new(program)
        .arg("--home")
        .arg(home)
        .args(["call", &tool])
        .output()?;
    said.push_str(&String::from_utf8_lossy(&call.stderr));
    Ok(call.status.success())
}

fn log_in(program: &Path, home: &Path, scenario: &str) -> Result<Output> {
    let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
    let context: Value = serde_json::from_str(&context).context("the suite's context")?;
    let given = |name: &str| {
        let value = context.get(name).and_then(Value::as_str);
        value.with_context(|| format!("the suite gives no {name}"))
    };
    let this = process::this_program()?;
    let mut login = Command::new(program);
    // A file such as the platform keeps.
    let kept = |name: &str| -> Result<PathBuf> {
        let file = home.join(name);
        fs::write(&file, given(name)?)?;
        Ok(file)
    };
    login
        .arg("--home")
        .arg(home)
        .args(["servers", "login", UPSTREAM, "--port"])
        .arg(gate::free_address()?.port().to_string())
        .env("BROWSER", command_text(&this, &["conformance", "browse"])?)
        .stdin(std::process::Stdio::null());
    match scenario {
        "auth/basic-cimd" => {
            let document = "https://conformance-test.local/client-metadata.json";
            login.args(["--client-document", document]);
        }
        "auth/pre-registration" | "auth/client-credentials-basic" => {
            login
                .args(["--client-id", given("client_id")?])
                .args(["--client-secret", "env:CLIENT_SECRET"])
                .env("CLIENT_SECRET", given("client_secret")?);
        }
        "auth/client-credentials-jwt" => {
            login
                .args(["--client-id", given("client_id")?])
                .args(["--client-key", "env:CLIENT_KEY"])
                .env("CLIENT_KEY", given("private_key_pem")?);
        }
        "auth/wif-jwt-bearer" => {
            login
                .args(["--client-id", given("client_id")?, "--workload"])
                .arg(kept("valid_jwt")?);
        }
        "auth/enterprise-managed-authorization" => {
            login
                .args(["--client-id", given("client_id")?])
                .args(["--client-secret", "env:CLIENT_SECRET"])
                .env("CLIENT_SECRET", given("client_secret")?)
                .args(["--provider", given("idp_token_endpoint")?])
                .args([
                    "--provider-client-id",
                    given("idp_client_id")?,
                    "--id-token",
                ])
                .arg(kept("idp_id_token")?);
        }
        // The person knows that the authorization server was changed.
        "auth/authorization-server-migration" => {
            login.arg("--accept-issuer");
        }
        _ => {}
    }
    if scenario.starts_with("auth/client-credentials-") {
        login.arg("--client-credentials");
    }
    if OLDER.contains(&scenario) {
        login.arg("--older-discovery");
    }
    let output = login.output()?;
    // A secret goes only to an authorization server that the person names, who reads here which one the server means.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let named = said.split_once("say --issuer ");
    match named.and_then(|(_, rest)| rest.split_whitespace().next()) {
        Some(issuer) => Ok(login.args(["--issuer", issuer]).output()?),
        None => Ok(output),
    }
}

/// At a certified provider that revokes a login whose refresh token is used twice: calls go on over many lives of a token and a restart
/// of the gate, with one person who logs in once.
fn at_provider(suite: &Suite) -> Result<Verdict> {
    let directory = output("logins/provider")?;
    let mut script = suite.script("login-provider.mjs", PROVIDER)?;
    let mut provider = Running::start(
        script.arg(LIFE.as_secs().to_string()),
        &directory.join("provider.log"),
    )?;
    let url = provider.first(|line| line.strip_prefix("listening on ").map(str::to_owned))?;
    let programs = gate::own_directory()?;
    let (program, home) = (programs.join("portcullis"), Home::new()?);
    let (mut said, mut calls, mut failed) = (String::new(), 0_u64, 0_usize);
    for run in 0..2 {
        let _gate = Gate::launch(&programs, home.path(), &url)?;
        if run == 0 {
            gate::await_state(&program, home.path(), &["\"failed\""])?;
            let login = log_in(&program, home.path(), "")?;
            said.push_str(&String::from_utf8_lossy(&login.stderr));
        }
        let end = Instant::now() + LIFE * 3;
        while Instant::now() < end {
            calls += 1;
            failed += usize::from(!is_called(&program, home.path(), &mut said)?);
        }
    }
    let counts = counts(&url)?;
    let count = |name: &str| counts.get(name).and_then(Value::as_u64);
    let refused = counts.get("refused").and_then(Value::as_array);
    let is_good = failed == 0
        && count("calls") == Some(calls)
        && refused.is_some_and(Vec::is_empty)
        && count("granted").is_some_and(|granted| granted > 4);
    let outcome = match is_good {
        true => format!("ok {AT_PROVIDER}"),
        false => {
            let said = said.replace('\n', " ");
            format!("failed {AT_PROVIDER}: {failed} of {calls} calls failed; {counts}; {said}")
        }
    };
    Ok(Verdict::said(AT_PROVIDER, &outcome))
}

fn counts(url: &str) -> Result<Value> {
    let place = url.replace("/mcp", "/counts");
    let (_, body) = get(&place, &BTreeMap::new())?;
    serde_json::from_str(&body).context("the provider's counts")
}

/// A browser whose person clicks nothing: it goes where it is sent, with the cookies that it was given.
pub(super) fn browse(address: &str) -> Result<()> {
    let (mut address, mut cookies) = (address.to_owned(), BTreeMap::new());
    for _ in 0..MOST_REDIRECTS {
        let (head, _) = get(&address, &cookies)?;
        let named = |wanted: &str| -> Vec<&str> {
            let of = |line: &&str| {
                let (name, _) = line.split_once(':')?;
                name.eq_ignore_ascii_case(wanted).then_some(())
            };
            let lines = head.lines().filter(|line| of(line).is_some());
            lines
                .filter_map(|line| Some(line.split_once(':')?.1.trim()))
                .collect()
        };
        for cookie in named("set-cookie") {
            let pair = cookie.split(';').next().unwrap_or_default();
            if let Some((name, value)) = pair.split_once('=') {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        let location = named("location").first().map(ToString::to_string);
        let Some(location) = location else {
            return Ok(());
        };
        address = match location.strip_prefix('/') {
            Some(path) => format!("http://{}/{path}", host_of(&address)?.0),
            None => location,
        };
    }
    bail!("more than {MOST_REDIRECTS} redirects");
}

fn host_of(address: &str) -> Result<(&str, &str)> {
    let rest = address
        .strip_prefix("http://")
        .context("the suite's servers have no TLS")?;
    Ok(rest.split_once('/').unwrap_or((rest, "")))
}

/// The head and the body of the answer.
fn get(address: &str, cookies: &BTreeMap<String, String>) -> Result<(String, String)> {
    let (host, path) = host_of(address)?;
    let cookies: Vec<String> = cookies
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET /{path} HTTP/1.0\r\nhost: {host}\r\ncookie: {}\r\nconnection: close\r\n\r\n",
        cookies.join("; ")
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((head.to_owned(), body.to_owned()))
}
