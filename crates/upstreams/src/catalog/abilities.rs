//! What a server says it can do, in words that the gate writes itself.
//!
//! A server chooses its capabilities anew with every connection. Of what it says, only whether a known ability is there is taken over,
//! so that nothing else travels in them.

use bytes::Bytes;
use wire::{
    Json,
    mcp::{Era, TASKS_EXTENSION},
    write::Object,
};

/// The abilities that cross the gate, as paths into a capabilities object. What is below another needs it.
const KNOWN: [&[&str]; 12] = [
    &["tools"],
    &["tools", "listChanged"],
    &["resources"],
    &["resources", "subscribe"],
    &["resources", "listChanged"],
    &["prompts"],
    &["prompts", "listChanged"],
    &["completions"],
    &["logging"],
    &["tasks"],
    &["tasks", "cancel"],
    &["tasks", "requests", "tools", "call"],
];

/// Which of the known abilities a server has, and in which era.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    era: Era,
    has: [bool; KNOWN.len()],
    has_tasks_extension: bool,
}

impl Abilities {
    pub fn read(era: Era, capabilities: Json<'_>) -> Self {
        let is_said = |path: &&[&str]| {
            capabilities
                .path(path)
                .is_some_and(|said| said.is_object() || said.as_bool() == Some(true))
        };
        let has_tasks_extension = capabilities
            .path(&["extensions", TASKS_EXTENSION])
            .is_some();
        Self {
            era,
            has: KNOWN.each_ref().map(is_said),
            has_tasks_extension,
        }
    }

    fn has(&self, path: &[&str]) -> bool {
        KNOWN
            .iter()
            .zip(self.has)
            .any(|(known, has)| has && *known == path)
    }

    /// Whether a client of this era can be offered tasks; they do not cross between eras.
    pub fn has_tasks(&self, era: Era) -> bool {
        era == self.era
            && match era {
                Era::Legacy => self.has(&["tasks"]),
                Era::Modern => self.has_tasks_extension,
            }
    }

    pub fn write_tasks(&self, out: &mut Object, era: Era) {
        match era {
            Era::Modern => {
                out.object("extensions", |out| {
                    out.raw(TASKS_EXTENSION, b"{}");
                });
            }
            Era::Legacy => {
                out.object("tasks", |out| {
                    // A server's list of tasks has those of everybody behind this gate, so nobody is offered that.
                    if self.has(&["tasks", "cancel"]) {
                        out.raw("cancel", b"{}");
                    }
                    if self.has(&["tasks", "requests", "tools", "call"]) {
                        out.raw("requests", br#"{"tools":{"call":{}}}"#);
                    }
                });
            }
        }
    }

    /// The capabilities object for a client of one era.
    pub fn capabilities(&self, era: Era) -> Bytes {
        let mut out = Object::new();
        for name in ["tools", "resources", "prompts", "completions", "logging"] {
            if self.has(&[name]) {
                out.object(name, |out| {
                    for flag in ["subscribe", "listChanged"]
                        .into_iter()
                        .filter(|flag| self.has(&[name, flag]))
                    {
                        out.bool(flag, true);
                    }
                });
            }
        }
        if self.has_tasks(era) {
            self.write_tasks(&mut out, era);
        }
        out.finish().into()
    }

    /// As the lock file has them: one word per ability.
    pub fn words(&self) -> Vec<String> {
        let era = if self.era == Era::Modern {
            "modern"
        } else {
            "legacy"
        };
        let known = KNOWN
            .iter()
            .zip(self.has)
            .filter(|(_, has)| *has)
            .map(|(path, _)| path.join("."));
        let extension = self.has_tasks_extension.then(|| TASKS_EXTENSION.to_owned());
        std::iter::once(era.to_owned())
            .chain(known)
            .chain(extension)
            .collect()
    }

    /// The inverse of [`Abilities::words`]. Words that nobody knows are ignored: an ability that is lost only offers less.
    pub fn from_words(words: &[String]) -> Self {
        let is_said = |word: &str| words.iter().any(|said| said == word);
        let era = if is_said("modern") {
            Era::Modern
        } else {
            Era::Legacy
        };
        let has = KNOWN.each_ref().map(|path| is_said(&path.join(".")));
        Self {
            era,
            has,
            has_tasks_extension: is_said(TASKS_EXTENSION),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Limits;

    use super::*;

    #[test]
    fn capabilities_are_the_gates_own_words_and_tasks_do_not_cross_between_eras() {
        let said = br#"{"tools":{"listChanged":true,"note":"CANARY"},"logging":"CANARY","tasks":{"list":{"x":"CANARY"},"requests":{"tools":{"call":{}}}},
            "experimental":{"CANARY":{}},"extensions":{"CANARY":{}},"CANARY":{},"resources":{"subscribe":false}}"#;
        let abilities = Abilities::read(Era::Legacy, Json::parse(said, Limits::default()).unwrap());
        assert_eq!(
            abilities.capabilities(Era::Legacy),
            r#"{"tools":{"listChanged":true},"resources":{},"tasks":{"requests":{"tools":{"call":{}}}}}"#
        );
        assert_eq!(
            abilities.capabilities(Era::Modern),
            r#"{"tools":{"listChanged":true},"resources":{}}"#
        );
        assert_eq!(Abilities::from_words(&abilities.words()), abilities);
    }
}
