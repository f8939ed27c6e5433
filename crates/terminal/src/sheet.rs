//! The last look at what the program writes: nothing in it makes a terminal do anything but show text, in the program's own colours.
//!
//! Whoever renders text tames it already. This stands behind all of them, and behind messages that were made elsewhere.
//!
//! **Invariant: nothing foreign is obeyed by a terminal.** Tests
//! `nothing_a_server_says_is_obeyed_and_its_error_is_the_servers`,
//! `escaping_changes_no_meaning_and_leaves_nothing_to_obey`.

use std::{
    borrow::Cow,
    io::{self, StdoutLock, Write},
};

use crate::style::is_hidden;

/// Home, then clear to the end: what a screen that is redrawn in place begins with.
pub const REDRAW: &str = "\u{1b}[H\u{1b}[J";

fn is_obeyed(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t')) || is_hidden(c)
}

/// Text in which a mark stands for everything that a terminal would obey or that hides itself. Colours stay where there are any.
#[must_use]
pub fn harmless(text: &str, colored: bool) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let paint = if colored { paint_at(rest) } else { None };
        let (kept, taken) = match paint {
            Some(paint) => (Some(paint), paint.len()),
            None => (None, c.len_utf8()),
        };
        match kept {
            Some(paint) => out.push_str(paint),
            None => out.push(if is_obeyed(c) { '\u{fffd}' } else { c }),
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    Cow::Owned(out)
}

/// A change of colour at the beginning of the text.
fn paint_at(text: &str) -> Option<&str> {
    const LONGEST: usize = 16;
    let end = text
        .strip_prefix("\u{1b}[")?
        .find(|c: char| !c.is_ascii_digit() && c != ';')?
        + 2;
    text.get(..=end)
        .filter(|paint| paint.ends_with('m') && paint.len() <= LONGEST)
}

/// JSON that says the same with everything escaped that a terminal would obey or that hides itself. Such characters stand only
/// inside of strings, so this needs to know nothing else of JSON.
#[must_use]
pub fn escaped(json: &str) -> Cow<'_, str> {
    if !json.contains(is_obeyed) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_obeyed(c) {
            let mut units = [0; 2];
            c.encode_utf16(&mut units)
                .iter()
                .for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Somebody else's text as a person reads it: its lines, tabs and blanks as they are, and an escape in the place of every character that
/// a terminal would obey or that hides itself.
#[must_use]
pub fn legible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // The end of a line as other systems write it.
            '\r' if chars.peek() == Some(&'\n') => out.push(c),
            c if is_obeyed(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Where answers are written.
pub trait Sheet: Write {
    /// Writes what is not ours to change: results of tools, files in a format of their own. Where a program reads, every byte arrives as
    /// it is; on a terminal it is made [`legible`].
    fn data(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Whether a person reads this.
    fn is_for_a_person(&self) -> bool;
}

impl Sheet for Vec<u8> {
    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn is_for_a_person(&self) -> bool {
        false
    }
}

/// For protocols, whose other end is never a person.
impl Sheet for StdoutLock<'_> {
    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn is_for_a_person(&self) -> bool {
        false
    }
}

/// Standard output, looked at before it is written.
#[derive(Debug)]
pub struct Out<W> {
    to: W,
    json: bool,
    colored: bool,
    /// A file or a pipe: data goes through untouched.
    read_by_a_program: bool,
    /// Begins again at the top of the screen whenever it is told [`REDRAW`].
    redraws: bool,
    /// Goes on when nobody reads any more, as a gate does.
    outlives_reader: bool,
    is_closed: bool,
}

impl<W: Write> Out<W> {
    pub fn new(to: W, json: bool, colored: bool) -> Self {
        Self {
            to,
            json,
            colored,
            read_by_a_program: false,
            redraws: false,
            outlives_reader: false,
            is_closed: false,
        }
    }

    #[must_use]
    pub fn read_by_a_program(mut self, is_so: bool) -> Self {
        self.read_by_a_program = is_so;
        self
    }

    /// For a verb that draws one screen after the other, and for no other: what servers say may begin in the same way.
    #[must_use]
    pub fn redrawing(mut self, redraws: bool) -> Self {
        self.redraws = redraws;
        self
    }

    /// What is written after the reader has left is lost, and that is no error.
    #[must_use]
    pub fn outliving_its_reader(mut self) -> Self {
        self.outlives_reader = true;
        self
    }

    /// Whoever read this has left.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn noted<T>(&mut self, outcome: io::Result<T>, anyway: T) -> io::Result<T> {
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                if self.outlives_reader {
                    Ok(anyway)
                } else {
                    Err(error)
                }
            }
            outcome => outcome,
        }
    }
}

impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let (again, text) = match text.strip_prefix(REDRAW).filter(|_| self.redraws) {
            Some(screen) => (REDRAW, screen),
            None => ("", &*text),
        };
        let text = if self.json {
            escaped(text)
        } else {
            harmless(text, self.colored)
        };
        let written = self
            .to
            .write_all(again.as_bytes())
            .and_then(|()| self.to.write_all(text.as_bytes()));
        self.noted(written.map(|()| bytes.len()), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        self.noted(flushed, ())
    }
}

impl<W: Write> Sheet for Out<W> {
    fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        let legible = legible(&text);
        let bytes = if self.read_by_a_program {
            bytes
        } else {
            legible.as_bytes()
        };
        let written = self.to.write_all(bytes);
        self.noted(written, ())
    }

    fn is_for_a_person(&self) -> bool {
        !self.read_by_a_program
    }
}

#[cfg(test)]
mod tests;
