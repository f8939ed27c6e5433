//! Pins: which definitions a person approved, and what became of them since.
//!
//! The first definitions that a server shows whose entry was written by hand with a classification are approved with it. One that was
//! classified by a verb has an entry here from then on, so that only what a person was shown is approved. One that changes later is
//! quarantined, and stays so when it changes back, until a person approves what it is now.
//!
//! **Invariant: a pin changes only after the ledger has the change, and what is not pinned as it is now is neither shown nor called.** Tests
//! `every_field_that_changes_is_quarantined_until_a_person_approves_it`, `a_change_and_its_revert_are_on_record`.

mod again;
mod file;
mod review;
mod undecided;

pub use undecided::Undecided;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use api::Problem;
use arc_swap::ArcSwap;
use audit::{Change, Ledger};
use shape::definition::{Comparison, Verdict, compare, infer_effect, takes_address};
use vocab::{Effect, ServerId};
use wire::Json;

use crate::{
    catalog::{
        Face,
        abilities::Abilities,
        definition::{Definition, Kind},
        reparse,
    },
    settings::{Arrivals, ServerSpec},
};

/// Resources that count as approved with their server; further ones are data like any other.
const MAX_RESOURCES: usize = 256;
/// Quarantined definitions that are recorded one by one, of all servers and over one run.
const MAX_REPORTED: usize = 4096;

/// One approved definition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pin {
    digest: String,
    /// What the operator says calling it does; only tools have one.
    effect: Option<Effect>,
    /// The digest of what the server showed instead, since which it waits for a person.
    quarantined: Option<String>,
    definition: Vec<u8>,
    /// An earlier definition took addresses, and nobody has approved since that this one does not.
    took_address: bool,
}

impl Pin {
    fn takes_address(&self) -> bool {
        self.took_address || takes_address(reparse(&self.definition))
    }
}

type Key = (Kind, String);
type ServerPins = BTreeMap<Key, Pin>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Lock {
    servers: BTreeMap<ServerId, ServerPins>,
    looks: BTreeMap<ServerId, Look>,
    /// Servers that were approved when whether strangers write their results was guessed. They keep the guess until a person says.
    guessed_open: BTreeSet<ServerId>,
}

/// What else was there when a person approved a server: what it could do, and the digests of the resources it listed. Their names are
/// data, so the file does not have them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    abilities: Abilities,
    resources: BTreeSet<String>,
}

impl Look {
    fn at(face: &Face) -> Self {
        let digests = face
            .resources
            .iter()
            .take(MAX_RESOURCES)
            .map(|item| item.definition.digest().to_owned());
        Self {
            abilities: face.abilities.clone(),
            resources: digests.collect(),
        }
    }
}

/// Whether a definition may be shown and called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Approved,
    Quarantined(Arc<str>),
}

/// The approved definitions and the file they rest in.
#[derive(Debug)]
pub struct Pins {
    file: PathBuf,
    lock: ArcSwap<Lock>,
    /// One change at a time.
    changing: Mutex<()>,
    /// New definitions that were reported, so that each is recorded once.
    reported: Mutex<HashSet<(ServerId, Key, String)>>,
}

/// A change that is not in force before it is recorded.
struct Planned<'a> {
    key: Key,
    action: &'static str,
    detail: String,
    becomes: Becomes,
    /// Of the definition as the server shows it now; empty where it shows none.
    digest: &'a str,
}

/// What becomes of a pin.
enum Becomes {
    /// It stays; the change is only worth a record.
    Same,
    Pinned(Pin),
    /// The server no longer offers it, and a person said that this is as it should be.
    Removed,
}

impl Pins {
    /// Reads the file; one that does not exist holds no pins.
    pub fn open(file: PathBuf) -> Result<Arc<Self>, String> {
        let lock = load(&file)?;
        Ok(Arc::new(Self {
            file,
            lock: ArcSwap::from_pointee(lock),
            changing: Mutex::default(),
            reported: Mutex::default(),
        }))
    }

    fn turn(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn standing(
        &self,
        spec: &ServerSpec,
        kind: Kind,
        name: &str,
        definition: &Definition,
    ) -> Standing {
        let lock = self.lock.load();
        let Some(pins) = lock.servers.get(&spec.id) else {
            return Standing::Quarantined("nobody has approved it yet".into());
        };
        match pins.get(&(kind, name.to_owned())) {
            None if pins.is_empty() => Standing::Quarantined("nobody has approved it yet".into()),
            None => Standing::Quarantined("it is new since the server was classified".into()),
            Some(Pin {
                quarantined: Some(_),
                digest,
                ..
            }) if digest == definition.digest() => {
                Standing::Quarantined("it changed since it was approved, and changed back".into())
            }
            Some(pin) if pin.digest == definition.digest() => Standing::Approved,
            Some(_) => Standing::Quarantined("it changed since it was approved".into()),
        }
    }

    /// What of a server is approved and waits for nobody, by kind and name: the text as it was approved.
    pub fn approved(&self, server: &ServerId) -> Vec<(Kind, String, Vec<u8>)> {
        let lock = self.lock.load();
        let pins = lock
            .servers
            .get(server)
            .into_iter()
            .flatten()
            .filter(|(_, pin)| pin.quarantined.is_none());
        pins.map(|((kind, name), pin)| (*kind, name.clone(), pin.definition.clone()))
            .collect()
    }

    /// What a server could do when it was approved.
    pub fn abilities(&self, server: &ServerId) -> Option<Abilities> {
        self.lock
            .load()
            .looks
            .get(server)
            .map(|look| look.abilities.clone())
    }

    /// Whether a server listed this resource, exactly so, when it was approved.
    pub fn knows_resource(&self, server: &ServerId, resource: &Definition) -> bool {
        self.lock
            .load()
            .looks
            .get(server)
            .is_some_and(|look| look.resources.contains(resource.digest()))
    }

    /// Whether any approved tool of a server takes addresses, listed now or not.
    pub fn takes_address(&self, server: &ServerId) -> bool {
        let lock = self.lock.load();
        let mut pins = lock.servers.get(server).into_iter().flatten();
        pins.any(|((kind, _), pin)| *kind == Kind::Tool && pin.takes_address())
    }

    /// Whether this server was approved when its openness was guessed.
    pub(crate) fn is_guessed_open(&self, server: &ServerId) -> bool {
        self.lock.load().guessed_open.contains(server)
    }

    /// Whether anything was ever decided about what this server shows.
    pub fn knows(&self, server: &ServerId) -> bool {
        self.lock.load().servers.contains_key(server)
    }

    /// From now on nothing of this server is approved that a person has not been shown. For whoever classifies a server that has shown
    /// nothing yet. This approves nothing, so there is nothing to record.
    pub fn withhold(&self, server: &ServerId) -> Result<(), Problem> {
        let _turn = self.turn();
        let lock = self.lock.load_full();
        if lock.servers.contains_key(server) {
            return Ok(());
        }
        let mut next = (*lock).clone();
        next.servers.insert(server.clone(), ServerPins::new());
        self.put_into_force(next)
    }

    fn put_into_force(&self, next: Lock) -> Result<(), Problem> {
        save(&self.file, &file::render(&next)).map_err(|error| unwritten(&self.file, &error))?;
        self.lock.store(Arc::new(next));
        Ok(())
    }

    /// What the lock file says calling this tool does.
    pub fn effect(&self, server: &ServerId, tool: &str) -> Option<Effect> {
        self.lock
            .load()
            .servers
            .get(server)?
            .get(&(Kind::Tool, tool.to_owned()))?
            .effect
    }

    /// Whether the approved definition of a tool has this field.
    pub fn declares(&self, server: &ServerId, tool: &str, field: &str) -> bool {
        let lock = self.lock.load();
        let pin = lock
            .servers
            .get(server)
            .and_then(|pins| pins.get(&(Kind::Tool, tool.to_owned())));
        pin.is_some_and(|pin| Json::checked_before(&pin.definition).get(field).is_some())
    }

    /// Takes notice of what an approved server shows: pins what its classification approves, quarantines what changed.
    pub fn notice(&self, spec: &ServerSpec, face: &Face, ledger: &Ledger) {
        if spec.approved().is_none() {
            return;
        }
        let _turn = self.turn();
        let lock = self.lock.load_full();
        let pins = lock.servers.get(&spec.id);
        let planned: Vec<Planned<'_>> = face
            .definitions()
            .filter_map(|(kind, name, definition)| plan(spec, pins, kind, name, definition))
            .collect();
        // A file from before looks were kept has none; then what is there now is what there was. Where nothing is approved, nor is that.
        let is_old = |pins: &ServerPins| !pins.is_empty() && !lock.looks.contains_key(&spec.id);
        let look = pins.is_none_or(is_old).then(|| Look::at(face));
        let fresh = planned
            .into_iter()
            .filter(|plan| !matches!(plan.becomes, Becomes::Same) || self.report(spec, plan));
        let done = self.carry_out(&lock, spec, look, fresh.collect(), &Who::default(), ledger);
        if let Err(error) = done {
            tracing::error!(server = %spec.id, %error, "its definitions stay quarantined");
        }
    }

    /// `true` the first time. A server that never tires of new definitions fills neither the memory nor the ledger.
    fn report(&self, spec: &ServerSpec, plan: &Planned<'_>) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() >= MAX_REPORTED {
            tracing::warn!(server = %spec.id, name = plan.key.1, "quarantined, and no longer recorded one by one");
            return false;
        }
        reported.insert((spec.id.clone(), plan.key.clone(), plan.digest.to_owned()))
    }

    /// A person approves definitions as they are now: those that were chosen.
    pub fn approve(
        &self,
        spec: &ServerSpec,
        face: &Face,
        chosen: &Chosen,
        who: &Who<'_>,
        ledger: &Ledger,
    ) -> Result<usize, Problem> {
        let _turn = self.turn();
        let lock = self.lock.load_full();
        let pins = lock.servers.get(&spec.id);
        let waiting = face.definitions().filter(|(kind, name, definition)| {
            let pin = pins.and_then(|pins| pins.get(&(*kind, (*name).to_owned())));
            chosen.has(*kind, name, definition)
                && pin.is_none_or(|pin| {
                    pin.quarantined.is_some() || pin.digest != definition.digest()
                })
        });
        let planned: Vec<_> = waiting
            .map(|(kind, name, definition)| {
                let before = pins.and_then(|pins| pins.get(&(kind, name.to_owned())));
                let pin = pinned(kind, name, definition, before.and_then(|pin| pin.effect));
                let detail = format!(
                    "{} `{name}` approved as {}",
                    kind.as_str(),
                    definition.digest()
                );
                let key = (kind, name.to_owned());
                Planned {
                    key,
                    action: "definition.approved",
                    detail,
                    becomes: Becomes::Pinned(pin),
                    digest: definition.digest(),
                }
            })
            .chain(gone(pins, face, chosen))
            .collect();
        if let Some(unknown) = chosen.names.iter().find(|wanted| {
            let is = |(kind, name): (Kind, &str)| {
                **wanted == name || **wanted == format!("{}:{name}", kind.as_str())
            };
            let is_pinned = || {
                pins.into_iter()
                    .flatten()
                    .any(|((kind, name), _)| is((*kind, name)))
            };
            !face.definitions().any(|(kind, name, _)| is((kind, name))) && !is_pinned()
        }) {
            let text = format!("server `{}` offers nothing called `{unknown}`", spec.id);
            return Err(Problem::new(
                api::Kind::NotFound,
                "no_such_definition",
                text,
            ));
        }
        let count = planned.len();
        // Who approves everything approves what else there is to see, too; who was shown nothing approves nothing.
        let approves_any = chosen.seen.as_ref().is_none_or(|seen| !seen.is_empty());
        let look =
            (approves_any && (chosen.names.is_empty() || pins.is_none())).then(|| Look::at(face));
        self.carry_out(&lock, spec, look, planned, who, ledger)?;
        Ok(count)
    }

    /// Records the plans, writes the file, and only then puts them into force.
    fn carry_out(
        &self,
        lock: &Lock,
        spec: &ServerSpec,
        look: Option<Look>,
        planned: Vec<Planned<'_>>,
        who: &Who<'_>,
        ledger: &Ledger,
    ) -> Result<(), Problem> {
        if planned.is_empty() && look.as_ref() == lock.looks.get(&spec.id) {
            return Ok(());
        }
        let mut next = lock.clone();
        if let Some(look) = look.filter(|look| lock.looks.get(&spec.id) != Some(look)) {
            let detail = format!(
                "its abilities, and {} resources as they are",
                look.resources.len()
            );
            let (caller, reason) = (who.caller, who.reason);
            let change = Change {
                action: "server.look",
                caller,
                reason,
                server: spec.id.as_str(),
                detail: &detail,
                ..Change::default()
            };
            ledger.change(&change).map_err(|error| unrecorded(&error))?;
            next.looks.insert(spec.id.clone(), look);
        }
        let pins = next.servers.entry(spec.id.clone()).or_default();
        for plan in planned {
            let change = Change {
                action: plan.action,
                caller: who.caller,
                reason: who.reason,
                server: spec.id.as_str(),
                tool: &plan.key.1,
                detail: &plan.detail,
                ..Change::default()
            };
            ledger.change(&change).map_err(|error| unrecorded(&error))?;
            match plan.becomes {
                Becomes::Same => {}
                Becomes::Pinned(pin) => drop(pins.insert(plan.key, pin)),
                Becomes::Removed => drop(pins.remove(&plan.key)),
            }
        }
        if next != *lock {
            self.put_into_force(next)
        } else {
            Ok(())
        }
    }

    /// How many definitions a server has that wait for a person.
    pub fn quarantined(&self, spec: &ServerSpec, face: &Face) -> usize {
        let waits = |(kind, name, definition): &(Kind, &str, &Definition)| {
            self.standing(spec, *kind, name, definition) != Standing::Approved
        };
        face.definitions().filter(waits).count()
    }
}

/// Which definitions a person approves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Names, or `kind:name`; none means all.
    pub names: Vec<String>,
    /// The digests that the person was shown, by `kind:name`, where they were. What is something else now is not approved.
    pub seen: Option<BTreeMap<String, String>>,
}

impl Chosen {
    fn has(&self, kind: Kind, name: &str, definition: &Definition) -> bool {
        let whole = format!("{}:{name}", kind.as_str());
        let was_seen = |seen: &BTreeMap<String, String>| {
            seen.get(&whole)
                .is_some_and(|digest| digest == definition.digest())
        };
        (self.names.is_empty() || self.names(kind, name)) && self.seen.as_ref().is_none_or(was_seen)
    }

    /// Whether this one was chosen by its name.
    fn names(&self, kind: Kind, name: &str) -> bool {
        self.names
            .iter()
            .any(|wanted| wanted == name || *wanted == format!("{}:{name}", kind.as_str()))
    }
}

/// Who changed a pin, and why. The gate itself has no name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Who<'a> {
    pub caller: &'a str,
    pub reason: &'a str,
}

fn pinned(kind: Kind, name: &str, definition: &Definition, effect: Option<Effect>) -> Pin {
    Pin {
        digest: definition.digest().to_owned(),
        effect: (kind == Kind::Tool)
            .then(|| effect.unwrap_or_else(|| infer_effect(name, definition.takes_address()))),
        quarantined: None,
        definition: definition.canonical(),
        took_address: false,
    }
}

/// Approved definitions that the server no longer offers and that a person named: they are forgotten.
fn gone<'a>(
    pins: Option<&'a ServerPins>,
    face: &'a Face,
    chosen: &'a Chosen,
) -> impl Iterator<Item = Planned<'a>> {
    let missing = pins.into_iter().flatten().filter(|((kind, name), _)| {
        !face
            .definitions()
            .any(|(other, called, _)| other == *kind && called == name)
    });
    missing
        .filter(|((kind, name), _)| chosen.names(*kind, name))
        .map(|((kind, name), _)| Planned {
            key: (*kind, name.clone()),
            action: "definition.removed",
            detail: format!(
                "{} `{name}` is no longer offered, and no longer approved",
                kind.as_str()
            ),
            becomes: Becomes::Removed,
            digest: "",
        })
}

/// What becomes of one definition that an approved server shows. `None`: it is as approved, or known to be quarantined.
fn plan<'a>(
    spec: &ServerSpec,
    pins: Option<&ServerPins>,
    kind: Kind,
    name: &str,
    definition: &'a Definition,
) -> Option<Planned<'a>> {
    let key = (kind, name.to_owned());
    let what = kind.as_str();
    let planned = |action, detail, pin: Option<Pin>| {
        let becomes = pin.map_or(Becomes::Same, Becomes::Pinned);
        Some(Planned {
            key: key.clone(),
            action,
            detail,
            becomes,
            digest: definition.digest(),
        })
    };
    let Some(pin) = pins.map(|pins| pins.get(&key)) else {
        let detail = format!(
            "{what} `{name}` approved with its server, as {}",
            definition.digest()
        );
        return planned(
            "definition.pinned",
            detail,
            Some(pinned(kind, name, definition, None)),
        );
    };
    let Some(pin) = pin else {
        if spec.new_definitions == Arrivals::Accept {
            let detail = format!("new {what} `{name}` accepted, as the server's entry says");
            return planned(
                "definition.accepted",
                detail,
                Some(pinned(kind, name, definition, None)),
            );
        }
        return planned(
            "definition.quarantined",
            format!("{what} `{name}` is new since the server was classified"),
            None,
        );
    };
    match &pin.quarantined {
        None if pin.digest == definition.digest() => return None,
        Some(seen) if seen == definition.digest() => return None,
        // It waits for a person already, whatever it shows meanwhile. One that changed and changed back is not what it was: nobody
        // knows what it did in between.
        Some(_) => {
            let how = if pin.digest == definition.digest() {
                "changed back"
            } else {
                "changed again"
            };
            return planned(
                "definition.quarantined",
                format!("{what} `{name}` {how} to {}", definition.digest()),
                None,
            );
        }
        None => {}
    }
    let Comparison { verdict, .. } = compare(what, &pin.definition, &definition.canonical());
    if verdict == Verdict::Narrowed && spec.narrowed_definitions == Arrivals::Accept {
        let detail = format!(
            "{what} `{name}` accepts less than before; accepted, as the server's entry says"
        );
        // Accepting less is no word on whose words come back.
        let narrowed = Pin {
            took_address: pin.takes_address(),
            ..pinned(kind, name, definition, pin.effect)
        };
        return planned("definition.accepted", detail, Some(narrowed));
    }
    let detail = format!(
        "{what} `{name}` changed ({}) from {} to {}",
        verdict.as_str(),
        pin.digest,
        definition.digest()
    );
    let quarantined = Pin {
        quarantined: Some(definition.digest().to_owned()),
        ..pin.clone()
    };
    planned("definition.quarantined", detail, Some(quarantined))
}

fn load(file: &Path) -> Result<Lock, String> {
    match fs::read_to_string(file) {
        Ok(text) => file::parse(&text).map_err(|problem| format!("{}: {problem}", file.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lock::default()),
        Err(error) => Err(format!("cannot read {}: {error}", file.display())),
    }
}

/// Old or new, never in between.
fn save(file: &Path, text: &str) -> io::Result<()> {
    let beside = file.with_added_extension("new");
    fs::write(&beside, text)?;
    fs::File::open(&beside)?.sync_all()?;
    fs::rename(&beside, file)
}

/// No record, no action.
fn unrecorded(error: &audit::LedgerUnavailable) -> Problem {
    Problem::storage("ledger_unavailable", error.to_string())
}

fn unwritten(file: &Path, error: &io::Error) -> Problem {
    let text = format!("cannot write {}: {error}", file.display());
    Problem::storage("file_unavailable", text)
}
