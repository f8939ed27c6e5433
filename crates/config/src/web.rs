//! The keys of the tools for the web, and what they mean to the gate. There are no such tools unless `web` is written.

use std::net::IpAddr;

use gateway::settings::{Engine, EngineKind, Text, WebTerms};
use policy::context::{DomainPattern, WebAddress};

use super::{
    fields::Fields,
    finding::Finding,
    keys::{ACCESS_LISTS, KIB, Key, Kind, MIB, key},
    rules,
    tree::Node,
};

const ENGINES: &[&str] = &["duckduckgo", "searxng", "brave"];

/// The tools for the web.
pub static WEB: &[Key] = &[
    key(
        "access",
        Kind::Table(ACCESS_LISTS),
        "",
        "Who may use them: a caller that is in any of the lists. Without it, every caller may.",
    ),
    key(
        "allow_hosts",
        Kind::TextList,
        "[]",
        "Hosts, as in `wiki.example.com` or `wiki.example.com:8443`, that may have addresses in `allow_networks`, or that are asked at this \
         port. Without it, only ports 80 and 443 of addresses that everybody reaches are.",
    ),
    key(
        "allow_networks",
        Kind::TextList,
        "[]",
        "Ranges of addresses, as in `10.20.0.0/16`, that the hosts in `allow_hosts` may have, and no other host.",
    ),
    key(
        "max_bytes",
        Kind::Size(KIB..=10 * MIB),
        "5 MiB",
        "The most that is taken of one answer, unpacked.",
    ),
    key(
        "per_minute",
        Kind::Count(1..=10_000),
        "30",
        "How many times a minute one host is asked, by all callers together.",
    ),
    key(
        "search",
        Kind::TableList(ENGINE),
        "[duckduckgo]",
        "The engines that `web.search` asks, one after the other until one answers: `duckduckgo`, `searxng`, `brave`.",
    ),
];

/// A search engine.
pub static ENGINE: &[Key] = &[
    key("engine", Kind::Choice(ENGINES), "", "Which engine it is."),
    key(
        "url",
        Kind::Text,
        "",
        "Where it is. Needed for `searxng`, which has to answer with JSON; the others are where they are.",
    ),
    key(
        "key",
        Kind::Reference,
        "",
        "The key that the engine wants. Needed for `brave`.",
    ),
];

/// What is in force where `web` is written.
pub(super) fn web(
    node: Option<&Node>,
    fields: Fields<'_>,
    findings: &mut Vec<Finding>,
) -> Option<WebTerms> {
    node?;
    for one in fields.items("allow_hosts") {
        let text = one.text().unwrap_or_default();
        let is_host = !text.starts_with(['*', '.']) && DomainPattern::parse(text).is_ok();
        if !is_host {
            let what = format!("`{text}` is not a host");
            let fix = "write one host, as in `wiki.example.com` or `wiki.example.com:8443`";
            findings.push(Finding::error(one.place, what, fix));
        }
    }
    for one in fields.items("allow_networks") {
        let text = one.text().unwrap_or_default();
        if !is_network(text) {
            let what = format!("`{text}` is not a range of addresses");
            let fix = "write it as in `10.20.0.0/16` or `fd00::/8`";
            findings.push(Finding::error(one.place, what, fix));
        }
    }
    let lower = |text: String| text.to_ascii_lowercase();
    Some(WebTerms {
        access: rules::server_access(fields, "web", findings),
        hosts: fields.texts("allow_hosts").into_iter().map(lower).collect(),
        networks: fields.texts("allow_networks"),
        max_bytes: usize::try_from(fields.size("max_bytes")).unwrap_or(usize::MAX),
        per_minute: usize::try_from(fields.count("per_minute")).unwrap_or(usize::MAX),
        engines: match fields.node("search") {
            None => engine(EngineKind::DuckDuckGo, None, None)
                .into_iter()
                .collect(),
            Some(_) => {
                let items = fields.items("search").iter();
                items.filter_map(|item| written(item, findings)).collect()
            }
        },
    })
}

fn is_network(text: &str) -> bool {
    let Some((first, bits)) = text.split_once('/') else {
        return false;
    };
    let (Ok(first), Ok(bits)) = (first.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    bits <= if first.is_ipv4() { 32 } else { 128 }
}

fn engine(kind: EngineKind, url: Option<&str>, key: Option<Text>) -> Option<Engine> {
    let fixed = match kind {
        EngineKind::DuckDuckGo => "https://html.duckduckgo.com/",
        EngineKind::Brave => "https://api.search.brave.com/",
        EngineKind::SearXng => "",
    };
    Some(Engine {
        kind,
        address: WebAddress::parse(url.unwrap_or(fixed)).ok()?,
        is_own: url.is_some(),
        key,
    })
}

/// An entry of the list: a table, or only the name of an engine.
fn written(item: &Node, findings: &mut Vec<Finding>) -> Option<Engine> {
    let fields = Fields::new(item.entries().map(|_| item), ENGINE);
    let name = item.text().or_else(|| fields.written("engine"))?;
    let kind = EngineKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == name);
    let Some(kind) = kind else {
        let what = format!("there is no search engine `{name}`");
        let fix = format!("write one of {}", ENGINES.join(", "));
        findings.push(Finding::error(item.place, what, fix));
        return None;
    };
    let url = fields.written("url");
    let key = fields
        .written("key")
        .map(|reference| Text::Secret(reference.to_owned()));
    let missing = match kind {
        EngineKind::SearXng if url.is_none() => Some("`searxng` needs a `url`"),
        EngineKind::Brave if key.is_none() => Some("`brave` needs a `key`"),
        _ => None,
    };
    if let Some(what) = missing {
        let fix = "write it as in `{ engine: searxng, url: https://search.example.com/ }` or `{ engine: brave, key: env:BRAVE_KEY }`";
        findings.push(Finding::error(item.place, what, fix));
        return None;
    }
    // What is beneath an address begins with a slash.
    let url = url.map(|url| format!("{}/", url.trim_end_matches('/')));
    let found = engine(kind, url.as_deref(), key);
    if found.is_none() {
        let what = "`url` is not a web address without user name";
        let fix = "write it as in `https://search.example.com/`";
        findings.push(Finding::error(item.place, what, fix));
    }
    found
}
