//! Sealed texts: what a server said, passed on without being read.
//!
//! Numbers, dates, yes and no are shown. Every other text becomes a handle with its kind and length. A handle in an argument is replaced
//! by its text, and the label of the text joins the label of the call. Opening a handle shows the text and gives its label to whoever
//! reads it.
//!
//! **Invariant: no text leaves without its label.** [`Filled`] and [`Opened`] are the only ways out, and both carry it. Test
//! `no_text_of_a_handle_reaches_a_place_that_its_label_may_not`.

use std::collections::VecDeque;

use vocab::Label;
use wire::{Json, Kind, write};

use crate::{
    flaw::{Flaw, has},
    form::{self, Class, Reading},
    role::{Role, Roles},
    rule,
};

/// What handles begin with.
pub(crate) const MARK: &str = "sealed:";
/// What sealed texts may take together.
pub(crate) const MAX_BYTES: usize = 64 << 10;
const MAX_DEPTH: usize = 32;

/// A text that was put into arguments, or shown: with the label that goes where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    pub arguments: Vec<u8>,
    /// The join of the labels of everything that was put in.
    pub label: Label,
    /// Something sealed stands where the call says whom, what or how much.
    pub aims: bool,
}

/// A text that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub text: String,
    pub label: Label,
}

#[derive(Debug)]
struct Text {
    number: u64,
    text: Box<str>,
    label: Label,
}

/// The sealed texts of one conversation.
#[derive(Debug, Default)]
pub struct Sealed {
    texts: VecDeque<Text>,
    next: u64,
    bytes: usize,
}

/// Why a handle cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchHandle(pub String);

impl Sealed {
    /// The same value with its texts sealed. `None`: it does not fit, and must be shown and taint, or be refused.
    pub fn seal(&mut self, value: Json<'_>, label: &Label) -> Option<Vec<u8>> {
        if value.as_bytes().len() > MAX_BYTES {
            return None;
        }
        let mut out = Vec::with_capacity(value.as_bytes().len());
        self.write(value, label, 0, &mut out)?;
        while self.bytes > MAX_BYTES {
            let text = self.texts.pop_front()?;
            self.bytes = self.bytes.saturating_sub(cost(&text));
        }
        Some(out)
    }

    fn write(
        &mut self,
        value: Json<'_>,
        label: &Label,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match value.kind() {
            Kind::Object => {
                out.push(b'{');
                for (at, (name, inner)) in value.fields().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    // The names of fields are words of the server too; only those that are names are shown.
                    let is_plain = name.len() <= 64
                        && name
                            .chars()
                            .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
                    if !is_plain {
                        return None;
                    }
                    write::quote(out, &name);
                    out.push(b':');
                    self.write(inner, label, depth + 1, out)?;
                }
                out.push(b'}');
            }
            Kind::Array => {
                out.push(b'[');
                for (at, inner) in value.items().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    self.write(inner, label, depth + 1, out)?;
                }
                out.push(b']');
            }
            Kind::String => {
                let text = value.as_str().unwrap_or_default();
                let shown = if is_typed(&text) {
                    text.into_owned()
                } else {
                    self.keep(&text, label)
                };
                write::quote(out, &shown);
            }
            Kind::Number | Kind::Bool | Kind::Null => out.extend_from_slice(value.as_bytes()),
        }
        Some(())
    }

    /// Keeps a text and gives its handle, as an agent sees it.
    fn keep(&mut self, text: &str, label: &Label) -> String {
        self.next += 1;
        let kept = Text {
            number: self.next,
            text: text.into(),
            label: label.clone(),
        };
        self.bytes += cost(&kept);
        self.texts.push_back(kept);
        format!(
            "{MARK}{} ({}, {} characters)",
            self.next,
            kind(text),
            text.chars().count()
        )
    }

    fn find(&self, number: u64) -> Option<&Text> {
        let first = self.texts.front()?.number;
        let at = usize::try_from(number.checked_sub(first)?).ok()?;
        self.texts.get(at).filter(|text| text.number == number)
    }

    /// Whether any handle stands in these arguments.
    #[must_use]
    pub fn is_in(arguments: &[u8]) -> bool {
        arguments
            .windows(MARK.len())
            .any(|window| window == MARK.as_bytes())
    }

    /// The arguments with the texts in place of the handles.
    pub fn fill(&self, roles: &Roles, arguments: Json<'_>) -> Result<Filled, NoSuchHandle> {
        let mut filled = Filled {
            arguments: Vec::with_capacity(arguments.as_bytes().len()),
            label: Label::default(),
            aims: false,
        };
        self.fill_in(roles, "", arguments, &mut filled)?;
        Ok(filled)
    }

    fn fill_in(
        &self,
        roles: &Roles,
        path: &str,
        value: Json<'_>,
        filled: &mut Filled,
    ) -> Result<(), NoSuchHandle> {
        match value.kind() {
            Kind::Object => {
                filled.arguments.push(b'{');
                for (at, (name, inner)) in value.fields().enumerate() {
                    if at > 0 {
                        filled.arguments.push(b',');
                    }
                    write::quote(&mut filled.arguments, &name);
                    filled.arguments.push(b':');
                    self.fill_in(roles, &crate::role::join(path, &name), inner, filled)?;
                }
                filled.arguments.push(b'}');
            }
            Kind::Array => {
                filled.arguments.push(b'[');
                for (at, inner) in value.items().enumerate() {
                    if at > 0 {
                        filled.arguments.push(b',');
                    }
                    self.fill_in(roles, &format!("{path}[]"), inner, filled)?;
                }
                filled.arguments.push(b']');
            }
            Kind::String => {
                let text = value.as_str().unwrap_or_default();
                let role = rule::role_at(roles, path);
                let whole = self.fill_text(&text, role, filled)?;
                write::quote(&mut filled.arguments, &whole);
            }
            Kind::Number | Kind::Bool | Kind::Null => {
                filled.arguments.extend_from_slice(value.as_bytes())
            }
        }
        Ok(())
    }

    fn fill_text(
        &self,
        text: &str,
        role: Role,
        filled: &mut Filled,
    ) -> Result<String, NoSuchHandle> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(MARK) {
            let digits = after
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(after.len());
            let number = after.get(..digits).unwrap_or_default();
            let kept = number.parse().ok().and_then(|number| self.find(number));
            let Some(kept) = kept else {
                return Err(NoSuchHandle(format!("{MARK}{number}")));
            };
            out.push_str(before);
            out.push_str(&kept.text);
            if !has(Flaw::FillingJoinsNothing) {
                filled.label.join_in(&kept.label);
            }
            filled.aims |= !matches!(role, Role::Content | Role::Name);
            rest = after.get(digits..).unwrap_or_default();
            // The words beside a handle are the gate's own, and an agent may have copied them.
            let words = rest
                .strip_prefix(" (")
                .and_then(|rest| rest.split_once(" characters)"));
            if let Some((_, after)) =
                words.filter(|(inside, _)| inside.len() <= 32 && !inside.contains(')'))
            {
                rest = after;
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    /// A text, for whoever will have read it then.
    pub fn open(&self, handle: &str) -> Result<Opened, NoSuchHandle> {
        let number = handle.trim().strip_prefix(MARK).unwrap_or_default();
        let digits = number
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(number.len());
        let number = number.get(..digits).and_then(|digits| digits.parse().ok());
        let kept = number.and_then(|number| self.find(number));
        kept.map(|kept| Opened {
            text: kept.text.to_string(),
            label: if has(Flaw::OpeningJoinsNothing) {
                Label::default()
            } else {
                kept.label.clone()
            },
        })
        .ok_or_else(|| NoSuchHandle(rule::shown(handle)))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.texts.capacity().saturating_sub(self.texts.len()) * size_of::<Text>()
    }
}

fn cost(text: &Text) -> usize {
    // A set of origins takes a node, and each origin its name.
    let origins: usize = text
        .label
        .origins
        .iter()
        .map(|origin| origin.as_str().len() + 64)
        .sum();
    text.text.len() + size_of::<Text>() + origins
}

/// Whether a text is a number or a date: what nobody can write instructions in.
fn is_typed(text: &str) -> bool {
    match form::read(text) {
        Reading::Empty => true,
        Reading::Odd => false,
        Reading::Values(forms) => forms
            .iter()
            .all(|form| matches!(form.class, Class::Number | Class::Moment)),
    }
}

/// What kind of text it is, in a word.
fn kind(text: &str) -> &'static str {
    match form::read(text) {
        Reading::Values(forms) => match forms.first().map(|form| form.class) {
            Some(Class::Address) => "address",
            Some(Class::Link) => "link",
            Some(Class::Path) => "path",
            Some(Class::Phone | Class::Iban) => "number",
            _ => "text",
        },
        Reading::Empty | Reading::Odd => "text",
    }
}
