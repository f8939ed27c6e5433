//! Links inside a text that somebody will read, also those that hide: what a reader or a program would follow all the same.

use std::collections::HashSet;

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

/// Links of one text that are looked at. Nobody reads more; a text with more does not pass.
pub(crate) const MAX_LINKS: usize = 256;

/// The links of a text, once each, in normal form.
#[derive(Debug, Default)]
pub(crate) struct Links {
    found: HashSet<String>,
    /// There are more than [`MAX_LINKS`], and the others were not looked for.
    pub(crate) is_cut: bool,
}

impl Links {
    /// In an order that is always the same.
    pub(crate) fn into_forms(self) -> Vec<Form> {
        let mut links: Vec<String> = self.found.into_iter().collect();
        links.sort_unstable();
        let form = |link| Form::new(Class::Link, link);
        links.into_iter().map(form).collect()
    }

    fn add(&mut self, link: String) {
        if self.found.contains(&link) {
            return;
        }
        if self.found.len() < MAX_LINKS {
            self.found.insert(link);
        } else {
            self.is_cut = true;
        }
    }
}

/// Every link in a text, up to [`MAX_LINKS`].
pub(crate) fn links(text: &str) -> Links {
    let mut links = Links::default();
    tokens(text, &mut links);
    if !links.is_cut {
        let plain = undisguised(text);
        if plain != text {
            tokens(&plain, &mut links);
        }
    }
    links
}

fn tokens(text: &str, links: &mut Links) {
    let cut = |c: char| c.is_whitespace() || "<>\"'`|()[]{}“”«»,;".contains(c);
    for token in text.split(cut) {
        if links.is_cut {
            return;
        }
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
                    links.add(link);
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
