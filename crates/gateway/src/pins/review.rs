//! What a server shows, held against what was approved: for the eyes of an operator, as JSON.

use std::collections::HashSet;

use shape::definition::{Comparison, compare, infer_effect, suspicions};
use vocab::Effect;
use wire::{Json, write::Object};

use super::{Pin, Pins, ServerPins, Standing};
use crate::{
    catalog::{
        Face,
        definition::{Definition, Kind},
    },
    settings::ServerSpec,
};

/// Who says what calling a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The operator, in the server's entry.
    Entry,
    /// Whoever approved the definition: a guess that they were shown.
    Lock,
    /// A guess from the name.
    Name,
}

impl Source {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Lock => "lock",
            Self::Name => "name",
        }
    }
}

fn list(texts: &[String]) -> Vec<u8> {
    let texts: Vec<Vec<u8>> = texts.iter().map(|text| wire::write::quoted(text)).collect();
    [b"[", texts.join(&b","[..]).as_slice(), b"]"].concat()
}

impl Pins {
    /// What calling a tool does, and who says so.
    pub(crate) fn effect_of(&self, spec: &ServerSpec, tool: &str) -> (Effect, Source) {
        let entry = spec.rule(tool).effect.map(|effect| (effect, Source::Entry));
        let lock = || {
            self.effect(&spec.id, tool)
                .map(|effect| (effect, Source::Lock))
        };
        entry
            .or_else(lock)
            .unwrap_or_else(|| (infer_effect(tool), Source::Name))
    }

    /// Every definition of a server and how it compares with what was approved, as JSON.
    pub(crate) fn review_json(
        &self,
        spec: &ServerSpec,
        face: Option<&Face>,
        is_open_world: bool,
    ) -> Vec<u8> {
        let lock = self.lock.load();
        let none = ServerPins::new();
        let pins = lock.servers.get(&spec.id).unwrap_or(&none);
        let mut rows: Vec<Vec<u8>> = Vec::new();
        let mut shown = HashSet::new();
        for (kind, name, definition) in face.into_iter().flat_map(Face::definitions) {
            shown.insert((kind, name.to_owned()));
            rows.push(self.row(
                spec,
                kind,
                name,
                Some(definition),
                pins.get(&(kind, name.to_owned())),
            ));
        }
        for ((kind, name), pin) in pins.iter().filter(|(key, _)| !shown.contains(*key)) {
            rows.push(self.row(spec, *kind, name, None, Some(pin)));
        }
        let mut out = Object::new();
        out.str("server", spec.id.as_str())
            .str("state", spec.state().as_str());
        if let Some(level) = spec.classification {
            out.str("classification", level.as_str());
        }
        open_world(&mut out, spec, face, is_open_world);
        out.raw(
            "definitions",
            &[b"[", rows.join(&b","[..]).as_slice(), b"]"].concat(),
        );
        out.finish()
    }

    fn row(
        &self,
        spec: &ServerSpec,
        kind: Kind,
        name: &str,
        now: Option<&Definition>,
        pin: Option<&Pin>,
    ) -> Vec<u8> {
        let mut out = Object::new();
        out.str("kind", kind.as_str()).str("name", name);
        let state = match (now, pin) {
            (None, _) => "gone",
            (Some(_), None) => "new",
            (Some(now), Some(_)) if self.standing(spec, kind, name, now) == Standing::Approved => {
                "pinned"
            }
            (Some(_), Some(_)) => "changed",
        };
        out.str("state", state);
        if let Some(now) = now {
            out.str("digest", now.digest());
        }
        if let Some(pin) = pin {
            out.str("pinned_digest", &pin.digest);
        }
        if kind == Kind::Tool {
            let (effect, source) = self.effect_of(spec, name);
            out.str("effect", effect.as_str())
                .str("effect_from", source.as_str());
        }
        if let Some(now) = now {
            describe(&mut out, kind, now);
        }
        if let (Some(now), "new" | "changed") = (now, state) {
            let before = pin.map(|pin| pin.definition.as_slice()).unwrap_or(b"null");
            let Comparison { verdict, diff } = compare(kind.as_str(), before, &now.canonical());
            out.str(
                "verdict",
                if pin.is_none() {
                    "new"
                } else {
                    verdict.as_str()
                },
            );
            out.raw("diff", &list(&diff));
        }
        out.finish()
    }
}

/// What a person wants to know of a definition at a glance.
fn describe(out: &mut Object, kind: Kind, now: &Definition) {
    if let Some(text) = now.json().get("description").and_then(Json::as_str) {
        out.str("description", &text);
    }
    if kind == Kind::Tool {
        out.bool("takes_address", now.is_open_world());
    }
    let suspicions = suspicions(now.json());
    if !suspicions.is_empty() {
        out.raw("suspicions", &list(&suspicions));
    }
}

/// Whether its results count as anyone's words, and why.
pub(crate) fn open_world(
    out: &mut Object,
    spec: &ServerSpec,
    face: Option<&Face>,
    is_open_world: bool,
) {
    let takes_address = || {
        let tools = face.into_iter().flat_map(|face| &face.tools);
        tools
            .into_iter()
            .find(|tool| tool.definition.is_open_world())
            .map(|tool| tool.name.clone())
    };
    let why = match (spec.open_world, is_open_world) {
        (Some(_), _) => "its entry says so".to_owned(),
        (None, true) => match takes_address() {
            Some(tool) => format!(
                "guessed: its tool `{}` takes an address",
                audit::printable(&tool)
            ),
            None => "guessed".to_owned(),
        },
        (None, false) => "guessed: none of its tools takes an address".to_owned(),
    };
    out.bool("open_world", is_open_world)
        .str("open_world_why", &why);
}
