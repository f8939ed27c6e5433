//! The volumes of the gate: which one a path leads to, for whom, and one at a time in use under each name.
//!
//! The set is part of what is in force, so a call sees the volumes of one configuration. What is in use outlives a configuration that
//! says the same of it.
//!
//! **Invariant: a directory is in use as one volume.** Labels belong to a volume; a directory under two names would have files that carry a
//! label under the one and none under the other. Tests `volumes_do_not_overlap`, `a_changed_volume_keeps_its_labels`.

mod lines;
mod rows;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
};

use calls::receive::Received;
use policy::{
    OnVolume,
    context::{PathProblem, path_names},
};
use state::State;
use storage::{LabelRows, Volume, VolumePath};
use upstreams::{
    Route,
    catalog::{Target, builtin},
};
use vocab::Level;
use wire::{
    Json,
    builtin::{Executor, Tool},
};

use crate::{Caller, settings::VolumeEntry};
use lines::Lines;

/// Arguments that name a place on a volume.
const PLACES: [&str; 2] = ["path", "destination"];

/// What volumes are used with, whichever configuration is in force.
#[derive(Debug)]
pub(crate) struct Volumes {
    rows: Arc<dyn LabelRows>,
    /// Files and directories of the gate's own.
    protected: Vec<PathBuf>,
    /// Where volumes may be although that is protected.
    own: PathBuf,
    pub(crate) lines: Lines,
}

/// The volumes of one configuration.
#[derive(Debug, Default)]
pub(crate) struct VolumeSet {
    held: Vec<Arc<Held>>,
    /// Those of earlier configurations that calls under way may still use.
    gone: Vec<Weak<Held>>,
}

/// A volume that is attached when it is first used.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) entry: VolumeEntry,
    slot: RwLock<Slot>,
    /// What was in use under its name before, until this is used.
    before: Mutex<Option<Arc<Self>>>,
}

#[derive(Debug)]
enum Slot {
    Idle,
    Attached(Box<Volume>),
    /// Another has its name now.
    Retired,
}

/// Where a path leads.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) held: Arc<Held>,
    pub(crate) path: VolumePath,
}

/// A path among the arguments of a call, and the volume it leads to.
#[derive(Debug)]
pub(crate) struct Named {
    path: String,
    volume: Option<(String, bool)>,
}

impl Named {
    pub(crate) fn fact(&self) -> OnVolume<'_> {
        let volume = self.volume.as_ref();
        OnVolume {
            path: &self.path,
            volume: volume.map(|(name, is_for)| (name.as_str(), *is_for)),
        }
    }
}

/// Why a path leads to no volume.
#[derive(Debug)]
pub(crate) enum Astray {
    Problem(PathProblem),
    /// No volume is there; these are the places where some are.
    Nowhere(Vec<String>),
    NotFor(String),
    /// A name that no volume can have.
    Name(storage::FileError),
}

impl VolumeSet {
    /// The next set. Volumes that stay as they were go on.
    pub(crate) fn follow(&self, entries: Vec<VolumeEntry>) -> Self {
        let mut known: Vec<Arc<Held>> = self.gone.iter().filter_map(Weak::upgrade).collect();
        known.extend(self.held.iter().cloned());
        let mut held = Vec::new();
        for entry in entries {
            // The last one of a name is the one in use.
            let is_of_name = |held: &Arc<Held>| held.entry.spec.name == entry.spec.name;
            let before = known
                .iter()
                .rposition(is_of_name)
                .map(|at| known.remove(at));
            held.push(match before {
                Some(before) if before.entry == entry => before,
                before => Arc::new(Held {
                    before: Mutex::new(before),
                    entry,
                    slot: RwLock::new(Slot::Idle),
                }),
            });
        }
        let gone = known.iter().map(Arc::downgrade).collect();
        Self { held, gone }
    }

    pub(crate) fn all(&self) -> &[Arc<Held>] {
        &self.held
    }

    /// The volume that commands of a caller run in; `None`: in a workspace of their own.
    pub(crate) fn for_commands(&self, caller: &Caller) -> Option<&Arc<Held>> {
        let mut all = self.held.iter();
        all.find(|held| held.entry.spec.runs_commands && held.is_for(caller))
    }

    /// The volume of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Held>> {
        self.held.iter().find(|held| held.entry.spec.name == name)
    }

    /// Where a path of a caller leads.
    pub(crate) fn locate(&self, caller: &Caller, text: &str) -> Result<Located, Astray> {
        let names = path_names(text).map_err(Astray::Problem)?;
        let visible = || {
            self.held
                .iter()
                .filter(|held| caller.sees(held.entry.tenant.as_deref()))
        };
        let held = visible()
            .filter(|held| names.starts_with(&held.entry.mount))
            .max_by_key(|held| held.entry.mount.len());
        let Some(held) = held else {
            let places = visible().filter(|held| held.is_for(caller));
            return Err(Astray::Nowhere(places.map(|held| held.mount()).collect()));
        };
        if !held.is_for(caller) {
            return Err(Astray::NotFor(held.entry.spec.name.clone()));
        }
        let inner = names.get(held.entry.mount.len()..).unwrap_or_default();
        let path = VolumePath::from_names(inner.to_vec()).map_err(Astray::Name)?;
        Ok(Located {
            held: Arc::clone(held),
            path,
        })
    }

    /// A built-in tool on the volume that its path names; `None` where there are no volumes for it. The terms are those of the volume.
    pub(crate) fn target(
        &self,
        caller: &Caller,
        name: &str,
        received: &Received<'_>,
    ) -> Option<Arc<Target>> {
        if !self
            .held
            .iter()
            .any(|held| caller.sees(held.entry.tenant.as_deref()))
        {
            return None;
        }
        if let Some(held) = self.for_commands(caller)
            && let Some(target) = builtin::in_volume(name, held.entry.spec.ceiling)
        {
            return Some(target);
        }
        let places = places(received.arguments);
        let ceilings = places.filter_map(|text| {
            let located = self.locate(caller, &text).ok()?;
            Some(located.held.entry.spec.ceiling)
        });
        builtin::on_volume(name, ceilings.min().unwrap_or(Level::Restricted))
    }

    /// Where the arguments of a call lead, where a volume carries it out.
    pub(crate) fn named_by(
        &self,
        caller: &Caller,
        target: &Target,
        arguments: Option<Json<'_>>,
    ) -> Vec<Named> {
        if !matches!(target.route, Some(Route::Volume)) {
            return Vec::new();
        }
        let volume = |text: &str| match self.locate(caller, text) {
            Ok(located) => Some((located.held.entry.spec.name.clone(), true)),
            Err(Astray::NotFor(volume)) => Some((volume, false)),
            Err(Astray::Problem(_) | Astray::Nowhere(_) | Astray::Name(_)) => None,
        };
        places(arguments)
            .map(|path| Named {
                volume: volume(&path),
                path,
            })
            .collect()
    }

    /// The tools that a caller can use volumes with.
    pub(crate) fn tools(&self, caller: &Caller) -> Vec<&'static Tool> {
        let volumes = || self.held.iter().filter(|held| held.is_for(caller));
        let is_writable = volumes().any(|held| held.entry.spec.is_writable);
        let is_empty = volumes().next().is_none();
        let tools = wire::builtin::all().filter(|tool| tool.executor == Executor::Volume);
        tools
            .filter(|tool| !is_empty && (is_writable || tool.effect == vocab::Effect::Read))
            .collect()
    }
}

impl Volumes {
    pub(crate) fn new(state: State, protected: Vec<PathBuf>, own: PathBuf) -> Self {
        Self {
            rows: Arc::new(rows::Rows::new(state)),
            protected,
            own,
            lines: Lines::new(),
        }
    }

    /// Runs an operation on a volume of a set, which is attached if it was not. Waits for the disk.
    pub(crate) fn with<T>(
        &self,
        set: &VolumeSet,
        held: &Held,
        run: impl FnOnce(&Volume) -> T,
    ) -> Result<T, String> {
        let gone = || format!("volume `{}` was changed meanwhile", held.entry.spec.name);
        {
            let slot = held.slot.read().unwrap_or_else(PoisonError::into_inner);
            match &*slot {
                Slot::Attached(volume) => return Ok(run(volume)),
                Slot::Retired => return Err(gone()),
                Slot::Idle => {}
            }
        }
        self.attach(set, held)?;
        let slot = held.slot.read().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Slot::Attached(volume) => Ok(run(volume)),
            Slot::Retired | Slot::Idle => Err(gone()),
        }
    }

    fn attach(&self, set: &VolumeSet, held: &Held) -> Result<(), String> {
        let mut slot = held.slot.write().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*slot, Slot::Idle) {
            return Ok(());
        }
        let mut before = held.take_before();
        while let Some(one) = before {
            // Waits for operations that are under way there; what they wrote is on record then.
            *one.slot.write().unwrap_or_else(PoisonError::into_inner) = Slot::Retired;
            before = one.take_before();
        }
        let spec = &held.entry.spec;
        let failed = |why: String| format!("volume `{}` cannot be used: {why}", spec.name);
        self.check_root(set, held).map_err(failed)?;
        let volume = Volume::attach(spec.clone(), Arc::clone(&self.rows));
        let volume = volume.map_err(|error| failed(error.to_string()))?;
        *slot = Slot::Attached(Box::new(volume));
        Ok(())
    }

    /// A volume shares no file with another, nor with the gate.
    fn check_root(&self, set: &VolumeSet, held: &Held) -> Result<(), String> {
        let spec = &held.entry.spec;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let root = real(&spec.root);
        let others = set.all().iter();
        for other in others.filter(|other| other.entry.spec.name != spec.name) {
            let theirs = real(&other.entry.spec.root);
            if root.starts_with(&theirs) || theirs.starts_with(&root) {
                return Err(format!(
                    "it shares files with volume `{}`",
                    other.entry.spec.name
                ));
            }
        }
        let is_own = root.starts_with(real(&self.own)) && root != real(&self.own);
        let mut protected = self.protected.iter().map(|path| real(path));
        match protected.find(|own| own.starts_with(&root) || (root.starts_with(own) && !is_own)) {
            Some(_) => Err("files of the gate itself are there".to_owned()),
            None => Ok(()),
        }
    }
}

impl Held {
    pub(crate) fn is_for(&self, caller: &Caller) -> bool {
        let entry = &self.entry;
        caller.sees(entry.tenant.as_deref())
            && (entry.access.is_open() || caller.is_listed(&entry.access))
    }

    fn take_before(&self) -> Option<Arc<Self>> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        before.take()
    }

    /// Where callers see it.
    pub(crate) fn mount(&self) -> String {
        format!("/{}", self.entry.mount.join("/"))
    }

    /// How callers know a place in it.
    pub(crate) fn shown(&self, path: &VolumePath) -> String {
        let names = self.entry.mount.iter().chain(path.names());
        format!(
            "/{}",
            names.map(String::as_str).collect::<Vec<_>>().join("/")
        )
    }
}

/// The places that arguments name.
fn places<'a>(arguments: Option<Json<'a>>) -> impl Iterator<Item = String> + use<'a> {
    PLACES.into_iter().filter_map(move |key| {
        let text = arguments?.get(key)?.as_str()?;
        Some(text.into_owned())
    })
}
