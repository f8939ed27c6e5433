//! What of a sealed result is shown, and what becomes a handle.
//!
//! **Invariant: nothing is shown that a stranger can have put words into.** Names of fields and members of closed lists are shown where the
//! tool's definition, which a person approved, has them; numbers and dates where they are short. Test
//! `nothing_of_a_sealed_result_can_be_read_but_what_its_definition_says`.

use std::collections::BTreeSet;

use wire::{Json, Kind, Limits, write};

use super::kind;
use crate::form::{self, Class, Reading};

const MAX_DEPTH: usize = 32;
/// Names and words of one definition; those beyond them are not shown.
const MAX_DECLARED: usize = 1024;
/// A declared word is a word: longer ones could instruct somebody.
const MAX_WORD: usize = 64;
/// Signs of a number or a date. Nobody tells a story in these.
const MAX_TYPED: usize = 40;
/// Said with every sealed result, for who reads handles for the first time.
const NOTE: &str = "The texts of this result are sealed, so that nobody's words in it lead you. Put a handle (sealed:N-XXXXXX) into an \
    argument of another tool and the gate puts the text in. portcullis__open shows texts; after that, calls that act may wait for a person.";

/// What the definition of a tool says of its results.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Declared {
    names: BTreeSet<String>,
    words: BTreeSet<String>,
}

impl Declared {
    /// What an output schema declares.
    #[must_use]
    pub fn of(schema: Option<Json<'_>>) -> Self {
        let mut declared = Self::default();
        if let Some(schema) = schema {
            declared.walk(schema, 0);
        }
        declared
    }

    fn walk(&mut self, schema: Json<'_>, depth: usize) {
        if depth > MAX_DEPTH || self.names.len() + self.words.len() > MAX_DECLARED {
            return;
        }
        if schema.is_array() {
            schema.items().for_each(|one| self.walk(one, depth + 1));
        }
        if !schema.is_object() {
            return;
        }
        for (name, value) in schema.fields() {
            match &*name {
                "enum" => value.items().for_each(|word| self.word(word)),
                "const" => self.word(value),
                "properties" if value.is_object() => {
                    for (name, inner) in value.fields() {
                        if name.len() <= MAX_WORD {
                            self.names.insert(name.into_owned());
                        }
                        self.walk(inner, depth + 1);
                    }
                }
                "$defs" | "definitions" | "patternProperties" if value.is_object() => {
                    value
                        .fields()
                        .for_each(|(_, inner)| self.walk(inner, depth + 1));
                }
                "items"
                | "prefixItems"
                | "anyOf"
                | "oneOf"
                | "allOf"
                | "if"
                | "then"
                | "else"
                | "additionalProperties" => self.walk(value, depth + 1),
                _ => {}
            }
        }
    }

    fn word(&mut self, word: Json<'_>) {
        if let Some(word) = word.as_str().filter(|word| word.len() <= MAX_WORD) {
            self.words.insert(word.into_owned());
        }
    }
}

/// One result being written for who may not read its texts.
pub(super) struct Showing<'a, H> {
    source: super::Source<'a>,
    last: u64,
    handle: H,
    texts: Vec<(u64, String)>,
}

impl<'a, H: Fn(u64, &str) -> String> Showing<'a, H> {
    pub(super) fn new(source: super::Source<'a>, last: u64, handle: H) -> Self {
        Self {
            source,
            last,
            handle,
            texts: Vec::new(),
        }
    }

    /// The texts that got handles, with their numbers.
    pub(super) fn finish(self) -> Vec<(u64, String)> {
        self.texts
    }

    /// The result of a tool. `None`: it is no finished one, or deeper than results are.
    pub(super) fn result(&mut self, result: Json<'_>) -> Option<Vec<u8>> {
        let mut out = write::Object::new();
        let mut blocks: Vec<Vec<u8>> = Vec::new();
        let structured = result.get("structuredContent");
        let mut said = None;
        if let Some(structured) = structured {
            let mut text = Vec::new();
            self.value(structured, 0, &mut text)?;
            blocks.push(block(&String::from_utf8_lossy(&text)));
            said = Some(text);
        }
        for (name, value) in result.fields() {
            match &*name {
                "content" => {
                    for one in value.items() {
                        blocks.extend(self.block(one, structured.is_some())?);
                    }
                }
                "isError" if value.as_bool().is_some() => {
                    out.json("isError", value);
                }
                // Servers of the newer protocol say that they are done.
                "resultType" if value.as_str().as_deref() == Some("complete") => {
                    out.json("resultType", value);
                }
                // What a server says of its answer is a server's word too, and is left out.
                "structuredContent" | "_meta" | "ttlMs" | "cacheScope" => {}
                _ => return None,
            }
        }
        blocks.push(block(NOTE));
        out.raw(
            "content",
            &[b"[", blocks.join(&b","[..]).as_slice(), b"]"].concat(),
        );
        if let Some(said) = said {
            out.raw("structuredContent", &said);
        }
        Some(out.finish())
    }

    /// One block of content. The same again as text, for clients that read no structured content, is there already.
    fn block(&mut self, one: Json<'_>, is_said: bool) -> Option<Option<Vec<u8>>> {
        let kind = one.get("type").and_then(Json::as_str)?;
        let text_of = |path: &[&str]| one.path(path).and_then(Json::as_str);
        Some(match &*kind {
            "text" => {
                let text = text_of(&["text"])?;
                let json = Json::parse(text.as_bytes(), Limits::new(super::MAX_BYTES, MAX_DEPTH));
                match json.ok().filter(|json| json.is_object() || json.is_array()) {
                    Some(_) if is_said => None,
                    Some(json) => {
                        let mut out = Vec::new();
                        self.value(json, 0, &mut out)?;
                        // Without a declared form all of it is one text.
                        let shown = match out.first() {
                            Some(b'"') => self.keep(&text),
                            _ => String::from_utf8_lossy(&out).into_owned(),
                        };
                        Some(block(&shown))
                    }
                    None => Some(block(&self.string(&text))),
                }
            }
            "image" | "audio" => Some(block(&self.keep(&text_of(&["data"])?))),
            "resource_link" => Some(block(&self.keep(&text_of(&["uri"])?))),
            "resource" => {
                let inside =
                    text_of(&["resource", "text"]).or_else(|| text_of(&["resource", "blob"]))?;
                Some(block(&self.keep(&inside)))
            }
            _ => return None,
        })
    }

    fn value(&mut self, value: Json<'_>, depth: usize, out: &mut Vec<u8>) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        match value.kind() {
            Kind::Object => {
                let names = &self.source.declared.names;
                if !value.fields().all(|(name, _)| names.contains(&*name)) {
                    // Names that nobody declared are a server's words too.
                    let handle = self.keep(value.text());
                    write::quote(out, &handle);
                    return Some(());
                }
                out.push(b'{');
                for (at, (name, inner)) in value.fields().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write::quote(out, &name);
                    out.push(b':');
                    self.value(inner, depth + 1, out)?;
                }
                out.push(b'}');
            }
            Kind::Array => {
                out.push(b'[');
                for (at, inner) in value.items().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    self.value(inner, depth + 1, out)?;
                }
                out.push(b']');
            }
            Kind::String => {
                let shown = self.string(&value.as_str().unwrap_or_default());
                write::quote(out, &shown);
            }
            Kind::Number if value.as_bytes().len() > MAX_TYPED => {
                let handle = self.keep(value.text());
                write::quote(out, &handle);
            }
            Kind::Number | Kind::Bool | Kind::Null => out.extend_from_slice(value.as_bytes()),
        }
        Some(())
    }

    fn string(&mut self, text: &str) -> String {
        if is_typed(text) || self.source.declared.words.contains(text) {
            text.to_owned()
        } else {
            self.keep(text)
        }
    }

    /// Keeps a text and gives its handle, as an agent sees it. The same text of the same result has one handle.
    fn keep(&mut self, text: &str) -> String {
        let known = self.texts.iter().find(|(_, kept)| kept == text);
        let number = known.map_or(self.last + 1, |(number, _)| *number);
        if known.is_none() {
            self.last = number;
            self.texts.push((number, text.to_owned()));
        }
        format!(
            "{} ({}, {} characters)",
            (self.handle)(number, text),
            kind(text),
            text.chars().count()
        )
    }
}

fn block(text: &str) -> Vec<u8> {
    let mut out = write::Object::new();
    out.str("type", "text").str("text", text);
    out.finish()
}

/// Whether a text is a number or a date: what nobody can write instructions in.
fn is_typed(text: &str) -> bool {
    if text.len() > MAX_TYPED {
        return false;
    }
    match form::read(text) {
        Reading::Empty => text.trim().is_empty(),
        Reading::Odd => false,
        Reading::Values(forms) => forms
            .iter()
            .all(|form| matches!(form.class, Class::Number | Class::Moment)),
    }
}
