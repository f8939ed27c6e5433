//! The difference between two definitions, line by line, for a person to read.
//!
//! Both are written the same way, sorted and indented, so a difference in the lines is a difference in the values. Nothing in a line
//! can move a cursor or hide: control, invisible and direction-changing characters are spelled out.

use wire::Json;

/// Lines shown, and characters of each.
const MOST_LINES: usize = 200;
const LONGEST_LINE: usize = 160;
/// Above this many pairs of lines the two sides are shown one after the other.
const MOST_PAIRS: usize = 1 << 22;
const DEEPEST: usize = 128;

#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// Where it is: the names above it.
    place: String,
    text: String,
}

/// `@ where`, `- old` and `+ new` lines.
pub(super) fn lines(old: Json<'_>, new: Json<'_>) -> Vec<String> {
    let (old, new) = (pretty(old), pretty(new));
    let same_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (
        old.get(same_start..).unwrap_or_default(),
        new.get(same_start..).unwrap_or_default(),
    );
    let same_end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let old = old.get(..old.len() - same_end).unwrap_or_default();
    let new = new.get(..new.len() - same_end).unwrap_or_default();
    let mut out = Out {
        lines: Vec::new(),
        place: None,
        left_out: 0,
    };
    for (sign, line) in edits(old, new) {
        out.push(sign, line);
    }
    out.finish()
}

struct Out {
    lines: Vec<String>,
    place: Option<String>,
    left_out: usize,
}

impl Out {
    fn push(&mut self, sign: char, line: &Line) {
        if self.lines.len() >= MOST_LINES {
            self.left_out += 1;
            return;
        }
        if self.place.as_ref() != Some(&line.place) {
            self.lines.push(format!(
                "@ {}",
                if line.place.is_empty() {
                    "/"
                } else {
                    &line.place
                }
            ));
            self.place = Some(line.place.clone());
        }
        self.lines.push(format!("{sign} {}", line.text));
    }

    fn finish(mut self) -> Vec<String> {
        if self.left_out > 0 {
            self.lines
                .push(format!("@ and {} more lines", self.left_out));
        }
        self.lines
    }
}

/// The lines that only one side has, in order, old before new.
fn edits<'a>(old: &'a [Line], new: &'a [Line]) -> Vec<(char, &'a Line)> {
    if old.len().saturating_mul(new.len()) > MOST_PAIRS {
        return old
            .iter()
            .map(|line| ('-', line))
            .chain(new.iter().map(|line| ('+', line)))
            .collect();
    }
    // common[i][j]: how many lines the rests from i and from j have in common, in order.
    let width = new.len() + 1;
    let mut common = vec![0u16; (old.len() + 1) * width];
    let at =
        |common: &[u16], i: usize, j: usize| common.get(i * width + j).copied().unwrap_or_default();
    for (i, old_line) in old.iter().enumerate().rev() {
        for (j, new_line) in new.iter().enumerate().rev() {
            let best = if old_line == new_line {
                at(&common, i + 1, j + 1).saturating_add(1)
            } else {
                at(&common, i + 1, j).max(at(&common, i, j + 1))
            };
            if let Some(cell) = common.get_mut(i * width + j) {
                *cell = best;
            }
        }
    }
    let (mut i, mut j, mut edits) = (0, 0, Vec::new());
    loop {
        match (old.get(i), new.get(j)) {
            (Some(a), Some(b)) if a == b => (i, j) = (i + 1, j + 1),
            (Some(a), b) if b.is_none() || at(&common, i + 1, j) >= at(&common, i, j + 1) => {
                edits.push(('-', a));
                i += 1;
            }
            (_, Some(b)) => {
                edits.push(('+', b));
                j += 1;
            }
            _ => return edits,
        }
    }
}

fn pretty(json: Json<'_>) -> Vec<Line> {
    let canonical = wire::canonical(json);
    let mut out = Pretty(Vec::new());
    out.value("", 0, "", Json::checked_before(&canonical), DEEPEST);
    out.0
}

struct Pretty(Vec<Line>);

impl Pretty {
    /// Writes a value that has this name at this place.
    fn value(&mut self, place: &str, indent: usize, name: &str, json: Json<'_>, depth: usize) {
        let is_empty = json.fields().next().is_none() && json.items().next().is_none();
        if depth == 0 || is_empty {
            self.line(place, indent, &format!("{name}{}", json.text()));
            return;
        }
        let (open, close) = if json.is_object() {
            ("{", "}")
        } else {
            ("[", "]")
        };
        self.line(place, indent, &format!("{name}{open}"));
        for (name, field) in json.fields() {
            let quoted = String::from_utf8_lossy(&wire::write::quoted(&name)).into_owned();
            let inside = if field.is_object() || field.is_array() {
                format!("{place}/{}", visible(&name))
            } else {
                place.to_owned()
            };
            self.value(
                &inside,
                indent + 1,
                &format!("{quoted}: "),
                field,
                depth - 1,
            );
        }
        for item in json.items() {
            self.value(place, indent + 1, "", item, depth - 1);
        }
        self.line(place, indent, close);
    }

    /// Long texts take several lines, broken where they break themselves, so that a change deep inside is seen.
    fn line(&mut self, place: &str, indent: usize, text: &str) {
        let mut text = visible(text);
        let mut indent = "  ".repeat(indent);
        while !text.is_empty() {
            let own_break = text.find("\\n").map_or(text.len(), |at| at + 2);
            let longest = text
                .char_indices()
                .nth(LONGEST_LINE)
                .map_or(text.len(), |(at, _)| at);
            let rest = text.split_off(own_break.min(longest));
            self.0.push(Line {
                place: place.to_owned(),
                text: format!("{indent}{text}"),
            });
            text = rest;
            indent.push_str(if indent.ends_with('\u{b7}') {
                ""
            } else {
                "\u{b7}"
            });
        }
    }
}

/// A text in which every character can be seen.
fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let hidden = matches!(c, '\u{00A0}' | '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202F}' | '\u{205F}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}');
        if hidden || c.is_control() {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}
