//! What comes with an operator's verb: bounded, and refused in a sentence where it does not fit.

use std::collections::BTreeMap;

use vocab::Level;
use wire::Json;

/// Reasons are for the ledger and for people; one that needs more room belongs into a document that it names.
const MAX_REASON: usize = 500;
const MAX_NAMES: usize = 1_000;
const MAX_NAME: usize = 512;
/// More than the gate lists of one server.
const MAX_SEEN: usize = 20_000;

/// A JSON object of parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Params<'a>(Json<'a>);

impl<'a> Params<'a> {
    pub(super) fn read(given: Json<'a>) -> Result<Self, String> {
        if given.is_object() {
            Ok(Self(given))
        } else {
            Err("the parameters must be a JSON object".to_owned())
        }
    }

    fn given(self, key: &str) -> Option<Json<'a>> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// Why, in the operator's words; empty where none were given.
    pub(super) fn reason(self) -> Result<String, String> {
        let Some(given) = self.given("reason") else {
            return Ok(String::new());
        };
        let reason = given.as_str().ok_or("`reason` must be text")?;
        let reason = reason.trim();
        if reason.chars().count() > MAX_REASON {
            return Err(format!("`reason` is longer than {MAX_REASON} characters"));
        }
        if reason.chars().any(char::is_control) {
            return Err("`reason` must be one line of text".to_owned());
        }
        Ok(reason.to_owned())
    }

    pub(super) fn required_reason(self) -> Result<String, String> {
        self.reason().and_then(|reason| match reason.is_empty() {
            true => {
                Err("`reason` is missing; say why, for whoever reads the ledger later".to_owned())
            }
            false => Ok(reason),
        })
    }

    pub(super) fn level(self) -> Result<Level, String> {
        let level = self
            .given("level")
            .and_then(Json::as_str)
            .ok_or("`level` is missing")?;
        level
            .parse()
            .map_err(|error: vocab::UnknownLevel| error.to_string())
    }

    /// Absent is false.
    pub(super) fn flag(self, key: &str) -> Result<bool, String> {
        match self.given(key) {
            None => Ok(false),
            Some(given) => given
                .as_bool()
                .ok_or_else(|| format!("`{key}` must be true or false")),
        }
    }

    /// What the operator was shown, as `{"tool:name": digest}`. Absent means that they do not say.
    pub(super) fn seen(self) -> Result<Option<BTreeMap<String, String>>, String> {
        let Some(given) = self.given("seen") else {
            return Ok(None);
        };
        let wrong = || format!("`seen` must be an object of at most {MAX_SEEN} digests");
        if !given.is_object() || given.fields().nth(MAX_SEEN).is_some() {
            return Err(wrong());
        }
        let digests = given
            .fields()
            .map(|(name, digest)| Some((name.into_owned(), digest.as_str()?.into_owned())));
        digests.collect::<Option<_>>().map(Some).ok_or_else(wrong)
    }

    /// Absent is none, which means all.
    pub(super) fn names(self) -> Result<Vec<String>, String> {
        let wrong = || format!("`names` must be a list of at most {MAX_NAMES} names");
        let Some(given) = self.given("names") else {
            return Ok(Vec::new());
        };
        if !given.is_array() || given.items().nth(MAX_NAMES).is_some() {
            return Err(wrong());
        }
        given
            .items()
            .map(|item| {
                item.as_str()
                    .filter(|name| (1..=MAX_NAME).contains(&name.len()))
                    .map(|name| name.into_owned())
            })
            .collect::<Option<Vec<String>>>()
            .ok_or_else(wrong)
    }
}
