//! The strict parser of plans.

use std::fmt;

use wire::{Json, Kind, Limits};

use super::{From, MAX_ARGUMENTS, MAX_FORM, MAX_STEPS, MAX_TEXT, MAX_TIMES, Plan, Step, ToolName};
use crate::role::MAX_PATH;

/// Why a text is no plan, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(pub String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

fn wrong<T>(why: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError(why.into()))
}

impl Plan {
    /// Reads `{"steps": [{"tool": …, "times": …, "arguments": {path: "said" | {"form": …} | {"from": tool, "inside": "text"}}}]}`.
    /// `find` knows tools by the names that the caller is shown.
    pub fn parse(text: &[u8], find: impl Fn(&str) -> Option<ToolName>) -> Result<Self, PlanError> {
        let json = Json::parse(text, Limits::new(MAX_TEXT, 8))
            .map_err(|error| PlanError(format!("the plan is no JSON: {error}")))?;
        let known = fields(json, "a plan", &["steps"])?;
        let [Some(list)] = known.as_slice() else {
            return wrong("a plan has `steps`, a list");
        };
        if !list.is_array() {
            return wrong("`steps` is a list");
        }
        let steps = list
            .items()
            .map(|item| step(item, &find))
            .take(MAX_STEPS + 1)
            .collect::<Result<Vec<_>, _>>()?;
        match steps.len() {
            0 => wrong("a plan has at least one step"),
            count if count > MAX_STEPS => wrong(format!("a plan has at most {MAX_STEPS} steps")),
            count => Ok(Self {
                steps,
                done: vec![0; count],
                number: 0,
            }),
        }
    }
}

/// The values of these fields; any other field is an error.
fn fields<'j>(
    json: Json<'j>,
    what: &str,
    names: &[&str],
) -> Result<Vec<Option<Json<'j>>>, PlanError> {
    if !json.is_object() {
        return wrong(format!("{what} is an object"));
    }
    for (name, _) in json.fields() {
        if !names.contains(&&*name) {
            return wrong(format!(
                "{what} has no `{}`; it has {}",
                crate::rule::shown(&name),
                names.join(", ")
            ));
        }
    }
    Ok(names.iter().map(|name| json.get(name)).collect())
}

fn step(json: Json<'_>, find: &impl Fn(&str) -> Option<ToolName>) -> Result<Step, PlanError> {
    let known = fields(json, "a step", &["tool", "times", "arguments"])?;
    let [tool, times, arguments] = known.as_slice() else {
        return wrong("a step is an object");
    };
    let name = tool.and_then(Json::as_str);
    let Some(name) = name else {
        return wrong("a step has a `tool`, by the name that lists show");
    };
    let times = match times {
        None => 1,
        Some(times) => match times.as_u64().and_then(|times| u32::try_from(times).ok()) {
            Some(times) if (1..=MAX_TIMES).contains(&times) => times,
            _ => return wrong(format!("`times` is a number from 1 to {MAX_TIMES}")),
        },
    };
    let mut list = Vec::new();
    if let Some(arguments) = arguments {
        if !arguments.is_object() {
            return wrong("`arguments` is an object");
        }
        for (path, value) in arguments.fields() {
            if list.len() == MAX_ARGUMENTS || path.is_empty() || path.len() > MAX_PATH {
                return wrong(format!(
                    "a step names at most {MAX_ARGUMENTS} arguments, each by a path of at most {MAX_PATH} bytes"
                ));
            }
            list.push((path.into_owned(), from(value, find)?));
        }
    }
    Ok(Step {
        tool: known_tool(&name, find)?,
        times,
        arguments: list,
    })
}

fn known_tool(name: &str, find: &impl Fn(&str) -> Option<ToolName>) -> Result<ToolName, PlanError> {
    find(name).ok_or_else(|| PlanError(format!("no tool is called `{}`", crate::rule::shown(name))))
}

fn from(json: Json<'_>, find: &impl Fn(&str) -> Option<ToolName>) -> Result<From, PlanError> {
    const SHAPE: &str =
        "where an argument comes from is \"said\", {\"form\": text} or {\"from\": tool}";
    if json.kind() == Kind::String {
        return match json.as_str().as_deref() {
            Some("said") => Ok(From::Said),
            _ => wrong(SHAPE),
        };
    }
    let known = fields(
        json,
        "where an argument comes from",
        &["form", "from", "inside"],
    )?;
    match known.as_slice() {
        [Some(form), None, None] => match form.as_str() {
            Some(form) if (1..=MAX_FORM).contains(&form.len()) && !form.contains("**") => {
                Ok(From::Form(form.into_owned()))
            }
            _ => wrong(format!(
                "a form is a text of at most {MAX_FORM} bytes, with `*` for what is filled in"
            )),
        },
        [None, Some(tool), inside] => {
            let Some(name) = tool.as_str() else {
                return wrong("`from` names a tool");
            };
            let may_be_text = match inside.and_then(Json::as_str).as_deref() {
                None if inside.is_none() => false,
                Some("text") => true,
                Some("field") => false,
                _ => return wrong("`inside` is \"field\" or \"text\""),
            };
            Ok(From::Read {
                tool: known_tool(&name, find)?,
                may_be_text,
            })
        }
        _ => wrong(SHAPE),
    }
}
