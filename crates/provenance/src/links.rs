//! Links inside a text that somebody will read, also those that hide: what a reader or a program would follow all the same.

use wire::letters;

use crate::form::{self, Class, Form};

/// Endings of file names. A bare `report.pdf` in a sentence is no link.
const FILES: [&str; 44] = [
    "bak", "bmp", "c", "cfg", "conf", "cpp", "css", "csv", "doc", "docx", "eml", "exe", "gif",
    "gz", "h", "htm", "html", "ics", "ini", "ipynb", "java", "jpeg", "jpg", "js", "json", "lock",
    "log", "md", "mp3", "mp4", "odt", "pdf", "png", "ppt", "pptx", "svg", "toml", "ts", "txt",
    "xls", "xlsx", "xml", "yaml", "yml",
];

/// What people and programs read as a dot, and as the beginning of a link.
const DISGUISES: [(&str, &str); 16] = [
    ("[.]", "."),
    ("(.)", "."),
    ("{.}", "."),
    ("[dot]", "."),
    ("(dot)", "."),
    (" dot ", "."),
    ("&#46;", "."),
    ("&#x2e;", "."),
    ("&period;", "."),
    ("%2e", "."),
    ("&#58;", ":"),
    ("&#47;", "/"),
    ("%3a%2f%2f", "://"),
    ("hxxp", "http"),
    (" . ", "."),
    ("\\/", "/"),
];

/// Every link in a text, once each, in normal form.
pub(crate) fn links(text: &str) -> Vec<Form> {
    let mut found: Vec<Form> = Vec::new();
    let mut add = |form: Form| {
        if !found.contains(&form) {
            found.push(form);
        }
    };
    tokens(text, &mut add);
    let plain = undisguised(text);
    if plain != text {
        tokens(&plain, &mut add);
    }
    found
}

fn tokens(text: &str, add: &mut impl FnMut(Form)) {
    let cut = |c: char| c.is_whitespace() || "<>\"'`|()[]{}“”«»,;".contains(c);
    for token in text.split(cut) {
        let token = token.trim_matches(['.', ':', '!', '?', '*', '_', '=']);
        if token.contains('.') || token.contains(':') || token.contains("//") {
            // `see:https://…` and `href=https://…` hold one too.
            let starts = ["https://", "http://", "www."];
            let inner = starts
                .iter()
                .filter_map(|start| token.to_ascii_lowercase().find(start));
            let at = inner.min().unwrap_or(0);
            for token in [token, token.get(at..).unwrap_or(token)] {
                if let Some(link) = form::link(token).filter(|_| !is_file_name(token)) {
                    add(Form::new(Class::Link, link));
                }
            }
        }
    }
}

fn is_file_name(token: &str) -> bool {
    let is_bare = !token.contains("://") && !token.contains('/') && !token.starts_with("www.");
    let ending = token.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_address = form::address(token).is_some();
    is_address || is_bare && FILES.contains(&ending.to_ascii_lowercase().as_str())
}

/// The same text as a lenient reader reads it.
fn undisguised(text: &str) -> String {
    let mut plain: String = text
        .chars()
        .filter(|c| !letters::is_invisible(*c))
        .map(|c| match c {
            '。' | '｡' | '․' | '﹒' => '.',
            '⁄' | '∕' => '/',
            '：' | '∶' => ':',
            c => letters::plain(c),
        })
        .flat_map(char::to_lowercase)
        .collect();
    for (disguise, means) in DISGUISES {
        if plain.contains(disguise) {
            plain = plain.replace(disguise, means);
        }
    }
    plain
}
