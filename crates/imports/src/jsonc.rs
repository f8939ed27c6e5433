//! JSON with comments, changed in place: every byte that is not part of a change stays where it is.
//!
//! Comments and commas before a closing bracket are blanked, not cut, so what a strict parser says of the blanked text is true of the places in the
//! person's own.

use serde::Serialize as _;
use serde_json::{
    Map, Value,
    ser::{PrettyFormatter, Serializer},
};

/// Deeper settings than anybody writes; the parser behind it stops at the same depth.
const DEEPEST: usize = 100;

/// A text, and what stands where in it.
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    /// The same without what a strict parser does not take, each thing in its place.
    plain: String,
    root: Node,
    value: Value,
}

/// A value and its place.
#[derive(Debug, Clone)]
struct Node {
    start: usize,
    end: usize,
    children: Vec<Child>,
}

#[derive(Debug, Clone)]
struct Child {
    /// Where the key begins, or the value of a list.
    start: usize,
    key: Option<String>,
    node: Node,
}

impl<'a> Document<'a> {
    /// Reads a text; an empty one is an empty object.
    pub fn read(text: &'a str) -> Result<Self, String> {
        let plain = blank(text)?;
        let value: Value = serde_json::from_str(&plain).map_err(|error| error.to_string())?;
        let (root, _) = Reader { text: &plain }
            .node(0, 0)
            .ok_or("it is nested too deeply")?;
        if !value.is_object() {
            return Err("it holds no object".to_owned());
        }
        Ok(Self {
            text,
            plain,
            root,
            value,
        })
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// How many values there are for which `is_it` holds.
    pub fn count(&self, is_it: &dyn Fn(&[String], &Value) -> bool) -> usize {
        let count = std::cell::Cell::new(0);
        let counts = |path: &[String], value: &Value| {
            count.set(count.get() + usize::from(is_it(path, value)));
            false
        };
        self.find(&self.root, &mut Vec::new(), &mut Vec::new(), &counts);
        count.get()
    }

    /// The text with `value` added where `path` leads: as the last of a list, or as a new member. What lacks on the way is added.
    pub fn with(&self, path: &[&str], value: &Value) -> Result<String, String> {
        let mut node = &self.root;
        let mut rest = path;
        while let Some((key, deeper)) = rest.split_first() {
            let mut named = node
                .children
                .iter()
                .filter(|child| child.key.as_deref() == Some(*key));
            match (named.next(), named.next()) {
                (None, _) => break,
                (Some(child), None) => (node, rest) = (&child.node, deeper),
                (Some(_), Some(_)) => return Err(format!("`{key}` stands there twice")),
            }
        }
        let done = path.len() - rest.len();
        let is_object = self.byte(node.start) == Some(b'{');
        match rest.split_first() {
            Some(_) if !is_object => Err(format!(
                "`{}` is not an object",
                path.get(..done).unwrap_or_default().join(".")
            )),
            Some((key, deeper)) => {
                let value = deeper.iter().rev().fold(value.clone(), |value, key| {
                    Value::Object(Map::from_iter([((*key).to_owned(), value)]))
                });
                Ok(self.insert(node, Some(key), &value))
            }
            None if self.byte(node.start) == Some(b'[') => Ok(self.insert(node, None, value)),
            None => Err(format!("`{}` is not a list", path.join("."))),
        }
    }

    /// The text without the first value that is found, or nothing if none is. What is left empty by that goes with it, up to and including the
    /// members of the outermost object.
    pub fn without(&self, is_it: &dyn Fn(&[String], &Value) -> bool) -> Option<String> {
        let mut path = Vec::new();
        let mut chain = Vec::new();
        self.find(&self.root, &mut path, &mut chain, is_it)
            .then_some(())?;
        // From the inside out: what has no other child is removed with its last one.
        let mut parents: Vec<&Node> = vec![&self.root];
        for place in &chain {
            let parent = parents.last()?;
            parents.push(&parent.children.get(*place)?.node);
        }
        let mut level = chain.len() - 1;
        while level > 0 && parents.get(level)?.children.len() == 1 {
            level -= 1;
        }
        Some(self.cut(parents.get(level)?, *chain.get(level)?))
    }

    /// Finds the first value for which `is_it` holds; `chain` then leads to it. A value is read from its own place: a key may stand there twice.
    fn find(
        &self,
        node: &Node,
        path: &mut Vec<String>,
        chain: &mut Vec<usize>,
        is_it: &dyn Fn(&[String], &Value) -> bool,
    ) -> bool {
        for (place, child) in node.children.iter().enumerate() {
            let inner = self.plain.get(child.node.start..child.node.end);
            let inner = inner.and_then(|text| serde_json::from_str(text).ok());
            path.push(child.key.clone().unwrap_or_default());
            chain.push(place);
            let is_found = inner.is_some_and(|inner: Value| is_it(path, &inner));
            if is_found || self.find(&child.node, path, chain, is_it) {
                return true;
            }
            path.pop();
            chain.pop();
        }
        false
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn between(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// The white space that the line of this place begins with.
    fn indent(&self, at: usize) -> &str {
        let before = self.between(0, at);
        let line = before.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = self.between(line, self.text.len());
        let width = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        self.between(line, line + width)
    }

    fn insert(&self, parent: &Node, key: Option<&str>, value: &Value) -> String {
        let newline = if self.text.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        };
        let outer = self.indent(parent.start);
        let close = parent.end - 1;
        let first = parent.children.first().map(|child| child.start);
        // As the first child stands, if it has a line of its own.
        let inner = first.filter(|first| self.between(parent.start, *first).contains('\n'));
        let step = if outer.contains('\t') { "\t" } else { "  " };
        let inner = inner.map_or_else(
            || format!("{outer}{step}"),
            |first| self.indent(first).to_owned(),
        );
        let written = pretty(value, step_of(&inner, outer, step));
        let written = written.replace('\n', &format!("{newline}{inner}"));
        let key = key.map_or_else(String::new, |key| format!("{}: ", Value::from(key)));
        let end = parent
            .children
            .last()
            .map_or(parent.start + 1, |child| child.node.end);
        let has_comma = comma(self.text, end, close).is_some();
        let needs_comma = !parent.children.is_empty() && !has_comma;
        let tail = self.between(end, close);
        let space = tail.len() - tail.trim_end().len();
        let closing = if tail
            .get(tail.len() - space..)
            .unwrap_or_default()
            .contains('\n')
        {
            String::new()
        } else {
            format!("{newline}{outer}")
        };
        format!(
            "{}{}{}{newline}{inner}{key}{written}{closing}{}",
            self.between(0, end),
            if needs_comma { "," } else { "" },
            self.between(end, close - space),
            // The white space before a bracket on its own line stays.
            if closing.is_empty() {
                self.between(close - space, self.text.len())
            } else {
                self.between(close, self.text.len())
            },
        )
    }

    fn cut(&self, parent: &Node, place: usize) -> String {
        let Some(child) = parent.children.get(place) else {
            return self.text.to_owned();
        };
        let before = self.between(0, child.start);
        let start = before.trim_end_matches([' ', '\t']);
        let start = start
            .strip_suffix('\n')
            .map_or(start, |line| line.strip_suffix('\r').unwrap_or(line));
        let start = start.len();
        let limit = parent
            .children
            .get(place + 1)
            .map_or(parent.end - 1, |next| next.start);
        if let Some(comma) = comma(self.text, child.node.end, limit) {
            return format!(
                "{}{}{}",
                self.between(0, start),
                self.between(child.node.end, comma),
                self.between(comma + 1, self.text.len())
            );
        }
        let rest = self.between(child.node.end, self.text.len());
        let previous = place
            .checked_sub(1)
            .and_then(|place| parent.children.get(place));
        match previous.and_then(|previous| comma(self.text, previous.node.end, start)) {
            Some(comma) => format!(
                "{}{}{rest}",
                self.between(0, comma),
                self.between(comma + 1, start)
            ),
            None => format!("{}{rest}", self.between(0, start)),
        }
    }
}

/// A value over several lines, each level this much deeper.
fn pretty(value: &Value, step: &str) -> String {
    let mut out = Vec::new();
    let form = PrettyFormatter::with_indent(step.as_bytes());
    // Writing to memory does not fail.
    let written = value.serialize(&mut Serializer::with_formatter(&mut out, form));
    drop(written);
    String::from_utf8(out).unwrap_or_default()
}

/// How much deeper a level of the written value stands.
fn step_of<'a>(inner: &'a str, outer: &str, step: &'a str) -> &'a str {
    inner
        .strip_prefix(outer)
        .filter(|step| !step.is_empty())
        .unwrap_or(step)
}

/// Where the comma is between two places, outside of comments.
fn comma(text: &str, from: usize, to: usize) -> Option<usize> {
    let between = text.get(from..to)?;
    let blanked = blank_comments(between).ok()?;
    blanked.find(',').map(|at| from + at)
}

/// The text with comments as blanks, byte for byte as long.
fn blank_comments(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    let mut is_text = false;
    while let Some((&byte, after)) = rest.split_first() {
        let length = match (is_text, byte, after.first()) {
            (true, b'\\', Some(_)) => 2,
            (_, b'"', _) => {
                is_text = !is_text;
                1
            }
            (false, b'/', Some(b'/')) => {
                let end = rest
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .unwrap_or(rest.len());
                out.resize(out.len() + end, b' ');
                rest = rest.get(end..).unwrap_or_default();
                continue;
            }
            (false, b'/', Some(b'*')) => {
                let end = rest.windows(2).skip(2).position(|pair| pair == b"*/");
                let end = end.ok_or("a comment has no end")? + 4;
                let comment = rest.get(..end).unwrap_or_default();
                out.extend(
                    comment
                        .iter()
                        .map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }),
                );
                rest = rest.get(end..).unwrap_or_default();
                continue;
            }
            _ => 1,
        };
        out.extend(rest.iter().take(length));
        rest = rest.get(length..).unwrap_or_default();
    }
    String::from_utf8(out).map_err(|error| error.to_string())
}

/// The same without commas before closing brackets, and without a byte order mark.
fn blank(text: &str) -> Result<String, String> {
    let text = blank_comments(text)?;
    let mut out = text.into_bytes();
    if out.starts_with(b"\xef\xbb\xbf") {
        out.iter_mut().take(3).for_each(|byte| *byte = b' ');
    }
    let (mut is_text, mut is_escaped, mut last_comma) = (false, false, None);
    let mut commas = Vec::new();
    for (at, byte) in out.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => {
                is_text = !is_text;
                last_comma = None;
            }
            _ if is_text => {}
            b',' => last_comma = Some(at),
            b'}' | b']' => commas.extend(last_comma.take()),
            byte if byte.is_ascii_whitespace() => {}
            _ => last_comma = None,
        }
    }
    for comma in commas {
        if let Some(byte) = out.get_mut(comma) {
            *byte = b' ';
        }
    }
    String::from_utf8(out).map_err(|error| error.to_string())
}

/// Finds places in a text that a strict parser has accepted.
struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn skip(&self, from: usize) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        from + (rest.len() - rest.trim_start().len())
    }

    /// The value that begins here or after white space, and the place behind it.
    fn node(&self, from: usize, depth: usize) -> Option<(Node, usize)> {
        let start = self.skip(from);
        let bytes = self.text.as_bytes();
        let mut node = Node {
            start,
            end: start,
            children: Vec::new(),
        };
        let first = *bytes.get(start)?;
        if !matches!(first, b'{' | b'[') {
            node.end = self.scalar(start)?;
            let end = node.end;
            return Some((node, end));
        }
        if depth >= DEEPEST {
            return None;
        }
        let mut at = self.skip(start + 1);
        while !matches!(bytes.get(at)?, b'}' | b']') {
            let begins = at;
            let mut key = None;
            if first == b'{' {
                let end = self.scalar(at)?;
                key = serde_json::from_str(self.text.get(at..end)?).ok();
                // Behind the colon.
                at = self.skip(end) + 1;
            }
            let (child, end) = self.node(at, depth + 1)?;
            node.children.push(Child {
                start: begins,
                key,
                node: child,
            });
            at = self.skip(end);
            if bytes.get(at) == Some(&b',') {
                at = self.skip(at + 1);
            }
        }
        node.end = at + 1;
        Some((node, at + 1))
    }

    /// The end of a text, a number or a word that begins here.
    fn scalar(&self, start: usize) -> Option<usize> {
        let rest = self.text.as_bytes().get(start..)?;
        if rest.first() != Some(&b'"') {
            let length = rest.iter().position(|byte| {
                byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b']' | b':')
            });
            return Some(start + length.unwrap_or(rest.len()));
        }
        let mut is_escaped = false;
        for (at, byte) in rest.iter().enumerate().skip(1) {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => return Some(start + at + 1),
                _ => {}
            }
        }
        None
    }
}
