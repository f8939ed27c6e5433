//! Holds a tree against the table of keys: unknown keys, wrong types, values out of range.
//!
//! Every mistake is collected; nothing is repaired. Reading values afterwards ([`super::fields`]) may then be silent, because what
//! it cannot read has been reported here.

use super::{
    finding::{Finding, nearest},
    keys::{Key, Kind},
    secret,
    tree::{self, Node, Value},
    units,
};

/// Checks `node` as what stands under `path`.
pub(super) fn check(node: &Node, kind: &Kind, path: &str, findings: &mut Vec<Finding>) {
    match kind {
        Kind::Text
        | Kind::Flag
        | Kind::Count(_)
        | Kind::Size(_)
        | Kind::Duration(_)
        | Kind::Choice(_)
        | Kind::Reference
        | Kind::Rate => {
            if matches!(kind, Kind::Reference) {
                findings.extend(secret::out_of_reach(node, path));
            }
            if let Err(finding) = check_scalar(node, kind, path) {
                findings.push(finding);
            }
        }
        Kind::TextList => each_item(node, path, findings, |item, path, findings| {
            check(item, &Kind::Text, path, findings)
        }),
        Kind::TextMap => each_entry(node, path, findings, |value, path, findings| {
            findings.extend(secret::out_of_reach(value, path));
            check(value, &Kind::Text, path, findings);
        }),
        Kind::ReferenceMap => {
            each_entry(node, path, findings, |value, path, findings| {
                check(value, &Kind::Reference, path, findings)
            });
        }
        Kind::RuleMap(words, keys) => each_entry(node, path, findings, |value, path, findings| {
            match &value.value {
                Value::Map(_) => check_table(value, keys, path, findings),
                _ => check(value, &Kind::Choice(words), path, findings),
            }
        }),
        Kind::Table(keys) => check_table(node, keys, path, findings),
        Kind::TableOrWord(_, words) if node.text().is_some_and(|text| words.contains(&text)) => {}
        Kind::TableOrWord(_, words) if node.text().is_some() => {
            let words = words.join("` or `");
            let what = format!(
                "`{path}` is a map or the word `{words}`, not {}",
                node.describe()
            );
            findings.push(Finding::error(
                node.place,
                what,
                format!("write `{words}`, or a map"),
            ));
        }
        Kind::TableOrWord(keys, _) => check_table(node, keys, path, findings),
        Kind::TableList(keys) => each_item(node, path, findings, |item, path, findings| {
            if item.text().is_none() {
                check_table(item, keys, path, findings);
            }
        }),
        Kind::Servers(mapped, listed) | Kind::Named(mapped, listed) => {
            check_named(node, mapped, listed, path, findings)
        }
        Kind::AgentMap(keys) => each_entry(node, path, findings, |value, path, findings| {
            if value.text().is_none() {
                check_table(value, keys, path, findings);
            }
        }),
        Kind::Subcommands if node.items().is_some() => check(node, &Kind::TextList, path, findings),
        Kind::Subcommands => {
            each_entry(node, path, findings, |value, path, findings| {
                check(value, &Kind::TextList, path, findings)
            });
        }
        Kind::RateOrTable(_) if node.text().is_some() => check(node, &Kind::Rate, path, findings),
        Kind::RateOrTable(keys) => check_table(node, keys, path, findings),
    }
}

fn check_named(
    node: &Node,
    mapped: &[Key],
    listed: &[Key],
    path: &str,
    findings: &mut Vec<Finding>,
) {
    match &node.value {
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let name = item
                    .get("name")
                    .and_then(Node::text)
                    .map_or_else(|| format!("[{index}]"), |name| format!(".{name}"));
                check_table(item, listed, &format!("{path}{name}"), findings);
            }
        }
        _ => each_entry(node, path, findings, |entry, path, findings| {
            check_table(entry, mapped, path, findings)
        }),
    }
}

fn check_table(node: &Node, keys: &[Key], path: &str, findings: &mut Vec<Finding>) {
    let Some(entries) = node.entries() else {
        let what = format!("{} is a map, not {}", named(path), node.describe());
        let fix = match keys.first() {
            Some(first) => format!(
                "write the keys on indented lines below, as in `{}: …`",
                first.name
            ),
            None => String::new(),
        };
        findings.push(Finding::error(node.place, what, fix));
        return;
    };
    for (key, value) in entries {
        match keys.iter().find(|known| known.name == key.name) {
            Some(known) => {
                let path = join(path, &key.name);
                point_out_idle(known, value, &path, findings);
                check(value, &known.kind, &path, findings);
            }
            None => findings.push(unknown_key(key, keys, path)),
        }
    }
}

/// What is accepted and does nothing is said to: silence would be a promise.
fn point_out_idle(key: &Key, value: &Node, path: &str, findings: &mut Vec<Finding>) {
    let says_something = !value.is_null() && value.text() != Some(key.default);
    if !key.idle.is_empty() && says_something {
        findings.push(Finding::warning(
            value.place,
            format!("`{path}` has no effect in this version"),
            key.idle,
        ));
    }
}

fn unknown_key(key: &tree::Key, keys: &[Key], path: &str) -> Finding {
    let place = if path.is_empty() {
        "at the top of the file".to_owned()
    } else {
        format!("in `{path}`")
    };
    let fix = match nearest(&key.name, keys.iter().map(|known| known.name)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!(
            "the keys here are {}",
            keys.iter()
                .map(|known| known.name)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    Finding::error(
        key.place,
        format!("unknown key `{}` {place}", key.name),
        fix,
    )
}

fn each_item(
    node: &Node,
    path: &str,
    findings: &mut Vec<Finding>,
    mut visit: impl FnMut(&Node, &str, &mut Vec<Finding>),
) {
    match node.items() {
        Some(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(item, &format!("{path}[{index}]"), findings);
            }
        }
        None => {
            let what = format!("`{path}` is a list, not {}", node.describe());
            let fix = match node.text() {
                Some(text) => format!("write `[{text}]`"),
                None => "write it as `[one, two]`, or one per line after `- `".to_owned(),
            };
            findings.push(Finding::error(node.place, what, fix));
        }
    }
}

fn each_entry(
    node: &Node,
    path: &str,
    findings: &mut Vec<Finding>,
    mut visit: impl FnMut(&Node, &str, &mut Vec<Finding>),
) {
    match node.entries() {
        Some(entries) => {
            for (key, value) in entries {
                visit(value, &join(path, &key.name), findings);
            }
        }
        None => {
            let what = format!("{} is a map, not {}", named(path), node.describe());
            findings.push(Finding::error(
                node.place,
                what,
                "write `name: value` on indented lines below",
            ));
        }
    }
}

fn check_scalar(node: &Node, kind: &Kind, path: &str) -> Result<(), Finding> {
    let wrong = |what: String, fix: String| Err(Finding::error(node.place, what, fix));
    let Some(text) = node.text() else {
        return wrong(
            format!("`{path}` is {}, not {}", expected(kind), node.describe()),
            example(kind),
        );
    };
    match kind {
        Kind::Flag if node.flag().is_none() => wrong(
            format!("`{path}` is `true` or `false`, not `{text}`"),
            "write `true` or `false`".to_owned(),
        ),
        Kind::Choice(choices) if !choices.contains(&text) => wrong(
            format!("`{path}` cannot be `{text}`"),
            match nearest(text, choices.iter().copied()) {
                Some(choice) => format!("write `{choice}`"),
                None => format!("use one of {}", choices.join(", ")),
            },
        ),
        Kind::Count(range) => in_range(text.parse().ok(), range, u64::to_string, node, kind, path),
        Kind::Size(range) => in_range(
            units::size(text),
            range,
            |bytes| units::show_size(*bytes),
            node,
            kind,
            path,
        ),
        Kind::Duration(range) => {
            let ms =
                units::duration(text).and_then(|duration| u64::try_from(duration.as_millis()).ok());
            let show = |ms: &u64| units::show_duration(std::time::Duration::from_millis(*ms));
            in_range(ms, range, show, node, kind, path)
        }
        Kind::Rate if units::rate(text).is_none() => wrong(
            format!("`{path}` is calls per time, not `{text}`"),
            example(kind),
        ),
        Kind::Reference => secret::check_reference(node, text, path),
        _ => Ok(()),
    }
}

fn in_range(
    value: Option<u64>,
    range: &std::ops::RangeInclusive<u64>,
    show: impl Fn(&u64) -> String,
    node: &Node,
    kind: &Kind,
    path: &str,
) -> Result<(), Finding> {
    match value {
        None => {
            let what = format!(
                "`{path}` is {}, not `{}`",
                expected(kind),
                node.text().unwrap_or_default()
            );
            Err(Finding::error(node.place, what, example(kind)))
        }
        Some(value) if !range.contains(&value) => {
            let what = format!(
                "`{path}` must be between {} and {}",
                show(range.start()),
                show(range.end())
            );
            Err(Finding::error(
                node.place,
                what,
                "choose a value in that range, or remove the key for the default",
            ))
        }
        Some(_) => Ok(()),
    }
}

fn expected(kind: &Kind) -> &'static str {
    match kind {
        Kind::Flag => "a boolean",
        Kind::Count(_) => "a whole number",
        Kind::Size(_) => "a number of bytes",
        Kind::Duration(_) => "a duration",
        Kind::Rate => "calls per time",
        Kind::Reference => "a secret reference",
        _ => "text",
    }
}

fn example(kind: &Kind) -> String {
    match kind {
        Kind::Flag => "write `true` or `false`".to_owned(),
        Kind::Count(range) => format!("write a number such as `{}`", range.start()),
        Kind::Size(_) => "write a number of bytes, or as in `512 KiB`, `4 MiB`".to_owned(),
        Kind::Duration(_) => {
            "write it as in `30s`, `500ms`, `2m`, or as a number of seconds".to_owned()
        }
        Kind::Rate => format!(
            "write it as in `5/s`, `60/min`, `1000/h`; from 1 to {} calls",
            units::MAX_RATE
        ),
        Kind::Choice(choices) => format!("use one of {}", choices.join(", ")),
        Kind::Reference => secret::FORMS.to_owned(),
        _ => "write the value after the colon, or remove the key".to_owned(),
    }
}

fn named(path: &str) -> String {
    if path.is_empty() {
        "the file".to_owned()
    } else {
        format!("`{path}`")
    }
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
