//! `portcullis up`: opens the gate and keeps it open until told to stop.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use commands::{args, files as home_files, verbs::servers::edit};
use gateway::{Gate, Program};
use home::{Home, holding, private_file, signing, tokens};
use state::State;
use terminal::{Exit, Screen, Trouble};
use tokio::{
    net::UnixListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::JoinHandle,
};

use crate::{exports::Exports, log, notify, providers, wiring};
use files::Files;

mod connectors;
mod entrances;
mod files;
mod fixed;
pub(crate) mod retention;

/// How often, and how long apart, a new gate looks for its worker to say how it is confined.
const WORKER_LOOKS: usize = 40;
const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// A person at the terminal does not wait longer than this for calls under way.
const PATIENCE: Duration = Duration::from_secs(10);
/// What connections have beyond the time of their calls, to be answered.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What a new gate found or made before it opened.
struct Prepared {
    resolved: Arc<config::Resolved>,
    listen: SocketAddr,
    client: Option<tokens::TokenText>,
    is_new: bool,
    /// Why nobody knows whether this is the whole ledger, if so.
    unsigned: Option<String>,
}

pub(crate) fn run(up: &args::Up, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let (mut prepared, files, looks) = prepare(up, home)?;
    let _home_is_ours = holding::GateLock::take(home).map_err(|taken| Trouble::because(&taken))?;
    // Stdio servers run as the same user; they must not be able to read this process.
    if let Err(error) = sandbox::jail::hide_memory() {
        tracing::warn!(%error, "servers of `command` entries could read the gate's memory");
    }
    // Orphans of stdio servers come to us, so that they can be ended with them.
    if let Err(error) = sandbox::become_subreaper() {
        tracing::warn!(%error, "daemons that stdio servers leave behind cannot be found");
    }
    let ledger = holding::open_ledger(home).map_err(|taken| Trouble::because(&taken))?;
    if let Some(unsigned) = ledger.unsigned() {
        tracing::warn!("{unsigned}");
        prepared.unsigned = Some(unsigned.to_owned());
    }
    let configuration = files
        .prepared(&prepared.resolved)
        .map_err(|(_, error)| Trouble::failed(error))?;
    sandbox::descriptors::raise();
    sandbox::allocator::give_back_long_pieces();
    runtime()?.block_on(async {
        let state = State::open(&home.state_file())
            .await
            .map_err(Trouble::failed)?;
        let mut sessions = state.sessions().await.map_err(Trouble::failed)?;
        reports::catch_up(&ledger, &mut sessions)?;
        let now_ms = audit::system_clock()().unix_ms;
        let boot = signing::boot();
        let signing = signing::signing(home, &state, &boot, now_ms)
            .await
            .map_err(Trouble::failed)?;
        let proofs = providers::proofs(home, &boot, now_ms).map_err(Trouble::failed)?;
        let executions = state.executions().await.map_err(Trouble::failed)?;
        let (entrances, address) =
            entrances::open(prepared.listen, &prepared.resolved.doors).await?;
        let parts = wiring::Parts {
            configuration,
            program: Arc::clone(&files) as Arc<dyn Program>,
            url: format!("http://{address}/mcp"),
            state,
            signing,
            executions,
            proofs,
            secrets: Arc::clone(files.stores()) as Arc<dyn secrets::Store>,
        };
        let settings =
            wiring::settings(home, &prepared.resolved, parts).map_err(Trouble::failed)?;
        let lines = bind_lines(&home.socket())?;
        let keeper = tokio::spawn(retention::keep(
            ledger.clone(),
            home.clone(),
            Arc::clone(files.applied()),
        ));
        let gate = Gate::open(settings, sessions, ledger, audit::system_clock());
        log::know(Some(&gate));
        let listening: Vec<String> = entrances
            .iter()
            .filter_map(|(listener, _)| Some(listener.local_addr().ok()?.to_string()))
            .collect();
        gate.record_change(
            "gate.opened",
            &format!("listening on {}", listening.join(", ")),
        )
        .map_err(Trouble::failed)?;
        if let Some(serial) = home::layers::keep(home).map_err(Trouble::failed)? {
            gate.record_change(
                "configuration.corp",
                &format!("serial {serial} is in force"),
            )
            .map_err(Trouble::failed)?;
        }
        let limiting = entrances::Limiting::new(home);
        limiting.apply(prepared.resolved.rate_limit.clone()).await;
        files.applied().limit_by(limiting.clone());
        let watching = entrances::watched(
            &gate,
            prepared.resolved.admin_listen,
            entrances::ready(&entrances),
            limiting.limiter(),
        )
        .await?;
        let tending = tokio::spawn(entrances::tend(
            gate.clone(),
            entrances::ready(&entrances),
            limiting.limiter(),
        ));
        let secrets = Arc::clone(files.stores());
        let exports = Exports::start(home, &prepared.resolved, &gate, secrets.clone())
            .map_err(Trouble::failed)?;
        let changes = gate.clone();
        let rotation =
            tokio::spawn(secrets.watch(async move || files::reload_and_log(&changes).await));
        files.applied().export_to(exports.clone());
        let doors = Doors::open(&gate, entrances, limiting.limiter(), lines);
        // Before anybody knows of the gate: who stops it at once must find it listening.
        let mut signals = Signals::new()?;
        announce(home, &gate)?;
        notify::say(notify::READY);
        let lives = notify::live();
        greet(up, home, &prepared, &gate, screen).await?;
        let watch = tokio::spawn(Arc::clone(&files).watch(gate.clone(), looks));
        let told = signals.told(&gate).await;
        notify::say(notify::STOPPING);
        watch.abort();
        rotation.abort();
        keeper.abort();
        tending.abort();
        finish(&gate, doors, told, files.applied().drain(), &mut signals).await?;
        if let Some(watching) = watching {
            // Whoever watches is told that the gate drains until there is nothing left to watch.
            watching.abort();
        }
        gate.close();
        exports.close().await;
        lives.inspect(JoinHandle::abort);
        log::know(None);
        Ok::<_, Trouble>(())
    })?;
    sandbox::kill_all();
    for file in [announcement(home), home.socket()] {
        let _ = fs::remove_file(file);
    }
    Ok(Exit::Done)
}

fn prepare(up: &args::Up, home: &Home) -> Result<(Prepared, Arc<Files>, files::Looks), Trouble> {
    if home.config_file().exists() {
        // A bad file is refused before anything is made beside it.
        home_files::whole_of_home(home)?;
    }
    home.prepare().map_err(Trouble::failed)?;
    let is_new = edit::first_config(home)?;
    let client = tokens::prepare_first(home, SystemTime::now(), &mut tokens::system_random)
        .map_err(Trouble::failed)?;
    signing::prepare(home).map_err(Trouble::failed)?;
    let (files, looks) = Files::first(home, up.listen.is_some())?;
    let resolved = files.resolved();
    if up.listen.is_some()
        && let Ok(raw) = home::layers::read(home)
        && let Some(lock) = raw.layers.lock_of("listen")
    {
        return Err(Trouble::usage(format!("--listen: {lock}")));
    }
    let listen = match &up.listen {
        Some(text) => config::parse_listen(text)
            .map_err(|error| Trouble::usage(format!("--listen: {error}")))?,
        None => resolved.listen,
    };
    Ok((
        Prepared {
            resolved,
            listen,
            client,
            is_new,
            unsigned: None,
        },
        files,
        looks,
    ))
}

/// On a small machine one thread is fastest: a call then never waits to be handed from one to another.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = match cores {
        0..=3 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder
        .worker_threads(cores / 2 + 1)
        .max_blocking_threads(16)
        .enable_all()
        .build()
}

fn bind_lines(socket: &Path) -> Result<UnixListener, Trouble> {
    // The ledger's lock shows that no other gate uses this home, so a socket here is a leftover.
    let _ = fs::remove_file(socket);
    let listener = UnixListener::bind(socket).map_err(|error| {
        Trouble::failed(format!("cannot listen on {}: {error}", socket.display()))
    })?;
    fs::set_permissions(socket, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(listener)
}

fn announcement(home: &Home) -> PathBuf {
    home.run.join("gate.json")
}

/// Tells other programs of this home where the gate is. Written once the doors are bound, so its presence means ready.
fn announce(home: &Home, gate: &Gate) -> io::Result<()> {
    let text = serde_json::json!({ "url": gate.url(), "pid": std::process::id(), "socket": home.socket() });
    private_file::replace(&announcement(home), text.to_string().as_bytes())
}

async fn greet(
    up: &args::Up,
    home: &Home,
    prepared: &Prepared,
    gate: &Gate,
    screen: &mut Screen<'_>,
) -> Result<(), Trouble> {
    if screen.json {
        let document = serde_json::json!({
            "url": gate.url(), "pid": std::process::id(), "config": home.config_file(), "ledger": home.ledger, "socket": home.socket(),
        });
        writeln!(screen.out, "{document}")?;
        return Ok(screen.out.flush()?);
    }
    let (url, config, ledger) = (gate.url(), home.config_file(), &home.ledger);
    writeln!(screen.out, "Portcullis is up at {url}. Ctrl-C stops it.")?;
    writeln!(
        screen.out,
        "  servers  {}\n  ledger   {}",
        config.display(),
        ledger.display()
    )?;
    if !prepared.resolved.terms.door.requires_credential {
        writeln!(
            screen.out,
            "  WARNING  authentication is off: every program on this machine can call every tool"
        )?;
    }
    if let Some(unsigned) = &prepared.unsigned {
        writeln!(screen.out, "  WARNING  {unsigned}")?;
    }
    for warning in &prepared.resolved.warnings {
        writeln!(screen.out, "  WARNING  {}", warning.what)?;
    }
    let guesses = gate.pins().undecided(&prepared.resolved.servers).len();
    if guesses > 0 {
        writeln!(
            screen.out,
            "  WARNING  {guesses} things rest on a guess of an earlier version: portcullis upgrade check"
        )?;
    }
    writeln!(screen.out, "{}", confinement(gate).await)?;
    if !up.no_snippets {
        writeln!(screen.out, "{}", next_steps(prepared))?;
    }
    Ok(screen.out.flush()?)
}

/// What to type next, in another terminal. No token is printed: logs and terminals keep what they were shown.
fn next_steps(prepared: &Prepared) -> String {
    let mut steps = Vec::new();
    if prepared.is_new {
        steps.push((
            "call demo-notes__search_notes '{\"query\": \"launch\"}'",
            "try one of the two demo servers",
        ));
    }
    match prepared.client {
        Some(_) => steps.push((
            "clients show claude-code",
            "what to paste; `clients list` names the others",
        )),
        None => steps.push((
            "token new NAME",
            "the first client's credential was revoked",
        )),
    }
    steps.push((
        "servers add ID --command CMD -- ARGS",
        "put a server of yours behind the gate",
    ));
    steps.push(("status --watch", "see what happens"));
    let lines = steps
        .iter()
        .map(|(verb, what)| format!("\n  portcullis {verb:<52}  {what}"));
    format!(
        "Now open a second terminal and type one of these:{}",
        lines.collect::<String>()
    )
}

/// What holds the worker back on this kernel, and what does not.
async fn confinement(gate: &Gate) -> String {
    let mut measures = Vec::new();
    for _ in 0..WORKER_LOOKS {
        measures = gate.admin().status().await.worker.confinement;
        if !measures.is_empty() {
            break;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    if measures.is_empty() {
        return "  worker   is starting; `portcullis doctor` shows how it is confined".to_owned();
    }
    let (applied, refused): (Vec<_>, Vec<_>) = measures.iter().partition(|measure| measure.applied);
    let missing: Vec<&str> = refused
        .iter()
        .map(|measure| measure.name.as_str())
        .collect();
    match missing.as_slice() {
        [] => format!(
            "  worker   confined by {} measures; `portcullis doctor` lists them",
            applied.len()
        ),
        missing => {
            format!(
                "  WARNING  this kernel does not confine the worker by {}; see `portcullis doctor`",
                missing.join(", ")
            )
        }
    }
}

/// Both doors, served from the moment they are opened.
struct Doors {
    stop: watch::Sender<Option<Duration>>,
    tasks: [JoinHandle<io::Result<()>>; 2],
}

impl Doors {
    fn open(
        gate: &Gate,
        entrances: server::Entrances,
        limiter: Arc<doors::Limiter>,
        lines: UnixListener,
    ) -> Self {
        let (stop, stopping) = watch::channel(None);
        let until = |mut stopping: watch::Receiver<Option<Duration>>| async move {
            let stop = stopping.wait_for(Option::is_some).await;
            stop.ok().and_then(|stop| *stop).unwrap_or_default()
        };
        let http = tokio::spawn(server::serve(
            gate.clone(),
            entrances,
            limiter,
            usize::try_from(sandbox::descriptors::most()).unwrap_or(usize::MAX),
            until(stopping.clone()),
        ));
        let lines = tokio::spawn(server::serve_lines(gate.clone(), lines, until(stopping)));
        Self {
            stop,
            tasks: [http, lines],
        }
    }

    /// Accepts nothing more and lets connections end, for so long.
    async fn close(self, patience: Duration) -> Result<(), Trouble> {
        let _ = self.stop.send(Some(patience));
        for task in self.tasks {
            task.await.map_err(Trouble::failed)??;
        }
        Ok(())
    }
}

/// Lets calls under way end; whoever says it again does not want to wait for that.
async fn finish(
    gate: &Gate,
    doors: Doors,
    told: Told,
    drain: config::Drain,
    signals: &mut Signals,
) -> Result<(), Trouble> {
    gate.drain();
    let mut grace = drain.timeout.min(PATIENCE);
    if told == Told::Terminate {
        grace = drain.timeout;
        tokio::select! {
            () = tokio::time::sleep(drain.delay) => {}
            _ = signals.told(gate) => gate.hurry(),
        }
    }
    let finishing = async { tokio::join!(gate.finish(grace), doors.close(grace + LAST_WORDS)).1 };
    let mut finishing = std::pin::pin!(finishing);
    tokio::select! {
        finished = &mut finishing => return finished,
        _ = signals.told(gate) => {}
    }
    gate.hurry();
    finishing.await
}

/// Who wants the gate to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Whatever runs the gate: others may have to learn first that it stops.
    Terminate,
    /// A person at the terminal.
    Interrupt,
}

/// What a running gate listens to besides its doors.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Resolves when somebody wants the gate to stop. Reads the configuration again whenever that is wanted.
    async fn told(&mut self, gate: &Gate) -> Told {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Told::Terminate,
                _ = self.interrupt.recv() => return Told::Interrupt,
                _ = self.hangup.recv() => files::reload_and_log(gate).await,
            }
        }
    }
}
