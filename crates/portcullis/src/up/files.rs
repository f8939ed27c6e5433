//! The files a gate is made from, and how it learns that they changed.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use api::{Kind, Problem};
use commands::{files, verbs::servers};
use config::{Resolved, Retention, edit, named_files};
use gateway::{
    Edit, Gate, Mount, Program, Reading,
    settings::{Configuration, Seal},
};
use home::{Home, answers, signing, stores::Stores};
use sha2::{Digest as _, Sha256};
use terminal::Trouble;

use super::{connectors, entrances::Limiting, fixed::Fixed};
use crate::{exports::Exports, wiring};

/// How often the files are looked at for changes.
const PERIOD: Duration = Duration::from_millis(500);

/// When a file was last changed and how long it is; `None` if it is not there.
type Look = Option<(SystemTime, u64)>;
pub(super) type Looks = Vec<(PathBuf, Look)>;

fn look(file: PathBuf) -> (PathBuf, Look) {
    let seen = fs::metadata(&file)
        .and_then(|data| Ok((data.modified()?, data.len())))
        .ok();
    (file, seen)
}

/// The configuration, the credentials, the approved definitions, the policies and the manifests of agents.
#[derive(Debug)]
pub(super) struct Files {
    home: Home,
    /// What this gate was made with and keeps until it ends.
    fixed: Fixed,
    /// The configuration that was read last, whether it is in force or not: the files it names are watched.
    read: Mutex<Arc<Resolved>>,
    applied: Arc<Applied>,
    /// Where secrets come from.
    stores: Arc<Stores>,
}

/// What is in force of the files, as far as the program itself acts by it.
#[derive(Debug)]
pub(super) struct Applied {
    resolved: Mutex<Arc<Resolved>>,
    /// Names the contents in force. A gate that has changed its own file and read it again need not do so twice.
    contents: Mutex<[u8; 32]>,
    /// What the last reload could not take on, so that it is said once.
    awaiting_restart: Mutex<Vec<&'static str>>,
    exports: OnceLock<Exports>,
    limiting: OnceLock<Limiting>,
}

/// Why a configuration cannot be had: the step that failed, and what it said.
pub(super) type Failed = (&'static str, String);

fn set<T>(place: &Mutex<T>, value: T) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = value;
}

fn get<T: Clone>(place: &Mutex<T>) -> T {
    place.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Applied {
    /// Sinks follow the configuration too, once they are started.
    pub(super) fn export_to(&self, exports: Exports) {
        let _ = self.exports.set(exports);
    }

    /// How often one address may ask follows it too.
    pub(super) fn limit_by(&self, limiting: Limiting) {
        let _ = self.limiting.set(limiting);
    }

    /// How a gate that was told to terminate stops.
    pub(super) fn drain(&self) -> config::Drain {
        get(&self.resolved).drain
    }

    /// How long the ledger is kept, as the file in force says.
    pub(super) fn retention(&self) -> Retention {
        get(&self.resolved).retention
    }

    /// The first record that a sink still needs.
    pub(super) fn read_from(&self, home: &Home) -> Option<u64> {
        home::retention::read_from(home, &get(&self.resolved).sinks)
    }

    /// What the program does once a configuration is in force.
    fn follow(
        &self,
        resolved: Arc<Resolved>,
        contents: [u8; 32],
        awaiting_restart: Vec<&'static str>,
    ) {
        self.warn(&resolved, &awaiting_restart);
        set(&self.awaiting_restart, awaiting_restart);
        set(&self.contents, contents);
        set(&self.resolved, Arc::clone(&resolved));
        if let Some(exports) = self.exports.get() {
            exports.apply(&resolved.sinks);
        }
        if let (Some(limiting), Ok(runtime)) = (
            self.limiting.get().cloned(),
            tokio::runtime::Handle::try_current(),
        ) {
            // A secret may have to be asked for.
            let terms = resolved.rate_limit.clone();
            runtime.spawn(async move { limiting.apply(terms).await });
        }
    }

    /// What an operator should know of a file that is in force, each time it comes to be so.
    fn warn(&self, resolved: &Resolved, awaiting_restart: &[&'static str]) {
        let was_open = !get(&self.resolved).terms.door.requires_credential;
        if !resolved.terms.door.requires_credential && !was_open {
            tracing::warn!(
                "authentication is off: every program on this machine can call every tool"
            );
        }
        if !awaiting_restart.is_empty() && get(&self.awaiting_restart) != awaiting_restart {
            let keys = awaiting_restart.join(", ");
            tracing::warn!(
                "not all of the file is in force: {keys} will be after a restart of the gate"
            );
        }
    }
}

impl Files {
    /// Reads the configuration. What the files are is noted first, so that a change is noticed however soon it comes after.
    /// `has_own_address`: the command line says where the door is.
    pub(super) fn first(home: &Home, has_own_address: bool) -> Result<(Arc<Self>, Looks), Trouble> {
        // Only to learn where the policies are.
        let early = files::of_home(home)?.1;
        let looks = looks(home, &early);
        let contents = contents(home, &early);
        let resolved = Arc::new(files::of_home(home)?.1);
        let files = Self {
            home: home.clone(),
            fixed: Fixed::of(&resolved, has_own_address),
            stores: home::stores::of(home, &resolved).map_err(Trouble::failed)?,
            read: Mutex::new(Arc::clone(&resolved)),
            applied: Arc::new(Applied {
                resolved: Mutex::new(resolved),
                contents: Mutex::new(contents),
                awaiting_restart: Mutex::default(),
                exports: OnceLock::new(),
                limiting: OnceLock::new(),
            }),
        };
        Ok((Arc::new(files), looks))
    }

    pub(super) fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }

    pub(super) fn applied(&self) -> &Arc<Applied> {
        &self.applied
    }

    /// The configuration that was read last.
    pub(super) fn resolved(&self) -> Arc<Resolved> {
        get(&self.read)
    }

    /// What the gate takes of a configuration: everything that it names is read, and nothing is changed.
    pub(super) fn prepared(&self, resolved: &Resolved) -> Result<Configuration, Failed> {
        let credentials = wiring::credentials(&self.home)
            .map_err(|error| ("reading the credentials", error.to_string()))?;
        let rules = named_files::rules(resolved)
            .map_err(|error| ("reading policies, manifests and keys of providers", error))?;
        let keys = signing::keys(&self.home, resolved)
            .map_err(|error| ("reading the keys that sign tokens", error))?;
        let volumes = wiring::volumes(&self.home, resolved)
            .map_err(|error| ("making directories for volumes", error))?;
        let mut servers = resolved.servers.clone();
        self.stores.mark(&mut servers);
        Ok(Configuration {
            servers,
            volumes,
            web: resolved.web.clone().map(Arc::new),
            credentials,
            rules,
            terms: self.fixed.terms(resolved),
            seal: Arc::new(Seal {
                keys,
                terms: resolved.seal.clone(),
            }),
            awaiting_restart: self.fixed.awaiting_restart(resolved),
        })
    }

    /// Reloads when a file has changed and then kept still for one look, so that one that is being written is not read half.
    pub(super) async fn watch(self: Arc<Self>, gate: Gate, mut applied: Looks) {
        let mut before = applied.clone();
        loop {
            tokio::time::sleep(PERIOD).await;
            let now = looks(&self.home, &self.resolved());
            if now == before && now != applied {
                applied = now.clone();
                self.changed(&gate).await;
            }
            before = now;
        }
    }

    async fn changed(self: &Arc<Self>, gate: &Gate) {
        let (files, pins) = (Arc::clone(self), gate.clone());
        // Files are read aside: calls go on meanwhile.
        let is_followed = tokio::task::spawn_blocking(move || {
            if get(&files.applied.contents) != contents(&files.home, &files.resolved()) {
                return false;
            }
            if let Err(error) = pins.reload_pins() {
                let file = files.home.lock_file();
                tracing::error!("{} is not read, nothing changed: {error}", file.display());
            }
            true
        });
        if !is_followed.await.unwrap_or(false) {
            reload_and_log(gate).await;
        }
    }
}

impl Program for Files {
    fn read(&self) -> Result<Reading, Problem> {
        let (raw, resolved) = home::layers::load(&self.home)
            .map_err(|error| unchanged(("reading `portcullis.yaml`", error.to_string())))?;
        let resolved = Arc::new(resolved);
        // Whoever asks for the files to be read wants what they refer to as well.
        self.stores.look_now();
        // A file that is wrong is watched too: whoever repairs it wants that to be noticed.
        set(&self.read, Arc::clone(&resolved));
        // Named before they are read: what changes meanwhile is another name, and is read again.
        let contents = contents(&self.home, &resolved);
        let mistakes = named_files::mistakes(&resolved);
        if !mistakes.is_empty() {
            let report = raw.report(mistakes).to_string();
            return Err(unchanged(("reading the files that it names", report)));
        }
        let configuration = self.prepared(&resolved).map_err(unchanged)?;
        let (applied, awaiting) = (
            Arc::clone(&self.applied),
            configuration.awaiting_restart.clone(),
        );
        let home = self.home.clone();
        Ok(Reading {
            configuration,
            then: Box::new(move || {
                applied.follow(resolved, contents, awaiting);
                match home::layers::keep(&home) {
                    Ok(None) => {}
                    Ok(Some(serial)) => tracing::info!(serial, "the company's file is in force"),
                    Err(error) => tracing::error!("{error}"),
                }
            }),
        })
    }

    /// The edit a person would have made by hand.
    fn edit(&self, edit: &Edit) -> Result<(), Problem> {
        // The gate has recorded it, with who and why.
        let recorded = || Ok(());
        let home = &self.home;
        let edited = match edit {
            Edit::Classify { id, level } => servers::edit::change(
                home,
                id.as_str(),
                |text| edit::set_classification(text, id.as_str(), *level),
                recorded,
            ),
            Edit::Block { id, reason } => servers::edit::change(
                home,
                id.as_str(),
                |text| edit::set_blocked(text, id.as_str(), Some(reason)),
                recorded,
            ),
            Edit::Unblock { id } => servers::edit::change(
                home,
                id.as_str(),
                |text| edit::set_blocked(text, id.as_str(), None),
                recorded,
            ),
        };
        let failed = |trouble: Trouble| ("changing `portcullis.yaml`", trouble.message);
        edited
            .map(drop)
            .map_err(|trouble| unchanged(failed(trouble)))
    }

    fn open_mount(&self, mount: Mount, port: u16) -> Result<SocketAddr, Problem> {
        nfs::open(mount, port).map_err(|error| {
            let text = format!("cannot listen on port {port}: {error}");
            Problem::new(Kind::Conflict, "cannot_listen", text)
        })
    }

    fn answer(
        &self,
        operation: api::Operation,
        name: &str,
        input: &[u8],
    ) -> Result<Vec<u8>, Problem> {
        match operation {
            api::Operation::AddConnector | api::Operation::RemoveConnector => {
                connectors::change(&self.home, operation, name, input)
            }
            _ => answers::answer(&self.home, operation, name, input),
        }
    }

    fn sinks(&self) -> Vec<api::Sink> {
        let exports = self.applied.exports.get();
        exports.map_or_else(Vec::new, Exports::status)
    }
}

/// The files that a gate follows, but for the approved definitions.
fn followed(home: &Home, resolved: &Resolved) -> Vec<PathBuf> {
    let mut files = home::layers::files(home);
    files.extend([home.tokens_file(), signing::key_file(home)]);
    files.extend(named_files::paths(resolved));
    files
}

fn looks(home: &Home, resolved: &Resolved) -> Looks {
    let files = std::iter::once(home.lock_file()).chain(followed(home, resolved));
    files.map(look).collect()
}

/// Names what stands in the files. The approved definitions are not part of it: the gate writes those itself.
fn contents(home: &Home, resolved: &Resolved) -> [u8; 32] {
    let mut hash = Sha256::new();
    for file in followed(home, resolved) {
        let bytes = fs::read(&file).unwrap_or_default();
        hash.update(file.as_os_str().as_encoded_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
    }
    hash.finalize().into()
}

pub(super) async fn reload_and_log(gate: &Gate) {
    match gate.admin().reload().await {
        Ok(applied) => tracing::info!(applied, "reloaded"),
        Err(error) => tracing::error!("not reloaded, nothing changed: {error}"),
    }
}

/// Nothing has changed, because a step failed. A file that is wrong is the operator's to repair; a disk that is full is another matter.
fn unchanged((step, text): Failed) -> Problem {
    let sentence = format!("{text}\n{step} failed; the configuration before stays in force");
    if api::is_full(&text) {
        return Problem::full(&sentence);
    }
    Problem {
        kind: Kind::InvalidInput,
        code: "configuration_invalid".into(),
        sentence,
        fix: String::new(),
    }
}
