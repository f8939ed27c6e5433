//! Replacing texts in a file: exactly one place unless more were asked for, all edits or none.
//!
//! What goes wrong here goes wrong because an agent remembers a file otherwise than it is. So every reason says where the file differs.

use vocab::Label;

use crate::{
    Access, ErrorKind, FileError, Labelled, Stat, Version, Volume, VolumePath,
    read::binary,
    replace::{Base, Change, read_at},
    text::Text,
    write::{MAX_HELD, check_version},
};

/// How much of a file a reason may quote.
const QUOTED: usize = 2 << 10;
/// How much of a change is shown.
const SHOWN: usize = 8 << 10;

/// One text that takes another's place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edit {
    pub target: String,
    pub replacement: String,
    /// Everywhere, not in exactly one place.
    pub replace_all: bool,
    /// In exactly so many places.
    pub expected: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct EditOptions {
    pub if_version: Option<Version>,
    /// Only show what would change.
    pub dry_run: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub replacements: u64,
    /// The first line that changed.
    pub first_line: u64,
    /// The lines that went and came, as far as they are few.
    pub diff: String,
    pub version: Version,
    pub bytes_written: u64,
}

impl Volume {
    pub fn edit(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        edits: &[Edit],
        options: EditOptions,
    ) -> Labelled<Edited> {
        self.labelled(|seen| {
            self.check_writable()?;
            let _lock = self.lock(path);
            let (stat, content, text) = self.editable(access, path, options, seen)?;
            let mut applied = apply(path, &text.text, edits, &stat)?;
            let content_now = Text::encode(&applied.text, text.encoding).map_err(|c| {
                let says = format!(
                    "`{path}` is {}, which has no `{c}`; write the whole file with fs.write to make it UTF-8",
                    text.encoding.as_str()
                );
                FileError::new(ErrorKind::Invalid, says)
            })?;
            let length = u64::try_from(content_now.len()).unwrap_or(u64::MAX);
            if length > MAX_HELD {
                let says = format!("`{path}` would be longer than {MAX_HELD} bytes");
                return Err(FileError::new(ErrorKind::TooLarge, says));
            }
            let mut version = stat.version();
            if !options.dry_run {
                // What stays of the file keeps its label.
                let label = self.labels.of(stat.id).join(access.label);
                let change = Change {
                    content: &content_now,
                    label: &label,
                    base: Base::Content(&stat, &content),
                    executable: false,
                };
                let found = self.find(access, path, true, seen)?;
                version = self.put(path, &found, change)?.stat.version();
            }
            applied.diff.truncate(applied.diff.floor_char_boundary(SHOWN));
            Ok(Edited {
                replacements: applied.replacements,
                first_line: applied.first_line,
                diff: applied.diff,
                version,
                bytes_written: length,
            })
        })
    }

    fn editable(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        options: EditOptions,
        seen: &mut Label,
    ) -> Result<(Stat, Vec<u8>, Text), FileError> {
        let opened = self.open(access, path, seen)?;
        if let Some(wanted) = options.if_version {
            check_version(path, &opened.stat, wanted)?;
        }
        if opened.stat.size > MAX_HELD {
            let says = format!(
                "`{path}` is longer than the {MAX_HELD} bytes that can be edited; read a part of it with `byte_offset`, and write parts to files of their own"
            );
            return Err(FileError::new(ErrorKind::TooLarge, says));
        }
        let content = read_at(
            &opened.file,
            0,
            usize::try_from(opened.stat.size).unwrap_or(0),
        )?;
        match Text::decode(&content) {
            Some(text) => Ok((opened.stat, content, text)),
            None => Err(binary(path, &opened)?),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(crate) text: String,
    pub(crate) replacements: u64,
    pub(crate) first_line: u64,
    pub(crate) diff: String,
}

/// Makes all edits one after the other.
fn apply(path: &VolumePath, text: &str, edits: &[Edit], stat: &Stat) -> Result<Applied, FileError> {
    if edits.is_empty() {
        let says = "there is no edit in `edits`".to_owned();
        return Err(FileError::new(ErrorKind::Invalid, says));
    }
    let mut applied = Applied {
        text: text.to_owned(),
        ..Applied::default()
    };
    for (index, edit) in edits.iter().enumerate() {
        apply_one(path, &mut applied, edit, stat).map_err(|mut error| {
            if edits.len() > 1 {
                error.says = format!(
                    "edit {} of {}: {}. Nothing was changed",
                    index + 1,
                    edits.len(),
                    error.says
                );
            }
            error
        })?;
    }
    Ok(applied)
}

fn apply_one(
    path: &VolumePath,
    applied: &mut Applied,
    edit: &Edit,
    stat: &Stat,
) -> Result<(), FileError> {
    let no_match = |says: String| Err(FileError::new(ErrorKind::NoMatch, says));
    if edit.target.is_empty() {
        let says = "`target_content` is empty; write a new file with fs.create".to_owned();
        return Err(FileError::new(ErrorKind::Invalid, says));
    }
    if edit.target == edit.replacement {
        let says = "the two texts are equal: nothing to change".to_owned();
        return Err(FileError::new(ErrorKind::Invalid, says));
    }
    let (mut target, mut replacement) = (edit.target.clone(), edit.replacement.clone());
    if !applied.text.contains(&target) && !target.contains('\r') && applied.text.contains("\r\n") {
        // Agents write line feeds, whatever the file has.
        target = target.replace('\n', "\r\n");
        replacement = replacement.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    let places: Vec<usize> = applied
        .text
        .match_indices(&target)
        .map(|(at, _)| at)
        .collect();
    let Some(first) = places.first().copied() else {
        return no_match(nothing_found(path, &applied.text, &edit.target, stat));
    };
    let lines: Vec<u64> = places
        .iter()
        .map(|at| line_at(&applied.text, *at))
        .collect();
    let found = u64::try_from(places.len()).unwrap_or(u64::MAX);
    let shown = || {
        let shown: Vec<String> = lines.iter().take(20).map(u64::to_string).collect();
        shown.join(", ")
    };
    match edit.expected {
        Some(expected) if expected != found => {
            return no_match(format!(
                "{found} matches in `{path}`, at lines {}, and {expected} were expected",
                shown()
            ));
        }
        None if found > 1 && !edit.replace_all => {
            return no_match(format!(
                "{found} matches in `{path}`, at lines {}: add lines around it, or set `replace_all`",
                shown()
            ));
        }
        _ => {}
    }
    for (at, line) in places.iter().zip(&lines) {
        if applied.diff.len() < SHOWN {
            show(
                &mut applied.diff,
                &applied.text,
                (*at, *line),
                &target,
                &replacement,
            );
        }
    }
    let line = line_at(&applied.text, first);
    applied.text = applied.text.replace(&target, &replacement);
    applied.first_line = match applied.replacements {
        0 => line,
        _ => applied.first_line.min(line),
    };
    applied.replacements += found;
    Ok(())
}

/// The lines that go and those that come, whole.
fn show(diff: &mut String, text: &str, (at, line): (usize, u64), target: &str, replacement: &str) {
    let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let head = before.get(start..).unwrap_or_default();
    let tail = rest.get(target.len()..).unwrap_or_default();
    // A text that ends with its line takes nothing of the next one along.
    let ends = target.ends_with('\n') && (replacement.ends_with('\n') || replacement.is_empty());
    let tail = if ends {
        ""
    } else {
        tail.split('\n').next().unwrap_or_default()
    };
    let old = format!("{head}{target}{tail}");
    let new = format!("{head}{replacement}{tail}");
    diff.push_str(&format!("@@ line {line} @@\n"));
    for (sign, side) in [('-', &old), ('+', &new)] {
        for line in side.lines() {
            diff.push(sign);
            diff.push_str(line);
            diff.push('\n');
        }
    }
}

pub(crate) fn line_at(text: &str, at: usize) -> u64 {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    u64::try_from(memchr::memchr_iter(b'\n', before).count()).unwrap_or(u64::MAX) + 1
}

/// Says where the file differs from what the agent remembers.
fn nothing_found(path: &VolumePath, text: &str, target: &str, stat: &Stat) -> String {
    let intro = format!("0 matches in `{path}` (version {})", stat.version());
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = target.lines().collect();
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted_squeezed: Vec<String> = wanted.iter().map(|line| squeezed(line)).collect();
    let only_space = (!wanted.is_empty()).then(|| {
        lines.windows(wanted.len()).position(|window| {
            window
                .iter()
                .zip(&wanted_squeezed)
                .all(|(line, wanted)| squeezed(line) == *wanted)
        })
    });
    if let Some(Some(at)) = only_space {
        let quoted = quote(&lines, at, wanted.len());
        return format!(
            "{intro}. Lines {}–{} differ only in whitespace:\n{quoted}",
            at + 1,
            at + wanted.len()
        );
    }
    let telling = wanted_squeezed.iter().find(|line| line.len() > 3);
    if let Some(telling) = telling {
        let same: Vec<usize> = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| squeezed(line).contains(telling.as_str()))
            .map(|(at, _)| at)
            .take(5)
            .collect();
        if let Some(at) = same.first() {
            let shown: Vec<String> = same.iter().map(|at| (at + 1).to_string()).collect();
            let quoted = quote(&lines, *at, wanted.len());
            return format!(
                "{intro}. A line of it is at line {}, and what follows differs:\n{quoted}",
                shown.join(", ")
            );
        }
    }
    match nearest(&lines, &wanted_squeezed) {
        Some(at) => {
            let quoted = quote(&lines, at, wanted.len());
            format!(
                "{intro}. Nearest to it are lines {}–{}:\n{quoted}",
                at + 1,
                at + wanted.len()
            )
        }
        None => format!("{intro}; read the file again"),
    }
}

/// Where the most words of the target stand together.
fn nearest(lines: &[&str], wanted: &[String]) -> Option<usize> {
    /// More lines than this are not compared.
    const MOST: usize = 20_000;
    let words: std::collections::HashSet<&str> = wanted
        .iter()
        .flat_map(|line| line.split_whitespace())
        .take(200)
        .collect();
    if words.is_empty() {
        return None;
    }
    let score = |line: &&str| {
        line.split_whitespace()
            .filter(|word| words.contains(word))
            .count()
    };
    let scores: Vec<usize> = lines.iter().take(MOST).map(score).collect();
    let best = scores
        .windows(wanted.len().max(1).min(scores.len().max(1)))
        .enumerate()
        .max_by_key(|(at, window)| (window.iter().sum::<usize>(), std::cmp::Reverse(*at)));
    let (at, window) = best?;
    (window.iter().sum::<usize>() * 2 >= words.len()).then_some(at)
}

fn quote(lines: &[&str], at: usize, count: usize) -> String {
    let mut quoted = String::new();
    for (number, line) in (1..).zip(lines).skip(at).take(count.clamp(1, 40)) {
        let room = QUOTED.saturating_sub(quoted.len());
        let line = line
            .get(..line.floor_char_boundary(room))
            .unwrap_or_default();
        quoted.push_str(&format!("{number}\t{line}\n"));
        if quoted.len() >= QUOTED {
            break;
        }
    }
    quoted
}
