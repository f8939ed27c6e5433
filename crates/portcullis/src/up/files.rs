//! The files a gate is made from, and how it learns that they changed.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use api::{Kind, Problem};
use config::{Resolved, Retention, edit, named_files};
use gateway::{Edit, Gate, settings::Configuration};
use sha2::{Digest as _, Sha256};

use super::fixed::Fixed;
use crate::{exports::Exports, from_files, home::Home, offline, signing, wiring};

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
    /// The configuration that was read last, whether it could be applied or not: the files it names are watched.
    read: Mutex<Option<Arc<Resolved>>>,
    /// How long the ledger is kept.
    retention: Mutex<Retention>,
    sinks: Mutex<Vec<sinks::Spec>>,
    /// Names the contents in force. A gate that has changed its own file and read it again need not do so twice.
    in_force: Mutex<Option<[u8; 32]>>,
    exports: OnceLock<Exports>,
    fixed: OnceLock<Fixed>,
    /// What the last reload could not take on, so that it is said once.
    awaiting_restart: Mutex<Vec<&'static str>>,
}

fn set<T>(place: &Mutex<T>, value: T) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = value;
}

fn get<T: Clone>(place: &Mutex<T>) -> T {
    place.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Files {
    pub(super) fn new(home: &Home) -> Arc<Self> {
        Arc::new(Self {
            home: home.clone(),
            read: Mutex::default(),
            retention: Mutex::default(),
            sinks: Mutex::default(),
            in_force: Mutex::default(),
            exports: OnceLock::new(),
            fixed: OnceLock::new(),
            awaiting_restart: Mutex::default(),
        })
    }

    /// Sinks follow the configuration too, once they are started.
    pub(super) fn export_to(&self, exports: Exports) {
        let _ = self.exports.set(exports);
    }

    /// What this gate was made with and keeps until it ends.
    pub(super) fn made_with(&self, fixed: Fixed) {
        let _ = self.fixed.set(fixed);
    }

    /// Reads the configuration. What the files are is noted first, so that a change is noticed however soon it comes after.
    pub(super) fn first(&self) -> Result<(Arc<Resolved>, Looks), offline::Trouble> {
        let file = self.home.config_file();
        // Only to learn where the policies are.
        self.follow(&Arc::new(offline::load(&file)?.1));
        let (looks, contents) = (self.looks(), self.contents());
        let resolved = Arc::new(offline::load(&file)?.1);
        self.follow(&resolved);
        set(&self.retention, resolved.retention);
        set(&self.sinks, resolved.sinks.clone());
        set(&self.in_force, Some(contents));
        Ok((resolved, looks))
    }

    /// How long the ledger is kept, as the file in force says.
    pub(super) fn retention(&self) -> Retention {
        get(&self.retention)
    }

    /// The first record that a sink still needs.
    pub(super) fn read_from(&self) -> Option<u64> {
        super::retention::read_from(&self.home, &get(&self.sinks))
    }

    fn follow(&self, resolved: &Arc<Resolved>) {
        set(&self.read, Some(Arc::clone(resolved)));
    }

    /// What the configuration leads to: policies, manifests and keys.
    fn named(&self) -> Vec<PathBuf> {
        get(&self.read).map_or_else(Vec::new, |read| named_files::paths(&read))
    }

    fn looks(&self) -> Looks {
        let own = [
            self.home.config_file(),
            self.home.tokens_file(),
            self.home.lock_file(),
            signing::key_file(&self.home),
        ];
        own.into_iter().chain(self.named()).map(look).collect()
    }

    /// Names what stands in the files. The approved definitions are not part of it: the gate writes those itself.
    fn contents(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let own = [
            self.home.config_file(),
            self.home.tokens_file(),
            signing::key_file(&self.home),
        ];
        for file in own.into_iter().chain(self.named()) {
            let bytes = fs::read(&file).unwrap_or_default();
            hash.update(file.as_os_str().as_encoded_bytes());
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(&bytes);
        }
        hash.finalize().into()
    }

    /// Reads everything again; a mistake anywhere changes nothing.
    fn apply(&self, gate: &Gate) -> Result<String, Problem> {
        let (raw, resolved) = config::load(&self.home.config_file())
            .map_err(|error| not_applied(error.to_string()))?;
        let resolved = Arc::new(resolved);
        // Also where they turn out to be wrong: whoever repairs them there wants it to be noticed.
        self.follow(&resolved);
        // Named before they are read: what changes meanwhile is another name, and is read again.
        let contents = self.contents();
        let mistakes = named_files::mistakes(&resolved);
        if !mistakes.is_empty() {
            return Err(not_applied(raw.report(mistakes).to_string()));
        }
        let applied = self.apply_resolved(gate, &resolved).map_err(not_applied)?;
        set(&self.in_force, Some(contents));
        Ok(applied)
    }

    fn apply_resolved(&self, gate: &Gate, resolved: &Resolved) -> Result<String, String> {
        let credentials = wiring::credentials(&self.home).map_err(|error| error.to_string())?;
        let rules = named_files::rules(resolved)?;
        let keys = signing::keys(&self.home, resolved)?;
        gate.pins().reload()?;
        let Some(fixed) = self.fixed.get() else {
            return Err("the gate is not open yet".into());
        };
        let awaiting_restart = fixed.awaiting_restart(resolved);
        let mut summary = format!(
            "{} servers, {} credentials, policies {}",
            resolved.servers.len(),
            credentials.len(),
            rules.bundle.version()
        );
        if !awaiting_restart.is_empty() {
            summary.push_str(&format!(
                "; in force after a restart: {}",
                awaiting_restart.join(", ")
            ));
        }
        let was_open = !gate.settings().requires_credential;
        gate.apply(Configuration {
            servers: resolved.servers.clone(),
            credentials,
            rules,
            terms: fixed.terms(resolved),
            awaiting_restart: awaiting_restart.clone(),
        })?;
        self.warn(resolved, was_open, awaiting_restart);
        gate.renew_signing(keys, resolved.seal.clone());
        set(&self.retention, resolved.retention);
        set(&self.sinks, resolved.sinks.clone());
        if let Some(exports) = self.exports.get() {
            exports.apply(&resolved.sinks);
        }
        Ok(summary)
    }

    /// What an operator should know of a file that was applied, each time it comes to be so.
    fn warn(&self, resolved: &Resolved, was_open: bool, awaiting_restart: Vec<&'static str>) {
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
        set(&self.awaiting_restart, awaiting_restart);
    }

    pub(super) fn reload(self: &Arc<Self>) -> gateway::Reload {
        let files = Arc::clone(self);
        Box::new(move |gate| files.apply(gate))
    }

    /// Reloads when a file has changed and then kept still for one look, so that one that is being written is not read half.
    pub(super) async fn watch(self: Arc<Self>, gate: Gate, mut applied: Looks) {
        let mut before = applied.clone();
        loop {
            tokio::time::sleep(PERIOD).await;
            let now = self.looks();
            if now == before && now != applied {
                applied = now.clone();
                self.changed(&gate);
            }
            before = now;
        }
    }

    fn changed(&self, gate: &Gate) {
        if get(&self.in_force) != Some(self.contents()) {
            return reload_and_log(gate);
        }
        if let Err(error) = gate.pins().reload() {
            tracing::error!(
                "{} is not read, nothing changed: {error}",
                self.home.lock_file().display()
            );
        }
    }
}

pub(super) fn reload_and_log(gate: &Gate) {
    match gate.admin().reload() {
        Ok(applied) => tracing::info!(applied, "reloaded"),
        Err(error) => tracing::error!("not reloaded, nothing changed: {error}"),
    }
}

/// A file that is wrong is the operator's to repair; a disk that is full is another matter.
fn not_applied(text: String) -> Problem {
    if api::is_full(&text) {
        return Problem::full(&text);
    }
    Problem {
        kind: Kind::InvalidInput,
        code: "configuration_invalid".into(),
        sentence: text,
        fix: String::new(),
    }
}

/// How the gate answers what the files of the home say.
pub(super) fn reader(home: Home) -> gateway::FileAnswers {
    Arc::new(move |operation, name, input| from_files::answer(&home, operation, name, input))
}

/// How the gate changes the configuration for an operator: the edit a person would have made by hand.
pub(super) fn editor(home: Home) -> gateway::Editor {
    Box::new(move |edit| {
        // The gate has recorded it, with who and why.
        let recorded = || Ok(());
        let edited = match edit {
            Edit::Classify { id, level } => offline::change(
                &home,
                |text| edit::set_classification(text, id.as_str(), *level),
                recorded,
            ),
            Edit::Block { id, reason } => offline::change(
                &home,
                |text| edit::set_blocked(text, id.as_str(), Some(reason)),
                recorded,
            ),
            Edit::Unblock { id } => offline::change(
                &home,
                |text| edit::set_blocked(text, id.as_str(), None),
                recorded,
            ),
        };
        edited
            .map(drop)
            .map_err(|trouble| not_applied(trouble.message))
    })
}
