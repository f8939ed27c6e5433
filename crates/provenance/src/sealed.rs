//! Sealed texts: what a server said, passed on without being read.
//!
//! Numbers, dates, yes and no, and words that the tool's own definition lists are shown. Every other text becomes a handle with its kind
//! and length. A handle in an argument is replaced by its text, and the label of the text joins the label of the call. Opening a handle
//! shows the text and gives its label to whoever reads it.
//!
//! A handle belongs to one conversation and ends with it, or when newer texts need its room. It carries a digest that only this gate can
//! make, so a handle of another conversation, or of a gate that was stopped since, names nothing in this one.
//!
//! **Invariant: no text leaves without its label.** [`Filled`] and [`Opened`] are the only ways out, and both carry it. Test
//! `no_text_of_a_handle_reaches_a_place_that_its_label_may_not`.

mod show;

use std::{collections::VecDeque, fmt};

use vocab::Label;
use wire::{Json, Kind, write};

use crate::{
    digest::Key,
    flaw::{Flaw, has},
    form::{self, Class, Reading},
    rule,
};

pub use show::Declared;

/// What handles begin with.
const MARK: &str = "sealed:";
/// Signs of the digest in a handle: enough that one of elsewhere names nothing here.
const TAG: usize = 6;
/// What sealed texts may take together.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// What a call may grow to: a text can be put in more than once.
const MAX_FILLED: usize = 1 << 20;

/// Arguments with texts in place of handles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    pub arguments: Vec<u8>,
    /// The join of the labels of everything that was put in.
    pub label: Label,
    /// What was put in, in words, for whoever approves the call.
    pub words: Vec<String>,
}

/// A text that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    pub text: String,
    pub label: Label,
}

/// What is known of a sealed text without its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub handle: String,
    pub kind: &'static str,
    pub characters: usize,
    /// Which read brought it.
    pub from: String,
    pub label: Label,
}

/// What is sealed, besides its words.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    pub label: &'a Label,
    /// Which read brought it, for people.
    pub from: &'a str,
    /// What its definition says of it, which a person approved.
    pub declared: &'a Declared,
}

/// Why a handle cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoText {
    /// It names nothing in this conversation, or nothing any more.
    Unknown(String),
    /// What is put in is more than a call may grow to.
    TooLong,
}

impl fmt::Display for NoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(handle) => write!(
                f,
                "`{handle}` names no sealed text of this conversation; read it again"
            ),
            Self::TooLong => write!(
                f,
                "the sealed texts in it make it longer than {MAX_FILLED} bytes"
            ),
        }
    }
}

#[derive(Debug)]
struct Text {
    number: u64,
    text: Box<str>,
    label: Label,
    from: Box<str>,
}

/// The sealed texts of one conversation.
#[derive(Debug)]
pub struct Sealed {
    key: Key,
    epoch: u64,
    texts: VecDeque<Text>,
    next: u64,
    bytes: usize,
    has_shown: bool,
}

impl Sealed {
    #[must_use]
    pub(crate) fn new(key: Key, epoch: u64) -> Self {
        Self {
            key,
            epoch,
            texts: VecDeque::new(),
            next: 0,
            bytes: 0,
            has_shown: false,
        }
    }

    /// The result of a call with its texts sealed. `None`: it cannot be sealed, or `fits` says that it is not what its definition declares
    /// any more; then it must be shown and taint.
    pub fn seal(
        &mut self,
        result: Json<'_>,
        source: Source<'_>,
        fits: impl FnOnce(Json<'_>) -> bool,
    ) -> Option<Vec<u8>> {
        if result.as_bytes().len() > MAX_BYTES {
            return None;
        }
        let mut showing =
            show::Showing::new(source, self.next, |number, text| self.handle(number, text));
        let out = showing.result(result)?;
        let texts = showing.finish();
        if !fits(Json::checked_before(&out)) {
            return None;
        }
        for (number, text) in texts {
            let kept = Text {
                number,
                text: text.into(),
                label: source.label.clone(),
                from: source.from.into(),
            };
            self.next = number;
            self.bytes += cost(&kept);
            self.texts.push_back(kept);
        }
        self.has_shown = true;
        while self.bytes > MAX_BYTES {
            let Some(text) = self.texts.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(cost(&text));
        }
        Some(out)
    }

    /// Whether parts of a sealed result were shown: a number in a call may be a stranger's since.
    #[must_use]
    pub const fn has_shown(&self) -> bool {
        self.has_shown
    }

    fn handle(&self, number: u64, text: &str) -> String {
        let tag = self.key.text(&format!("{} {number} {text}", self.epoch));
        let tag = tag.get(..TAG).unwrap_or_default();
        format!("{MARK}{number}-{tag}")
    }

    /// The text that a handle names; how long the handle is. `None`: there is no handle at the start of this text.
    fn named<'a>(&self, text: &'a str) -> Option<(&'a str, Option<&Text>)> {
        let after = text.strip_prefix(MARK)?;
        let digits = after.find(|c: char| !c.is_ascii_digit())?;
        let end = digits + 1 + TAG;
        let tag = after.get(digits..end)?.strip_prefix('-')?;
        if digits == 0 || !tag.chars().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        let handle = text.get(..MARK.len() + end)?;
        let number: u64 = after.get(..digits)?.parse().ok()?;
        let kept = self
            .find(number)
            .filter(|kept| self.handle(number, &kept.text) == handle);
        Some((handle, kept))
    }

    fn find(&self, number: u64) -> Option<&Text> {
        let first = self.texts.front()?.number;
        let at = usize::try_from(number.checked_sub(first)?).ok()?;
        self.texts.get(at).filter(|text| text.number == number)
    }

    /// The arguments with the texts in place of the handles; nothing where there is no handle in them.
    pub fn fill(&self, arguments: Json<'_>) -> Result<Option<Filled>, NoText> {
        if memchr::memmem::find(arguments.as_bytes(), MARK.as_bytes()).is_none() {
            return Ok(None);
        }
        let mut filled = Filled {
            arguments: Vec::with_capacity(arguments.as_bytes().len()),
            label: Label::default(),
            words: Vec::new(),
        };
        self.fill_in(arguments, &mut filled)?;
        Ok((!filled.words.is_empty()).then_some(filled))
    }

    fn fill_in(&self, value: Json<'_>, filled: &mut Filled) -> Result<(), NoText> {
        match value.kind() {
            Kind::Object => {
                filled.arguments.push(b'{');
                for (at, (name, inner)) in value.fields().enumerate() {
                    if at > 0 {
                        filled.arguments.push(b',');
                    }
                    write::quote(&mut filled.arguments, &name);
                    filled.arguments.push(b':');
                    self.fill_in(inner, filled)?;
                }
                filled.arguments.push(b'}');
            }
            Kind::Array => {
                filled.arguments.push(b'[');
                for (at, inner) in value.items().enumerate() {
                    if at > 0 {
                        filled.arguments.push(b',');
                    }
                    self.fill_in(inner, filled)?;
                }
                filled.arguments.push(b']');
            }
            Kind::String => {
                let text = value.as_str().unwrap_or_default();
                if text.contains(MARK) {
                    let whole = self.fill_text(&text, filled)?;
                    write::quote(&mut filled.arguments, &whole);
                } else {
                    filled.arguments.extend_from_slice(value.as_bytes());
                }
            }
            Kind::Number | Kind::Bool | Kind::Null => {
                filled.arguments.extend_from_slice(value.as_bytes());
            }
        }
        if filled.arguments.len() > MAX_FILLED {
            return Err(NoText::TooLong);
        }
        Ok(())
    }

    fn fill_text(&self, text: &str, filled: &mut Filled) -> Result<String, NoText> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(MARK) {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let Some((handle, kept)) = self.named(from) else {
                // Words of somebody's own that happen to look like one.
                out.push_str(MARK);
                rest = from.strip_prefix(MARK).unwrap_or_default();
                continue;
            };
            let kept = kept.ok_or_else(|| NoText::Unknown(handle.to_owned()))?;
            out.push_str(&kept.text);
            if out.len() + filled.arguments.len() > MAX_FILLED {
                return Err(NoText::TooLong);
            }
            if !has(Flaw::FillingJoinsNothing) {
                filled.label.join_in(&kept.label);
            }
            let Listed {
                kind,
                characters,
                from: read,
                ..
            } = self.listed(kept);
            let words =
                format!("`{handle}` is a sealed {kind} of {characters} characters from {read}");
            if !filled.words.contains(&words) {
                filled.words.push(words);
            }
            rest = from.strip_prefix(handle).unwrap_or_default();
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
    pub fn open(&self, handle: &str) -> Result<Opened, NoText> {
        let unknown = || NoText::Unknown(rule::shown(handle));
        let (_, kept) = self.named(handle.trim()).ok_or_else(unknown)?;
        let kept = kept.ok_or_else(unknown)?;
        Ok(Opened {
            text: kept.text.to_string(),
            label: if has(Flaw::OpeningJoinsNothing) {
                Label::default()
            } else {
                kept.label.clone()
            },
        })
    }

    /// What there is, the oldest first.
    pub fn list(&self) -> impl Iterator<Item = Listed> + '_ {
        self.texts.iter().map(|text| self.listed(text))
    }

    fn listed(&self, text: &Text) -> Listed {
        Listed {
            handle: self.handle(text.number, &text.text),
            kind: kind(&text.text),
            characters: text.text.chars().count(),
            from: text.from.to_string(),
            label: text.label.clone(),
        }
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
    text.text.len() + text.from.len() + size_of::<Text>() + origins
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
