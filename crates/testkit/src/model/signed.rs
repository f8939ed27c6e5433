//! Signed calls: the five steps of the tool policy and the arguments a built-in cannot do without, written down a second time.

use serde_json::Value;

use super::{Expected, ModelTool, refuse_if, shape};

/// How a session that signs its calls is bound.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSigned {
    /// The dotted name that is asked for.
    pub asked: String,
    /// What the session was opened for, where that was said.
    pub session: Option<Vec<String>>,
    /// What the agent's manifest lists, where it has one.
    pub agent: Option<Vec<String>>,
    /// Calls the manifest allows, and calls made.
    pub limit: Option<u64>,
    pub calls: u64,
    pub capabilities: Vec<ModelCapability>,
    pub deny: Vec<String>,
}

/// A pattern of tools and its bounds; what is `None` is not bounded.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelCapability {
    pub pattern: String,
    pub paths: Option<Vec<String>>,
    pub domains: Option<Vec<String>>,
    /// Commands and their first arguments; no first arguments means any.
    pub commands: Option<Vec<(String, Vec<String>)>>,
}

fn is_of(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some("") => true,
        Some(family) => name.len() > family.len() && name.starts_with(family),
        None => pattern == name,
    }
}

fn text<'a>(arguments: &'a Value, key: &str) -> Option<&'a str> {
    arguments.get(key).and_then(Value::as_str)
}

pub(super) fn listed(signed: &ModelSigned) -> Expected {
    let names = |list: &[String]| list.iter().any(|pattern| is_of(pattern, &signed.asked));
    let by_session = signed.session.as_deref().is_none_or(names);
    let by_agent = signed.agent.as_deref().is_none_or(names);
    let by_context = signed
        .capabilities
        .iter()
        .any(|capability| is_of(&capability.pattern, &signed.asked));
    refuse_if(!(by_session && by_agent && by_context), "ToolNotAllowed")
}

pub(super) fn denied(signed: &ModelSigned, arguments: &Value) -> Expected {
    let applies = |entry: &String| match entry.split_once(':') {
        None => is_of(entry, &signed.asked),
        Some((tool, _)) if !is_of(tool, &signed.asked) => false,
        // A command that is no text could be any.
        Some(("cmd.run", command)) => match arguments.get("command") {
            None | Some(Value::Null) => false,
            Some(given) => given.as_str().is_none_or(|given| given == command),
        },
        // A path that cannot be read could be any, where nothing else refuses it.
        Some((_, path)) => {
            let own = paths(signed, arguments);
            own.iter().flatten().any(|own| is_beneath(own, path))
                || (own.iter().any(Result::is_err)
                    && self::path(signed, arguments) == Expected::Allow)
        }
    };
    refuse_if(signed.deny.iter().any(applies), "ToolExplicitlyDenied")
}

pub(super) fn execution(signed: &ModelSigned) -> Expected {
    let limit = signed.limit.filter(|_| signed.agent.is_some());
    refuse_if(
        limit.is_some_and(|limit| signed.calls >= limit),
        "RateLimitExceeded",
    )
}

/// Every text among the arguments that names a file: what must be one, and what may be one where files are meant.
fn paths<'a>(
    signed: &ModelSigned,
    arguments: &'a Value,
) -> Vec<Result<Vec<&'a str>, &'static str>> {
    let is_files = signed.asked.starts_with("fs.");
    let mut found = match arguments.get("path") {
        Some(Value::String(path)) => vec![components(path)],
        Some(Value::Null) | None => Vec::new(),
        Some(Value::Array(items)) if !is_files && items.iter().all(Value::is_string) => items
            .iter()
            .filter_map(Value::as_str)
            .map(components)
            .collect(),
        Some(_) => vec![Err("PathOutsideBoundary")],
    };
    // Whatever looks like a path may be one, but for what is plainly the content of a file.
    let is_content = |key: &str| is_files && ["content", "pattern", "query", "text"].contains(&key);
    let may_be_path = |key: &str, text: &str| {
        (is_files && key == "to") || (key != "path" && !is_content(key) && looks_like_path(text))
    };
    for (key, value) in arguments.as_object().into_iter().flatten() {
        let texts = texts(value).into_iter();
        found.extend(texts.filter(|text| may_be_path(key, text)).map(components));
    }
    found
}

/// The text, or every text of a list, however deep and whatever else stands beside it.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

fn looks_like_path(text: &str) -> bool {
    ["/", "~", "./", "../"]
        .iter()
        .any(|start| text.starts_with(start))
        || text.contains("/../")
}

/// Where a path leads, unless it climbs or cannot be read one way only.
fn components(path: &str) -> Result<Vec<&str>, &'static str> {
    let own: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if own.contains(&"..") {
        return Err("PathTraversalAttempt");
    }
    if path.is_empty() || path.contains('\0') {
        return Err("PathOutsideBoundary");
    }
    let base = if path.starts_with('/') {
        None
    } else {
        Some("workspace")
    };
    Ok(base.into_iter().chain(own).collect())
}

fn is_beneath(path: &[&str], entry: &str) -> bool {
    let entry: Vec<&str> = entry.split('/').filter(|part| !part.is_empty()).collect();
    path.len() >= entry.len()
        && entry
            .iter()
            .zip(path)
            .all(|(own, part)| *own == "*" || own == part)
}

/// The capabilities that match, closest first.
fn matching(signed: &ModelSigned) -> Vec<&ModelCapability> {
    let mut all: Vec<&ModelCapability> = signed
        .capabilities
        .iter()
        .filter(|capability| is_of(&capability.pattern, &signed.asked))
        .collect();
    let distance = |pattern: &str| {
        if pattern.ends_with('*') {
            1000 - pattern.len()
        } else {
            0
        }
    };
    all.sort_by_key(|capability| distance(&capability.pattern));
    all
}

/// Any capability that lets it pass suffices; else the closest one is heard.
fn any_of(signed: &ModelSigned, says: impl Fn(&ModelCapability) -> Expected) -> Expected {
    let said: Vec<Expected> = matching(signed).into_iter().map(says).collect();
    match said.first() {
        Some(closest) if !said.contains(&Expected::Allow) => *closest,
        _ => Expected::Allow,
    }
}

pub(super) fn path(signed: &ModelSigned, arguments: &Value) -> Expected {
    let is_files = signed.asked.starts_with("fs.");
    if signed.asked.starts_with("cmd.") {
        return Expected::Allow;
    }
    let paths = paths(signed, arguments);
    let says = |list: Option<&Vec<String>>| {
        // Files may not climb whether or not a list bounds them; other tools only where one does.
        if list.is_none() && !is_files {
            return Expected::Allow;
        }
        if paths.contains(&Err("PathTraversalAttempt")) {
            return Expected::Refuse("PathTraversalAttempt");
        }
        let Some(list) = list else {
            return Expected::Allow;
        };
        let inside = |path: &Result<Vec<&str>, &str>| {
            path.as_ref()
                .is_ok_and(|path| list.iter().any(|entry| is_beneath(path, entry)))
        };
        refuse_if(!paths.iter().all(inside), "PathOutsideBoundary")
    };
    if matching(signed).is_empty() {
        return says(None);
    }
    any_of(signed, |capability| says(capability.paths.as_ref()))
}

pub(super) fn domain(signed: &ModelSigned, arguments: &Value) -> Expected {
    let Some(url) = arguments
        .get("url")
        .filter(|url| !url.is_null() && signed.asked.starts_with("web."))
    else {
        return Expected::Allow;
    };
    let host = url
        .as_str()
        .and_then(|url| url.strip_prefix("https://"))
        .map(|rest| rest.split('/').next().unwrap_or_default());
    let host = host.filter(|host| !host.contains('@')).unwrap_or_default();
    any_of(signed, |capability| {
        let on_list = |list: &Vec<String>| {
            list.iter()
                .any(|own| host == own || host.ends_with(&format!(".{own}")))
        };
        refuse_if(
            !capability.domains.as_ref().is_none_or(on_list),
            "DomainNotAllowed",
        )
    })
}

pub(super) fn command(signed: &ModelSigned, arguments: &Value) -> Expected {
    // Whatever is not known to be something else may run what it is given.
    let may_run = !["fs.", "web.", "email."]
        .iter()
        .any(|kind| signed.asked.starts_with(kind));
    let Some(command) = arguments
        .get("command")
        .filter(|command| !command.is_null() && may_run)
    else {
        return Expected::Allow;
    };
    // A blank command is a missing one, and that is said by name.
    if signed.asked == "cmd.run" && command.as_str().is_some_and(|text| text.trim().is_empty()) {
        return Expected::Allow;
    }
    let first = arguments
        .get("args")
        .and_then(|args| args.get(0))
        .and_then(Value::as_str);
    any_of(signed, |capability| {
        let Some(list) = &capability.commands else {
            return Expected::Allow;
        };
        match list.iter().find(|(own, _)| command.as_str() == Some(own)) {
            None => Expected::Refuse("CommandNotAllowed"),
            Some((_, any)) if any.is_empty() => Expected::Allow,
            Some((_, listed)) => refuse_if(
                !first.is_some_and(|first| listed.iter().any(|own| own == first)),
                "SubcommandNotAllowed",
            ),
        }
    })
}

/// What the tool that was asked for cannot do without, by its name or by its own schema.
pub(super) fn required(signed: &ModelSigned, tool: &ModelTool, arguments: &Value) -> Expected {
    let by_name: &[&str] = match signed.asked.as_str() {
        "fs.read" | "fs.delete" => &["path"],
        "web.fetch" => &["url"],
        "cmd.run" => &["command"],
        _ => &[],
    };
    let is_there = |key: &&str| arguments.get(key).is_some_and(|value| !value.is_null());
    let is_blank = signed.asked == "cmd.run"
        && text(arguments, "command").is_none_or(|text| text.trim().is_empty());
    let no_null = |key: &str| {
        let property = tool
            .input_schema
            .get("properties")
            .and_then(|all| all.get(key));
        property.is_some_and(|property| !shape::accepts(property, &Value::Null))
    };
    let by_schema = tool
        .input_schema
        .get("required")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let lacks = |key: &str| match arguments.get(key) {
        None => true,
        Some(value) => value.is_null() && no_null(key),
    };
    let by_schema = arguments.is_object() && by_schema.iter().filter_map(Value::as_str).any(lacks);
    refuse_if(
        !by_name.iter().all(is_there) || is_blank || by_schema,
        "InvalidArguments",
    )
}
