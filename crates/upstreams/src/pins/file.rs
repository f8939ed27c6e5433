//! `portcullis.lock`: the approved definitions as text that a person can review and a repository can keep.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde::Deserialize;
use serde_json::value::RawValue;
use vocab::{Effect, ServerId};
use wire::Json;

use super::{Lock, Look, Pin};
use crate::catalog::{
    abilities::Abilities,
    definition::{Kind, digest},
};

const VERSION: u32 = 2;
/// The version in which a server's openness was guessed where nobody had said.
const GUESSED: u32 = 1;
const TITLE: &str = "Definitions that a person approved. Changes to them are quarantined; see `portcullis servers review`.";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored<'a> {
    #[serde(rename = "//", default)]
    _title: String,
    version: u32,
    #[serde(borrow)]
    servers: BTreeMap<String, BTreeMap<String, BTreeMap<String, StoredPin<'a>>>>,
    #[serde(default)]
    looks: BTreeMap<String, StoredLook>,
    #[serde(default)]
    guessed_open: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLook {
    abilities: Vec<String>,
    resources: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPin<'a> {
    digest: String,
    #[serde(default)]
    effect: Option<String>,
    #[serde(default)]
    quarantined: Option<String>,
    #[serde(default, alias = "was_open_world")]
    took_address: bool,
    #[serde(borrow)]
    definition: &'a RawValue,
}

/// Reads the file; says what is wrong with it and where.
pub(super) fn parse(text: &str) -> Result<Lock, String> {
    let stored: Stored<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if ![GUESSED, VERSION].contains(&stored.version) {
        return Err(format!(
            "version {} is not known to this program",
            stored.version
        ));
    }
    let mut lock = Lock::default();
    let parse_id = |server: &str| {
        ServerId::parse(server)
            .map_err(|error| format!("`{server}` cannot be a server's id: {error}"))
    };
    for (
        server,
        StoredLook {
            abilities,
            resources,
        },
    ) in stored.looks
    {
        lock.looks.insert(
            parse_id(&server)?,
            Look {
                abilities: Abilities::from_words(&abilities),
                resources,
            },
        );
    }
    for server in &stored.guessed_open {
        lock.guessed_open.insert(parse_id(server)?);
    }
    for (server, kinds) in stored.servers {
        let id = parse_id(&server)?;
        if stored.version == GUESSED && !kinds.is_empty() {
            lock.guessed_open.insert(id.clone());
        }
        let pins = lock.servers.entry(id).or_default();
        for (kind, named) in kinds {
            let kind = Kind::parse(&kind).ok_or_else(|| {
                format!("`{kind}` of server `{server}` is not a kind of definition")
            })?;
            for (name, pin) in named {
                let pin = read(pin).map_err(|problem| {
                    format!("{} `{name}` of server `{server}`: {problem}", kind.as_str())
                })?;
                pins.insert((kind, name), pin);
            }
        }
    }
    Ok(lock)
}

fn read(stored: StoredPin<'_>) -> Result<Pin, String> {
    let text = stored.definition.get().as_bytes();
    let json =
        Json::parse(text, crate::catalog::inner_limits()).map_err(|error| error.to_string())?;
    let definition = wire::canonical(json);
    if digest(&definition) != stored.digest {
        return Err(
            "the digest is not that of the definition; approve it again or restore the file".into(),
        );
    }
    let effect = stored
        .effect
        .as_deref()
        .map(str::parse::<Effect>)
        .transpose()
        .map_err(|error| error.to_string())?;
    let StoredPin {
        digest,
        quarantined,
        took_address,
        ..
    } = stored;
    Ok(Pin {
        digest,
        effect,
        quarantined,
        definition,
        took_address,
    })
}

/// The text of the file: sorted, one value per line, the same for the same pins.
pub(super) fn render(lock: &Lock) -> String {
    let mut out = format!(
        "{{\n  \"//\": {},\n  \"version\": {VERSION},\n  \"servers\": {{",
        quoted(TITLE)
    );
    let mut servers = Comma::default();
    for (id, pins) in &lock.servers {
        let _ = write!(out, "{}    {}: {{", servers.next(), quoted(id.as_str()));
        let mut kinds = Comma::default();
        for kind in Kind::ALL {
            let named: Vec<_> = pins.iter().filter(|((of, _), _)| *of == kind).collect();
            if named.is_empty() {
                continue;
            }
            let _ = write!(out, "{}      {}: {{", kinds.next(), quoted(kind.as_str()));
            let mut names = Comma::default();
            for ((_, name), pin) in named {
                let _ = write!(out, "{}        {}: ", names.next(), quoted(name));
                render_pin(&mut out, pin);
            }
            out.push_str("\n      }");
        }
        out.push_str("\n    }");
    }
    out.push_str("\n  },\n  \"looks\": {");
    let mut looks = Comma::default();
    for (id, look) in &lock.looks {
        let _ = write!(
            out,
            "{}    {}: {{\n      \"abilities\": ",
            looks.next(),
            quoted(id.as_str())
        );
        render_words(&mut out, look.abilities.words().iter());
        out.push_str(",\n      \"resources\": ");
        render_words(&mut out, look.resources.iter());
        out.push_str("\n    }");
    }
    out.push_str("\n  }");
    if !lock.guessed_open.is_empty() {
        out.push_str(",\n  \"guessed_open\": ");
        let ids: Vec<String> = lock.guessed_open.iter().map(ToString::to_string).collect();
        render_words(&mut out, ids.iter());
    }
    out.push_str("\n}\n");
    out
}

fn render_words<'a>(out: &mut String, words: impl Iterator<Item = &'a String>) {
    out.push('[');
    let mut commas = Comma::default();
    for word in words {
        let _ = write!(out, "{}        {}", commas.next(), quoted(word));
    }
    out.push_str(if commas.0 { "\n      ]" } else { "]" });
}

fn render_pin(out: &mut String, pin: &Pin) {
    let _ = write!(out, "{{\n          \"digest\": {}", quoted(&pin.digest));
    if let Some(effect) = pin.effect {
        let _ = write!(out, ",\n          \"effect\": {}", quoted(effect.as_str()));
    }
    if let Some(seen) = &pin.quarantined {
        let _ = write!(out, ",\n          \"quarantined\": {}", quoted(seen));
    }
    if pin.took_address {
        out.push_str(",\n          \"took_address\": true");
    }
    out.push_str(",\n          \"definition\": ");
    wire::pretty(out, Json::checked_before(&pin.definition), 10);
    out.push_str("\n        }");
}

fn quoted(text: &str) -> String {
    String::from_utf8_lossy(&wire::write::quoted(text)).into_owned()
}

/// What goes before an entry: a new line, after a comma unless it is the first.
#[derive(Default)]
struct Comma(bool);

impl Comma {
    fn next(&mut self) -> &'static str {
        if std::mem::replace(&mut self.0, true) {
            ",\n"
        } else {
            "\n"
        }
    }
}
