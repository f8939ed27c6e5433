//! What a server shows, held against what was approved: for the eyes of an operator.

use std::collections::HashSet;

use shape::definition::{Comparison, compare, infer_effect, shows_others_words, suspicions};
use vocab::Effect;
use wire::Json;

use super::{Pin, Pins, ServerPins, Standing};
use crate::{
    catalog::{
        Face, Item,
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
    pub fn effect_of(
        &self,
        spec: &ServerSpec,
        tool: &str,
        now: Option<&Definition>,
    ) -> (Effect, Source) {
        let entry = spec.rule(tool).effect.map(|effect| (effect, Source::Entry));
        let lock = || {
            self.effect(&spec.id, tool)
                .map(|effect| (effect, Source::Lock))
        };
        entry.or_else(lock).unwrap_or_else(|| {
            (
                infer_effect(tool, now.is_some_and(Definition::takes_address)),
                Source::Name,
            )
        })
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
        let (suggested, why) = suggestion(face);
        api::Review {
            server: spec.id.as_str().to_owned(),
            state: spec.state().as_str().to_owned(),
            classification: spec.classification.map(|level| level.as_str().to_owned()),
            open_world: is_open_world,
            open_world_why: self.why_open_world(spec, face, is_open_world),
            open_world_suggested: suggested,
            open_world_suggested_why: why,
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
            let (effect, source) = self.effect_of(spec, name, now);
            row.effect = Some(effect.as_str().to_owned());
            row.effect_from = source.as_str().to_owned();
        }
        let Some(now) = now else { return row };
        let description = now.json().get("description").and_then(Json::as_str);
        row.description = description.map(|text| text.into_owned());
        row.takes_address = kind == Kind::Tool && now.takes_address();
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

impl Pins {
    /// Why its results count as anyone's words, or do not.
    pub fn why_open_world(
        &self,
        spec: &ServerSpec,
        face: Option<&Face>,
        is_open_world: bool,
    ) -> String {
        let with_address = || {
            tool_of(face, |tool| tool.definition.takes_address())
                .map(|tool| audit::printable(&tool.name))
        };
        match (spec.open_world, is_open_world) {
            (Some(_), _) => "decided: its entry says so".to_owned(),
            (None, true) if !self.is_guessed_open(&spec.id) => {
                "assumed: nobody has said otherwise".to_owned()
            }
            (None, true) => match with_address() {
                Some(tool) => format!("guessed: its tool `{tool}` takes an address"),
                None => "guessed".to_owned(),
            },
            (None, false) => "guessed: none of its tools takes an address".to_owned(),
        }
    }
}

/// What a person is advised to answer when asked whether strangers can write what a server returns, and why.
fn suggestion(face: Option<&Face>) -> (bool, String) {
    let named = |tool: &Item| audit::printable(&tool.name);
    if let Some(tool) = tool_of(face, |tool| tool.definition.takes_address()) {
        let why = format!("its tool `{}` takes an address", named(tool));
        return (true, why);
    }
    if let Some(tool) = tool_of(face, |tool| shows_others_words(&tool.name)) {
        let why = format!("its tool `{}` may show what others wrote", named(tool));
        return (true, why);
    }
    let why = "none of its tools takes an address or is named after mail, files, pages or messages";
    (false, why.to_owned())
}

fn tool_of(face: Option<&Face>, is_wanted: impl Fn(&Item) -> bool) -> Option<&Item> {
    face.into_iter()
        .flat_map(|face| &face.tools)
        .find(|tool| is_wanted(tool))
}
