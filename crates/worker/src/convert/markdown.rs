//! A page as Markdown, without links that run something.

use html_to_markdown_rs::{ConversionOptions, convert as to_markdown};

use super::{
    scan::{Piece, Scan, unescaped},
    trim,
};

pub(super) struct Converted {
    pub(super) title: Option<String>,
    pub(super) text: String,
}

/// Schemes of links that are a program or a file of their own.
const RUNNING: [&str; 3] = ["javascript:", "data:", "vbscript:"];
const MAX_TITLE: usize = 300;

/// `address` is where the page is from; links of the page are made whole with it.
pub(super) fn convert(page: &str, address: &str) -> Result<Converted, String> {
    let trimmed = trim::page(page);
    let base = (!address.is_empty()).then(|| address.to_owned());
    let options = ConversionOptions::builder()
        .extract_metadata(false)
        .base_url(base)
        .build();
    let converted = to_markdown(&trimmed, Some(options)).map_err(|error| error.to_string())?;
    let text = converted.content.unwrap_or_default();
    Ok(Converted {
        title: title(page),
        text: without_running_links(text.trim()),
    })
}

fn title(page: &str) -> Option<String> {
    let mut pieces = Scan::new(page);
    pieces.find(|piece| matches!(piece, Piece::Tag(tag) if tag.is("title") && !tag.is_end))?;
    let Some(Piece::Text(text)) = pieces.next() else {
        return None;
    };
    let words: Vec<_> = text.split_whitespace().map(unescaped).collect();
    let title: String = words.join(" ").chars().take(MAX_TITLE).collect();
    (!title.is_empty()).then_some(title)
}

/// Whether an address begins with one of the schemes, however it is written.
pub(super) fn is_running(address: &str) -> bool {
    let begins = |scheme: &&str| {
        let mut letters = address
            .chars()
            .filter(|c| !c.is_control() && !c.is_whitespace() && *c != '<' && *c != '\\');
        scheme.chars().all(|wanted| {
            letters
                .next()
                .is_some_and(|c| c.eq_ignore_ascii_case(&wanted))
        })
    };
    RUNNING.iter().any(begins)
}

/// A page may also hold such a link as text that only looks like one once it is Markdown.
fn without_running_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['(', '<', ':']) {
        let (before, after) = rest.split_at_checked(at + 1).unwrap_or((rest, ""));
        out.push_str(before);
        rest = after;
        let head: String = rest.chars().take(64).collect();
        let may_begin = ["](", "<", "]:"].iter().any(|end| out.ends_with(end));
        if may_begin && is_running(&unescaped(&head)) {
            // The scheme goes; what is left leads nowhere.
            out.push('#');
            rest = rest.split_once(':').map_or("", |(_, rest)| rest);
        }
    }
    out.push_str(rest);
    out
}
