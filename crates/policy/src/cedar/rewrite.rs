//! Changing string values of the arguments, and nothing else.
//!
//! An operation finds its values by path and replaces what a regular expression matches in them. The expressions are of the
//! linear kind, and growth is capped. Every byte that is not part of a changed string stays as it was.

use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use wire::{Json, Kind};

use super::path::{Path, Step, kind_name};

/// How large one compiled expression may be.
const MAX_PROGRAM: usize = 1 << 20;
/// How much longer the arguments may become.
const MAX_GROWTH: usize = 1 << 20;

/// One policy's change to the arguments. Cheap to copy.
#[derive(Debug, Clone)]
pub struct RewriteOp(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    policy: String,
    path: Path,
    matching: Regex,
    with: String,
}

impl RewriteOp {
    pub(super) fn new(policy: String, path: Path, matching: Regex, with: String) -> Self {
        Self(Arc::new(Inner {
            policy,
            path,
            matching,
            with,
        }))
    }

    /// The policy it comes from.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.0.policy
    }

    /// The argument it changes.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.path.to_string()
    }
}

impl PartialEq for RewriteOp {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&*self.0, &*other.0);
        one.policy == two.policy
            && one.path == two.path
            && one.matching.as_str() == two.matching.as_str()
            && one.with == two.with
    }
}

impl Eq for RewriteOp {}

pub(super) fn expression(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text)
        .size_limit(MAX_PROGRAM)
        .build()
        .map_err(|error| error.to_string())
}

/// A group that a replacement refers to and its expression does not have.
pub(super) fn missing_group(expression: &Regex, with: &str) -> Option<String> {
    let mut rest = with;
    while let Some((_, after)) = rest.split_once('$') {
        let (name, left) = match (
            after.strip_prefix('$'),
            after
                .strip_prefix('{')
                .and_then(|braced| braced.split_once('}')),
        ) {
            (Some(left), _) => ("", left),
            (None, Some((name, left))) => (name, left),
            (None, None) => after.split_at(
                after
                    .find(|next: char| next != '_' && !next.is_ascii_alphanumeric())
                    .unwrap_or(after.len()),
            ),
        };
        let known = match name.parse::<usize>() {
            Ok(number) => number < expression.captures_len(),
            Err(_) => {
                name.is_empty()
                    || expression
                        .capture_names()
                        .flatten()
                        .any(|known| known == name)
            }
        };
        if !known {
            return Some(name.to_owned());
        }
        rest = left;
    }
    None
}

/// The arguments after all operations, in order.
///
/// A path that is absent is left absent, and null stays null. A path that holds or leads through a number, a boolean or anything
/// else it does not fit fails, as does growth beyond a megabyte; a failure refuses the call.
pub fn rewrite(arguments: &[u8], operations: &[RewriteOp]) -> Result<Vec<u8>, String> {
    let limit = arguments.len() + MAX_GROWTH;
    let mut text = arguments.to_vec();
    for RewriteOp(operation) in operations {
        text = operation.apply(&text, limit)?;
    }
    Ok(text)
}

impl Inner {
    fn apply(&self, text: &[u8], limit: usize) -> Result<Vec<u8>, String> {
        let mut strings = Vec::new();
        self.follow(
            Json::checked_before(text.trim_ascii()),
            &self.path.0,
            &mut strings,
        )?;
        let mut out = Vec::with_capacity(text.len());
        let mut copied = 0;
        for string in strings {
            let Some(changed) = self.change(&string.as_str().unwrap_or_default(), limit)? else {
                continue;
            };
            let start = string.as_bytes().as_ptr().addr() - text.as_ptr().addr();
            out.extend_from_slice(text.get(copied..start).unwrap_or_default());
            wire::write::quote(&mut out, &changed);
            copied = start + string.as_bytes().len();
        }
        out.extend_from_slice(text.get(copied..).unwrap_or_default());
        if out.len() > limit {
            Err(self.too_long())
        } else {
            Ok(out)
        }
    }

    /// Finds the strings at the rest of the path, in the order of the text.
    fn follow<'a>(
        &self,
        value: Json<'a>,
        steps: &[Step],
        found: &mut Vec<Json<'a>>,
    ) -> Result<(), String> {
        let Some((step, rest)) = steps.split_first() else {
            return self.gather(value, found);
        };
        match (step, value.kind()) {
            (Step::Key(key), Kind::Object) => value
                .get(key)
                .map_or(Ok(()), |inner| self.follow(inner, rest, found)),
            (Step::Index(index), Kind::Array) => value
                .items()
                .nth(*index)
                .map_or(Ok(()), |inner| self.follow(inner, rest, found)),
            (Step::Each, Kind::Array) => value
                .items()
                .try_for_each(|inner| self.follow(inner, rest, found)),
            (_, Kind::Null) => Ok(()),
            (_, kind) => Err(self.does_not_fit(kind)),
        }
    }

    fn gather<'a>(&self, value: Json<'a>, found: &mut Vec<Json<'a>>) -> Result<(), String> {
        match value.kind() {
            Kind::Number | Kind::Bool => Err(self.does_not_fit(value.kind())),
            _ => {
                strings_in(value, found);
                Ok(())
            }
        }
    }

    /// The text with every match replaced; `None` where nothing matches.
    fn change(&self, text: &str, limit: usize) -> Result<Option<String>, String> {
        let mut out = String::new();
        let mut copied = 0;
        for captures in self.matching.captures_iter(text) {
            let Some(whole) = captures.get(0) else {
                continue;
            };
            out.push_str(text.get(copied..whole.start()).unwrap_or_default());
            captures.expand(&self.with, &mut out);
            copied = whole.end();
            if out.len() > limit {
                return Err(self.too_long());
            }
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Ok((out != text).then_some(out))
    }

    fn does_not_fit(&self, kind: Kind) -> String {
        format!(
            "policy `{}` rewrites the argument `{}`, but found a value of kind {}",
            self.policy,
            self.path,
            kind_name(kind)
        )
    }

    fn too_long(&self) -> String {
        format!("policy `{}` would make the arguments too long", self.policy)
    }
}

fn strings_in<'a>(value: Json<'a>, found: &mut Vec<Json<'a>>) {
    match value.kind() {
        Kind::Object => value
            .fields()
            .for_each(|(_, inner)| strings_in(inner, found)),
        Kind::Array => value.items().for_each(|inner| strings_in(inner, found)),
        Kind::String => found.push(value),
        Kind::Number | Kind::Bool | Kind::Null => {}
    }
}
