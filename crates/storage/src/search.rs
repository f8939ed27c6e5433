//! Searching: lines by what they say, files by what they are called.

use std::io;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use crate::{
    Access, ErrorKind, FileError, Kind, Labelled, RowId, Volume, VolumePath,
    replace::read_at,
    text::is_binary,
    walk::{Go, Skipped, Visit, Walk, WalkOptions, Walked},
};

/// The largest file that is searched.
const MAX_FILE: u64 = 8 << 20;
/// The most that one search reads.
const MAX_READ: u64 = 512 << 20;
/// As much of a line as is shown.
const MAX_LINE: usize = 500;
/// A pattern may not become a larger program than this.
const MAX_PATTERN: usize = 8 << 20;
/// The longest pattern for names: as long as the longest path.
const MAX_GLOB: usize = 4096;
/// The most alternatives and classes that a pattern for names opens. They are compiled by recursion, and a stack that ends takes the gate
/// with it. Whether one is closed again depends on escapes and classes, so all count.
const MAX_OPENED: usize = 64;
/// The longest results of one search, in bytes of memory. More than this no agent reads.
const MAX_RESULTS: usize = 4 << 20;
/// What a result takes up beside its texts.
const ROW: usize = 64;
const TOO_LONG: &str = "its results are as long as they may be";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    #[default]
    Sensitive,
    Insensitive,
    /// Insensitive unless the pattern has an upper-case letter.
    Smart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    #[default]
    Content,
    Files,
    Count,
}

#[derive(Debug, Clone)]
pub struct GrepOptions {
    /// Only files with such names.
    pub glob: Option<String>,
    pub exclude: Option<String>,
    pub case: Case,
    /// The pattern is the text itself.
    pub fixed: bool,
    pub multiline: bool,
    pub before: usize,
    pub after: usize,
    pub output: Output,
    pub max_results: usize,
    /// Results to leave out, for who goes on.
    pub offset: usize,
    pub walk: WalkOptions,
}

/// A line, or one around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// From the searched directory on.
    pub file: String,
    pub line_number: u64,
    pub line: String,
    pub is_match: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grepped {
    pub lines: Vec<Line>,
    /// Each file with how many lines match in it.
    pub files: Vec<(String, u64)>,
    /// Matching lines that are given.
    pub count: u64,
    pub walked: Walked,
}

#[derive(Debug, Clone)]
pub struct GlobOptions {
    /// Newest first, instead of by path.
    pub by_time: bool,
    pub max_results: usize,
    /// Directories too.
    pub dirs: bool,
    pub walk: WalkOptions,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Globbed {
    /// From the searched directory on.
    pub paths: Vec<String>,
    pub walked: Walked,
}

impl Volume {
    pub fn grep(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        pattern: &str,
        options: &GrepOptions,
    ) -> Labelled<Grepped> {
        self.labelled(|seen| {
            let matcher = matcher(pattern, options)?;
            let only = options.glob.as_deref().map(globs).transpose()?;
            let except = options.exclude.as_deref().map(globs).transpose()?;
            let mut searcher = SearcherBuilder::new()
                .line_number(true)
                .multi_line(options.multiline)
                .before_context(options.before)
                .after_context(options.after)
                .build();
            let mut found = Grepped::default();
            let mut read: u64 = 0;
            let mut to_skip = options.offset;
            let mut held = 0;
            let walked = Walk::run(
                self,
                access,
                path,
                options.walk,
                seen,
                |visit, skipped, seen| {
                    if visit.stat.kind != Kind::File
                        || only.as_ref().is_some_and(|only| !only.is_match(visit.path))
                        || except
                            .as_ref()
                            .is_some_and(|except| except.is_match(visit.path))
                    {
                        return Ok(Go::On);
                    }
                    // Before it is read too: whoever replaces it meanwhile may end its label.
                    let label = self.labels.of(visit.stat.id);
                    let Some(content) = searchable(visit, skipped)? else {
                        return Ok(Go::On);
                    };
                    seen.join_in(&label);
                    self.labels.join_of(RowId::own(visit.stat.id), seen);
                    if is_binary(&content) {
                        skipped.binary += 1;
                        return Ok(Go::On);
                    }
                    read = read.saturating_add(visit.stat.size);
                    let mut sink = Collect {
                        file: visit.path,
                        options,
                        found: &mut found,
                        to_skip: &mut to_skip,
                        held: &mut held,
                        matches: 0,
                        is_full: false,
                    };
                    searcher
                        .search_slice(&matcher, &content, &mut sink)
                        .map_err(|error| FileError::new(ErrorKind::Broken, error.to_string()))?;
                    let (matches, is_full) = (sink.matches, sink.is_full);
                    if matches > 0 && options.output != Output::Content {
                        if to_skip > 0 {
                            to_skip -= 1;
                        } else {
                            found.files.push((visit.path.to_owned(), matches));
                            found.count += matches;
                            held += visit.path.len() + ROW;
                        }
                    }
                    Ok(if held > MAX_RESULTS {
                        Go::Stop(TOO_LONG)
                    } else if is_full || found.files.len() >= options.max_results {
                        Go::Stop("there are as many results as were asked for")
                    } else if read >= MAX_READ {
                        Go::Stop("it read as much as it may")
                    } else {
                        Go::On
                    })
                },
            )?;
            found.walked = walked;
            Ok(found)
        })
    }

    pub fn glob(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        pattern: &str,
        options: &GlobOptions,
    ) -> Labelled<Globbed> {
        self.labelled(|seen| {
            let matcher = globs(pattern)?;
            let mut found: Vec<(String, u64)> = Vec::new();
            let mut held = 0;
            let walked = Walk::run(self, access, path, options.walk, seen, |visit, _, seen| {
                let is_wanted = options.dirs || visit.stat.kind == Kind::File;
                if !is_wanted || !matcher.is_match(visit.path) {
                    return Ok(Go::On);
                }
                if options.by_time {
                    self.labels.join_of(RowId::own(visit.stat.id), seen);
                }
                found.push((visit.path.to_owned(), visit.stat.modified_ns));
                held += visit.path.len() + ROW;
                let is_full = !options.by_time && found.len() >= options.max_results;
                Ok(if held > MAX_RESULTS {
                    Go::Stop(TOO_LONG)
                } else if is_full {
                    Go::Stop("there are as many results as were asked for")
                } else {
                    Go::On
                })
            })?;
            if options.by_time {
                found.sort_by_key(|(_, modified)| std::cmp::Reverse(*modified));
                found.truncate(options.max_results);
            } else {
                found.sort_unstable();
            }
            Ok(Globbed {
                paths: found.into_iter().map(|(path, _)| path).collect(),
                walked,
            })
        })
    }
}

/// The content of a file that may be searched; one that may not is counted.
fn searchable(visit: &Visit<'_>, skipped: &mut Skipped) -> Result<Option<Vec<u8>>, FileError> {
    if visit.stat.size > MAX_FILE {
        skipped.large += 1;
        return Ok(None);
    }
    let Ok(Some(opened)) = visit.open() else {
        skipped.denied += 1;
        return Ok(None);
    };
    let length = usize::try_from(opened.stat.size.min(MAX_FILE)).unwrap_or(0);
    read_at(&opened.file, 0, length).map(Some)
}

fn matcher(pattern: &str, options: &GrepOptions) -> Result<RegexMatcher, FileError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(options.case == Case::Insensitive)
        .case_smart(options.case == Case::Smart)
        .fixed_strings(options.fixed)
        .multi_line(true)
        .dot_matches_new_line(options.multiline)
        .size_limit(MAX_PATTERN)
        .dfa_size_limit(MAX_PATTERN);
    if !options.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    let matcher = builder.build(pattern).map_err(|error| {
        let says = format!(
            "`pattern` is no regular expression: {error}; set `fixed` to look for the text itself"
        );
        FileError::new(ErrorKind::Invalid, says)
    })?;
    // An expression that is broken only once it is used would fail file by file.
    matcher
        .is_match(b"")
        .map_err(|error| FileError::new(ErrorKind::Invalid, error.to_string()))?;
    Ok(matcher)
}

fn globs(pattern: &str) -> Result<GlobSet, FileError> {
    let failed = |error: globset::Error| FileError::new(ErrorKind::Invalid, error.to_string());
    let mut set = GlobSetBuilder::new();
    set.add(compile(pattern)?);
    set.build().map_err(failed)
}

/// Whether a pattern for names may be compiled, whoever wrote it.
pub(crate) fn is_tame(pattern: &str) -> bool {
    let opened = pattern.bytes().filter(|byte| matches!(byte, b'{' | b'['));
    pattern.len() <= MAX_GLOB && opened.count() <= MAX_OPENED
}

/// `*` stays within a name, `**` does not; a pattern without a slash matches at any depth.
fn compile(pattern: &str) -> Result<globset::Glob, FileError> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if !is_tame(pattern) {
        let says = format!(
            "a pattern for names has at most {MAX_GLOB} bytes and {MAX_OPENED} times `{{` or `[`"
        );
        return Err(FileError::new(ErrorKind::Invalid, says));
    }
    let anywhere = format!("**/{pattern}");
    let pattern = if pattern.contains('/') {
        pattern
    } else {
        &anywhere
    };
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .empty_alternates(true)
        .build()
        .map_err(|error| {
            let says = format!("`{pattern}` is no pattern for names: {}", error.kind());
            FileError::new(ErrorKind::Invalid, says)
        })
}

struct Collect<'a> {
    file: &'a str,
    options: &'a GrepOptions,
    found: &'a mut Grepped,
    to_skip: &'a mut usize,
    /// How much all results of the search take up.
    held: &'a mut usize,
    matches: u64,
    is_full: bool,
}

impl Collect<'_> {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], is_match: bool) {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        for (number, line) in (number.unwrap_or_default()..).zip(lines) {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            // The last character that is shown may reach over the end.
            let line = line.get(..MAX_LINE + 4).unwrap_or(line);
            let mut text = String::from_utf8_lossy(line).into_owned();
            text.truncate(text.floor_char_boundary(MAX_LINE));
            text.shrink_to_fit();
            *self.held += self.file.len() + text.len() + ROW;
            self.found.lines.push(Line {
                file: self.file.to_owned(),
                line_number: number,
                line: text,
                is_match,
            });
            if *self.held > MAX_RESULTS {
                self.is_full = true;
                return;
            }
        }
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.matches += 1;
        match self.options.output {
            Output::Files => return Ok(false),
            Output::Count => return Ok(true),
            Output::Content => {}
        }
        if *self.to_skip > 0 {
            *self.to_skip -= 1;
            return Ok(true);
        }
        self.push(found.line_number(), found.bytes(), true);
        self.found.count += 1;
        self.is_full |=
            usize::try_from(self.found.count).is_ok_and(|count| count >= self.options.max_results);
        Ok(!self.is_full)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.options.output == Output::Content && *self.to_skip == 0 {
            self.push(found.line_number(), found.bytes(), false);
        }
        Ok(!self.is_full)
    }
}
