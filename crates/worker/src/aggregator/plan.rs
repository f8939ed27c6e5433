//! `x-mcp-header`: which arguments of a tool are mirrored into `Mcp-Param-*` headers, and which tools get it wrong.

use std::collections::HashSet;

use http::{HeaderName, HeaderValue};
use wire::{Json, Kind};

use super::outgoing::value;
use crate::failure::{Failure, clip};

const ANNOTATION: &str = "x-mcp-header";
/// Integers beyond this lose their value in half of the clients, so the protocol forbids them here.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;
/// Places in a schema that hold example values, not schemas.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

/// How one tool is called.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    headers: Vec<Mirror>,
    /// Why the tool must not be listed or called.
    pub(crate) invalid: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mirror {
    header: HeaderName,
    /// The property names that lead to the argument.
    path: Vec<String>,
}

impl Plan {
    /// Reads a tool's input schema.
    pub(crate) fn of(tool: Json<'_>) -> Self {
        let mut plan = Self::default();
        let mut taken = HashSet::new();
        if let Some(schema) = tool.get("inputSchema")
            && let Err(reason) = plan.walk(schema, &mut Vec::new(), &mut taken)
        {
            plan.headers.clear();
            plan.invalid = Some(reason);
        }
        plan
    }

    /// Nothing to mirror, nothing wrong: most tools.
    pub(crate) fn is_plain(&self) -> bool {
        self.headers.is_empty() && self.invalid.is_none()
    }

    fn walk(
        &mut self,
        schema: Json<'_>,
        path: &mut Vec<String>,
        taken: &mut HashSet<String>,
    ) -> Result<(), String> {
        for (key, part) in schema.fields() {
            match &*key {
                "properties" => {
                    for (name, property) in part.fields() {
                        path.push(name.into_owned());
                        self.property(property, path, taken)?;
                        path.pop();
                    }
                }
                ANNOTATION if path.is_empty() => {
                    return Err(format!("`{ANNOTATION}` stands on the schema itself"));
                }
                ANNOTATION => {}
                key if DATA.contains(&key) => {}
                key => {
                    if annotated_inside(part) {
                        return Err(format!(
                            "`{ANNOTATION}` stands inside `{}`, where no single argument is meant",
                            clip(key)
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn property(
        &mut self,
        property: Json<'_>,
        path: &mut Vec<String>,
        taken: &mut HashSet<String>,
    ) -> Result<(), String> {
        if let Some(annotation) = property.get(ANNOTATION) {
            let Some(name) = annotation.as_str() else {
                return Err(format!("`{ANNOTATION}` is not a string"));
            };
            if !is_token(&name) {
                return Err(format!(
                    "`{ANNOTATION}` is `{}`, which cannot be part of a header name",
                    clip(&name)
                ));
            }
            if !is_primitive(property.get("type")) {
                return Err(format!(
                    "`{ANNOTATION}: {}` stands on an argument that is no string, integer or boolean",
                    clip(&name)
                ));
            }
            if !taken.insert(name.to_ascii_lowercase()) {
                return Err(format!("`{ANNOTATION}: {}` is used twice", clip(&name)));
            }
            let header = HeaderName::try_from(format!("mcp-param-{}", name.to_ascii_lowercase()))
                .map_err(|_| {
                format!(
                    "`{ANNOTATION}: {}` cannot be part of a header name",
                    clip(&name)
                )
            })?;
            self.headers.push(Mirror {
                header,
                path: path.clone(),
            });
        }
        self.walk(property, path, taken)
    }

    /// The headers for a call with these arguments. Absent and null arguments have none.
    pub(crate) fn headers(
        &self,
        arguments: Option<Json<'_>>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
        let Some(arguments) = arguments else {
            return Ok(Vec::new());
        };
        let mut out = Vec::new();
        for mirror in &self.headers {
            let found = mirror
                .path
                .iter()
                .try_fold(arguments, |value, key| value.get(key));
            let Some(found) = found else { continue };
            let text = match found.kind() {
                Kind::String => found.as_str().unwrap_or_default(),
                Kind::Bool => found.text().into(),
                Kind::Number => decimal(found.text()).into(),
                Kind::Null | Kind::Object | Kind::Array => continue,
            };
            out.push((mirror.header.clone(), value(&text)?));
        }
        Ok(out)
    }
}

/// An integer in plain digits, however it was written; anything else as it stands.
fn decimal(text: &str) -> String {
    if text.parse::<i64>().is_ok() {
        return text.to_owned();
    }
    match text.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && number.abs() <= MAX_SAFE => format!("{number:.0}"),
        _ => text.to_owned(),
    }
}

fn is_token(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn is_primitive(kind: Option<Json<'_>>) -> bool {
    let single = |kind: Json<'_>| {
        kind.as_str()
            .is_some_and(|name| matches!(&*name, "string" | "integer" | "boolean"))
    };
    let Some(kind) = kind else { return false };
    if !kind.is_array() {
        return single(kind);
    }
    let mut named = kind
        .items()
        .filter(|item| item.as_str().as_deref() != Some("null"))
        .peekable();
    named.peek().is_some() && named.all(single)
}

fn annotated_inside(part: Json<'_>) -> bool {
    match part.kind() {
        Kind::Object => part.fields().any(|(key, value)| {
            key == ANNOTATION || (!DATA.contains(&&*key) && annotated_inside(value))
        }),
        Kind::Array => part.items().any(annotated_inside),
        _ => false,
    }
}
