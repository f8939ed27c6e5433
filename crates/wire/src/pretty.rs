//! JSON for people: one value per line, indented. Numbers and strings keep their text.

use crate::{Json, Kind};

const STEP: usize = 2;

/// Appends a value, its inner lines indented by `indent` spaces more than the line it starts on.
pub fn pretty(out: &mut String, json: Json<'_>, indent: usize) {
    match json.kind() {
        Kind::Object if json.fields().next().is_some() => {
            let mut fields = json.fields();
            let mut opener = "{\n";
            while let Some((key, value)) = fields.next_raw() {
                out.push_str(opener);
                out.extend(std::iter::repeat_n(' ', indent + STEP));
                out.push_str(&String::from_utf8_lossy(key));
                out.push_str(": ");
                pretty(out, value, indent + STEP);
                opener = ",\n";
            }
            close(out, indent, '}');
        }
        Kind::Array if json.items().next().is_some() => {
            let mut opener = "[\n";
            for value in json.items() {
                out.push_str(opener);
                out.extend(std::iter::repeat_n(' ', indent + STEP));
                pretty(out, value, indent + STEP);
                opener = ",\n";
            }
            close(out, indent, ']');
        }
        Kind::Object => out.push_str("{}"),
        Kind::Array => out.push_str("[]"),
        _ => out.push_str(json.text()),
    }
}

fn close(out: &mut String, indent: usize, bracket: char) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    out.push(bracket);
}
