//! The result of a call on its way to a person, a pipe or a file. Its content is somebody's data: where a program reads, it arrives byte
//! for byte; on a terminal it keeps its shape.

use std::{borrow::Cow, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use terminal::{Exit, Screen, Trouble, pretty::pretty, sheet::Sheet, style::tame};
use vocab::{Rule, Stage};
use wire::{Json, Limits};

use crate::out_file;

/// Deeper than any gate is told to let through.
const DEPTH: usize = 1_000;

/// A result as the gate sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    text: String,
}

/// One part of a result's content.
struct Part<'a> {
    json: Json<'a>,
    /// `text`, `image`, `resource`: as the server says.
    kind: Cow<'a, str>,
}

impl Outcome {
    /// A gate sends what it has checked, so a text that is not JSON is not its.
    pub fn new(text: String) -> Result<Self, Trouble> {
        Json::parse(text.as_bytes(), Limits::new(usize::MAX, DEPTH))
            .map_err(|error| Trouble::failed(format!("the gate's answer is not JSON: {error}")))?;
        Ok(Self { text })
    }

    fn json(&self) -> Json<'_> {
        Json::checked_before(self.text.as_bytes())
    }

    fn word(&self, path: &[&str]) -> Cow<'_, str> {
        self.json()
            .path(path)
            .and_then(Json::as_str)
            .unwrap_or_default()
    }

    /// The rule by which the gate stopped the call, if it did. A server cannot write here.
    pub fn violation(&self) -> Cow<'_, str> {
        self.word(&["_meta", gateway::ERROR_META, "violation"])
    }

    /// Whether it was delivered, refused, or is a failure.
    pub fn exit(&self) -> Exit {
        if self.json().get("isError").and_then(Json::as_bool) != Some(true) {
            return Exit::Done;
        }
        match &*self.word(&["_meta", gateway::ERROR_META, "error_code"]) {
            _ if is_refusal(&self.violation()) => Exit::Refused,
            "internal" => Exit::Failed,
            _ => Exit::Upstream,
        }
    }

    fn parts(&self) -> Vec<Part<'_>> {
        let items = self.json().get("content").into_iter().flat_map(Json::items);
        items
            .map(|json| Part {
                json,
                kind: json.get("type").and_then(Json::as_str).unwrap_or_default(),
            })
            .collect()
    }

    /// Writes it to the screen.
    pub fn show(&self, screen: &mut Screen<'_>) -> Result<(), Trouble> {
        if screen.json {
            writeln!(screen.out, "{}", pretty(&self.text))?;
            return Ok(screen.out.flush()?);
        }
        self.write(screen.out)?;
        Ok(screen.out.flush()?)
    }

    /// Texts as they are, everything else in a line that says what it is.
    pub fn write(&self, out: &mut dyn Sheet) -> Result<(), Trouble> {
        let violation = self.violation();
        if is_refusal(&violation) {
            write!(out, "refused ({violation}): ")?;
        } else if !violation.is_empty() {
            write!(
                out,
                "done, but its result is withheld ({}): ",
                tame(&violation)
            )?;
        }
        let parts = self.parts();
        let mut is_line_open = false;
        let mut is_empty = true;
        for (place, part) in parts.iter().enumerate() {
            if std::mem::take(&mut is_line_open) {
                writeln!(out)?;
            }
            match part.text() {
                Some(text) => {
                    out.data(text.as_bytes())?;
                    is_line_open = !text.is_empty() && !text.ends_with('\n');
                    is_empty &= text.is_empty();
                }
                None => {
                    writeln!(out, "[{}]", part.described(place + 1, parts.len()))?;
                    is_empty = false;
                }
            }
        }
        if let (true, Some(structured)) = (parts.is_empty(), self.json().get("structuredContent")) {
            out.data(pretty(structured.text()).as_bytes())?;
            (is_line_open, is_empty) = (true, false);
        }
        // What ends without a new line does so in a file, too.
        let is_ours = !violation.is_empty();
        match out.is_for_a_person() {
            true if is_empty => writeln!(out, "(no content)")?,
            is_terminal if is_line_open && (is_terminal || is_ours) => writeln!(out)?,
            _ => {}
        }
        Ok(())
    }

    /// Writes one part to a file: the one that was named, or the only one, or the only one that is not text.
    pub fn save(&self, file: &Path, wanted: Option<usize>) -> Result<usize, Trouble> {
        let parts = self.parts();
        let binary: Vec<&Part<'_>> = parts.iter().filter(|part| part.text().is_none()).collect();
        let part = match (wanted, parts.as_slice(), binary.as_slice()) {
            (Some(place), ..) => place.checked_sub(1).and_then(|place| parts.get(place)),
            (None, [part], _) => Some(part),
            (None, _, [part]) => Some(*part),
            _ => None,
        };
        let Some(part) = part else {
            let listed = parts
                .iter()
                .enumerate()
                .map(|(place, part)| format!("\n  {}", part.described(place + 1, parts.len())));
            return Err(Trouble::usage(format!(
                "say which part to save with --part N:{}",
                listed.collect::<String>()
            )));
        };
        let bytes = part.bytes()?;
        out_file::write(file, |out| Ok(out.write_all(&bytes)?))?;
        Ok(bytes.len())
    }
}

impl<'a> Part<'a> {
    fn field(&self, path: &[&str]) -> Option<Cow<'a, str>> {
        self.json.path(path).and_then(Json::as_str)
    }

    /// A text, or the text of an embedded resource.
    fn text(&self) -> Option<Cow<'a, str>> {
        match &*self.kind {
            "text" => self.field(&["text"]),
            "resource" => self.field(&["resource", "text"]),
            _ => None,
        }
    }

    fn base64(&self) -> Option<Cow<'a, str>> {
        self.field(&["data"])
            .or_else(|| self.field(&["resource", "blob"]))
    }

    fn bytes(&self) -> Result<Vec<u8>, Trouble> {
        if let Some(text) = self.text() {
            return Ok(text.into_owned().into_bytes());
        }
        let data = self.base64().ok_or_else(|| {
            Trouble::failed(format!(
                "this part is a {} and holds no data",
                tame(&self.kind)
            ))
        })?;
        STANDARD.decode(data.as_bytes()).map_err(|error| {
            Trouble::failed(format!("the data of this part is not base64: {error}"))
        })
    }

    /// `image, image/png, 68 bytes`; with its number where there are several.
    fn described(&self, place: usize, of: usize) -> String {
        let mut words = Vec::new();
        let kind = if self.kind.is_empty() {
            "content of no kind"
        } else {
            &self.kind
        };
        words.push(if of > 1 {
            format!("{place}: {kind}")
        } else {
            kind.to_owned()
        });
        let any = |paths: [&[&str]; 2]| {
            paths
                .into_iter()
                .find_map(|path| self.field(path))
                .map(Cow::into_owned)
        };
        words.extend(any([&["name"], &["resource", "name"]]));
        words.extend(any([&["uri"], &["resource", "uri"]]));
        words.extend(any([&["mimeType"], &["resource", "mimeType"]]));
        let size = self.base64().map(|data| {
            STANDARD
                .decode(data.as_bytes())
                .map_or(data.len(), |bytes| bytes.len()) as u64
        });
        let size = size.or_else(|| self.json.get("size").and_then(Json::as_u64));
        words.extend(size.map(|size| {
            if size == 1 {
                "1 byte".to_owned()
            } else {
                format!("{size} bytes")
            }
        }));
        words
            .iter()
            .map(|word| tame(word))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Whether this is the code of a rule that refuses calls.
pub fn is_refusal(violation: &str) -> bool {
    Rule::ALL
        .iter()
        .any(|rule| rule.code() == violation && rule.stage() < Stage::Dispatch)
}

#[cfg(test)]
mod tests;
