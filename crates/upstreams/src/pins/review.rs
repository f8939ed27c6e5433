//! What a server shows, held against what was approved: for the eyes of an operator.

use std::collections::HashSet;

use shape::definition::{Comparison, compare, infer_effect, suspicions};
use vocab::Effect;
use wire::Json;

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
pub enum Source {
    /// The operator, in the server's entry.
    Entry,
    /// Whoever approved the definition: a guess that they were shown.
    Lock,
    /// A guess from the name.
    Name,
}

impl Source {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Lock => "lock",
            Self::Name => "name",
        }
    }
}

impl Pins {
    /// What calling a tool does, and who says so.
    pub fn effect_of(&self, spec: &ServerSpec, tool: &str) -> (Effect, Source) {
        let entry = spec.rule(tool).effect.map(|effect| (effect, Source::Entry));
        let lock = || {
            self.effect(&spec.id, tool)
                .map(|effect| (effect, Source::Lock))
        };
        entry
            .or_else(lock)
            .unwrap_or_else(|| (infer_effect(tool), Source::Name))
    }

    /// Every definition of a server and how it compares with what was approved.
    pub fn review(
        &self,
        spec: &ServerSpec,
        face: Option<&Face>,
        is_open_world: bool,
    ) -> api::Review {
        let lock = self.lock.load();
        let none = ServerPins::new();
        let pins = lock.servers.get(&spec.id).unwrap_or(&none);
        let mut definitions = Vec::new();
        let mut shown = HashSet::new();
        for (kind, name, definition) in face.into_iter().flat_map(Face::definitions) {
            shown.insert((kind, name.to_owned()));
            let pin = pins.get(&(kind, name.to_owned()));
            definitions.push(self.row(spec, kind, name, Some(definition), pin));
        }
        for ((kind, name), pin) in pins.iter().filter(|(key, _)| !shown.contains(*key)) {
            definitions.push(self.row(spec, *kind, name, None, Some(pin)));
        }
        api::Review {
            server: spec.id.as_str().to_owned(),
            state: spec.state().as_str().to_owned(),
            classification: spec.classification.map(|level| level.as_str().to_owned()),
            open_world: is_open_world,
            open_world_why: why_open_world(spec, face, is_open_world),
            definitions,
        }
    }

    fn row(
        &self,
        spec: &ServerSpec,
        kind: Kind,
        name: &str,
        now: Option<&Definition>,
        pin: Option<&Pin>,
    ) -> api::Definition {
        let state = match (now, pin) {
            (None, _) => "gone",
            (Some(_), None) => "new",
            (Some(now), Some(_)) if self.standing(spec, kind, name, now) == Standing::Approved => {
                "pinned"
            }
            (Some(_), Some(_)) => "changed",
        };
        let mut row = api::Definition {
            kind: kind.as_str().to_owned(),
            name: name.to_owned(),
            state: state.to_owned(),
            digest: now.map(|now| now.digest().to_owned()),
            pinned_digest: pin.map(|pin| pin.digest.clone()),
            ..api::Definition::default()
        };
        if kind == Kind::Tool {
            let (effect, source) = self.effect_of(spec, name);
            row.effect = Some(effect.as_str().to_owned());
            row.effect_from = source.as_str().to_owned();
        }
        let Some(now) = now else { return row };
        let description = now.json().get("description").and_then(Json::as_str);
        row.description = description.map(|text| text.into_owned());
        row.takes_address = kind == Kind::Tool && now.is_open_world();
        row.suspicions = suspicions(now.json());
        if row.waits() {
            let before = pin.map(|pin| pin.definition.as_slice()).unwrap_or(b"null");
            let Comparison { verdict, diff } = compare(kind.as_str(), before, &now.canonical());
            let verdict = pin.map_or("new", |_| verdict.as_str());
            row.verdict = Some(verdict.to_owned());
            row.diff = diff;
        }
        row
    }
}

/// Why its results count as anyone's words, or do not.
pub fn why_open_world(spec: &ServerSpec, face: Option<&Face>, is_open_world: bool) -> String {
    let takes_address = || {
        let tools = face.into_iter().flat_map(|face| &face.tools);
        tools
            .into_iter()
            .find(|tool| tool.definition.is_open_world())
            .map(|tool| tool.name.clone())
    };
    match (spec.open_world, is_open_world) {
        (Some(_), _) => "its entry says so".to_owned(),
        (None, true) => match takes_address() {
            Some(tool) => format!(
                "guessed: its tool `{}` takes an address",
                audit::printable(&tool)
            ),
            None => "guessed".to_owned(),
        },
        (None, false) => "guessed: none of its tools takes an address".to_owned(),
    }
}
