//! Colours, columns, and text that cannot hurt a terminal.

use std::io::IsTerminal;

use clap::ValueEnum;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    Auto,
    Always,
    Never,
}

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

pub use vocab::{is_hidden, tame};

/// How many columns a text takes: wide characters take two.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.width()
}

/// At most `width` columns, the last one `…` if something was cut.
#[must_use]
pub fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let after = left.checked_sub(c.width().unwrap_or(0));
        left = after.unwrap_or(left);
        after.is_some()
    };
    let mut short: String = text.chars().take_while(fits).collect();
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
    let count = head.len();
    let width_of = |column: usize| {
        let cells = rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|(text, _)| columns(text));
        cells
            .chain(head.get(column).map(|title| columns(title)))
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width_of).collect();
    let before_last: usize = widths
        .iter()
        .take(count.saturating_sub(1))
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
                .saturating_sub(columns(&text))
                + 2
        };
        out.push_str(&paint.map_or_else(|| text.clone(), |paint| style.paint(&text, paint)));
        out.push_str(&" ".repeat(pad));
    }
    format!("{}\n", out.trim_end())
}

#[cfg(test)]
mod tests {
    use super::{Style, cell, columns, cut, table};

    #[test]
    fn wide_characters_keep_columns_straight() {
        let rows = [
            vec![cell("日本語"), cell("a")],
            vec![cell("abc"), cell("b")],
        ];
        let drawn = table(&["NAME", "X"], &rows, Style::PLAIN);
        let places: Vec<usize> = drawn.lines().map(|line| columns(line.trim_end())).collect();
        assert_eq!(places, [9, 9, 9], "{drawn}");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 3), "abc");
    }
}
