//! Secrets in the file are references, never values. Findings made here never repeat a value.

use gateway::settings::Text;
use secrets::{Reason, RefError, SecretRef, looks_like_credential};

use super::{
    finding::{Finding, Place},
    tree::{Node, Value},
};

pub(super) const FORMS: &str = "use `env:NAME`, `keychain:name` (stored with `portcullis secret set name`) or `secret:engine/path#field`";

/// The field of a stored secret where the reference names none.
const DEFAULT_FIELD: &str = "value";

/// `None` when the text does not claim to be a reference.
#[must_use]
pub fn parse_reference(text: &str) -> Option<Result<SecretRef, RefError>> {
    let without_field = text.starts_with("secret:") && !text.contains('#');
    let parsed = if without_field {
        SecretRef::parse(&format!("{text}#{DEFAULT_FIELD}"))
    } else {
        SecretRef::parse(text)
    };
    match parsed {
        Err(RefError::NotAReference) => None,
        other => Some(other),
    }
}

/// A user name, or a query: whatever is wrong with such an address, it is not shown.
pub(super) fn may_hold_credential(url: &str) -> bool {
    url.contains(['@', '?'])
}

/// Every place where a credential is written out, wherever in the file that is.
pub(super) fn find(node: &Node, name: &str, found: &mut Vec<Place>) {
    match &node.value {
        Value::Map(entries) => entries
            .iter()
            .for_each(|(key, value)| find(value, &key.name, found)),
        Value::List(items) => items.iter().for_each(|item| find(item, name, found)),
        _ => {
            let text = node.text().unwrap_or_default();
            let is_reference = parse_reference(text).is_some_and(|parsed| parsed.is_ok());
            let in_url = name == "url" && may_hold_credential(text);
            if in_url
                || !is_reference
                    && (looks_like_credential(name, text).is_some() || looks_like_token(text))
            {
                found.push(node.place);
            }
        }
    }
}

pub(super) fn is_variable_name(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `text` must be a well-formed reference.
pub(super) fn check_reference(node: &Node, text: &str, path: &str) -> Result<(), Finding> {
    match parse_reference(text) {
        Some(Ok(_)) => Ok(()),
        Some(Err(reason)) => Err(Finding::error(
            node.place,
            format!("`{path}`: {reason}"),
            FORMS,
        )),
        None => Err(Finding::error(
            node.place,
            format!("`{path}` must name a secret, not be one"),
            FORMS,
        )
        .hidden()),
    }
}

/// What is said of a reference that no store of the file has the engine of.
pub(super) const NO_STORE: &str = "no secret store has its engine";

/// The places of references whose engine is one of these.
pub(super) fn led_to(node: &Node, engines: &[String], found: &mut Vec<Place>) {
    match &node.value {
        Value::Map(entries) => entries
            .iter()
            .for_each(|(_, value)| led_to(value, engines, found)),
        Value::List(items) => items.iter().for_each(|item| led_to(item, engines, found)),
        _ => {
            let reference = node.text().and_then(parse_reference);
            if let Some(Ok(SecretRef::Engine { engine, .. })) = reference
                && engines.contains(&engine)
            {
                found.push(node.place);
            }
        }
    }
}

/// A reference that is well formed and leads nowhere, unless a store of the file has its engine.
pub(super) fn out_of_reach(node: &Node, path: &str) -> Option<Finding> {
    let reference = node
        .text()
        .filter(|text| text.starts_with("secret:"))
        .and_then(parse_reference)?;
    reference.ok()?;
    let what =
        format!("`{path}` has no effect: {NO_STORE}, so what needs the secret does not start");
    Some(Finding::warning(
        node.place,
        what,
        "name the store under `secrets.stores`, or use `env:NAME`, or `keychain:name` stored with `portcullis secret set name`",
    ))
}

/// Reads a value of `env` or `headers`, refusing what looks like a credential written out.
pub(super) fn read_text(node: &Node, name: &str, path: &str) -> Result<Text, Finding> {
    let text = node.text().unwrap_or_default();
    match parse_reference(text) {
        Some(Ok(reference)) => return Ok(Text::Secret(reference.to_string())),
        Some(Err(reason)) => {
            return Err(Finding::error(
                node.place,
                format!("`{path}`: {reason}"),
                FORMS,
            ));
        }
        None => {}
    }
    let (literal, declared) = match text.strip_prefix("literal:") {
        Some(literal) => (literal, !exists_for_credentials(name)),
        None => (text, false),
    };
    match looks_like_credential(name, literal) {
        Some(Reason::Name { .. }) if declared => Ok(Text::Literal(literal.to_owned())),
        Some(reason) => {
            let what = match &reason {
                Reason::Name { .. } => {
                    format!("`{path}` is a credential by its name, and is written in clear")
                }
                Reason::Shape { kind, .. } => format!("`{path}` holds {kind} in clear"),
            };
            Err(Finding::error(node.place, what, reason.fix()).hidden())
        }
        None => Ok(Text::Literal(literal.to_owned())),
    }
}

/// Headers that are nothing but credentials, so that no declaration makes a literal innocent.
fn exists_for_credentials(name: &str) -> bool {
    ["authorization", "proxy-authorization", "cookie"]
        .iter()
        .any(|header| name.eq_ignore_ascii_case(header))
}

/// Whether the text alone, under whatever name, has the shape of a credential.
pub(super) fn looks_like_token(text: &str) -> bool {
    looks_like_credential("", text).is_some()
}
