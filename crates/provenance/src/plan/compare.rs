//! How two plans differ, in words.

use super::{From, Plan, Step, ToolName};
use crate::rule::shown;

/// What `new` may do that `old` may not any more do; nothing if it is as narrow or narrower.
pub(super) fn wider(old: &Plan, new: &Plan) -> Vec<String> {
    let mut left: Vec<u32> = old
        .steps
        .iter()
        .enumerate()
        .map(|(number, step)| old.left(number, step))
        .collect();
    let mut words = Vec::new();
    for step in &new.steps {
        let mut nearest: Option<Vec<String>> = None;
        let mut found = None;
        for (number, (was, left)) in old.steps.iter().zip(&left).enumerate() {
            if was.tool != step.tool || *left < step.times {
                continue;
            }
            let differences = differences(was, step);
            if differences.is_empty() {
                found = Some(number);
                break;
            }
            if nearest
                .as_ref()
                .is_none_or(|nearest| differences.len() < nearest.len())
            {
                nearest = Some(differences);
            }
        }
        match (found.and_then(|number| left.get_mut(number)), nearest) {
            (Some(left), _) => *left -= step.times,
            (None, Some(differences)) => words.extend(differences),
            (None, None) => words.push(format!("also: {}", step_in_words(step))),
        }
    }
    words
}

/// Where the arguments of `new` may come from that those of `old` may not.
fn differences(old: &Step, new: &Step) -> Vec<String> {
    let was = |path: &str| {
        old.arguments
            .iter()
            .find(|(name, _)| name == path)
            .map_or(&From::Said, |(_, from)| from)
    };
    new.arguments
        .iter()
        .filter(|(path, from)| !is_narrower(from, was(path)))
        .map(|(path, from)| {
            format!(
                "`{}` of {} may be {} instead of {}",
                shown(path),
                name(&new.tool),
                from_in_words(from),
                from_in_words(was(path))
            )
        })
        .collect()
}

fn is_narrower(new: &From, old: &From) -> bool {
    match (new, old) {
        (From::Said, _) => true,
        (From::Form(new), From::Form(old)) => new == old,
        (
            From::Read {
                tool: new,
                may_be_text,
            },
            From::Read {
                tool: old,
                may_be_text: might,
            },
        ) => new == old && *might >= *may_be_text,
        _ => false,
    }
}

pub(super) fn step_in_words(step: &Step) -> String {
    let mut words = format!("call {}", name(&step.tool));
    if step.times > 1 {
        words.push_str(&format!(", up to {} times", step.times));
    }
    for (path, from) in &step.arguments {
        words.push_str(&format!("; `{}` is {}", shown(path), from_in_words(from)));
    }
    words
}

pub(super) fn from_in_words(from: &From) -> String {
    match from {
        From::Said => "what you said".to_owned(),
        From::Form(form) => format!("a text of the form `{}`", shown(form)),
        From::Read {
            tool,
            may_be_text: false,
        } => format!("a field of what {} reads", name(tool)),
        From::Read {
            tool,
            may_be_text: true,
        } => format!("something in what {} reads", name(tool)),
    }
}

fn name(tool: &ToolName) -> String {
    format!("`{}` of server `{}`", shown(&tool.tool), tool.server)
}
