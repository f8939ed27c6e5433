//! From a home to a gate: what the configuration does not hold itself, from files, the environment and the program's own place.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use config::Resolved;
use gateway::{
    Credential, Pins, Program,
    settings::{
        Account, Accounts, CommandSettings, Configuration, ExecutionSettings, Jails, Proofs,
        Settings, Signing, VolumeEntry, WebSettings, WorkerSettings,
    },
};
use state::State;
use vocab::Redacted;

use home::{
    Home, accounts, private_file,
    tokens::{self, Tokens},
};

/// What a gate is made of besides the files of its home.
pub(crate) struct Parts {
    pub(crate) configuration: Configuration,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) url: String,
    pub(crate) state: State,
    pub(crate) signing: Signing,
    pub(crate) executions: Vec<state::SavedExecution>,
    pub(crate) proofs: Proofs,
    pub(crate) secrets: Arc<dyn secrets::Store>,
}

/// What the gate is told, from what the files say, and what it keeps.
pub(crate) fn settings(home: &Home, resolved: &Resolved, parts: Parts) -> Result<Settings, String> {
    let Parts {
        configuration,
        program,
        url,
        state,
        signing,
        executions,
        proofs,
        secrets,
    } = parts;
    Ok(Settings {
        configuration,
        program,
        url,
        worker: worker(resolved)?,
        jails: jails(home)?,
        commands: CommandSettings {
            workspaces: home.workspaces(),
            tools: Vec::new(),
        },
        web: web(resolved)?,
        protected: protected(home),
        own_volumes: home.volumes(),
        executions: ExecutionSettings {
            saved: executions,
            random: ::secrets::os_entropy(),
        },
        snapshots: home.state.join("catalog"),
        said: home.state.join("said"),
        wrapper_key: wrapper_key(&home.state.join("seal.key"))
            .map_err(|error| format!("cannot use the sealing key: {error}"))?,
        secrets,
        logins: home::logins::store(home, resolved)?,
        accounts: accounts(home),
        state,
        pins: Pins::open(home.lock_file())?,
        signing,
        proofs,
    })
}

/// Volumes with a directory each: the gate makes those that the file names none for.
pub(crate) fn volumes(home: &Home, resolved: &Resolved) -> Result<Vec<VolumeEntry>, String> {
    let mut volumes = resolved.volumes.clone();
    for VolumeEntry { spec, .. } in &mut volumes {
        if spec.root.as_os_str().is_empty() {
            spec.root = home.volumes().join(&spec.name);
            private_file::make_dirs(&spec.root)
                .map_err(|error| format!("cannot make volume `{}`: {error}", spec.name))?;
        }
    }
    Ok(volumes)
}

/// What no volume may hold or lie in.
fn protected(home: &Home) -> Vec<PathBuf> {
    let files = [home.config_file(), home.lock_file()];
    let dirs = [&home.state, &home.ledger, &home.run];
    dirs.into_iter().cloned().chain(files).collect()
}

/// The largest result that a worker started with this configuration can deliver.
pub(crate) fn worker_result_bytes(resolved: &Resolved) -> usize {
    resolved.terms.ceiling.result_bytes.max(4 << 20)
}

/// The worker that talks to servers.
fn worker(resolved: &Resolved) -> Result<WorkerSettings, String> {
    home::worker::settings("aggregator", worker_result_bytes(resolved), resolved)
}

/// The worker that sends for sinks. A batch of events is never larger than this.
pub(crate) fn courier(resolved: &Resolved) -> Result<WorkerSettings, String> {
    home::worker::settings("courier", 32 << 20, resolved)
}

/// What fetches from the web, and what makes pages into text. A body travels as text, a third longer than it is.
fn web(resolved: &Resolved) -> Result<WebSettings, String> {
    Ok(WebSettings {
        fetcher: home::worker::settings("web", 16 << 20, resolved)?,
        converter: home::worker::program()?,
    })
}

/// Variables that an operator sets for every program, so that it finds the certificates of a company.
const CERTIFICATES: [&str; 3] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];

/// The usual sockets of container runtimes: the user's own first.
fn container_sockets() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own
        .iter()
        .flat_map(|run| ["podman/podman.sock", "docker.sock"].map(|socket| run.join(socket)));
    let shared = [
        "/run/podman/podman.sock",
        "/run/docker.sock",
        "/var/run/docker.sock",
    ];
    own.chain(shared.map(PathBuf::from)).collect()
}

/// What jails of stdio servers are built with, and what none of them sees.
fn jails(home: &Home) -> Result<Jails, String> {
    let user = std::env::var_os("HOME").map(PathBuf::from);
    let gate = [&home.config, &home.state, &home.ledger, &home.run].map(Clone::clone);
    Ok(Jails {
        program: home::worker::program()?,
        homes: home.jails(),
        protected: sandbox::jailer::Protected::new(user.as_deref(), &gate),
        certificates: CERTIFICATES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect(),
        container_sockets: container_sockets(),
    })
}

/// A user's own account at a server. Looked up for every call, so an account that was connected or removed counts at once.
fn accounts(home: &Home) -> Accounts {
    let vault = secrets::Vault::in_home(home.vault(), secrets::os_entropy());
    Arc::new(move |server, tenant, user| {
        let Some(name) = accounts::name(server, tenant, user) else {
            return Ok(None);
        };
        let kept = vault.get(&name).map_err(|error| error.to_string())?;
        Ok(kept.map(|kept| match home::logins::open(&kept) {
            Some(_) => Account::Login,
            None => Account::Token(Redacted::new(kept.expose().to_owned())),
        }))
    })
}

/// The key that seals what clients carry for us: kept, so that a restart does not void it.
fn wrapper_key(file: &Path) -> io::Result<[u8; 32]> {
    match fs::read(file) {
        Ok(bytes) => <[u8; 32]>::try_from(bytes)
            .map_err(|_| io::Error::other(format!("{} is damaged; delete it", file.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
            private_file::create(file, &key)?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

/// The credentials that are in force.
pub(crate) fn credentials(home: &Home) -> Result<Vec<Credential>, tokens::TokenError> {
    let tokens = Tokens::load(&home.tokens_file())?;
    let live = tokens
        .list()
        .iter()
        .filter(|credential| !credential.revoked);
    Ok(live
        .map(|credential| Credential {
            id: credential.id.clone(),
            name: credential.name.clone(),
            role: credential.role,
            view: credential.view,
            grants: credential.grants.clone(),
            user: credential.user.clone(),
            departments: credential.departments.clone(),
            agent: credential.agent.clone(),
            tenant: credential.tenant.clone(),
            context: credential.context.clone(),
            digest: credential.digest(),
        })
        .collect())
}
