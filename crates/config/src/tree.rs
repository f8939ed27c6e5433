//! The file as a tree of values that remember where they were written.
//!
//! YAML can do more than a configuration should: anchors expand, tags construct, merge keys hide where a value came from, and a
//! repeated key silently wins. None of that is accepted, and the size and depth of a file are bounded before anything is built
//! from it. Scalars keep their source text; what they mean is decided by the key they stand under.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput, Tag};

use super::finding::{Finding, Place};

/// The largest file that is read.
pub const MAX_BYTES: usize = 1 << 20;
/// The deepest nesting of maps and lists.
pub const MAX_DEPTH: usize = 32;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub struct Node {
    pub place: Place,
    pub value: Value,
}

#[derive(Debug, Clone)]
pub enum Value {
    /// `plain` is false when the text was quoted or a block, so that it can only be text.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// The name of a map's entry.
#[derive(Debug, Clone)]
pub struct Key {
    pub name: String,
    pub place: Place,
}

impl Node {
    /// Nothing written after the colon, `~` or `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The source text of a scalar that is not null. Numbers and booleans are given as they were written.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    #[must_use]
    pub fn flag(&self) -> Option<bool> {
        match &self.value {
            Value::Scalar { text, plain: true } => match text.as_str() {
                "true" | "True" | "TRUE" => Some(true),
                "false" | "False" | "FALSE" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }

    /// The entries of a map; nothing written counts as an empty one.
    #[must_use]
    pub fn entries(&self) -> Option<&[(Key, Node)]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ if self.is_null() => Some(&[]),
            _ => None,
        }
    }

    /// The items of a list; nothing written counts as an empty one.
    #[must_use]
    pub fn items(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ if self.is_null() => Some(&[]),
            _ => None,
        }
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entries()?
            .iter()
            .find(|(key, _)| key.name == name)
            .map(|(_, node)| node)
    }

    /// The same, as part of another file of the configuration.
    #[must_use]
    pub fn in_layer(mut self, layer: u8) -> Self {
        self.place.layer = layer;
        self.value = match self.value {
            Value::List(items) => {
                Value::List(items.into_iter().map(|item| item.in_layer(layer)).collect())
            }
            Value::Map(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(mut key, node)| {
                        key.place.layer = layer;
                        (key, node.in_layer(layer))
                    })
                    .collect(),
            ),
            scalar @ Value::Scalar { .. } => scalar,
        };
        self
    }

    /// The same as JSON; what is plain and reads as a flag or a number is one.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            _ if self.is_null() => Json::Null,
            Value::Scalar { text, plain } => match (self.flag(), text.parse::<i64>()) {
                (Some(flag), _) => flag.into(),
                (None, Ok(number)) if *plain => number.into(),
                _ => text.as_str().into(),
            },
            Value::List(items) => items.iter().map(Self::json).collect(),
            Value::Map(entries) => entries
                .iter()
                .map(|(key, node)| (key.name.clone(), node.json()))
                .collect(),
        }
    }

    /// What a person would call this.
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Scalar { plain: true, .. } if self.flag().is_some() => "a boolean",
            Value::Scalar { text, plain: true } if text.parse::<f64>().is_ok() => "a number",
            Value::Scalar { .. } => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// Equal in content, wherever it is written and however it is quoted.
    #[must_use]
    pub fn same_content(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Scalar { text: a, plain: p }, Value::Scalar { text: b, plain: q }) => {
                a == b && p == q
            }
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same_content(y))
            }
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .zip(b)
                        .all(|((k, x), (l, y))| k.name == l.name && x.same_content(y))
            }
            _ => false,
        }
    }
}

/// Reads one document. The findings are without file name and excerpt; [`super::Report`] adds them.
pub fn parse(text: &str) -> Result<Node, Vec<Finding>> {
    if text.len() > MAX_BYTES {
        let what = format!(
            "the file has {} bytes; the limit is {MAX_BYTES}",
            text.len()
        );
        return Err(vec![Finding::error(
            Place::start(),
            what,
            "split it, or move data out of the configuration",
        )]);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder::default();
    for event in Parser::new(StrInput::new(text)) {
        match event {
            Ok((event, span)) => builder.take(event, span).map_err(|finding| vec![finding])?,
            Err(error) => {
                let what = format!("this is not valid YAML: {}", error.info());
                let fix = "check the indentation (spaces, never tabs), quotes and colons around this place";
                return Err(vec![Finding::error(
                    place_of(Span::empty(*error.marker())),
                    what,
                    fix,
                )]);
            }
        }
    }
    if !builder.findings.is_empty() {
        return Err(builder.findings);
    }
    Ok(builder.root.unwrap_or(Node {
        place: Place::start(),
        value: Value::Map(Vec::new()),
    }))
}

fn place_of(span: Span) -> Place {
    let column = |marker: &Marker| marker.col() + 1;
    Place {
        line: span.start.line().max(1),
        column: column(&span.start),
        start: span.start.index(),
        end_line: span.end.line().max(1),
        end_column: column(&span.end),
        end: span.end.index(),
        layer: 0,
    }
}

/// A collection being filled.
struct Open {
    place: Place,
    children: Children,
}

enum Children {
    List(Vec<Node>),
    /// The key whose value comes next, if one was read.
    Map(Vec<(Key, Node)>, Option<Key>),
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    findings: Vec<Finding>,
    documents: usize,
}

impl Builder {
    /// An `Err` ends the reading; what is only refused is collected and reading goes on.
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Finding> {
        let place = place_of(span);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.start_document(place),
            Event::Alias(_) => {
                self.refuse(
                    place,
                    "aliases (`*name`) are not accepted here",
                    "write the value out",
                );
                self.put(Node {
                    place,
                    value: Value::Scalar {
                        text: String::new(),
                        plain: true,
                    },
                });
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.check_decoration(place, anchor, tag.as_deref());
                let forced_text = tag.is_some_and(|tag| tag.suffix == "str");
                let plain = style == ScalarStyle::Plain && !forced_text;
                self.put(Node {
                    place,
                    value: Value::Scalar {
                        text: text.into_owned(),
                        plain,
                    },
                });
                Ok(())
            }
            Event::SequenceStart(anchor, tag) => {
                self.check_decoration(place, anchor, tag.as_deref());
                self.descend(place, Children::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.check_decoration(place, anchor, tag.as_deref());
                self.descend(place, Children::Map(Vec::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.ascend(place);
                Ok(())
            }
        }
    }

    fn start_document(&mut self, place: Place) -> Result<(), Finding> {
        self.documents += 1;
        if self.documents > 1 {
            let fix = "keep one document; remove the `---` line and what follows it";
            return Err(Finding::error(
                place,
                "a second YAML document starts here",
                fix,
            ));
        }
        Ok(())
    }

    fn refuse(&mut self, place: Place, what: impl Into<Box<str>>, fix: impl Into<Box<str>>) {
        self.findings.push(Finding::error(place, what, fix));
    }

    fn check_decoration(&mut self, place: Place, anchor: usize, tag: Option<&Tag>) {
        const CORE: [&str; 7] = ["str", "int", "float", "bool", "null", "map", "seq"];
        if anchor != 0 {
            self.refuse(
                place,
                "anchors (`&name`) are not accepted here",
                "write the value out where it is used",
            );
        }
        if let Some(tag) =
            tag.filter(|tag| !(tag.is_yaml_core_schema() && CORE.contains(&tag.suffix.as_str())))
        {
            self.refuse(
                place,
                format!("the tag `{tag}` is not accepted here"),
                "remove the tag; the key decides the type",
            );
        }
    }

    fn descend(&mut self, place: Place, children: Children) -> Result<(), Finding> {
        if self.open.len() >= MAX_DEPTH {
            let what = format!("maps and lists are nested more than {MAX_DEPTH} deep here");
            return Err(Finding::error(
                place,
                what,
                "flatten this part; no key needs that depth",
            ));
        }
        self.open.push(Open { place, children });
        Ok(())
    }

    fn ascend(&mut self, end: Place) {
        let Some(Open {
            mut place,
            children,
        }) = self.open.pop()
        else {
            return;
        };
        let value = match children {
            Children::List(items) => Value::List(items),
            Children::Map(entries, _) => Value::Map(entries),
        };
        // A flow collection ends with its bracket, one character (the span may take in the comment behind it). A block ends where the next token starts, which may be far below, so its end is
        // the end of its last child.
        let last = match &value {
            Value::List(items) => items.last().map(|node| node.place),
            Value::Map(entries) => entries.last().map(|(key, node)| {
                if node.is_null() {
                    key.place
                } else {
                    node.place
                }
            }),
            Value::Scalar { .. } => None,
        };
        let bracket = Place {
            end_line: end.line,
            end_column: end.column + 1,
            end: end.start + 1,
            ..end
        };
        let closing = if end.start < end.end {
            Some(bracket)
        } else {
            last
        };
        if let Some(closing) = closing {
            place = place.until(closing);
        }
        self.put(Node { place, value });
    }

    fn put(&mut self, node: Node) {
        match self.open.last_mut().map(|open| &mut open.children) {
            None => self.root = Some(node),
            Some(Children::List(items)) => items.push(node),
            Some(Children::Map(entries, waiting)) => match waiting.take() {
                Some(key) => {
                    if let Some((first, _)) =
                        entries.iter().find(|(other, _)| other.name == key.name)
                    {
                        let what = format!(
                            "`{}` is written twice; the first is on line {}",
                            key.name, first.place.line
                        );
                        self.findings.push(Finding::error(
                            key.place,
                            what,
                            "remove one of the two",
                        ));
                    }
                    entries.push((key, node));
                }
                None => match key_of(node) {
                    Ok(key) => *waiting = Some(key),
                    Err(finding) => {
                        *waiting = Some(Key {
                            name: String::new(),
                            place: finding.place,
                        });
                        self.findings.push(finding);
                    }
                },
            },
        }
    }
}

fn key_of(node: Node) -> Result<Key, Finding> {
    let place = node.place;
    match node.value {
        Value::Scalar { text, plain: true } if text == "<<" => Err(Finding::error(
            place,
            "merge keys (`<<`) are not accepted here",
            "write the keys out",
        )),
        Value::Scalar { text, .. } if !text.is_empty() => Ok(Key { name: text, place }),
        Value::Scalar { .. } => Err(Finding::error(
            place,
            "a key is empty",
            "give the entry a name before the colon",
        )),
        Value::List(_) | Value::Map(_) => Err(Finding::error(
            place,
            "a list or map cannot be a key",
            "use a plain word before the colon",
        )),
    }
}
