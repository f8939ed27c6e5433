//! Cases: calls with the decision they are expected to get, from a JSON file that lives beside the policies.

use serde::Deserialize;
use serde_json::value::RawValue;
use vocab::{Integrity, Level, Mark};
use wire::Json;

use super::{
    bundle::Bundle, decision::Decision, problem::Problem, question::Act, recorded::Recorded,
};

/// One case of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub name: String,
    pub call: Recorded,
    /// `allow`, `ask`, `block` or `rewrite`.
    pub expect: String,
    /// A policy that must be among those that decided.
    pub policy: Option<String>,
}

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub name: String,
    pub decision: Decision,
    /// Why it is not as expected; `None` where it is.
    pub failure: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<'a> {
    #[serde(borrow)]
    cases: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    name: String,
    caller: Option<String>,
    user: Option<String>,
    agent: Option<String>,
    #[serde(default)]
    departments: Vec<String>,
    context: Option<String>,
    #[serde(default)]
    operator: bool,
    act: Option<String>,
    server: String,
    target: String,
    level: Option<String>,
    effect: Option<String>,
    #[serde(default)]
    open_world: bool,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    label: Option<String>,
    #[serde(default)]
    session_calls: u64,
    #[serde(default)]
    target_calls: u64,
    #[serde(default)]
    time_ms: u64,
    door: Option<String>,
    expect: String,
    policy: Option<String>,
}

/// Reads a file of cases: `{"cases": [{"name": …, "server": …, "target": …, "expect": …}]}`.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>, Problem> {
    let problem = |line: usize, column: usize, message: String| Problem {
        file: file.to_owned(),
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
        message,
        fix: "docs/operate/policy.md shows the fields of a case".to_owned(),
    };
    let parsed: File<'_> = serde_json::from_str(text).map_err(|error| {
        problem(
            error.line(),
            error.column(),
            format!("not a file of cases: {error}"),
        )
    })?;
    let case = |entry: Entry<'_>| {
        let name = entry.name.clone();
        entry
            .case()
            .map_err(|why| problem(1, 1, format!("case `{name}`: {why}")))
    };
    parsed.cases.into_iter().map(case).collect()
}

/// Puts every case to the bundle.
#[must_use]
pub fn run(bundle: &Bundle, cases: &[Case]) -> Vec<Outcome> {
    cases
        .iter()
        .map(|case| {
            let decision = bundle.decide(&case.call.question());
            let failure = case.failure(&decision);
            Outcome {
                name: case.name.clone(),
                decision,
                failure,
            }
        })
        .collect()
}

impl Case {
    fn failure(&self, decision: &Decision) -> Option<String> {
        let decided: Vec<&str> = decision
            .notes()
            .iter()
            .map(|note| note.policy.as_str())
            .collect();
        let by = if decided.is_empty() {
            String::new()
        } else {
            format!(", by {}", decided.join(", "))
        };
        if decision.as_str() != self.expect {
            return Some(format!(
                "expected {}, got {}{by}",
                self.expect,
                decision.as_str()
            ));
        }
        let wanted = self
            .policy
            .as_deref()
            .filter(|policy| !decided.contains(policy))?;
        Some(format!(
            "expected policy {wanted} to decide; it was {}{by}",
            decision.as_str()
        ))
    }
}

impl Entry<'_> {
    fn case(self) -> Result<Case, String> {
        let plain = Recorded::default();
        let act = self.act.as_deref().unwrap_or("call");
        let act = Act::parse(act).ok_or_else(|| {
            format!(
                "`{act}` is no action; use {}",
                Act::ALL.map(Act::as_str).join(", ")
            )
        })?;
        let arguments = self.arguments.map_or(&b""[..], |raw| raw.get().as_bytes());
        if !arguments.is_empty() {
            let json = Json::parse(arguments, wire::Limits::default())
                .map_err(|error| format!("the arguments are refused: {error}"))?;
            json.is_object()
                .then_some(())
                .ok_or("the arguments are not an object")?;
        }
        if !["allow", "endorse", "ask", "block", "rewrite"].contains(&self.expect.as_str()) {
            return Err(format!(
                "`{}` cannot be expected; use allow, ask, block or rewrite",
                self.expect
            ));
        }
        let call = Recorded {
            id: self.name.clone(),
            caller: self.caller.unwrap_or(plain.caller),
            user: self.user,
            agent: self.agent,
            departments: self.departments,
            context: self.context,
            is_operator: self.operator,
            act,
            server: self.server,
            target: self.target,
            level: self
                .level
                .map_or(Ok(plain.level), |text| text.parse())
                .map_err(|error| error.to_string())?,
            effect: self
                .effect
                .map_or(Ok(plain.effect), |text| text.parse())
                .map_err(|error| error.to_string())?,
            is_open_world: self.open_world,
            arguments: arguments.to_vec(),
            label: self.label.map_or(Ok(plain.label), |text| mark(&text))?,
            session_calls: self.session_calls,
            target_calls: self.target_calls,
            now_ms: self.time_ms,
            door: self.door.unwrap_or(plain.door),
            ending: plain.ending,
        };
        Ok(Case {
            name: self.name,
            call,
            expect: self.expect,
            policy: self.policy,
        })
    }
}

/// A mark as it is shown: `INTERNAL`, `CONFIDENTIAL+untrusted`.
fn mark(text: &str) -> Result<Mark, String> {
    let (secrecy, integrity) = match text.strip_suffix("+untrusted") {
        Some(secrecy) => (secrecy, Integrity::Untrusted),
        None => (text, Integrity::Trusted),
    };
    let secrecy: Level = secrecy
        .parse()
        .map_err(|error: vocab::UnknownLevel| error.to_string())?;
    Ok(Mark { secrecy, integrity })
}
