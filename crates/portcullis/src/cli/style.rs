//! Colours, columns, and text that cannot hurt a terminal.

use std::io::IsTerminal;

use super::args::ColorChoice;

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    /// Columns of the terminal; longer last columns are cut.
    pub width: usize,
}

impl Style {
    /// For files, pipes and tests.
    pub const PLAIN: Self = Self {
        color: false,
        width: 100,
    };

    /// For standard output.
    #[must_use]
    pub fn of_stdout(choice: ColorChoice) -> Self {
        let stdout = std::io::stdout();
        let color = wants_color(choice, &stdout);
        // Where there is no edge, as in a file or a pipe, nothing is cut.
        let width =
            rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
        Self {
            color,
            width: if width == 0 { usize::MAX } else { width },
        }
    }

    #[must_use]
    pub fn paint(self, text: &str, paint: Paint) -> String {
        if self.color {
            format!("\u{1b}[{}m{text}\u{1b}[0m", paint.code())
        } else {
            text.to_owned()
        }
    }
}

/// Colours are for terminals that have them, unless `NO_COLOR` is set, or as the person asked.
#[must_use]
pub fn wants_color(choice: ColorChoice, stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = || std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    match choice {
        ColorChoice::Auto => stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb(),
        ColorChoice::Always => true,
        ColorChoice::Never => false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
        }
    }
}

pub use vocab::is_hidden;

/// One line of text without anything a terminal would obey or that hides itself: controls, direction marks, zero-width characters.
#[must_use]
pub fn tame(text: &str) -> String {
    let visible = |c: char| match c {
        c if is_hidden(c) => '\u{fffd}',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars()
        .map(visible)
        .collect::<String>()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// At most `width` characters, the last one `…` if something was cut.
#[must_use]
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// A cell: its text and how it is painted.
pub type Cell = (String, Option<Paint>);

/// A plain cell. The text is tamed.
#[must_use]
pub fn cell(text: impl AsRef<str>) -> Cell {
    (tame(text.as_ref()), None)
}

#[must_use]
pub fn painted(text: impl AsRef<str>, paint: Paint) -> Cell {
    (tame(text.as_ref()), Some(paint))
}

/// Columns as wide as their widest cell, two spaces apart; the last one is cut at the terminal's edge.
#[must_use]
pub fn table(head: &[&str], rows: &[Vec<Cell>], style: Style) -> String {
    let columns = head.len();
    let width_of = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|(text, _)| text.chars().count());
        cells
            .chain(head.get(column).map(|title| title.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width_of).collect();
    let before_last: usize = widths
        .iter()
        .take(columns.saturating_sub(1))
        .map(|width| width + 2)
        .sum();
    let room = style.width.saturating_sub(before_last).max(8);
    let titles: Vec<Cell> = head
        .iter()
        .map(|title| painted(title, Paint::Dim))
        .collect();
    std::iter::once(&titles)
        .chain(rows)
        .map(|row| line(row, &widths, room, style))
        .collect()
}

fn line(row: &[Cell], widths: &[usize], room: usize, style: Style) -> String {
    let mut out = String::new();
    for (column, (text, paint)) in row.iter().enumerate() {
        let last = column + 1 == row.len();
        let text = if last { cut(text, room) } else { text.clone() };
        let pad = if last {
            0
        } else {
            widths
                .get(column)
                .copied()
                .unwrap_or(0)
                .saturating_sub(text.chars().count())
                + 2
        };
        out.push_str(&paint.map_or_else(|| text.clone(), |paint| style.paint(&text, paint)));
        out.push_str(&" ".repeat(pad));
    }
    format!("{}\n", out.trim_end())
}
