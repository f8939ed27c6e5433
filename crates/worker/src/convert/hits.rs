//! What search engines answered, as hits; or that they would not answer, or that they answer otherwise than they did.

use wire::{Json, Limits, write::Object};

use super::scan::{Piece, Scan, Tag, unescaped};

/// The most hits of one answer.
const MAX_HITS: usize = 50;
const MAX_TEXT: usize = 1000;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) snippet: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Hits(Vec<Hit>),
    /// The engine takes us for a robot.
    Blocked,
    /// Nothing that was expected is there.
    Changed,
}

/// `{"verdict":"hits"|"blocked"|"changed","hits":[{"title":…,"url":…,"snippet":…}]}`
pub(super) fn write(
    out: &mut Object,
    engine: &str,
    answer: &str,
    most: usize,
) -> Result<(), String> {
    let verdict = match engine {
        "duckduckgo" => duckduckgo(answer),
        "searxng" => listed(answer, &["results"], ["title", "url", "content"]),
        "brave" => listed(answer, &["web", "results"], ["title", "url", "description"]),
        other => return Err(format!("there is no engine `{other}`")),
    };
    let (word, hits) = match verdict {
        Verdict::Hits(hits) => ("hits", hits),
        Verdict::Blocked => ("blocked", Vec::new()),
        Verdict::Changed => ("changed", Vec::new()),
    };
    let written: Vec<Vec<u8>> = hits
        .into_iter()
        .take(most.min(MAX_HITS))
        .map(|hit| {
            let mut out = Object::new();
            out.str("title", clipped(&hit.title))
                .str("url", clipped(&hit.url))
                .str("snippet", clipped(&hit.snippet));
            out.finish()
        })
        .collect();
    out.str("verdict", word).raw(
        "hits",
        &[b"[", written.join(&b","[..]).as_slice(), b"]"].concat(),
    );
    Ok(())
}

fn clipped(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_TEXT))
        .unwrap_or_default()
}

/// The page without scripts: `a.result__a` is a hit's title and address, `.result__snippet` what it says.
pub(super) fn duckduckgo(page: &str) -> Verdict {
    let mut hits: Vec<Hit> = Vec::new();
    let (mut is_result_page, mut is_blocked) = (false, false);
    let mut pieces = Scan::new(page);
    while let Some(piece) = pieces.next() {
        let Piece::Tag(tag) = piece else { continue };
        if tag.is_end {
            continue;
        }
        if tag.is("a") && tag.has_class("result__a") {
            let url = tag.attribute("href").unwrap_or_default();
            let title = words_until_end(&mut pieces, &tag);
            hits.push(Hit {
                title,
                url: unwrapped(&url).unwrap_or_default(),
                snippet: String::new(),
            });
        } else if tag.has_class("result__snippet") {
            let snippet = words_until_end(&mut pieces, &tag);
            if let Some(hit) = hits.last_mut() {
                hit.snippet = snippet;
            }
        } else {
            is_result_page |= tag.has_class("no-results") || tag.has_class("results");
            is_blocked |= tag.has_class("anomaly-modal__title")
                || tag.attribute("id").is_some_and(|id| id == "challenge-form");
        }
    }
    let is_found = !hits.is_empty();
    // What leads back to the engine is an advertisement.
    hits.retain(|hit| !hit.url.is_empty());
    match (is_found || is_result_page, is_blocked) {
        (false, true) => Verdict::Blocked,
        (false, false) => Verdict::Changed,
        (true, _) => Verdict::Hits(hits),
    }
}

/// What stands between a tag and its end, in one line.
fn words_until_end(pieces: &mut Scan<'_>, tag: &Tag<'_>) -> String {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) if out.len() < MAX_TEXT => out.push_str(&unescaped(text)),
            Piece::Tag(other) if other.is_end && other.is(tag.name) => break,
            _ => {}
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Links go through the engine: `//duckduckgo.com/l/?uddg=ADDRESS&rut=…`. `None`: an advertisement, or no address.
fn unwrapped(href: &str) -> Option<String> {
    let rest = href
        .strip_prefix("https:")
        .or_else(|| href.strip_prefix("http:"))
        .unwrap_or(href);
    let address = match rest.strip_prefix("//duckduckgo.com/") {
        Some(path) => {
            let query = path.strip_prefix("l/?")?;
            let mut pairs = query.split('&');
            percent_decoded(pairs.find_map(|pair| pair.strip_prefix("uddg="))?)
        }
        None => href.to_owned(),
    };
    let is_address = address.starts_with("https://") || address.starts_with("http://");
    let leads_back = address.contains("://duckduckgo.com/y.js");
    (is_address && !leads_back).then_some(address)
}

fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let pair = [ahead.next(), ahead.next()];
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match (byte, digit(pair[0]), digit(pair[1])) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or_default());
                bytes = ahead;
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Hits in a JSON document, beneath `path`.
pub(super) fn listed(answer: &str, path: &[&str], [title, url, snippet]: [&str; 3]) -> Verdict {
    let Ok(json) = Json::parse(answer.as_bytes(), Limits::new(answer.len().max(1), 64)) else {
        return Verdict::Changed;
    };
    let Some(list) = json.path(path).filter(|list| list.is_array()) else {
        // Brave leaves the list out where nothing was found.
        let is_answer = json.get("query").is_some();
        return if is_answer {
            Verdict::Hits(Vec::new())
        } else {
            Verdict::Changed
        };
    };
    let text = |item: Json<'_>, key: &str| {
        let text = item.get(key).and_then(Json::as_str).unwrap_or_default();
        super::strip::text(&text)
    };
    let hits = list.items().map(|item| Hit {
        title: text(item, title),
        url: item
            .get(url)
            .and_then(Json::as_str)
            .filter(|url| url.starts_with("https://") || url.starts_with("http://"))
            .unwrap_or_default()
            .into_owned(),
        snippet: text(item, snippet),
    });
    Verdict::Hits(hits.filter(|hit| !hit.url.is_empty()).collect())
}
