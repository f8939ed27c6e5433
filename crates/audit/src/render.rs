//! Records for human eyes.
//!
//! Everything that came from outside is made printable first: a record must never drive the terminal it is shown on.

mod story;

use crate::encode::printable;
use crate::record::Record;
use std::fmt::Write;

/// The titles above lines of [`render_line`].
pub fn render_head(colours: bool) -> String {
    let head = format!(
        "{:<19}  {:<13}  {:<16}  {:<32}  {:<9}  DETAIL",
        "TIME (UTC)", "RESULT", "CALLER", "WHAT", "STAGE"
    );
    Paint(colours).dim(&head)
}

/// One aligned line: time, verdict, who, what, where it was decided, how the label moved, how long it took.
pub fn render_line(record: &Record, colours: bool) -> String {
    let mut line = String::with_capacity(160);
    let paint = Paint(colours);
    let clock = record.time.get(..19).unwrap_or(&record.time);
    let _ = write!(
        line,
        "{}  ",
        paint.dim(&printable(&clock.replace('T', " ")))
    );
    let word = word(record);
    let _ = write!(line, "{}  ", paint.verdict(word, &format!("{word:<13}")));
    if record.kind == "change" {
        line.push_str(&change(record));
    } else {
        line.push_str(&call(record));
    }
    if !record.label_after.is_empty() && record.label_after != record.label {
        let (before, after) = (printable(&record.label), printable(&record.label_after));
        let _ = write!(line, "  {before} → {}", paint.bold(&after));
    }
    if let Some(us) = record.us {
        let _ = write!(line, "  {}", paint.dim(&duration(us)));
    }
    line.truncate(line.trim_end().len());
    line
}

/// One call, told stage by stage: all its records in order, and the changes of its approvals.
pub fn render_story(records: &[Record], colours: bool) -> String {
    story::tell(records, &Paint(colours))
}

/// Records one after the other, with every detail.
pub fn render_records(records: &[Record], colours: bool) -> String {
    let paint = Paint(colours);
    let mut story = String::new();
    for record in records {
        let _ = writeln!(story, "{}", render_line(record, colours));
        let mut facts = titled(record);
        facts.push(("hash", record.hash.clone()));
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            let _ = writeln!(
                story,
                "    {} {}",
                paint.dim(&format!("{name:<10}")),
                printable(value)
            );
        }
    }
    story
}

/// A value as it is shown.
macro_rules! shown_value {
    (number $value:expr) => {
        $value.map(|number| number.to_string()).unwrap_or_default()
    };
    ($text:ident $value:expr) => {
        $value.clone()
    };
}

macro_rules! draw_titled {
    ([] $({ $name:ident $kind:ident $title:literal $what:literal })*) => {
        /// What a record holds besides its line, under the words it is shown under.
        fn titled(record: &Record) -> Vec<(&'static str, String)> {
            vec![$(($title, shown_value!($kind record.$name)),)*]
        }
    };
}
vocab::record_columns!(titled => draw_titled []);

/// What happened, in one word.
fn word(record: &Record) -> &str {
    match record.kind.as_str() {
        "intent" => "intends",
        "change" => "change",
        _ if record.verdict.is_empty() => "outcome",
        _ => known(&record.verdict),
    }
}

/// Verdicts are ours; a word from a newer or damaged ledger is not trusted with the terminal.
fn known(verdict: &str) -> &str {
    if verdict.bytes().all(|byte| byte.is_ascii_lowercase()) {
        verdict
    } else {
        "?"
    }
}

fn call(record: &Record) -> String {
    let caller = or_dash(&record.caller);
    let what = match (record.server.as_str(), record.tool.as_str()) {
        ("", "") => or_dash(&record.action),
        ("", tool) => printable(tool),
        (server, "") => format!("{} {}", printable(server), printable(&record.action)),
        (server, tool) => format!("{}/{}", printable(server), printable(tool)),
    };
    let mut text = format!("{caller:<16}  {what:<32}  ");
    if record.kind != "intent" {
        let stage = printable(&record.stage);
        let _ = match record.violation.as_str() {
            "" => write!(text, "{stage:<9}"),
            code => write!(text, "{stage:<9}  {}", printable(code)),
        };
    }
    text
}

fn change(record: &Record) -> String {
    let caller = or_dash(&record.caller);
    let what = or_dash(&record.action);
    let mut text = format!("{caller:<16}  {what:<32}");
    for part in [
        &record.session,
        &record.server,
        &record.tool,
        &record.target,
        &record.approval,
        &record.violation,
    ] {
        if !part.is_empty() {
            let _ = write!(text, "  {}", printable(part));
        }
    }
    if let Some(count) = record.count.filter(|count| *count > 0) {
        let _ = write!(text, "  ×{count}");
    }
    if !record.detail.is_empty() {
        let _ = write!(text, "  {}", short_digests(&printable(&record.detail)));
    }
    if !record.reason.is_empty() {
        let _ = write!(text, "  “{}”", printable(&record.reason));
    }
    text
}

/// A person recognises a digest by its first digits; `audit show` has it whole.
fn short_digests(text: &str) -> String {
    let is_digest =
        |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        match (is_digest(word), word.get(..12), piece.get(word.len()..)) {
            (true, Some(first), Some(rest)) => out.extend([first, "…", rest]),
            _ => out.push_str(piece),
        }
    }
    out
}

fn or_dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        printable(text)
    }
}

fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{}.{} ms", us / 1_000, us / 100 % 10),
        _ => format!("{}.{:02} s", us / 1_000_000, us / 10_000 % 100),
    }
}

/// Colours, or none.
struct Paint(bool);

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    fn dim(&self, text: &str) -> String {
        self.with("2", text)
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn verdict(&self, word: &str, text: &str) -> String {
        let code = match word {
            "permitted" => "32",
            "refused" => "31",
            "failed" | "cancelled" => "33",
            "indeterminate" | "abandoned" => "35",
            "change" => "36",
            _ => "2",
        };
        self.with(code, text)
    }
}
