//! Modern headers repeat what the body says, so that intermediaries need not read it. We decide on the body; a header that
//! disagrees, is missing, or comes twice is refused (-32020), so nothing in between was misled.

use http::HeaderMap;
use wire::{Json, Kind, header, mcp::code};

use super::answer::Problem;

const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";
const PARAM_PREFIX: &str = "mcp-param-";

fn mismatch(message: &str) -> Problem {
    Problem::new(code::HEADER_MISMATCH, message)
}

/// A header's value without the white space around it; more than one value is a mismatch.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(mismatch(&format!(
            "Header mismatch: `{name}` was sent more than once"
        )));
    }
    match value.to_str() {
        Ok(value) => Ok(Some(value.trim_matches([' ', '\t']))),
        Err(_) => Err(mismatch(&format!(
            "Header mismatch: `{name}` holds characters a header cannot carry"
        ))),
    }
}

pub(crate) fn version(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(VERSION)
        .and_then(|value| value.to_str().ok())
        .map(|value| value.trim_matches([' ', '\t']))
}

pub(crate) fn version_agrees(headers: &HeaderMap, body: &str) -> Result<(), Problem> {
    match only(headers, VERSION)? {
        Some(given) if given == body => Ok(()),
        Some(_) => Err(mismatch(
            "Header mismatch: `MCP-Protocol-Version` differs from `_meta`",
        )),
        None => Err(mismatch(
            "Header mismatch: `MCP-Protocol-Version` is required",
        )),
    }
}

pub(crate) fn method_agrees(headers: &HeaderMap, method: &str) -> Result<(), Problem> {
    match only(headers, METHOD)? {
        Some(given) if given == method => Ok(()),
        Some(_) => Err(mismatch(
            "Header mismatch: `Mcp-Method` differs from `method`",
        )),
        None => Err(mismatch("Header mismatch: `Mcp-Method` is required")),
    }
}

/// Which parameter `Mcp-Name` repeats, for the methods that have one.
fn named_by(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

pub(crate) fn name_agrees(
    headers: &HeaderMap,
    method: &str,
    params: Option<Json<'_>>,
) -> Result<(), Problem> {
    let Some(key) = named_by(method) else {
        return Ok(());
    };
    let Some(given) = only(headers, NAME)? else {
        return Err(mismatch(
            "Header mismatch: `Mcp-Name` is required for this method",
        ));
    };
    let body = params
        .and_then(|params| params.get(key))
        .and_then(Json::as_str);
    match (header::decode(given), body) {
        (Some(given), Some(body)) if given == body => Ok(()),
        // A body without its name is a bad request in its own right, and the gate will say so.
        (Some(_), None) => Ok(()),
        _ => Err(mismatch(&format!(
            "Header mismatch: `Mcp-Name` differs from `{key}`"
        ))),
    }
}

/// One argument that the tool's schema wants repeated in a header.
pub(crate) fn param_agrees(
    headers: &HeaderMap,
    header_name: &str,
    argument: Option<Json<'_>>,
) -> Result<(), Problem> {
    let name = full_name(header_name);
    let given = only(headers, &name)?;
    let argument = argument.filter(|value| !value.is_null());
    let agrees = match (given, argument) {
        (None, None) => true,
        (Some(given), Some(argument)) => {
            header::decode(given).is_some_and(|given| same(&given, argument))
        }
        _ => false,
    };
    if agrees {
        Ok(())
    } else {
        Err(mismatch(&format!(
            "Header mismatch: `{name}` differs from its argument"
        )))
    }
}

fn full_name(header_name: &str) -> String {
    let lower = header_name.to_ascii_lowercase();
    if lower.starts_with(PARAM_PREFIX) {
        lower
    } else {
        format!("{PARAM_PREFIX}{lower}")
    }
}

fn same(given: &str, argument: Json<'_>) -> bool {
    match argument.kind() {
        Kind::String => argument.as_str().is_some_and(|text| text == given),
        Kind::Bool => argument.text() == given,
        // `1` and `1.0` are one number; two texts that only look alike are not.
        Kind::Number => {
            argument.text() == given
                || (argument.as_i64().is_none()
                    && number(given).is_some_and(|g| Some(g) == number(argument.text())))
        }
        Kind::Object | Kind::Array | Kind::Null => false,
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests;
