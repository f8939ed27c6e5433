//! What the regular expressions of a schema can cost.
//!
//! The engine never backtracks, so a match takes time in proportion to the text and to the size of the compiled expression. The size
//! is capped, and what is below the cap makes every byte of text dearer.

use serde_json::Value;

use super::{SchemaProblem, explain};

/// Bytes of one compiled expression.
pub(super) const LARGEST: usize = 2 << 20;
/// Bytes of an expression as written, and how many there may be.
const LONGEST: usize = 4_096;
const MOST: usize = 256;
/// Sizes below which a byte of text costs this much.
const CLASSES: [(usize, u64); 4] = [(16 << 10, 1), (128 << 10, 8), (512 << 10, 32), (LARGEST, 128)];
/// Compiled size of all expressions together, in terms of the costs above.
const MOST_TOGETHER: u64 = 512;

/// What patterns make of the cost of a text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Prices {
    /// Steps for sixteen bytes of text, under the dearest expression.
    pub(super) text: u64,
    /// Steps for the name of a property, which is held against every pattern for names.
    pub(super) name: u64,
}

/// What texts cost under the expressions of a schema.
pub(super) fn weigh(schema: &Value) -> Result<Prices, SchemaProblem> {
    let (mut patterns, mut for_names) = (Vec::new(), 0);
    collect(schema, &mut patterns, &mut for_names);
    patterns.sort_unstable();
    patterns.dedup();
    if patterns.len() > MOST {
        return Err(SchemaProblem::Pattern(format!("there are more than {MOST}")));
    }
    let (mut dearest, mut together) = (0, 0);
    for pattern in patterns {
        if pattern.len() > LONGEST {
            return Err(SchemaProblem::Pattern(format!("one is longer than {LONGEST} bytes")));
        }
        let cost = cost(pattern)?;
        dearest = cost.max(dearest);
        together += cost;
        if together > MOST_TOGETHER {
            return Err(SchemaProblem::Pattern("they are too large together".to_owned()));
        }
    }
    Ok(Prices { text: dearest, name: 3 * for_names })
}

fn cost(pattern: &str) -> Result<u64, SchemaProblem> {
    // What the standard calls a digit or a word character is ASCII; the checker translates likewise.
    let plain = pattern.replace(r"\d", "[0-9]").replace(r"\w", "[A-Za-z0-9_]");
    for (size, cost) in CLASSES {
        match regex::RegexBuilder::new(&plain).size_limit(size).build() {
            Ok(_) => return Ok(cost),
            Err(regex::Error::CompiledTooBig(_)) => {}
            // Another dialect's syntax: the checker decides whether it can be used.
            Err(_) => return Ok(CLASSES.last().map_or(1, |(_, cost)| *cost) / 8),
        }
    }
    Err(SchemaProblem::Pattern(format!("`{}` is too large when compiled", explain::short(pattern))))
}

fn collect<'a>(value: &'a Value, out: &mut Vec<&'a str>, for_names: &mut u64) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("pattern", Value::String(pattern)) => out.push(pattern),
                    ("patternProperties", Value::Object(patterns)) => {
                        out.extend(patterns.keys().map(String::as_str));
                        *for_names += patterns.len() as u64;
                        collect(value, out, for_names);
                    }
                    _ => collect(value, out, for_names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, out, for_names)),
        _ => {}
    }
}
