//! What of servers' lists one caller is shown.
//!
//! A list is words of its server. A caller whose label includes them already is shown the list as it is now. Everybody else is shown
//! what a person approved, as it was approved, whatever the server lists today: names, order and fields then tell nothing new. Resources
//! are data and nobody approves their names, so those of a server above the caller's level are not listed at all.

use callers::{Caller, ForGate};
use policy::Permission;
use vocab::{Label, Mark, ServerId};

use super::{Pass, Source, covers, is_for};
use crate::{Catalog, Hub, catalog::About, settings::TargetSpec};

/// The four lists of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// Whose lists are the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SightKey {
    mark: Mark,
    tenant: Option<String>,
    /// Names whoever is asked about in `access` lists and grants; nothing where there are none.
    who: Option<[u8; 32]>,
}

/// How much one caller sees, at this moment.
#[derive(Debug, Clone)]
pub struct Sight {
    caller: Caller,
    key: SightKey,
    pass: Pass,
}

impl Catalog {
    /// How much a caller sees of servers' lists now. Its label is what counts, and is held until the pass is dropped.
    #[must_use]
    pub fn sight(&self, caller: &Caller) -> Sight {
        Sight::of(caller, self.is_open())
    }
}

impl Hub {
    /// Whether a caller is told that a list of a server changed: where it might see the difference, and never of a server above its
    /// level unless what everybody sees of it changed too (`is_approved`).
    #[must_use]
    pub fn hears_of_list(&self, caller: &Caller, server: &ServerId, is_approved: bool) -> bool {
        let Some(spec) = self.upstream(server).map(|upstream| upstream.spec()) else {
            return is_approved;
        };
        let mark = super::mark_of(&spec, self.catalog().is_open_world(server));
        is_for(caller, &spec) && (is_approved || mark.secrecy <= caller.session().mark().secrecy)
    }
}

/// A caller's label as far as it is durable, and the evidence that keeps it so.
fn held(caller: &Caller) -> (Mark, Pass) {
    let session = caller.session();
    if session.mark() == Mark::default() {
        return (Mark::default(), Pass::own());
    }
    let origin = ServerId::built_in();
    match session.hold(&origin).durable() {
        Ok(showable) => {
            let mark = showable.after();
            (
                mark,
                Pass::raised(
                    showable,
                    Source {
                        label: Label::of(mark, origin.clone()),
                        server: origin,
                    },
                ),
            )
        }
        // A rise is being saved just now; what counts until then is nothing.
        Err(_) => (Mark::default(), Pass::own()),
    }
}

fn fingerprint(caller: &Caller) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut add = |text: &str| {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    [caller.user(), caller.agent()]
        .into_iter()
        .for_each(|name| add(name.unwrap_or_default()));
    for names in [caller.departments(), caller.grants()] {
        add(&names.len().to_string());
        names.iter().for_each(|name| add(name));
    }
    *hasher.finalize().as_bytes()
}

impl Sight {
    /// `is_open`: nothing is kept for some, so who asks makes no difference.
    pub(crate) fn of(caller: &Caller, is_open: bool) -> Self {
        let (mark, pass) = held(caller);
        let who = (!is_open).then(|| fingerprint(caller));
        let key = SightKey {
            mark,
            tenant: caller.tenant().map(str::to_owned),
            who,
        };
        Self {
            caller: caller.clone(),
            key,
            pass,
        }
    }

    /// What lists of callers with an equal key are kept under.
    #[must_use]
    pub const fn key(&self) -> &SightKey {
        &self.key
    }

    #[must_use]
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// To be held until the list has left.
    pub fn pass(&self) -> Pass {
        self.pass.clone()
    }

    /// Whether words of this mark are included in the caller's label.
    pub fn covers(&self, mark: Mark) -> bool {
        covers(self.key.mark, mark)
    }

    pub fn is_for(&self, spec: &TargetSpec) -> bool {
        is_for(&self.caller, spec)
    }

    /// Whether a line of a list, as its server has it now, is shown.
    pub fn shows_live(&self, about: &About) -> bool {
        self.covers(about.mark) && self.may_use(about)
    }

    /// Whether a line of a list is shown as it was approved.
    pub fn shows_approved(&self, about: &About) -> bool {
        let is_data = about.kind == ListKind::Resources;
        !self.covers(about.mark) && (!is_data || self.reaches(about.mark)) && self.may_use(about)
    }

    /// Whether a mark is not above the caller's level, whoever may have shaped the words.
    pub fn reaches(&self, mark: Mark) -> bool {
        mark.secrecy <= self.key.mark.secrecy
    }

    fn may_use(&self, about: &About) -> bool {
        let (spec, caller) = (&about.spec, &self.caller);
        let is_named = || {
            let rule = spec.rule(&about.own);
            let is_kept = rule.permission == Permission::Restricted || !rule.access.is_open();
            let is_listed = !rule.access.is_open() && caller.is_listed(&rule.access);
            !is_kept || is_listed || caller.is_granted(&spec.id, &about.own)
        };
        is_for(caller, spec) && (about.kind != ListKind::Tools || is_named())
    }
}
