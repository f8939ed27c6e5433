//! How the tools for files answer: the text that people know from such tools, and the same with details for programs.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use storage::{
    Access, Content, Edited, Entry, ErrorKind, FileError, Globbed, Grepped, Kind, Labelled,
    ListOptions, Listed, Output, Part, ReadFile, Volume, VolumePath, Walked, Written,
};
use vocab::ErrorCode;
use wire::write::{self, Object};

use super::asked::{Asked, Operation};
use crate::volumes::Held;

/// A result before it is JSON.
pub(super) struct Told {
    text: String,
    /// A picture: its bytes and its media type.
    picture: Option<(Vec<u8>, &'static str)>,
    structured: Object,
}

impl Told {
    fn new(text: String, path: &str) -> Self {
        let mut structured = Object::new();
        structured.str("status", "success").str("path", path);
        Self {
            text,
            picture: None,
            structured,
        }
    }

    pub(super) fn result(self) -> Vec<u8> {
        let mut content = Object::new();
        match &self.picture {
            Some((bytes, media)) => content
                .str("type", "image")
                .str("data", &STANDARD.encode(bytes))
                .str("mimeType", media),
            None => content.str("type", "text").str("text", &self.text),
        };
        let mut out = Object::new();
        out.raw("content", &array(&[content.finish()]))
            .raw("structuredContent", &self.structured.finish());
        out.finish()
    }
}

fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [b"[", items.join(&b","[..]).as_slice(), b"]"].concat()
}

/// An error that an agent can act on.
pub(super) fn error(error: &FileError) -> Vec<u8> {
    let code = match error.kind {
        ErrorKind::NotFound => ErrorCode::NotFound,
        ErrorKind::ReadOnly | ErrorKind::NotAllowed => ErrorCode::PermissionDenied,
        _ => ErrorCode::InvalidInput,
    };
    let text = format!("{}: {}", error.kind.code(), error.says);
    let mut envelope = Object::new();
    envelope
        .str("status", "error")
        .str("error_code", code.as_str())
        .str("error", &text)
        .str("code", error.kind.code());
    let mut content = Object::new();
    content.str("type", "text").str("text", &text);
    let mut out = Object::new();
    out.raw("content", &array(&[content.finish()]))
        .raw("structuredContent", &envelope.finish())
        .bool("isError", true);
    out.finish()
}

/// A list above all volumes: where they are.
pub(super) fn places(asked: &str, places: &[String]) -> Result<Told, FileError> {
    let inside = |place: &String| {
        let rest = place.strip_prefix(asked.trim_end_matches('/'))?;
        rest.strip_prefix('/')?.split('/').next().map(str::to_owned)
    };
    let mut inside: Vec<String> = places.iter().filter_map(inside).collect();
    inside.sort_unstable();
    inside.dedup();
    if inside.is_empty() {
        let says = match places {
            [] => format!("there is no `{asked}`: no volume is for this caller"),
            places => format!(
                "there is no `{asked}`; files are beneath {}",
                places.join(", ")
            ),
        };
        return Err(FileError::new(ErrorKind::NotFound, says));
    }
    let lines: Vec<String> = inside.iter().map(|name| format!("{name}/")).collect();
    let mut told = Told::new(lines.join("\n"), asked);
    let entry = |name: &String| {
        let mut out = Object::new();
        out.str("name", name).str("file_type", "directory");
        out.finish()
    };
    let entries: Vec<Vec<u8>> = inside.iter().map(entry).collect();
    told.structured.raw("entries", &array(&entries));
    Ok(told)
}

/// Opens a file for who has its volume mounted; `None`: that is done by the call itself.
pub(super) fn opened(
    volume: &Volume,
    access: Access<'_>,
    path: &VolumePath,
    asked: &Asked,
    held: &Held,
) -> Option<Labelled<Told>> {
    let place = held.shown(path);
    let told_so = |what: &str| Told::new(format!("Opened {place} for {what}"), &place);
    Some(match &asked.operation {
        Operation::Read { .. } => told(volume.node(access, path), |_| told_so("reading")),
        Operation::Write(_, options) if !options.create_only => {
            told(volume.claim(access, path), |()| told_so("writing"))
        }
        Operation::List(_) => {
            let one = ListOptions {
                limit: 1,
                ..ListOptions::default()
            };
            told(volume.list(access, path, &one), |_| told_so("listing"))
        }
        _ => return None,
    })
}

/// Carries out what was asked on one volume.
pub(super) fn run(
    volume: &Volume,
    access: Access<'_>,
    (path, to): (&VolumePath, &VolumePath),
    asked: &Asked,
    held: &Held,
) -> Labelled<Told> {
    let place = held.shown(path);
    match &asked.operation {
        Operation::Read {
            part,
            wanted,
            numbers,
        } => {
            let done = volume.read(access, path, *part, *wanted);
            let label = done.label.mark.to_string();
            told(done, |file| read(&place, file, *part, *numbers, &label))
        }
        Operation::Write(content, options) => {
            let done = volume.write(access, path, content.as_bytes(), *options);
            told(done, |done| written("Wrote", &place, done))
        }
        Operation::CreateDir => told(volume.create_dir(access, path), |made| {
            let text = if made {
                format!("Created {place}")
            } else {
                format!("{place} exists already")
            };
            let mut told = Told::new(text, &place);
            told.structured.bool("created", made);
            told
        }),
        Operation::Delete(options) => told(volume.delete(access, path, *options), |deleted| {
            let more = match deleted.entries {
                0 | 1 => String::new(),
                entries => format!(", {entries} entries in all"),
            };
            let mut told = Told::new(format!("Deleted {place}{more}"), &place);
            told.structured.u64("entries", deleted.entries);
            told
        }),
        Operation::Edit(edits, options) => {
            let done = volume.edit(access, path, edits, *options);
            told(done, |done| edited(&place, &done, options.dry_run))
        }
        Operation::List(options) => told(volume.list(access, path, options), |done| {
            listed(&place, &done, options.details)
        }),
        Operation::Grep(pattern, options) => {
            let done = volume.grep(access, path, pattern, options);
            let about = volume.stat(access, path).result;
            // What is found in one file is told beneath the directory that it is in.
            let is_file = about.is_ok_and(|entry| entry.stat.kind == Kind::File);
            let above = place.rsplit_once('/').filter(|_| is_file);
            let base = above.map_or(place.as_str(), |(above, _)| above);
            told(done, |done| grepped(base, &done, options.output))
        }
        Operation::Glob(pattern, options) => {
            let done = volume.glob(access, path, pattern, options);
            told(done, |done| globbed(&place, &done))
        }
        Operation::Stat => told(volume.stat(access, path), |entry| {
            let (kind, size) = (entry.stat.kind.as_str(), entry.stat.size);
            let version = entry.stat.version();
            let text = format!("{place}: {kind}, {size} bytes, version {version}");
            let mut told = Told::new(text, &place);
            details(&mut told.structured, &entry);
            told
        }),
        Operation::Move(options) => told(volume.rename(access, path, to, *options), |version| {
            let goal = held.shown(to);
            let mut told = Told::new(format!("Moved {place} to {goal}"), &place);
            told.structured
                .str("destination", &goal)
                .str("version", &version.to_string());
            told
        }),
        Operation::Copy { overwrite } => {
            let done = volume.copy(access, path, to, *overwrite);
            told(done, |done| written("Copied", &held.shown(to), done))
        }
    }
}

fn told<T>(done: Labelled<T>, tell: impl FnOnce(T) -> Told) -> Labelled<Told> {
    Labelled {
        result: done.result.map(tell),
        label: done.label,
    }
}

fn read(place: &str, file: ReadFile, part: Part, numbers: bool, label: &str) -> Told {
    let mut told = Told::new(String::new(), place);
    match file.content {
        Content::Text(text) => {
            let first = file.lines.as_ref().map_or(1, |lines| lines.start);
            told.text = if numbers {
                numbered(&text, first)
            } else {
                text
            };
            told.structured.str("content", &told.text);
        }
        Content::Bytes(bytes) => {
            told.text = STANDARD.encode(bytes);
            told.structured
                .str("content", &told.text)
                .str("encoding", "base64");
        }
        Content::Picture(bytes, media) => {
            told.structured.str("mime_type", media);
            told.picture = Some((bytes, media));
        }
    }
    let out = &mut told.structured;
    out.u64("size_bytes", file.size_bytes)
        .str("version", &file.version.to_string());
    if let Some(encoding) = file.encoding {
        out.str("encoding", encoding.as_str());
    }
    if let Some(line_end) = file.line_end {
        out.str("eol", line_end);
    }
    if let Some(lines) = &file.lines {
        out.u64("first_line", lines.start)
            .u64("last_line", lines.end.saturating_sub(1));
    }
    if let Some(total) = file.total_lines {
        out.u64("total_lines", total);
    }
    out.bool("truncated", file.next_offset.is_some());
    if let Some(next) = file.next_offset {
        out.u64("next_offset", next);
        // Whoever asked for a part knows that it is one.
        if part == Part::Whole {
            let cut = format!("\n[cut here; go on with offset {next}]");
            told.text.push_str(&cut);
        }
    }
    told.structured.str("label", label);
    told
}

fn numbered(text: &str, first: u64) -> String {
    let lines = (first..).zip(text.lines());
    lines
        .map(|(number, line)| format!("{number:>6}\t{line}\n"))
        .collect()
}

pub(super) fn written(verb: &str, place: &str, written: Written) -> Told {
    let text = format!("{verb} {} bytes to {place}", written.bytes_written);
    let mut told = Told::new(text, place);
    told.structured
        .bool("success", true)
        .u64("bytes_written", written.bytes_written)
        .bool("created", written.created)
        .str("version", &written.version.to_string());
    told
}

fn edited(place: &str, done: &Edited, is_dry: bool) -> Told {
    let verb = if is_dry { "Would edit" } else { "Edited" };
    let times = match done.replacements {
        1 => "1 replacement".to_owned(),
        times => format!("{times} replacements"),
    };
    let (line, diff) = (done.first_line, done.diff.trim_end());
    let text = format!("{verb} {place}: {times}, first at line {line}\n{diff}");
    let mut told = Told::new(text, place);
    told.structured
        .u64("replacements", done.replacements)
        .u64("first_line", done.first_line)
        .str("diff", &done.diff)
        .u64("bytes_written", done.bytes_written)
        .str("version", &done.version.to_string());
    told
}

fn details(out: &mut Object, entry: &Entry) {
    out.str("file_type", entry.stat.kind.as_str())
        .u64("size_bytes", entry.stat.size)
        .u64("modified_ms", entry.stat.modified_ns / 1_000_000)
        .str("version", &entry.stat.version().to_string())
        .str("label", &entry.label.mark.to_string());
}

fn listed(place: &str, done: &Listed, with_details: bool) -> Told {
    let line = |entry: &Entry| match entry.stat.kind {
        Kind::Directory => format!("{}/", entry.path),
        _ => entry.path.clone(),
    };
    let mut lines: Vec<String> = done.entries.iter().map(line).collect();
    let object = |entry: &Entry| {
        let mut out = Object::new();
        out.str("name", &entry.path);
        if with_details {
            details(&mut out, entry);
        } else {
            out.str("file_type", entry.stat.kind.as_str());
        }
        if !entry.is_addressable {
            out.bool("addressable", false);
        }
        out.finish()
    };
    let entries: Vec<Vec<u8>> = done.entries.iter().map(object).collect();
    if let Some(next) = &done.next {
        lines.push(format!("[cut here; go on with cursor {next}]"));
    }
    let mut told = Told::new(lines.join("\n"), place);
    told.structured.raw("entries", &array(&entries));
    if let Some(next) = &done.next {
        told.structured.str("next_cursor", next);
    }
    told
}

fn walked(out: &mut Object, walked: &Walked) {
    out.u64("files_searched", walked.files)
        .object("skipped", |out| {
            out.u64("binary", walked.skipped.binary)
                .u64("ignored", walked.skipped.ignored)
                .u64("large", walked.skipped.large)
                .u64("label", walked.skipped.label)
                .u64("denied", walked.skipped.denied);
        });
    out.bool("partial", walked.why.is_some());
    if let Some(why) = walked.why {
        out.str("why", why);
    }
}

fn grepped(base: &str, done: &Grepped, output: Output) -> Told {
    let line = |line: &storage::Line| {
        let mark = if line.is_match { ':' } else { '-' };
        let (file, number) = (&line.file, line.line_number);
        format!("{base}/{file}{mark}{number}{mark}{}", line.line)
    };
    let mut lines: Vec<String> = match output {
        Output::Content => done.lines.iter().map(line).collect(),
        Output::Files => {
            let files = done.files.iter();
            files.map(|(file, _)| format!("{base}/{file}")).collect()
        }
        Output::Count => {
            let files = done.files.iter();
            files
                .map(|(file, count)| format!("{base}/{file}:{count}"))
                .collect()
        }
    };
    if lines.is_empty() {
        lines.push("No matches".to_owned());
    }
    if let Some(why) = done.walked.why {
        lines.push(format!("[not everything: {why}]"));
    }
    let mut told = Told::new(lines.join("\n"), base);
    let object = |line: &storage::Line| {
        let mut out = Object::new();
        out.str("file", &format!("{base}/{}", line.file))
            .u64("line_number", line.line_number)
            .str("line", &line.line);
        out.finish()
    };
    let matches = done.lines.iter().filter(|line| line.is_match);
    let matches: Vec<Vec<u8>> = matches.map(object).collect();
    told.structured
        .raw("matches", &array(&matches))
        .u64("count", done.count);
    if output != Output::Content {
        let object = |(file, count): &(String, u64)| {
            let mut out = Object::new();
            out.str("file", &format!("{base}/{file}"))
                .u64("count", *count);
            out.finish()
        };
        let files: Vec<Vec<u8>> = done.files.iter().map(object).collect();
        told.structured.raw("files", &array(&files));
    }
    walked(&mut told.structured, &done.walked);
    told
}

fn globbed(place: &str, done: &Globbed) -> Told {
    let mut told = Told::new(done.paths.join("\n"), place);
    let paths: Vec<Vec<u8>> = done.paths.iter().map(|path| write::quoted(path)).collect();
    let count = u64::try_from(paths.len()).unwrap_or(u64::MAX);
    told.structured
        .raw("matches", &array(&paths))
        .u64("count", count);
    walked(&mut told.structured, &done.walked);
    told
}
