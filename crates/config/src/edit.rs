//! Changes to the file that a person would have made by hand: one entry changes, every comment and blank line elsewhere stays.
//!
//! An edit works on lines and character ranges of the text, never by printing a tree. Before a result is handed out it is parsed,
//! resolved and compared with the original: anything but the named entry differing is an error, not a written file.

use vocab::Level;

use super::{
    Raw, Report,
    finding::{Place, nearest},
    tree::{Key, Node, Value},
};

mod entry;
mod keys;
mod verify;

pub use keys::{Changes, edit_server, set_effect, set_open_world, set_tool_open_world};

pub use entry::{NewServer, NewTransport, scalar as yaml_scalar};

#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file was broken before the edit, or would be after it.
    #[error("{0}")]
    Invalid(Report),
    #[error(
        "the server `{0}` already exists; change it with `portcullis servers edit {0}`, or choose another id"
    )]
    Exists(String),
    #[error("there is no server `{id}`{hint}")]
    Unknown { id: String, hint: String },
    /// The edit would make the file wrong.
    #[error("{0}")]
    Refused(String),
    #[error("line {line} is written in a way that cannot be edited safely; change it by hand")]
    Style { line: usize },
}

impl EditError {
    /// There is no server of this id among these.
    pub fn unknown<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let hint = nearest(id, known)
            .map(|name| format!("; did you mean `{name}`?"))
            .unwrap_or_default();
        Self::Unknown {
            id: id.to_owned(),
            hint,
        }
    }
}

/// Adds an entry after the last one.
pub fn add_server(text: &str, server: &NewServer) -> Result<String, EditError> {
    let source = Source::read(text)?;
    if source.find(&server.id).is_ok() {
        return Err(EditError::Exists(server.id.clone()));
    }
    let edited = source.add(server)?;
    verify::only_entry_changed(&source, &edited, &server.id)?;
    Ok(source.with_mark(edited))
}

/// Removes an entry and what stands inside it. Comments above it stay.
pub fn remove_server(text: &str, id: &str) -> Result<String, EditError> {
    let source = Source::read(text)?;
    let entry = source.find(id)?;
    let edited = source.splice_lines(
        entry.first_line,
        source.last_line(entry.node.place, entry.first_line),
        "",
    );
    verify::only_entry_changed(&source, &edited, id)?;
    Ok(source.with_mark(edited))
}

pub fn set_enabled(text: &str, id: &str, enabled: bool) -> Result<String, EditError> {
    set(text, id, "enabled", if enabled { "true" } else { "false" })
}

pub fn set_classification(text: &str, id: &str, level: Level) -> Result<String, EditError> {
    set(text, id, "classification", level.as_str())
}

/// Sets the most secret data that may be sent to a server.
pub fn set_accepts(text: &str, id: &str, level: Level) -> Result<String, EditError> {
    set(text, id, "accepts", level.as_str())
}

/// Writes why a server is blocked, or lets it be used again.
pub fn set_blocked(text: &str, id: &str, reason: Option<&str>) -> Result<String, EditError> {
    match reason {
        Some(reason) => set(text, id, "blocked", &entry::quoted(reason)),
        None => unset(text, id, "blocked"),
    }
}

/// Removes one key of an entry, and nothing else on its line or around it.
fn unset(text: &str, id: &str, key: &str) -> Result<String, EditError> {
    let source = Source::read(text)?;
    let entry = source.find(id)?;
    let keys = entry.node.entries().unwrap_or_default();
    let Some(at) = keys.iter().position(|(Key { name, .. }, _)| name == key) else {
        return Ok(text.to_owned());
    };
    let edited = source.remove_key(&entry, keys, at)?;
    verify::only_entry_changed(&source, &edited, id)?;
    Ok(source.with_mark(edited))
}

fn set(text: &str, id: &str, key: &str, value: &str) -> Result<String, EditError> {
    let source = Source::read(text)?;
    let entry = source.find(id)?;
    let edited = match entry.node.get(key) {
        Some(old) if old.text() == Some(value) => return Ok(text.to_owned()),
        // A text over several lines ends somewhere below, so it is taken out by its lines.
        Some(old) if old.text().is_some() && old.place.line != old.place.end_line => {
            return set(&unset(text, id, key)?, id, key, value);
        }
        Some(old) if old.text().is_some() => {
            source.splice_chars(old.place.start, old.place.end, value)
        }
        Some(old) => {
            return Err(EditError::Style {
                line: old.place.line,
            });
        }
        None => source.insert_key(&entry, key, value)?,
    };
    verify::only_entry_changed(&source, &edited, id)?;
    Ok(source.with_mark(edited))
}

/// The text being edited, with its tree.
struct Source {
    raw: Raw,
    newline: &'static str,
    marked: bool,
}

/// Where an entry stands.
struct Found<'a> {
    node: &'a Node,
    /// The line of its key, or of its dash.
    first_line: usize,
    /// Spaces before the key or dash.
    indent: usize,
}

impl Source {
    fn read(text: &str) -> Result<Self, EditError> {
        let source = Self::read_loosely(text)?;
        source.raw.resolve().map_err(EditError::Invalid)?;
        Ok(source)
    }

    /// The same for a text that is on its way from one good state to another.
    fn read_loosely(text: &str) -> Result<Self, EditError> {
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let raw = Raw::parse(std::path::Path::new("portcullis.yaml"), body)
            .map_err(EditError::Invalid)?;
        let newline = if body.contains("\r\n") { "\r\n" } else { "\n" };
        Ok(Self {
            newline,
            marked: body.len() != text.len(),
            raw,
        })
    }

    fn with_mark(&self, edited: String) -> String {
        if self.marked {
            format!("\u{feff}{edited}")
        } else {
            edited
        }
    }

    fn servers(&self) -> Option<&Node> {
        self.raw.root.get("mcp_servers")
    }

    fn find(&self, id: &str) -> Result<Found<'_>, EditError> {
        let entries = entries(&self.raw.root);
        match entries.iter().find(|(name, ..)| *name == id) {
            Some((_, place, node)) => self.stands_alone(*place, node),
            None => Err(EditError::unknown(
                id,
                entries.iter().map(|(name, ..)| *name),
            )),
        }
    }

    /// An entry can be edited by lines only if nothing of another entry shares its first one.
    fn stands_alone<'a>(&self, place: Place, node: &'a Node) -> Result<Found<'a>, EditError> {
        let before: String = self
            .line(place.line)
            .chars()
            .take(place.column - 1)
            .collect();
        let indent = before.chars().take_while(|c| *c == ' ').count();
        if matches!(before.trim(), "" | "-") {
            Ok(Found {
                node,
                first_line: place.line,
                indent,
            })
        } else {
            Err(EditError::Style { line: place.line })
        }
    }

    fn add(&self, server: &NewServer) -> Result<String, EditError> {
        let Some(servers) = self.servers() else {
            return Ok(self.append_section(server));
        };
        match &servers.value {
            Value::Map(entries) if !entries.is_empty() => {
                let Some((key, node)) = entries.last() else {
                    return Err(EditError::Style {
                        line: servers.place.line,
                    });
                };
                let last = self.stands_alone(key.place, node)?;
                Ok(self.insert_after(&last, &server.as_entry(last.indent, self.newline)))
            }
            Value::List(items) if !items.is_empty() => {
                let Some(node) = items.last() else {
                    return Err(EditError::Style {
                        line: servers.place.line,
                    });
                };
                let last = self.stands_alone(node.place, node)?;
                Ok(self.insert_after(&last, &server.as_item(last.indent, self.newline)))
            }
            // Nothing, `~`, `{}` or `[]`: what is written goes, a block comes.
            _ => {
                let line = self
                    .raw
                    .root
                    .entries()
                    .unwrap_or_default()
                    .iter()
                    .find(|(key, _)| key.name == "mcp_servers");
                let line = line.map_or(1, |(key, _)| key.place.line);
                let cleared = self.splice_chars(
                    servers.place.start,
                    servers.place.end.max(servers.place.start),
                    "",
                );
                Ok(splice(
                    &cleared,
                    line + 1,
                    line,
                    &server.as_entry(2, self.newline),
                ))
            }
        }
    }

    fn append_section(&self, server: &NewServer) -> String {
        let text = &self.raw.text;
        let newline = self.newline;
        let gap = match text {
            _ if text.is_empty() => "",
            _ if text.ends_with('\n') => newline,
            _ => &newline.repeat(2),
        };
        format!(
            "{text}{gap}mcp_servers:{newline}{}",
            server.as_entry(2, newline)
        )
    }

    fn insert_after(&self, last: &Found<'_>, lines: &str) -> String {
        let line = self.last_line(last.node.place, last.first_line);
        splice(&self.raw.text, line + 1, line, lines)
    }

    fn insert_key(&self, entry: &Found<'_>, key: &str, value: &str) -> Result<String, EditError> {
        let newline = self.newline;
        match &entry.node.value {
            Value::Map(keys) if self.is_flow(entry.node) => {
                let at = entry.node.place.start + 1;
                let separator = if keys.is_empty() { "" } else { ", " };
                Ok(self.splice_chars(at, at, &format!("{key}: {value}{separator}")))
            }
            Value::Map(keys) => {
                let indent = keys
                    .first()
                    .map_or(entry.indent + 2, |(Key { place, .. }, _)| place.column - 1);
                Ok(self.insert_after(
                    entry,
                    &format!("{}{key}: {value}{newline}", " ".repeat(indent)),
                ))
            }
            _ if entry.node.place.start == entry.node.place.end => {
                let line = format!("{}{key}: {value}{newline}", " ".repeat(entry.indent + 2));
                Ok(splice(
                    &self.raw.text,
                    entry.first_line + 1,
                    entry.first_line,
                    &line,
                ))
            }
            _ => Err(EditError::Style {
                line: entry.node.place.line,
            }),
        }
    }

    fn remove_key(
        &self,
        entry: &Found<'_>,
        keys: &[(Key, Node)],
        at: usize,
    ) -> Result<String, EditError> {
        let Some((key, value)) = keys.get(at) else {
            return Err(EditError::Style {
                line: entry.first_line,
            });
        };
        if self.is_flow(entry.node) {
            let next = keys.get(at + 1).map(|(key, _)| key.place.start);
            let before = at
                .checked_sub(1)
                .and_then(|at| keys.get(at))
                .map(|(_, value)| value.place.end);
            let end = if value.is_null() {
                key.place.end
            } else {
                value.place.end
            };
            return Ok(match (next, before) {
                (Some(next), _) => self.splice_chars(key.place.start, next, ""),
                (None, before) => self.splice_chars(before.unwrap_or(key.place.start), end, ""),
            });
        }
        // The first key of a listed server stands on the line of its dash.
        let alone: String = self
            .line(key.place.line)
            .chars()
            .take(key.place.column - 1)
            .collect();
        if alone.trim().is_empty() {
            let last = if value.is_null() {
                key.place.line
            } else {
                self.last_line(value.place, key.place.line)
            };
            Ok(self.splice_lines(key.place.line, last, ""))
        } else {
            Err(EditError::Style {
                line: key.place.line,
            })
        }
    }

    fn is_flow(&self, node: &Node) -> bool {
        self.raw.text.chars().nth(node.place.start) == Some('{')
    }

    fn line(&self, number: usize) -> &str {
        self.raw
            .text
            .lines()
            .nth(number.saturating_sub(1))
            .unwrap_or_default()
    }

    /// The last line that belongs to what stands at `place`: not the blank lines and comments below it.
    fn last_line(&self, place: Place, first: usize) -> usize {
        // A block of text ends where the next token starts, which is not a line of its own.
        let reaches = self
            .line(place.end_line)
            .chars()
            .take(place.end_column.saturating_sub(1))
            .any(|c| c != ' ');
        let end = if reaches {
            place.end_line
        } else {
            place.end_line.saturating_sub(1)
        };
        let is_gap = |line: usize| {
            matches!(
                self.line(line).trim_start().chars().next(),
                None | Some('#')
            )
        };
        (first..=end.max(first))
            .rev()
            .find(|line| *line == first || !is_gap(*line))
            .unwrap_or(first)
    }

    fn splice_lines(&self, first: usize, last: usize, lines: &str) -> String {
        splice(&self.raw.text, first, last, lines)
    }

    fn splice_chars(&self, start: usize, end: usize, with: &str) -> String {
        let text = &self.raw.text;
        let head = text.chars().take(start);
        let tail = text.chars().skip(end);
        head.chain(with.chars()).chain(tail).collect()
    }
}

/// Replaces the lines `first..=last` (from one) by `lines`; `last` before `first` inserts.
fn splice(text: &str, first: usize, last: usize, lines: &str) -> String {
    let mut out = String::with_capacity(text.len() + lines.len());
    let mut placed = false;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let number = index + 1;
        if number == first {
            out.push_str(lines);
            placed = true;
        }
        if number < first || number > last {
            out.push_str(line);
        }
    }
    if !placed {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(lines);
    }
    out
}

/// Every entry of `mcp_servers` with its id and the place where it starts, in either form.
pub(super) fn entries(root: &Node) -> Vec<(&str, Place, &Node)> {
    match root.get("mcp_servers").map(|node| &node.value) {
        Some(Value::Map(entries)) => entries
            .iter()
            .map(|(key, node)| (key.name.as_str(), key.place, node))
            .collect(),
        Some(Value::List(items)) => items
            .iter()
            .filter_map(|item| Some((item.get("name")?.text()?, item.place, item)))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
