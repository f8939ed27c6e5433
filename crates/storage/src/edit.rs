//! Replacing texts in a file: exactly one place unless more were asked for, all edits or none.
//!
//! What goes wrong here goes wrong because an agent remembers a file otherwise than it is. So every reason says where the file differs.

use vocab::Label;

use crate::{
    Access, ErrorKind, FileError, Labelled, Stat, Version, Volume, VolumePath,
    read::{binary, count},
    replace::{Base, Change, read_at},
    text::Text,
    write::{MAX_HELD, check_version},
};

/// How much of a file a reason may quote.
const QUOTED: usize = 2 << 10;
/// How much of a change is shown.
const SHOWN: usize = 8 << 10;
/// How many lines a reason names.
const LINES: usize = 20;
/// How much text all edits of a call go through together: a few seconds of work.
const MAX_WORK: u64 = 4 << 30;
/// The longest file in which the place that was meant is looked for. Above it that costs more memory and time than it helps.
const MAX_COMPARED: usize = 4 << 20;
/// How many pairs of lines are compared for that.
const MAX_PAIRS: u64 = 10_000_000;

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
            let (stat, own, content, text) = self.editable(access, path, options, seen)?;
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
                let label = self.labels.of(stat.id).join(&own).join(access.label);
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

    /// The file with its label, as that was before it was opened.
    fn editable(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        options: EditOptions,
        seen: &mut Label,
    ) -> Result<(Stat, Label, Vec<u8>, Text), FileError> {
        let (opened, own) = self.open_with_label(access, path, seen)?;
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
            Some(text) => Ok((opened.stat, own, content, text)),
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
    let mut work: u64 = 0;
    for (index, edit) in edits.iter().enumerate() {
        work = work.saturating_add(length(&applied.text));
        if work > MAX_WORK {
            let says = format!(
                "{} edits of `{path}` are too many for one call; make fewer at once",
                edits.len()
            );
            return Err(FileError::new(ErrorKind::TooLarge, says));
        }
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
    let found = applied.text.matches(&target).count();
    let found = u64::try_from(found).unwrap_or(u64::MAX);
    let Some((_, line)) = places(&applied.text, &target).next() else {
        return no_match(nothing_found(path, &applied.text, &edit.target, stat));
    };
    let shown = || {
        let lines = places(&applied.text, &target).take(LINES);
        let shown: Vec<String> = lines.map(|(_, line)| line.to_string()).collect();
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
    check_growth(path, &applied.text, found, &target, &replacement)?;
    for place in places(&applied.text, &target) {
        if applied.diff.len() >= SHOWN {
            break;
        }
        show(
            &mut applied.diff,
            &applied.text,
            place,
            &target,
            &replacement,
        );
    }
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

/// Where a text is, and at which lines. Each line is counted once.
fn places(text: &str, target: &str) -> impl Iterator<Item = (usize, u64)> {
    let (mut counted, mut line) = (0, 1_u64);
    text.match_indices(target).map(move |(at, _)| {
        let between = text.as_bytes().get(counted..at).unwrap_or_default();
        let ends = memchr::memchr_iter(b'\n', between).count();
        line = line.saturating_add(u64::try_from(ends).unwrap_or(u64::MAX));
        counted = at;
        (at, line)
    })
}

/// Whether the text can be held once everything is replaced. One that is longer already, as its encoding takes less, may not grow.
fn check_growth(
    path: &VolumePath,
    text: &str,
    found: u64,
    target: &str,
    replacement: &str,
) -> Result<(), FileError> {
    let before = length(text);
    let then = || {
        let goes = found.checked_mul(length(target))?;
        let comes = found.checked_mul(length(replacement))?;
        before.checked_sub(goes)?.checked_add(comes)
    };
    if then().is_some_and(|then| then <= MAX_HELD.max(before)) {
        return Ok(());
    }
    let says = format!("`{path}` would be longer than {MAX_HELD} bytes");
    Err(FileError::new(ErrorKind::TooLarge, says))
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// Says where the file differs from what the agent remembers.
fn nothing_found(path: &VolumePath, text: &str, target: &str, stat: &Stat) -> String {
    let intro = format!("0 matches in `{path}` (version {})", stat.version());
    let pairs = count(text).saturating_mul(count(target));
    if text.len() > MAX_COMPARED || pairs > MAX_PAIRS {
        return format!("{intro}; read the part of it that is meant again");
    }
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = target.lines().collect();
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted_squeezed: Vec<String> = wanted.iter().map(|line| squeezed(line)).collect();
    let lines_squeezed: Vec<String> = lines.iter().map(|line| squeezed(line)).collect();
    let only_space = (!wanted.is_empty()).then(|| {
        lines_squeezed
            .windows(wanted.len())
            .position(|window| window == wanted_squeezed)
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
        let same: Vec<usize> = lines_squeezed
            .iter()
            .enumerate()
            .filter(|(_, line)| line.contains(telling.as_str()))
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
