//! Volumes as a file system: what a door needs that lets a caller mount them.
//!
//! A mount belongs to one caller, and reaches the volumes that an operator attached to it. What changes names goes the way of every call, as
//! the tool for files that does the same: `fs.create`, `fs.create_dir`, `fs.delete`, `fs.move`. So does the first reading, listing and
//! writing of each file: a call that is judged and recorded like any other, and opens the file for a moment. Within that moment the file
//! is read and written by parts. Whatever any part, name or attribute tells is weighed against the caller's session first, and where it
//! tells more, a call raises the session's label before a byte of it leaves.
//!
//! **Invariant: nothing is told over a mount that the session's durable label does not cover.** Test
//! `what_a_mount_tells_is_in_the_label_before_it_is_told`.
//! **Invariant: what the tools are refused, a mount is refused.** Test `a_mount_holds_to_the_rules_of_the_tools`.

mod error;
mod handle;
mod operations;
mod places;

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use callers::ForGate;
use calls::{Action, Answer, CallRequest, Door, Event, Origin, Outcome};
use storage::{Access, FileError, FileId, Labelled, Stat, Volume, VolumePath};
use tokio::sync::watch;
use vocab::{FaultKind, Label, Rule, ServerId, Stop};
use wire::{Json, write::Object};

use crate::{
    Caller, Gate,
    gate::Inner,
    route::volume::Lists,
    volumes::{Held, VolumeSet},
};
pub use error::MountError;
pub use handle::HANDLE_BYTES;
use handle::Named;
pub use operations::{Attributes, Creation, Entry, Space};
use places::Places;
pub use storage::{Adjustment, Kind};

/// How long a file stays open once a call has opened it: bursts of parts are one use, and a rule that changes counts soon.
const OPEN_FOR: Duration = Duration::from_secs(10);
/// Files that are open at once.
const MOST_OPEN: usize = 10_000;
/// How long a call is waited for before the client is told to ask again; it may wait for a person.
const PATIENCE: Duration = Duration::from_secs(5);
/// Calls of one mount that are waited for.
const MOST_ASKED: usize = 64;
/// How often an answer is made anew because others wrote more secret things meanwhile.
const ROUNDS: usize = 4;

pub type Handle = [u8; HANDLE_BYTES];

/// What a call came to, once it has ended.
type Coming = watch::Receiver<Option<Result<(), MountError>>>;

/// Volumes that a caller has mounted.
#[derive(Clone)]
pub struct Mount(Arc<Mounted>);

struct Mounted {
    gate: Gate,
    caller: Caller,
    shared: Arc<Shared>,
    key: [u8; 32],
    /// Which files are open for what, until when.
    open: Mutex<HashMap<(FileId, &'static str), Instant>>,
    /// Calls under way, by what they ask for.
    asked: Mutex<HashMap<String, Coming>>,
    /// What files that were made exclusively were made with.
    made: Mutex<HashMap<FileId, [u8; 8]>>,
}

/// What the gate knows of a mount.
pub(crate) struct Shared {
    /// The name of who it belongs to, and of the execution, if it ends with one.
    pub(crate) caller: String,
    pub(crate) execution: Option<String>,
    id: [u8; 16],
    exports: RwLock<Vec<Arc<Export>>>,
    address: OnceLock<SocketAddr>,
    closed: watch::Sender<bool>,
}

/// One volume of a mount.
#[derive(Debug)]
pub(crate) struct Export {
    pub(crate) volume: String,
    pub(crate) path: String,
    id: [u8; 16],
    root: FileId,
    places: Mutex<Places>,
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.shared.fmt(f)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mount")
            .field("caller", &self.caller)
            .field("execution", &self.execution)
            .finish_non_exhaustive()
    }
}

/// The mounts of a gate, one for each caller or execution.
pub(crate) type Mounts = Mutex<Vec<Arc<Shared>>>;

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(caller: &Caller, execution: Option<&str>) -> Self {
        let name = format!("{} {}", caller.id(), execution.unwrap_or_default());
        Self {
            caller: caller.id().to_owned(),
            execution: execution.map(str::to_owned),
            id: handle::id("portcullis mount 1", &name),
            exports: RwLock::default(),
            address: OnceLock::new(),
            closed: watch::Sender::new(false),
        }
    }

    pub(crate) fn exports(&self) -> Vec<Arc<Export>> {
        let exports = self.exports.read();
        exports.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a volume. `false`: it was there.
    pub(crate) fn add(&self, volume: &str, path: String, root: FileId) -> bool {
        let mut exports = self.exports.write().unwrap_or_else(PoisonError::into_inner);
        if exports.iter().any(|export| export.volume == volume) {
            return false;
        }
        exports.push(Arc::new(Export {
            volume: volume.to_owned(),
            path,
            id: handle::id("portcullis mounted volume 1", volume),
            root,
            places: Mutex::default(),
        }));
        true
    }

    /// Takes a volume away. `false`: it was not there. What has none left is closed.
    pub(crate) fn remove(&self, volume: &str) -> bool {
        let mut exports = self.exports.write().unwrap_or_else(PoisonError::into_inner);
        let before = exports.len();
        exports.retain(|export| export.volume != volume);
        if exports.is_empty() {
            self.closed.send_replace(true);
        }
        exports.len() < before
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address.get().copied()
    }

    pub(crate) fn is_at(&self, address: SocketAddr) {
        let _once = self.address.set(address);
    }
}

/// A place that a handle leads to, with what an operation needs there.
struct At<'a> {
    volume: &'a Volume,
    access: Access<'a>,
    held: &'a Held,
    export: &'a Export,
    path: VolumePath,
    stat: Stat,
    /// The place that is told of, where it is another one.
    told_of: RefCell<Option<VolumePath>>,
}

impl At<'_> {
    /// What is told is of this place: where that raises a label, a call says so of it.
    fn tells_of(&self, place: &VolumePath) {
        *self.told_of.borrow_mut() = Some(place.clone());
    }

    /// A name in the directory that this is.
    fn inner(&self, name: &str) -> Result<VolumePath, FileError> {
        if self.stat.kind != Kind::Directory {
            let says = format!("`{}` is no directory", self.path);
            return Err(FileError::new(storage::ErrorKind::WrongType, says));
        }
        let mut names = self.path.names().to_vec();
        names.push(name.to_owned());
        VolumePath::from_names(names)
    }

    /// How callers know a place.
    fn shown(&self, path: &VolumePath) -> String {
        self.held.shown(path)
    }

    fn note(&self, id: FileId, name: &str) {
        locked(&self.export.places).note((id, self.stat.id, name.to_owned()));
    }
}

impl Mount {
    pub(crate) fn new(gate: Gate, caller: Caller, shared: Arc<Shared>) -> Self {
        let key = gate.inner().mount_key;
        Self(Arc::new(Mounted {
            gate,
            caller,
            shared,
            key,
            open: Mutex::default(),
            asked: Mutex::default(),
            made: Mutex::default(),
        }))
    }

    /// Waits until nothing is attached any more.
    pub async fn closed(&self) {
        let mut closed = self.0.shared.closed.subscribe();
        let _closed = closed.wait_for(|closed| *closed).await;
    }

    /// The time, in nanoseconds since 1970.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.0.gate.inner().now_ms().saturating_mul(1_000_000)
    }

    /// The paths that can be mounted.
    #[must_use]
    pub fn exports(&self) -> Vec<String> {
        let exports = self.0.shared.exports();
        exports.iter().map(|export| export.path.clone()).collect()
    }

    /// The handle of a volume's root.
    pub fn root(&self, path: &str) -> Result<Handle, MountError> {
        self.caller()?;
        let exports = self.0.shared.exports();
        let path = path.trim_end_matches('/');
        let found = exports.iter().find(|export| export.path == path);
        let export = found.ok_or(MountError::NotFound)?;
        Ok(self.handle(export, export.root))
    }

    /// Whether a handle is one of this mount, without a look at what it names.
    pub fn holds(&self, handle: &[u8]) -> Result<(), MountError> {
        self.caller()?;
        self.named(handle).map(drop)
    }

    fn handle(&self, export: &Export, file: FileId) -> Handle {
        let named = Named {
            mount: self.0.shared.id,
            volume: export.id,
            file,
        };
        named.write(&self.0.key)
    }

    /// What a handle names. One that this gate made for somebody else is on record.
    fn named(&self, handle: &[u8]) -> Result<(Arc<Export>, FileId), MountError> {
        let named = Named::read(&self.0.key, handle).ok_or(MountError::BadHandle)?;
        if named.mount != self.0.shared.id {
            self.told_of_a_strangers_handle();
            return Err(MountError::Denied);
        }
        let exports = self.0.shared.exports();
        let found = exports.into_iter().find(|export| export.id == named.volume);
        Ok((found.ok_or(MountError::Stale)?, named.file))
    }

    fn told_of_a_strangers_handle(&self) {
        let caller = &self.0.caller;
        if !caller.refusals().may_record() {
            return;
        }
        let change = audit::Change {
            action: "mount.refused",
            door: Door::Nfs.as_str(),
            caller: caller.id(),
            user: caller.user().unwrap_or_default(),
            tenant: caller.tenant().unwrap_or_default(),
            execution: self.0.shared.execution.as_deref().unwrap_or_default(),
            violation: Rule::UnauthorizedVolumeAccess.code(),
            detail: "a handle that was made for another mount",
            ..audit::Change::default()
        };
        if let Err(error) = self.0.gate.ledger().change(&change) {
            tracing::error!(%error, "a refusal could not be recorded");
        }
    }

    /// The caller as it is now, where it may still use the mount.
    fn caller(&self) -> Result<Caller, MountError> {
        let inner = self.0.gate.inner();
        let now_ms = inner.now_ms();
        let is_over = self.0.shared.execution.as_deref().is_some_and(|id| {
            let found = inner.executions.find(id);
            found.is_none_or(|execution| !execution.is_in_force(now_ms))
        });
        let now = inner.now();
        let caller = now.caller(&self.0.caller).filter(|_| !is_over);
        let caller = caller.ok_or(MountError::Denied)?;
        now.admits(&caller, now_ms)
            .map_err(|_| MountError::Denied)?;
        Ok(caller)
    }

    /// Does something at the place of a handle, on a thread that may wait. What comes of it is told when the session's label covers it.
    async fn on<T: Send + 'static>(
        &self,
        handle: &[u8],
        tool: &'static str,
        run: impl Fn(&At<'_>) -> Labelled<T> + Send + Sync + 'static,
    ) -> Result<T, MountError> {
        let (export, id) = self.named(handle)?;
        let run = Arc::new(run);
        for _ in 0..ROUNDS {
            let caller = self.caller()?;
            let gate = Arc::clone(self.0.gate.inner());
            let now = gate.now();
            let held = now.volumes.named(&export.volume);
            let held = held.filter(|held| held.is_for(&caller)).cloned();
            let held = held.ok_or(MountError::Denied)?;
            let label = seen_by(&caller);
            let row = wire::builtin::find(tool).ok_or(MountError::Broken)?;
            let lists = Lists::of(&caller, Arc::clone(&now.rules.contexts), row);
            let turn = gate.volumes.lines.turn(caller.key(), false).await;
            let work = Work {
                set: Arc::clone(&now.volumes),
                gate: Arc::clone(&gate),
                export: Arc::clone(&export),
                held,
                label,
                lists,
            };
            let run = Arc::clone(&run);
            let done = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                work.run(id, |at| run(at))
            });
            let (done, shown) = done.await.map_err(|_| MountError::Broken)??;
            if seen_by(&caller).includes(&done.label) {
                return done.result.map_err(|error| self.failed(&error));
            }
            // What it tells is more than was seen so far: a call says so, and raises the label.
            let mut arguments = Object::new();
            arguments.str("path", &shown);
            // Names of a directory are told by a list, and all else by a look.
            let raises = if tool == "fs.list" { tool } else { "fs.stat" };
            match self.ask(raises, arguments).await {
                Ok(()) | Err(MountError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Err(MountError::Later)
    }

    fn failed(&self, error: &FileError) -> MountError {
        if error.kind == storage::ErrorKind::Broken {
            tracing::error!(%error, "a mounted volume failed");
        }
        MountError::from(error)
    }

    /// Opens a file for a use, by a call, unless it is open.
    async fn open(&self, handle: &[u8], tool: &'static str) -> Result<(), MountError> {
        let (export, id) = self.named(handle)?;
        let until = locked(&self.0.open).get(&(id, tool)).copied();
        let now = Instant::now();
        // What may not be written any more is refused anew each time, and so is on record.
        let is_above = tool == "fs.write" && {
            let caller = self.caller()?;
            let now = self.0.gate.inner().now();
            let held = now.volumes.named(&export.volume);
            held.is_none_or(|held| caller.session().mark().secrecy > held.entry.spec.ceiling)
        };
        if until.is_some_and(|until| now < until) && !is_above {
            return Ok(());
        }
        let shown = self.shown(handle).await?;
        let mut arguments = Object::new();
        arguments.str("path", &shown);
        if tool == "fs.write" {
            arguments.str("content", "");
        }
        self.ask(tool, arguments).await?;
        let mut open = locked(&self.0.open);
        if open.len() >= MOST_OPEN {
            open.retain(|_, until| now < *until);
        }
        if open.len() < MOST_OPEN {
            open.insert((id, tool), now + OPEN_FOR);
        }
        Ok(())
    }

    /// How callers know what a handle names.
    async fn shown(&self, handle: &[u8]) -> Result<String, MountError> {
        self.on(handle, "fs.read", |at| told(at.shown(&at.path)))
            .await
    }

    /// Makes a call, the same way as every other, and waits for a while. What is asked for already is not asked for twice.
    async fn ask(&self, tool: &'static str, arguments: Object) -> Result<(), MountError> {
        let arguments = arguments.finish();
        let name = format!("{tool} {}", String::from_utf8_lossy(&arguments));
        let mut answer = self.asked(tool, &arguments, &name)?;
        let waited = tokio::time::timeout(PATIENCE, answer.wait_for(Option::is_some)).await;
        let Ok(waited) = waited else {
            return Err(MountError::Later);
        };
        let outcome = *waited.map_err(|_| MountError::Broken)?;
        locked(&self.0.asked).remove(&name);
        outcome.unwrap_or(Err(MountError::Broken))
    }

    fn asked(
        &self,
        tool: &'static str,
        arguments: &[u8],
        name: &str,
    ) -> Result<Coming, MountError> {
        let mut asked = locked(&self.0.asked);
        if let Some(answer) = asked.get(name) {
            return Ok(answer.clone());
        }
        if asked.len() >= MOST_ASKED {
            asked.retain(|_, answer| answer.borrow().is_none());
        }
        if asked.len() >= MOST_ASKED {
            return Err(MountError::Later);
        }
        let mut params = Object::new();
        params.str("name", tool).raw("arguments", arguments);
        let request = CallRequest {
            caller: self.caller()?,
            door: Door::Nfs,
            mount: None,
            lane: "nfs".into(),
            origin: Origin::Mount,
            action: Action::CallTool,
            params: params.finish().into(),
        };
        let mut running = self.0.gate.start(request);
        let (said, answer) = watch::channel(None);
        tokio::spawn(async move {
            loop {
                match running.next().await {
                    Event::Done(reply) => {
                        let (outcome, _pass) = reply.into_parts();
                        said.send_replace(Some(came_to(&outcome)));
                        return;
                    }
                    // There is nobody to ask.
                    Event::Ask { key, .. } => running.answer(&key, nobody()),
                    Event::Progress(_) | Event::Log(_) => {}
                }
            }
        });
        asked.insert(name.to_owned(), answer.clone());
        Ok(answer)
    }
}

fn nobody() -> Answer {
    Answer::Error(Bytes::from_static(
        br#"{"code":-32603,"message":"this client cannot be asked"}"#,
    ))
}

/// What a call came to, as a file system understands it.
fn came_to(outcome: &Outcome) -> Result<(), MountError> {
    match outcome {
        Outcome::Result(text) => {
            let result = Json::checked_before(text);
            if result.get("isError").and_then(Json::as_bool) != Some(true) {
                return Ok(());
            }
            let told = result.get("structuredContent");
            let code = told.and_then(|told| told.get("code")?.as_str());
            Err(MountError::of_code(code.as_deref().unwrap_or_default()))
        }
        Outcome::Rpc(_) => Err(MountError::Broken),
        Outcome::Stopped(Stop::Refused(violation)) => Err(match violation.rule {
            Rule::QuotaExceeded => MountError::NoSpace,
            Rule::RateLimitExceeded => MountError::Later,
            _ => MountError::Denied,
        }),
        Outcome::Stopped(Stop::Failed(fault)) => Err(match fault.kind {
            FaultKind::Timeout => MountError::Later,
            _ => MountError::Broken,
        }),
    }
}

/// What a caller has seen. That a volume had a part in it says nothing of a file.
fn seen_by(caller: &Caller) -> Label {
    let mut label = caller.session().label();
    label.origins.remove(&ServerId::built_in());
    label
}

/// Something that tells no more than the way to it.
fn told<T>(value: T) -> Labelled<T> {
    Labelled {
        result: Ok(value),
        label: Label::default(),
    }
}

/// One operation, with everything it needs on a thread of its own.
struct Work {
    gate: Arc<Inner>,
    set: Arc<VolumeSet>,
    held: Arc<Held>,
    export: Arc<Export>,
    label: Label,
    lists: Option<Lists>,
}

impl Work {
    /// The result, and the path of the place as callers know it.
    fn run<T>(
        &self,
        id: FileId,
        run: impl Fn(&At<'_>) -> Labelled<T>,
    ) -> Result<(Labelled<T>, String), MountError> {
        let may = |place: &VolumePath| {
            let lists = self.lists.as_ref();
            place.is_root() || lists.is_none_or(|lists| lists.let_through(&self.held.shown(place)))
        };
        let access = Access {
            label: &self.label,
            may: &may,
        };
        let volumes = &self.gate.volumes;
        let done = volumes.with(&self.set, &self.held, |volume| {
            let Labelled { result, label } = self.at(volume, access, id);
            let (path, stat) = match result {
                Ok(found) => found,
                Err(error) => {
                    let result = Err(error);
                    return (Labelled { result, label }, self.held.mount());
                }
            };
            let shown = self.held.shown(&path);
            if !may(&path) {
                let says = format!("`{path}` is not for this caller");
                let error = FileError::new(storage::ErrorKind::NotAllowed, says);
                let result = Err(error);
                return (Labelled { result, label }, shown);
            }
            let at = At {
                volume,
                access,
                held: &self.held,
                export: &self.export,
                path,
                stat,
                told_of: RefCell::default(),
            };
            let mut done = run(&at);
            done.label.join_in(&label);
            let told_of = at.told_of.into_inner();
            (done, told_of.map_or(shown, |place| self.held.shown(&place)))
        });
        done.map_err(|why| {
            tracing::error!(why, "a mounted volume cannot be used");
            MountError::Stale
        })
    }

    /// Where a file is now. What is not where it was last seen is looked for once.
    fn at(&self, volume: &Volume, access: Access<'_>, id: FileId) -> Labelled<(VolumePath, Stat)> {
        let mut label = Label::default();
        let root = volume.root_id();
        for walks in [true, false] {
            let known = locked(&self.export.places).path(id, root);
            if let Some(path) = known {
                let found = volume.node(access, &path);
                label.join_in(&found.label);
                if let Ok(stat) = found.result
                    && stat.id == id
                {
                    let result = Ok((path, stat));
                    return Labelled { result, label };
                }
            }
            let may_walk = walks && locked(&self.export.places).may_walk(Instant::now());
            match may_walk.then(|| volume.index()) {
                Some(Ok(all)) => locked(&self.export.places).note_all(all),
                Some(Err(_)) | None => break,
            }
        }
        let error = FileError::new(storage::ErrorKind::Conflict, "it is gone");
        Labelled {
            result: Err(error),
            label,
        }
    }
}
