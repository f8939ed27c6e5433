//! What comes with an operation: bounded, and refused in a sentence where it does not fit.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use crate::{
    BundleText, Explain, Kind, Period, PolicyDiffQuery, PolicySuggestQuery, Problem, RecordsQuery,
};

/// Reasons are for the ledger and for people; one that needs more room belongs into a document that it names.
pub const MAX_REASON: usize = 500;
const MAX_NAMES: usize = 1_000;
const MAX_NAME: usize = 512;
/// More than the gate lists of one server.
const MAX_SEEN: usize = 20_000;

/// What an operation takes.
pub trait Input: DeserializeOwned + Serialize {
    /// What no type can say.
    fn check(&self) -> Result<(), Problem> {
        Ok(())
    }
}

/// Reads the text of an input: a JSON object, which may be empty.
pub fn read<T: Input>(text: &[u8]) -> Result<T, Problem> {
    let is_object = text.trim_ascii_start().starts_with(b"{");
    if !is_object {
        return Err(Problem::invalid("the parameters must be a JSON object"));
    }
    let input: T = serde_json::from_slice(text).map_err(|error| {
        let words = error.to_string();
        // The place is of no use to somebody whose library wrote the text.
        let words = words.split(" at line ").next().unwrap_or_default();
        Problem::invalid(format!("the parameters do not fit: {words}"))
    })?;
    input.check()?;
    Ok(input)
}

/// The text of an input from the pairs of a query. A name that is there twice has two meanings, so it has none.
pub fn of_pairs(pairs: Vec<(String, String)>) -> Result<Vec<u8>, Problem> {
    let mut input = BTreeMap::new();
    for (name, value) in pairs {
        if input.contains_key(&name) {
            return Err(Problem::invalid(format!("`{name}` is given twice")));
        }
        input.insert(name, value);
    }
    Ok(crate::text(&input))
}

/// Reads a flag as JSON or a query writes it: `?all`, `?all=1` and `?all=true` are yes.
pub(crate) fn flag<'de, D: Deserializer<'de>>(given: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Flag(bool),
        Text(String),
        Nothing(()),
    }
    match Given::deserialize(given) {
        Ok(Given::Flag(flag)) => Ok(flag),
        Ok(Given::Text(text)) if matches!(text.as_str(), "" | "1" | "true") => Ok(true),
        Ok(Given::Text(text)) if matches!(text.as_str(), "0" | "false") => Ok(false),
        Ok(Given::Nothing(())) => Ok(false),
        _ => Err(serde::de::Error::custom("a flag is true or false")),
    }
}

/// Reads a number as JSON or a query writes it.
pub(crate) fn number<'de, D: Deserializer<'de>>(given: D) -> Result<Option<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Number(u32),
        Text(String),
        Nothing(()),
    }
    let wrong = || serde::de::Error::custom("a number without a sign is wanted");
    match Given::deserialize(given) {
        Ok(Given::Number(number)) => Ok(Some(number)),
        Ok(Given::Text(text)) => text.parse().map(Some).map_err(|_| wrong()),
        Ok(Given::Nothing(())) => Ok(None),
        Err(_) => Err(wrong()),
    }
}

/// Why, in one line of the operator's own words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("maxLength" = MAX_REASON)))]
#[serde(try_from = "String")]
pub struct Reason(String);

impl Reason {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Reason {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let text = text.trim();
        if text.chars().count() > MAX_REASON {
            return Err(format!("`reason` is longer than {MAX_REASON} characters"));
        }
        if text.chars().any(char::is_control) {
            return Err("`reason` must be one line of text".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

fn text(reason: Option<&Reason>) -> &str {
    reason.map_or("", Reason::as_str)
}

/// Nothing comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Nothing {}

impl Input for Nothing {}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AllOrOpen {
    /// Also those that need no answer any more.
    #[serde(deserialize_with = "flag")]
    pub all: bool,
}

impl Input for AllOrOpen {}

/// Which way to follow the lineage of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Direction {
    /// What its result may have influenced, instead of what may have influenced it.
    #[serde(deserialize_with = "flag")]
    pub forward: bool,
}

impl Input for Direction {}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Reasoned {
    pub reason: Option<Reason>,
}

impl Reasoned {
    #[must_use]
    pub fn reason(&self) -> &str {
        text(self.reason.as_ref())
    }
}

impl Input for Reasoned {}

/// A person's yes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Yes {
    pub reason: Option<Reason>,
    /// Whether it lasts for the conversation: for this tool with these targets. Without it the yes is for this call alone.
    #[serde(deserialize_with = "flag")]
    pub lasts: bool,
}

impl Yes {
    #[must_use]
    pub fn reason(&self) -> &str {
        text(self.reason.as_ref())
    }
}

impl Input for Yes {}

/// For what nobody should do without saying why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct MustReason {
    #[cfg_attr(feature = "schema", schemars(required))]
    pub reason: Option<Reason>,
}

impl MustReason {
    #[must_use]
    pub fn reason(&self) -> &str {
        text(self.reason.as_ref())
    }
}

impl Input for MustReason {
    fn check(&self) -> Result<(), Problem> {
        if self.reason().is_empty() {
            let text = "`reason` is missing; say why, for whoever reads the ledger later";
            return Err(Problem::new(Kind::InvalidInput, "reason_missing", text));
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Classify {
    /// `PUBLIC`, `INTERNAL`, `CONFIDENTIAL` or `RESTRICTED`.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub level: Option<String>,
    /// What the operator was shown, as `{"tool:name": digest}`; without it, what the server shows now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<BTreeMap<String, String>>,
    pub reason: Option<Reason>,
}

impl Classify {
    pub fn level(&self) -> Result<vocab::Level, Problem> {
        let level = self.level.as_deref().unwrap_or_default();
        if level.is_empty() {
            return Err(Problem::invalid("`level` is missing"));
        }
        level
            .parse()
            .map_err(|error: vocab::UnknownLevel| Problem::invalid(error.to_string()))
    }

    #[must_use]
    pub fn reason(&self) -> &str {
        text(self.reason.as_ref())
    }
}

impl Input for Classify {
    fn check(&self) -> Result<(), Problem> {
        self.level()?;
        check_seen(self.seen.as_ref())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ApproveDefinitions {
    /// Names, or `kind:name`; none means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// What the operator was shown, as `{"tool:name": digest}`. What is something else now is not approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<BTreeMap<String, String>>,
    pub reason: Option<Reason>,
}

impl ApproveDefinitions {
    #[must_use]
    pub fn reason(&self) -> &str {
        text(self.reason.as_ref())
    }
}

impl Input for ApproveDefinitions {
    fn check(&self) -> Result<(), Problem> {
        let names = self.names.as_deref().unwrap_or_default();
        let fits = |name: &String| (1..=MAX_NAME).contains(&name.len());
        if names.len() > MAX_NAMES || !names.iter().all(fits) {
            let text = format!("`names` must be a list of at most {MAX_NAMES} names");
            return Err(Problem::invalid(text));
        }
        check_seen(self.seen.as_ref())
    }
}

fn check_seen(seen: Option<&BTreeMap<String, String>>) -> Result<(), Problem> {
    if seen.is_some_and(|seen| seen.len() > MAX_SEEN) {
        let text = format!("`seen` must be an object of at most {MAX_SEEN} digests");
        return Err(Problem::invalid(text));
    }
    Ok(())
}

/// Which events to stream. Conditions that are absent hold for every event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct EventsQuery {
    /// The position to begin at; without it the stream begins now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

impl Input for EventsQuery {}
impl Input for Explain {}
impl Input for RecordsQuery {}
impl Input for Period {}
impl Input for BundleText {}
impl Input for PolicyDiffQuery {}
impl Input for PolicySuggestQuery {}
