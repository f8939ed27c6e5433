//! Reading a file: whole, by lines, from its end, or by bytes.

use std::{io::BufRead, ops::Range};

use crate::{
    Access, ErrorKind, FileError, Labelled, Version, Volume, VolumePath,
    beneath::Opened,
    replace::{io, read_at},
    text::{Encoding, Text, is_binary, line_end, recognise},
    write::MAX_HELD,
};

/// A file up to this length is given whole where nobody said how much.
const WHOLE: u64 = 256 << 10;
/// Lines that are given where nobody said how many.
const LINES: u64 = 2_000;
/// The most that one reading gives.
const MOST: usize = 512 << 10;
/// How much of a long file is passed to reach a line: a file may be longer than its disk, and all that time a thread reads.
const MAX_PASSED: u64 = 256 << 20;
/// The largest picture.
const MAX_PICTURE: u64 = 5 << 20;

/// What of a file is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    #[default]
    Whole,
    /// From this line on, counted from one.
    Lines {
        first: u64,
        most: Option<u64>,
    },
    /// The last lines.
    Tail(u64),
    Bytes {
        offset: u64,
        most: Option<u64>,
    },
}

/// As what it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum As {
    #[default]
    Text,
    /// The bytes themselves.
    Bytes,
    Picture,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Text(String),
    Bytes(Vec<u8>),
    Picture(Vec<u8>, &'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFile {
    pub content: Content,
    pub size_bytes: u64,
    pub version: Version,
    pub encoding: Option<Encoding>,
    pub line_end: Option<&'static str>,
    /// The lines that are given, where it is text that was read from its beginning.
    pub lines: Option<Range<u64>>,
    pub total_lines: Option<u64>,
    /// Where to go on: the next line, or the next byte where bytes were asked for.
    pub next_offset: Option<u64>,
}

impl ReadFile {
    fn new(opened: &Opened, content: Content) -> Self {
        Self {
            content,
            size_bytes: opened.stat.size,
            version: opened.stat.version(),
            encoding: None,
            line_end: None,
            lines: None,
            total_lines: None,
            next_offset: None,
        }
    }
}

impl Volume {
    pub fn read(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        part: Part,
        wanted: As,
    ) -> Labelled<ReadFile> {
        self.labelled(|seen| {
            let opened = self.open(access, path, seen)?;
            match (wanted, part) {
                (As::Picture, _) => picture(path, &opened),
                (As::Bytes, Part::Bytes { offset, most }) => bytes(&opened, offset, most),
                (As::Bytes, _) => bytes(&opened, 0, None),
                (As::Text, Part::Bytes { offset, most }) => text_bytes(path, &opened, offset, most),
                (As::Text, part) if opened.stat.size <= MAX_HELD => held(path, &opened, part),
                (As::Text, Part::Tail(lines)) => long_tail(path, &opened, lines),
                (As::Text, Part::Lines { first, most }) => long(path, &opened, first, most),
                (As::Text, Part::Whole) => long(path, &opened, 1, None),
            }
        })
    }
}

fn picture(path: &VolumePath, opened: &Opened) -> Result<ReadFile, FileError> {
    let start = read_at(&opened.file, 0, 16)?;
    let (name, media) = recognise(&start);
    let Some(media) = media else {
        let says = format!("`{path}` is {name}, not a picture");
        return Err(FileError::new(ErrorKind::WrongType, says));
    };
    if opened.stat.size > MAX_PICTURE {
        let says =
            format!("`{path}` is larger than a picture may be, which is {MAX_PICTURE} bytes");
        return Err(FileError::new(ErrorKind::TooLarge, says));
    }
    let content = read_at(
        &opened.file,
        0,
        usize::try_from(opened.stat.size).unwrap_or(0),
    )?;
    Ok(ReadFile::new(opened, Content::Picture(content, media)))
}

fn bytes(opened: &Opened, offset: u64, most: Option<u64>) -> Result<ReadFile, FileError> {
    let most = most
        .and_then(|most| usize::try_from(most).ok())
        .unwrap_or(MOST)
        .min(MOST);
    let left = usize::try_from(opened.stat.size.saturating_sub(offset)).unwrap_or(usize::MAX);
    let content = read_at(&opened.file, offset, most.min(left))?;
    let end = offset.saturating_add(u64::try_from(content.len()).unwrap_or(u64::MAX));
    Ok(ReadFile {
        next_offset: (end < opened.stat.size).then_some(end),
        ..ReadFile::new(opened, Content::Bytes(content))
    })
}

/// Bytes that are text; what is cut off at either end of a character is left out.
fn text_bytes(
    path: &VolumePath,
    opened: &Opened,
    offset: u64,
    most: Option<u64>,
) -> Result<ReadFile, FileError> {
    let read = bytes(opened, offset, most)?;
    let Content::Bytes(content) = read.content else {
        return Ok(read);
    };
    if is_binary(&content) {
        return Err(binary(path, opened)?);
    }
    let is_inside = |byte: &&u8| (0x80..0xc0).contains(*byte);
    let skipped = if offset == 0 {
        0
    } else {
        content.iter().take(3).take_while(is_inside).count()
    };
    let rest = content.get(skipped..).unwrap_or_default();
    let (text, encoding, cut) = match std::str::from_utf8(rest) {
        Ok(text) => (text.to_owned(), Encoding::Utf8, 0),
        Err(error) if error.error_len().is_none() => {
            let (whole, cut) = rest.split_at(error.valid_up_to());
            (
                String::from_utf8_lossy(whole).into_owned(),
                Encoding::Utf8,
                cut.len(),
            )
        }
        Err(_) => match Text::decode(&content) {
            Some(decoded) => (decoded.text, decoded.encoding, 0),
            None => return Err(binary(path, opened)?),
        },
    };
    let cut = u64::try_from(cut).unwrap_or(0);
    Ok(ReadFile {
        content: Content::Text(text),
        encoding: Some(encoding),
        next_offset: read.next_offset.map(|next| next.saturating_sub(cut)),
        ..read
    })
}

/// A file that fits into memory.
fn held(path: &VolumePath, opened: &Opened, part: Part) -> Result<ReadFile, FileError> {
    let length = usize::try_from(opened.stat.size).unwrap_or(0);
    let content = read_at(&opened.file, 0, length)?;
    let Some(Text { text, encoding }) = Text::decode(&content) else {
        return Err(binary(path, opened)?);
    };
    let total = count(&text);
    let (first, most) = match part {
        Part::Tail(lines) => (total.saturating_sub(lines).saturating_add(1), lines),
        Part::Lines { first, most } => (first.max(1), most.unwrap_or(LINES)),
        _ if opened.stat.size <= WHOLE => (1, u64::MAX),
        _ => (1, LINES),
    };
    if first > total.max(1) {
        let says = format!("`{path}` has {total} lines, and line {first} was asked for");
        return Err(FileError::new(ErrorKind::Invalid, says));
    }
    let mut taken = String::new();
    let mut last = first;
    let skipped = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
    for line in text.split_inclusive('\n').skip(skipped) {
        let is_enough = last.saturating_sub(first) >= most;
        if is_enough || (!taken.is_empty() && taken.len() + line.len() > MOST) {
            break;
        }
        taken.push_str(line);
        last += 1;
    }
    if taken.len() > MOST {
        return Err(long_line(path, last.saturating_sub(1)));
    }
    Ok(ReadFile {
        encoding: Some(encoding),
        line_end: Some(line_end(&text)),
        lines: Some(first..last),
        total_lines: Some(total),
        next_offset: (last <= total).then_some(last),
        ..ReadFile::new(opened, Content::Text(taken))
    })
}

/// A file that is too long to hold: lines are counted while they pass by.
fn long(
    path: &VolumePath,
    opened: &Opened,
    first: u64,
    most: Option<u64>,
) -> Result<ReadFile, FileError> {
    let start = read_at(&opened.file, 0, 8 << 10)?;
    if is_binary(&start) {
        return Err(binary(path, opened)?);
    }
    let (first, most) = (first.max(1), most.unwrap_or(LINES));
    let mut reader = std::io::BufReader::with_capacity(1 << 20, &opened.file);
    let mut at = 1;
    let mut passed: u64 = 0;
    while at < first {
        if passed > MAX_PASSED {
            let says = format!(
                "line {first} of `{path}` is more than {MAX_PASSED} bytes away; read it with `byte_offset` and `byte_limit`"
            );
            return Err(FileError::new(ErrorKind::TooLarge, says));
        }
        let held = reader.fill_buf().map_err(io)?;
        if held.is_empty() {
            let says = format!("`{path}` has fewer than {first} lines");
            return Err(FileError::new(ErrorKind::Invalid, says));
        }
        let used = match memchr::memchr(b'\n', held) {
            Some(end) => {
                at += 1;
                end + 1
            }
            None => held.len(),
        };
        passed = passed.saturating_add(u64::try_from(used).unwrap_or(u64::MAX));
        reader.consume(used);
    }
    let mut taken: Vec<u8> = Vec::new();
    let mut last = first;
    let mut is_over = false;
    while last.saturating_sub(first) < most {
        let before = taken.len();
        let limit = u64::try_from(MOST - before.min(MOST) + 1).unwrap_or(0);
        let read = std::io::Read::take(&mut reader, limit)
            .read_until(b'\n', &mut taken)
            .map_err(io)?;
        is_over = read == 0;
        if taken.len() > MOST {
            taken.truncate(before);
            if before == 0 {
                return Err(long_line(path, last));
            }
            break;
        }
        if is_over {
            break;
        }
        last += 1;
    }
    let (text, encoding) = text_of(taken);
    Ok(ReadFile {
        encoding: Some(encoding),
        line_end: Some(line_end(&text)),
        lines: Some(first..last),
        next_offset: (!is_over).then_some(last),
        ..ReadFile::new(opened, Content::Text(text))
    })
}

fn long_tail(path: &VolumePath, opened: &Opened, lines: u64) -> Result<ReadFile, FileError> {
    let length = MOST;
    let offset = opened
        .stat
        .size
        .saturating_sub(u64::try_from(length).unwrap_or(0));
    let content = read_at(&opened.file, offset, length)?;
    if is_binary(&content) {
        return Err(binary(path, opened)?);
    }
    let wanted = usize::try_from(lines).unwrap_or(usize::MAX);
    let body = content.strip_suffix(b"\n").unwrap_or(&content);
    let mut ends = memchr::memrchr_iter(b'\n', body);
    let from = wanted.checked_sub(1).and_then(|skip| ends.nth(skip));
    // The first line in sight may be cut.
    let from = from
        .or_else(|| memchr::memchr(b'\n', &content))
        .map_or(0, |end| end + 1);
    let (text, encoding) = text_of(content.get(from..).unwrap_or_default().to_vec());
    Ok(ReadFile {
        encoding: Some(encoding),
        line_end: Some(line_end(&text)),
        ..ReadFile::new(opened, Content::Text(text))
    })
}

fn text_of(bytes: Vec<u8>) -> (String, Encoding) {
    String::from_utf8(bytes).map_or_else(
        |error| match Text::decode(error.as_bytes()) {
            Some(Text { text, encoding }) => (text, encoding),
            None => (
                String::from_utf8_lossy(error.as_bytes()).into_owned(),
                Encoding::Utf8,
            ),
        },
        |text| (text, Encoding::Utf8),
    )
}

/// How many lines there are; a last one without an end counts.
pub(crate) fn count(text: &str) -> u64 {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let open = usize::from(!text.is_empty() && !text.ends_with('\n'));
    u64::try_from(ends + open).unwrap_or(u64::MAX)
}

fn long_line(path: &VolumePath, line: u64) -> FileError {
    let says = format!(
        "line {line} of `{path}` is longer than {MOST} bytes; read it with `byte_offset` and `byte_limit`"
    );
    FileError::new(ErrorKind::TooLarge, says)
}

/// Why bytes were not read as text, and how to read them.
pub(crate) fn binary(path: &VolumePath, opened: &Opened) -> Result<FileError, FileError> {
    let start = read_at(&opened.file, 0, 16)?;
    let (name, media) = recognise(&start);
    let how = if media.is_some() {
        "`as: image` or `as: base64`"
    } else {
        "`as: base64`"
    };
    let says = format!(
        "`{path}` is {name}, {} bytes; read it with {how}",
        opened.stat.size
    );
    Ok(FileError::new(ErrorKind::WrongType, says))
}
