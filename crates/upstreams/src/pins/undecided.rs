//! What an earlier version guessed in a home and this one would take more carefully. It stays as it is until a person decides.

use serde::Serialize;
use vocab::Effect;

use super::{Kind, Pins};
use crate::settings::ServerSpec;

/// One guess that is still in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Undecided {
    pub server: String,
    /// What holds, and what would hold for a server that is added now.
    pub what: String,
    /// The command that decides it.
    pub decide: String,
}

impl Pins {
    /// Every guess of an earlier version that is in force for one of these servers.
    #[must_use]
    pub fn undecided(&self, servers: &[ServerSpec]) -> Vec<Undecided> {
        let lock = self.lock.load();
        let mut found = Vec::new();
        for spec in servers.iter().filter(|spec| spec.approved().is_some()) {
            let id = &spec.id;
            let mut say = |what: String, decide: String| {
                found.push(Undecided {
                    server: id.to_string(),
                    what,
                    decide: format!("portcullis servers set {id} {decide}"),
                });
            };
            let is_guessed = spec.open_world.is_none() && lock.guessed_open.contains(id);
            if is_guessed && !self.takes_address(id) {
                let what = format!(
                    "what `{id}` returns counts as trusted, by a guess; of a server that is added now it would count as written by strangers"
                );
                say(what, "open-world true|false".to_owned());
            }
            let pins = lock.servers.get(id).into_iter().flatten();
            for ((kind, name), pin) in pins {
                let is_guessed_read =
                    pin.effect == Some(Effect::Read) && spec.rule(name).effect.is_none();
                if *kind == Kind::Tool && is_guessed_read && pin.takes_address() {
                    let tool = audit::printable(name);
                    let what = format!(
                        "`{tool}` of `{id}` takes an address and counts as read, by a guess; of a server that is added now it would count as consequential"
                    );
                    say(what, format!("effect {tool}=read|consequential"));
                }
            }
        }
        found
    }
}
